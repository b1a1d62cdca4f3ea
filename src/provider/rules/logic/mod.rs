//! Rewrites of expressions and plans for which DataFusion 55 returns wrong results.
//!
//! - [`in_lists`]: several IN lists over one expression.
//! - [`in_subqueries`]: `IN (SELECT ...)` below OR and NOT.
//! - [`multisets`]: `EXCEPT ALL` and `INTERSECT ALL`.
//! - [`outer_unions`]: geometries in rows of outer joins that have no match.
//! - [`zeros`]: -0.0 in IN lists, in CASE and in aggregates of distinct values.
//! - `syntax`: expressions that are parsed wrongly.

mod in_lists;
mod in_subqueries;
mod multisets;
mod outer_unions;
#[cfg(feature = "sql")]
pub(crate) mod syntax;
mod zeros;

pub(crate) use in_lists::CombinedInLists;
pub(crate) use in_subqueries::NullAwareInSubqueries;
pub(crate) use multisets::CountedSetOperations;
#[cfg(feature = "proto")]
pub(crate) use outer_unions::NullWithoutMatch;
pub(crate) use outer_unions::OuterUnions;
pub(crate) use zeros::EqualZeros;
