//! Divides a plan into tasks, in the coordinator.
//!
//! - `rule` finds the parts of a plan, `row_wise` tells which can run in tasks, and `stage` divides
//!   them.
//! - `disjoint` divides aggregates into tasks with disjoint groups.
//! - `joined` divides aggregates over lookup joins, which workers plan themselves.
//! - `broadcast` sends the build sides of lookup joins to all tasks, and `subqueries` the values of
//!   scalar subqueries.
//! - `divided` shows the chunks of each task in EXPLAIN.

pub(super) mod broadcast;
mod disjoint;
mod divided;
pub(super) mod joined;
mod row_wise;
pub(super) mod rule;
mod stage;
pub(super) mod subqueries;
