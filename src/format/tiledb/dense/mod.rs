//! Dense arrays: the grid of space tiles, and windows of cells that fragments overlay.

mod grid;
mod reader;
mod window;

pub use grid::{Grid, IndexBox};
pub use reader::DenseReader;
pub use window::{Window, WindowRegion, WindowSource};
