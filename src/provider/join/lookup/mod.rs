//! Joins of an array with any table on expressions over the dimensions of the array.
//!
//! `array JOIN climatology ON array.lat = c.lat AND array.lon = c.lon AND date_part('hour', time) = c.hour`
//! hashes no row of the array. While the query is planned, the keys are evaluated on the axes. Keys
//! that share dimensions are numbered together: each distinct combination of their values gets a
//! number, and one more number stands for null keys and unselected indices. Each cell has a *key
//! index*, the sum of one term per set of dimensions:
//!
//! ```text
//! keys          lat          lon          date_part('hour', time)
//! distinct      3            4            24
//! stride        5            1            20
//!
//! key index of cell [t, y, x] = hour_number[t] * 20 + lat_number[y] * 5 + lon_number[x]
//! ```
//!
//! The key index is one more attribute of the scan (`key_index_grid`). When the query runs, the
//! build side is collected, and the key index of each of its rows is looked up (`build`).
//! [`ArrayLookupJoinExec`] then finds the matches of a row of the array by its key index.

pub(crate) mod build;
#[allow(dead_code)]
mod dense;
#[allow(dead_code)]
mod extension;
pub(in crate::provider) mod grouped;
pub(crate) mod key_index_grid;
pub(in crate::provider) mod keys;
mod operator;
mod probe;
pub(crate) mod rule;

pub use operator::ArrayLookupJoinExec;
pub use rule::LookupJoins;
