//! Rewrites of expressions before DataFusion resolves their types.

mod nearest;
mod written_times;

pub(crate) use nearest::ResolveNearest;
pub(crate) use written_times::WrittenTimes;
