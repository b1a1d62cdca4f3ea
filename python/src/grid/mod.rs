//! NumPy and xarray objects as arrays of a session.
//!
//! ```text
//! Variable    the values of one NumPy array, or a function that reads boxes of one
//! MemoryGrid  variables over the same axes, as a grid of the library
//! Reader      reads windows of a grid
//! ```

mod element;
mod reader;
mod source;
mod variable;

pub use source::MemoryGrid;
pub use variable::Variable;
