//! [`RowWise`]: the parts of plans that can run in tasks.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::{ArrayAggregateExec, ArrayJoinAggregateExec};
use crate::provider::cluster::planning::rule::replaced;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::window::ArrayWindowExec;

/// A part of a plan that works on each row, or on the rows of each partition, by itself:
/// operators, from the top down, over a scan or over windows along an axis. Lookup joins belong to them, with the scan on their probe
/// side.
pub struct RowWise {
    pub operators: Vec<Arc<dyn ExecutionPlan>>,
    pub leaf: Arc<dyn ExecutionPlan>,
}

/// Returns the operators, from the top down, over a leaf.
pub fn over(
    operators: &[Arc<dyn ExecutionPlan>],
    leaf: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    operators.iter().rev().try_fold(leaf, |input, operator| {
        if operator.is::<ArrayLookupJoinExec>() {
            let build = operator.children().into_iter().take(1).map(Arc::clone);
            return replaced(operator, build.chain([input]).collect());
        }
        match operator.downcast_ref::<SortExec>() {
            // Sorts the rows of each partition, which are merged in this process.
            Some(sort) => {
                let sort = sort.clone().with_preserve_partitioning(true);
                replaced(&(Arc::new(sort) as _), vec![input])
            }
            None => replaced(operator, vec![input]),
        }
    })
}

impl RowWise {
    /// Returns the part with another operator on top.
    pub fn below(mut self, operator: &Arc<dyn ExecutionPlan>) -> Self {
        self.operators.insert(0, Arc::clone(operator));
        self
    }

    /// Returns the operators of a plan and its scan; `None` if an operator needs rows of several
    /// partitions. With `skips_exchanges`, operators that only move rows between partitions are left
    /// out.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, skips_exchanges: bool) -> Option<Self> {
        let mut operators = Vec::new();
        let mut node = plan;
        loop {
            let is_partial = node
                .downcast_ref::<ArrayAggregateExec>()
                .is_some_and(|aggregate| aggregate.stage() == Stage::Partial);
            if is_partial || node.is::<DataSourceExec>() || node.is::<ArrayWindowExec>() {
                let leaf = Arc::clone(node);
                return Some(Self { operators, leaf });
            }
            if let Some(join) = node.downcast_ref::<ArrayLookupJoinExec>() {
                if !join.keeps_probe_rows() {
                    return None;
                }
                operators.push(Arc::clone(node));
                let [_, probe] = join.inputs();
                node = probe;
                continue;
            }
            // A worker leaves out an exchange at the root of a task, and its partitions with it.
            if let Some(exchange) = node.downcast_ref::<RepartitionExec>()
                && matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_))
            {
                node = exchange.input();
                continue;
            }
            let is_exchange = match node.downcast_ref::<CoalescePartitionsExec>() {
                Some(coalesce) => coalesce.fetch().is_none(),
                None => node.is::<RepartitionExec>(),
            };
            // Below an exchange, a limit would hold for fewer rows.
            if skips_exchanges && node.fetch().is_some() {
                return None;
            }
            if !(skips_exchanges && is_exchange) {
                if !is_row_wise(node) {
                    return None;
                }
                operators.push(Arc::clone(node));
            }
            let [input] = node.children()[..] else {
                return None;
            };
            node = input;
        }
    }
}

/// Returns `true` if an operator works on each row, or on the rows of each partition, by itself.
fn is_row_wise(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return filter.fetch().is_none();
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return *aggregate.mode() == AggregateMode::Partial;
    }
    if let Some(aggregate) = node.downcast_ref::<ArrayJoinAggregateExec>() {
        return aggregate.stage() == Stage::Partial;
    }
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        let is_single = sort.input().output_partitioning().partition_count() == 1;
        return match sort.fetch() {
            // The limit of each partition is followed by one for all.
            Some(_) => sort.preserve_partitioning() && !is_single,
            None => sort.preserve_partitioning() || is_single,
        };
    }
    if let Some(limit) = node.downcast_ref::<LocalLimitExec>() {
        return limit.input().output_partitioning().partition_count() > 1;
    }
    if let Some(exchange) = node.downcast_ref::<RepartitionExec>() {
        return matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_));
    }
    node.is::<CooperativeExec>()
        || node.is::<ProjectionExec>()
        || node.is::<UnnestExec>()
        || ["BatchSlicesExec", "GroupingSetsExec"].contains(&node.name())
}

/// Returns `true` if an operator may tell the scan below what it needs while both run.
pub fn makes_dynamic_filters(node: &Arc<dyn ExecutionPlan>) -> bool {
    let sort = node.downcast_ref::<SortExec>();
    sort.is_some_and(|sort| sort.fetch().is_some())
        || node.is::<AggregateExec>()
        || node.is::<ArrayLookupJoinExec>()
}
