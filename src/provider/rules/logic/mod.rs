//! Rewrites of expressions and plans for which DataFusion 55 returns wrong results.
//!
//! - [`in_lists`]: several IN lists over one expression.
//! - [`in_subqueries`]: `IN (SELECT ...)` below OR and NOT.
//! - [`multisets`]: `EXCEPT ALL` and `INTERSECT ALL`.
//! - [`zeros`]: -0.0 in IN lists, in CASE and in `count(DISTINCT ...)`.
//! - `syntax`: expressions that are parsed wrongly.

mod in_lists;
mod in_subqueries;
mod multisets;
#[cfg(feature = "sql")]
pub(crate) mod syntax;
mod zeros;

pub(crate) use in_lists::CombinedInLists;
pub(crate) use in_subqueries::NullAwareInSubqueries;
pub(crate) use multisets::CountedSetOperations;
pub(crate) use zeros::EqualZeros;
