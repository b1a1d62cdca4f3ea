//! Filters above aggregations, windows and joins.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Aggregate, Expr, Filter, GroupingSet, Join, LogicalPlan, lit};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::provider::plans::conjunction::joined;

/// DataFusion's `push_down_filter`, which moves filters towards the tables, for predicates that mean the same there.
///
/// DataFusion 55 moves predicates without columns, too. Below an aggregation without groups, `WHERE 'a' = 'b'` does not drop
/// the row of the total, and `WHERE random() < 0.5` drops rows instead of groups; below a window, it drops rows that the window sees, and
/// below a join, all rows that one row has, or none.
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
        let filter = match plan {
            LogicalPlan::Filter(filter) => filter,
            LogicalPlan::Join(join) if join.join_type != JoinType::Inner => {
                let is_volatile = join.filter.as_ref().is_some_and(Expr::is_volatile);
                let join = LogicalPlan::Join(join);
                // Each pair of rows has a value of its own.
                return match is_volatile {
                    true => Ok(Transformed::no(join)),
                    false => self.0.rewrite(join, config),
                };
            }
            LogicalPlan::Join(join) => {
                let plan = volatile_above(join)?;
                return match plan.data {
                    // The join is rewritten as the input of the filter.
                    LogicalPlan::Filter(_) => Ok(plan),
                    join => self.0.rewrite(join, config),
                };
            }
            plan => return self.0.rewrite(plan, config),
        };
        if let LogicalPlan::Filter(below) = filter.input.as_ref() {
            let both = below.predicate.clone().and(filter.predicate);
            let both = Filter::try_new(both, Arc::clone(&below.input))?;
            let rewritten = self.rewrite(LogicalPlan::Filter(both), config)?;
            return Ok(Transformed::yes(rewritten.data));
        }
        let (has_total, is_volatile_kept) = match filter.input.as_ref() {
            LogicalPlan::Aggregate(aggregate) => (has_total(aggregate), true),
            LogicalPlan::Window(_) | LogicalPlan::Join(_) | LogicalPlan::Unnest(_) => (false, true),
            _ => (false, false),
        };
        let stays = |predicate: &Expr| {
            is_volatile_kept && predicate.is_volatile() || has_total && !predicate.any_column_refs()
        };
        let predicates = split_conjunction_owned(filter.predicate.clone());
        let (kept, moved): (Vec<_>, Vec<_>) = predicates.into_iter().partition(stays);
        let Some(kept) = joined(kept, Expr::and) else {
            return self.0.rewrite(LogicalPlan::Filter(filter), config);
        };
        let Some(moved) = joined(moved, Expr::and) else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let below = Filter::try_new(moved, Arc::clone(&filter.input))?;
        let below = self.0.rewrite(LogicalPlan::Filter(below), config)?;
        below.transform_data(|below| {
            let (predicate, input) = match below {
                // What cannot be moved is evaluated together with what stays.
                LogicalPlan::Filter(below) => (below.predicate.and(kept), below.input),
                below => (kept, Arc::new(below)),
            };
            let filter = Filter::try_new(predicate, input)?;
            Ok(Transformed::no(LogicalPlan::Filter(filter)))
        })
    }
}

/// Returns an inner join with the volatile predicates of its ON as a filter above it, because one side has fewer rows than the join.
fn volatile_above(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.take_if(|filter| filter.is_volatile()) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let predicates = split_conjunction_owned(filter).into_iter();
    let (above, within): (Vec<_>, Vec<_>) = predicates.partition(Expr::is_volatile);
    join.filter = joined(within, Expr::and);
    let above = joined(above, Expr::and).unwrap_or_else(|| lit(true));
    let above = Filter::try_new(above, Arc::new(LogicalPlan::Join(join)))?;
    Ok(Transformed::yes(LogicalPlan::Filter(above)))
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
