//! Rewrites of expressions before DataFusion resolves their types.

mod nearest;
mod written_times;

use std::sync::Arc;

use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use nearest::ResolveNearest;
use written_times::WrittenTimes;

/// Adds the rules to an analyzer that does not have them yet. The rule for `nearest` comes before
/// all others.
pub(crate) fn register(analyzer: &mut Analyzer) {
    let nearest = ResolveNearest;
    if !analyzer
        .rules
        .iter()
        .any(|rule| rule.name() == nearest.name())
    {
        analyzer.rules.insert(0, Arc::new(nearest));
    }
    let times = WrittenTimes;
    let rewrites = &mut analyzer.function_rewrites;
    if !rewrites
        .iter()
        .any(|rewrite| rewrite.name() == times.name())
    {
        rewrites.push(Arc::new(times));
    }
}
