//! Runs windows along an axis: the operator, the planes of a tile, and the states of its series.

mod extremes;
pub(in crate::provider::window) mod operator;
mod output;
mod planes;
mod ranks;
mod sliding;
mod states;
mod stream;
