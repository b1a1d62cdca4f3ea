//! From SQL to logical plans: the budget of a statement, keys of USING and NATURAL joins, and names of variables.

pub mod budget;
#[cfg(feature = "sql")]
pub mod using_keys;
#[cfg(feature = "sql")]
pub(crate) mod variable_names;
