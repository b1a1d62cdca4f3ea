//! Window functions along an axis of an array: which windows are computed without sorting, what they
//! read, and that the answers equal DataFusion's.

pub(crate) mod generated;
mod plans;
mod whole_partitions;
