//! Array logic without I/O, query plans or file formats: axes and their coordinates, index sets,
//! selections, chunk grids, reductions and CF time. Everything here is a plain value and tested as
//! one.

mod axis;
mod cell_filter;
mod cells;
mod cf_time;
mod chunk_grid;
mod coordinate_columns;
mod coordinate_values;
mod coordinates;
mod index_set;
mod kept_rows;
mod labels;
pub mod reduce;
mod selection;
mod sorted_coordinates;
mod steps;
mod written_time;

pub use axis::{Axis, AxisCoordinates, CoordinateSource, IndexOrder, Monotonicity};
pub use cell_filter::CellFilter;
pub use cells::Cells;
pub use cf_time::{CfDuration, CfTime, CfTimeError};
pub use chunk_grid::{AxisChunks, ChunkGrid, Window};
pub use coordinate_columns::CoordinateColumns;
pub use coordinate_values::{coordinate_values, half_coordinate_values};
pub use coordinates::{CoordinateReader, Coordinates};
pub use index_set::{IndexSet, IndexSetBuilder};
pub use kept_rows::KeptRows;
pub(crate) use kept_rows::{KeptPattern, ScatteredRows};
pub use labels::{infer_labels, text_labels};
pub use selection::{ChunkSelection, Selection};
pub use sorted_coordinates::{CoordinateKey, SortedCoordinates};
pub use steps::{Steps, stored_limits};
pub use written_time::WrittenTime;
