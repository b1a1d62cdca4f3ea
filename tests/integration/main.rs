//! Tests of the whole crate against truths of its own making: NumPy's arrays, the `tetration` crate, arithmetic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cells;
mod corpus;
mod edge;
mod interop;
mod npy;
mod opening;
mod reference;
mod writer;
