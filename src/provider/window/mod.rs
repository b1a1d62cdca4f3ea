//! Window functions along an axis of an array.
//!
//! `avg(value) OVER (PARTITION BY lat, lon ORDER BY time ROWS 29 PRECEDING)` sorts no row: the
//! partitions are the series of the array along `time`, and the coordinates of `time` are in order.
//! All series share the axis, so the frame of a row depends only on its index along `time`, and is
//! computed once for all series while the query is planned (`frames`).
//!
//! When the query runs, the array is cut into tiles across the other dimensions (`tiles`). Each tile
//! is read chunk by chunk along the order axis. A *plane* holds the cells of all series of the tile at
//! one index of the axis:
//!
//! ```text
//!              time ->
//! series 0     7 1 2 | 9 4 3 |          planes read so far
//! series 1     5 5 0 | 1 8 6 |              [-----)      frame of the next plane of the output
//! series 2     3 2 2 | 0 1 7 |
//!                      ^ ^ ^
//!                      planes, which are kept as long as a frame needs them
//! ```
//!
//! Aggregates process a plane of many series in one loop (`states`, `extremes`). An aggregate over a sliding frame
//! never subtracts: it combines two states (`sliding`), so that neither rounding errors nor NaN of cells
//! outside of the frame affect the result. The other functions take cells of other planes
//! (`output`).

mod exec;
pub(crate) mod plan;
pub(crate) mod shifts;

pub use exec::operator::ArrayWindowExec;
pub use plan::rule::AxisWindows;
