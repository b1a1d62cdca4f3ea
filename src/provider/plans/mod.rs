//! Inspects DataFusion plans for the arrays that they read.

pub(crate) mod below;
pub mod last_rows;
pub mod lineage;
pub mod planned_reads;
