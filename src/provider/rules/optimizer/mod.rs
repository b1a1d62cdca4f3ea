//! Rules of the logical optimizer: long conjunctions, and rules that run in the places of DataFusion's.

mod conjunctions;
mod null_safe_joins;

pub(crate) use conjunctions::BalancedConjunctions;
pub(crate) use null_safe_joins::{NullSafeCrossJoins, NullSafeKeys};
