//! Inspects DataFusion plans for the arrays that they read.

pub(crate) mod below;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod last_rows;
pub mod lineage;
pub mod planned_reads;
