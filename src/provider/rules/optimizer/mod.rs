//! Rules of the logical optimizer: long conjunctions, LATERAL subqueries, cross joins with values, groups of a single row,
//! keys of sorts, the nullability of columns, and rules that run in the places of DataFusion's.

mod conjunctions;
#[cfg(feature = "sql")]
mod derived_tables;
mod filters;
mod group_keys;
mod join_keys;
mod laterals;
mod nullability;
mod single_rows;
mod sort_keys;
mod values;

pub(crate) use conjunctions::BalancedConjunctions;
#[cfg(feature = "sql")]
pub(crate) use derived_tables::DerivedTables;
pub(crate) use filters::KeptFilters;
pub(crate) use group_keys::{AddedGroups, CorrectKeys, with_correct_keys};
pub(crate) use join_keys::{KeptKeys, NullSafeKeys};
pub(crate) use laterals::IndependentLaterals;
pub(crate) use nullability::AgreedNullability;
pub(crate) use single_rows::SingleRowGroups;
pub(crate) use sort_keys::SimplifiedSortKeys;
pub(crate) use values::ExpandedValues;
