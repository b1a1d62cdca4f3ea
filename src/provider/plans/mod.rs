//! Finds the arrays that DataFusion plans read, and has helpers that the operators of this crate share.

pub(crate) mod below;
pub(crate) mod conjunction;
pub(crate) mod display;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod identity;
pub mod last_rows;
pub mod lineage;
pub mod planned_reads;
pub(crate) mod safety;
pub(crate) mod tasks;
pub(crate) mod words;
