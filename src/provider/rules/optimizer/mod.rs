//! Rules of the logical optimizer: long conjunctions, and rules that run in the places of DataFusion's.

mod conjunctions;
mod join_keys;

pub(crate) use conjunctions::BalancedConjunctions;
pub(crate) use join_keys::{KeptKeys, NullSafeKeys};
