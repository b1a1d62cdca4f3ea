//! Rewrites of expressions and plans for which DataFusion 55 returns wrong results.
//!
//! - [`changed_rows`]: predicates and new values of DELETE and UPDATE.
//! - [`computed_keys`]: expressions and -0.0 in the keys of windows, and comparisons in ORDER BY.
//! - [`correlated`]: subqueries that refer to the query around them.
//! - [`guarded_branches`]: branches of CASE that may fail.
//! - [`in_lists`]: several IN lists over one expression.
//! - [`in_subqueries`]: `IN (SELECT ...)` below OR and NOT.
//! - [`multisets`]: `EXCEPT ALL` and `INTERSECT ALL`.
//! - [`outer_unions`]: geometries in rows of outer joins that have no match.
//! - [`row_subqueries`]: `(a, b) IN (SELECT ...)`.
//! - [`written_types`]: parameters among the rows of INSERT and UPDATE.
//! - [`zeros`]: -0.0 in IN lists, in CASE and in aggregates of distinct values.
//! - `syntax`: expressions that are parsed wrongly.

mod changed_rows;
mod changed_table;
mod computed_keys;
mod correlated;
mod guarded_branches;
mod in_lists;
mod in_subqueries;
mod multisets;
mod outer_unions;
mod row_subqueries;
#[cfg(feature = "sql")]
pub(crate) mod syntax;
mod written_types;
mod zeros;

pub(crate) use changed_rows::ChangedRows;
pub(crate) use computed_keys::ComputedKeys;
pub(crate) use correlated::CorrelatedSubqueries;
pub(crate) use guarded_branches::GuardedBranches;
pub(crate) use in_lists::CombinedInLists;
pub(crate) use in_subqueries::NullAwareInSubqueries;
pub(crate) use multisets::CountedSetOperations;
#[cfg(feature = "proto")]
pub(crate) use outer_unions::NullWithoutMatch;
pub(crate) use outer_unions::OuterUnions;
#[cfg(feature = "sql")]
pub(crate) use row_subqueries::ROW;
pub(crate) use row_subqueries::RowSubqueries;
pub(crate) use written_types::WrittenTypes;
pub(crate) use zeros::EqualZeros;
