//! Filters above aggregations.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Aggregate, Expr, Filter, GroupingSet, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::provider::plans::conjunction::joined;

/// DataFusion's `push_down_filter`, which moves filters towards the tables, for predicates that mean the same below an aggregation.
///
/// DataFusion 55 moves predicates without columns, too. Below an aggregation without groups, `WHERE 'a' = 'b'` does not drop
/// the row of the total, and `WHERE random() < 0.5` drops rows instead of groups.
#[derive(Debug, Default)]
pub(crate) struct KeptFilters(PushDownFilter);

impl OptimizerRule for KeptFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else {
            return self.0.rewrite(plan, config);
        };
        let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else {
            return self.0.rewrite(plan, config);
        };
        let has_total = has_total(aggregate);
        let stays = |predicate: &Expr| {
            predicate.is_volatile() || (has_total && !predicate.any_column_refs())
        };
        let predicates = split_conjunction_owned(filter.predicate.clone());
        let (kept, moved): (Vec<_>, Vec<_>) = predicates.into_iter().partition(stays);
        let Some(kept) = joined(kept, Expr::and) else {
            return self.0.rewrite(plan, config);
        };
        let Some(moved) = joined(moved, Expr::and) else {
            return Ok(Transformed::no(plan));
        };
        let below = Filter::try_new(moved, Arc::clone(&filter.input))?;
        let below = self.0.rewrite(LogicalPlan::Filter(below), config)?;
        below.map_data(|below| Ok(LogicalPlan::Filter(Filter::try_new(kept, Arc::new(below))?)))
    }
}

/// Returns `true` if an aggregation has a row without input.
fn has_total(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(_)] => true,
        _ => false,
    }
}
