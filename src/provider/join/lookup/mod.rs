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
//!
//! The array may be in several files. The keys are then evaluated on the axes of each file, and their
//! distinct combinations are numbered together.
//!
//! Joins of an array in one file with other conditions over dimensions, such as `lat BETWEEN south AND
//! north`, are lookup joins as well (`conditions`). The key index of a cell then numbers its indices
//! along the axes of the conditions. When the query runs, the conditions are evaluated on these
//! indices and the rows of the build side, which gives runs of matching indices for each row, and boxes
//! that prune chunks.

#[cfg(feature = "cluster")]
mod broadcast;
pub(crate) mod build;
mod conditions;
pub(crate) mod coordinate_term;
mod distinct_keys;
#[cfg(feature = "proto")]
pub(crate) mod encoded;
pub(in crate::provider) mod grouped;
pub(in crate::provider) mod joined_runs;
pub(crate) mod key_index_grid;
pub(in crate::provider::join) mod key_positions;
pub(in crate::provider) mod keys;
mod operator;
mod probe;
pub(crate) mod rule;
pub(in crate::provider::join) mod term_lines;

pub use operator::ArrayLookupJoinExec;
pub use rule::LookupJoins;
