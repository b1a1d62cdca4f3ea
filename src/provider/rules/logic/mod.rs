//! Rewrites of what DataFusion 55 answers wrongly into what it answers rightly.
//!
//! - [`in_lists`]: several IN lists over one expression.
//! - [`in_subqueries`]: `IN (SELECT ...)` below OR and NOT.
//! - [`multisets`]: `EXCEPT ALL` and `INTERSECT ALL`.
//! - [`zeros`]: -0.0 in IN lists and in CASE.
//! - `syntax`: what is wrong as soon as it is parsed.

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
