//! What a plan of DataFusion says of the arrays below it.

pub(crate) mod below;
pub mod last_rows;
pub mod lineage;
pub mod planned_reads;
