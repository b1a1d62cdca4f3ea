//! From SQL to logical plans: statement budgets, keys of USING and NATURAL joins, and arrays by
//! name.

pub mod budget;
#[cfg(feature = "sql")]
mod clauses;
#[cfg(feature = "sql")]
pub mod using_keys;
#[cfg(feature = "sql")]
pub(crate) mod variable_names;
