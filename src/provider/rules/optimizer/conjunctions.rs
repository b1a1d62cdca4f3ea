//! Balances long chains of AND that DataFusion makes.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::provider::plans::conjunction::{LONG, joined};

/// Balances the predicates of filters and joins.
///
/// DataFusion's `push_down_filter` splits a predicate at its ANDs, and chains the conjuncts that it
/// cannot push down. The rules after it would take quadratic time in the length of that chain.
#[derive(Debug, Default)]
pub(crate) struct BalancedConjunctions;

impl OptimizerRule for BalancedConjunctions {
    fn name(&self) -> &str {
        "balanced_conjunctions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        mut plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let predicate = match &mut plan {
            LogicalPlan::Filter(filter) => Some(&mut filter.predicate),
            LogicalPlan::Join(join) => join.filter.as_mut(),
            _ => None,
        };
        let Some(predicate) = predicate.filter(|predicate| chain(predicate) >= LONG) else {
            return Ok(Transformed::no(plan));
        };
        let conjuncts = split_conjunction_owned(std::mem::take(predicate));
        if let Some(balanced) = joined(conjuncts, Expr::and) {
            *predicate = balanced;
        }
        Ok(Transformed::yes(plan))
    }
}

/// Returns the number of terms of a chain of ANDs.
fn chain(mut predicate: &Expr) -> usize {
    let mut count = 1;
    while let Expr::BinaryExpr(BinaryExpr { left, op, .. }) = predicate
        && *op == Operator::And
    {
        predicate = left;
        count += 1;
    }
    count
}
