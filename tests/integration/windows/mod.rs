//! Window functions along an axis of an array: which windows are computed without sorting, what they
//! read, and that the answers equal DataFusion's.

mod generated;
mod plans;
