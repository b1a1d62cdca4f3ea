//! From SQL to logical plans: statement budgets, keys of USING and NATURAL joins, arrays by
//! name, and operators.

pub mod budget;
#[cfg(feature = "sql")]
mod cast_names;
#[cfg(feature = "sql")]
mod changed_names;
#[cfg(feature = "sql")]
mod clauses;
#[cfg(feature = "sql")]
mod copied_types;
#[cfg(feature = "sql")]
pub mod execution;
#[cfg(feature = "sql")]
mod groups;
#[cfg(feature = "sql")]
mod many_columns;
#[cfg(feature = "sql")]
mod memory_tables;
#[cfg(feature = "sql")]
pub(crate) mod operators;
#[cfg(feature = "sql")]
mod resets;
#[cfg(feature = "sql")]
mod rewrites;
#[cfg(all(feature = "remote", feature = "sql"))]
mod urls;
#[cfg(feature = "sql")]
pub mod using_keys;
#[cfg(feature = "sql")]
pub(crate) mod variable_names;
#[cfg(feature = "sql")]
pub mod walk;
