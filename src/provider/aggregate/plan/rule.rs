//! The rule that puts [`ArrayAggregateExec`] in place of the engine's aggregations.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::provider::aggregate::exec::operator::{ArrayAggregateExec, MOST_GROUPS};
use crate::provider::aggregate::exec::output::Stage;
use crate::provider::aggregate::plan::aggregation::Aggregation;
use crate::provider::aggregate::plan::groups::{group_columns, most_groups, never_fail};
use crate::provider::aggregate::plan::order::ordering;
use crate::provider::catalog::settings::config::TetConfig;
use crate::provider::plans::below::{Below, below_exchange};

/// Groups per selected cell, above which groups are rather made as they come.
const SPARSE: u64 = 4;
/// Groups that are never too many.
const FEW_GROUPS: u64 = 1 << 16;

/// Computes aggregations over scans of arrays in array space, where they are grouped by nothing or by expressions over
/// single dimensions. What it cannot take it leaves as it was.
///
/// [`enable_tet`](crate::enable_tet) puts it where it finds most: ahead of the rule that distributes plans over
/// partitions. It works anywhere behind the rule that folds aggregates into statistics, also as the last one.
#[derive(Debug, Default)]
pub struct ArrayAggregates {}

impl ArrayAggregates {
    /// The rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for ArrayAggregates {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_wanted = config
            .extensions
            .get::<TetConfig>()
            .is_none_or(|config| config.array_aggregates);
        if !is_wanted {
            return Ok(plan);
        }
        let replaced = plan.transform_down(|plan| {
            let Some(node) = plan.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(plan));
            };
            match replace(&plan, node)? {
                Some(replaced) => Ok(Transformed::new(replaced, true, TreeNodeRecursion::Jump)),
                None => Ok(Transformed::no(plan)),
            }
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &str {
        "array_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What takes the place of an aggregation, if it can be taken. `plan` is `node`, here and below.
fn replace(
    plan: &Arc<dyn ExecutionPlan>,
    node: &AggregateExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let whole: Option<Arc<dyn ExecutionPlan>> = match node.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            match below_exchange(node.input()).downcast_ref::<AggregateExec>() {
                Some(first) if *first.mode() == AggregateMode::Partial => {
                    one(first, plan, Stage::Whole)?
                }
                _ => None,
            }
        }
        AggregateMode::Single | AggregateMode::SinglePartitioned => one(node, plan, Stage::Whole)?,
        AggregateMode::Partial => return partial(plan, node),
        AggregateMode::PartialReduce => None,
    };
    let Some(whole) = whole else {
        return Ok(None);
    };
    let whole = in_order(whole, node)?;
    // Late, somebody above may count on how its rows are spread over partitions.
    Ok(Some(match &node.properties().partitioning {
        Partitioning::UnknownPartitioning(_) => whole,
        spread if spread.partition_count() == 1 => whole,
        spread => Arc::new(RepartitionExec::try_new(whole, spread.clone())?),
    }))
}

/// What takes the place of an aggregation, in the order of the latter's rows: somebody above may count on it.
fn in_order(plan: Arc<dyn ExecutionPlan>, node: &AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(ordering) = node.properties().output_ordering() else {
        return Ok(plan);
    };
    let properties = plan.equivalence_properties();
    if properties.ordering_satisfy(ordering.iter().cloned())? {
        return Ok(plan);
    }
    // There are few rows left by now.
    let sorted = SortExec::new(ordering.clone(), plan).with_preserve_partitioning(true);
    Ok(Arc::new(sorted))
}

/// An aggregation over a single scan: what `first` looks at, as what `plan` gives.
fn one(
    first: &AggregateExec,
    plan: &Arc<dyn ExecutionPlan>,
    stage: Stage,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregation) = Aggregation::of(first) else {
        return Ok(None);
    };
    over_scan(first.input(), &aggregation, plan, stage)
}

/// The first stage of an aggregation, over one scan or the union of several.
fn partial(
    plan: &Arc<dyn ExecutionPlan>,
    node: &AggregateExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregation) = Aggregation::of(node) else {
        return Ok(None);
    };
    let Some(below) = Below::of(node.input())? else {
        return Ok(None);
    };
    let Some(union) = below.node.downcast_ref::<UnionExec>() else {
        let one = one(node, plan, Stage::Partial)?;
        return one.map(|one| in_order(one, node)).transpose();
    };
    let aggregation = aggregation.over(&below)?;
    let mut inputs = Vec::with_capacity(union.inputs().len());
    for input in union.inputs() {
        let alone = with_input(plan, &below.node, input)?;
        match over_scan(input, &aggregation, &alone, Stage::Partial)? {
            Some(operator) => inputs.push(in_order(operator, node)?),
            None => return Ok(None),
        }
    }
    UnionExec::try_new(inputs).map(Some)
}

/// A plan with another node in place of one of its own.
fn with_input(
    plan: &Arc<dyn ExecutionPlan>,
    node: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = Arc::clone(plan).transform_down(|plan| {
        Ok(if Arc::ptr_eq(&plan, node) {
            Transformed::new(Arc::clone(input), true, TreeNodeRecursion::Jump)
        } else {
            Transformed::no(plan)
        })
    })?;
    Ok(replaced.data)
}

/// An aggregation of the rows of `input`, as what `plan` makes of them.
fn over_scan(
    input: &Arc<dyn ExecutionPlan>,
    aggregation: &Aggregation,
    plan: &Arc<dyn ExecutionPlan>,
    stage: Stage,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(below) = Below::of_scan(input)? else {
        return Ok(None);
    };
    let aggregation = aggregation.over(&below)?;
    let scan = below.node;
    let Some(parts) = scan.blocks().grid_parts() else {
        return Ok(None);
    };
    let fields = scan.source().schema().fields().len();
    let Some(first) = parts.first() else {
        // Nothing is left to aggregate, which the engine does as well.
        return Ok(None);
    };
    let dimensions = first.grid.axes().len();
    let file = first.file.is_some().then(|| fields - 1);
    let Some(columns) = group_columns(&aggregation.groups, dimensions, file) else {
        return Ok(None);
    };
    // Groups are made of all selected coordinates, also of those in no row that a predicate over values leaves: an
    // expression that fails there must not fail the query.
    let leaves_rows_out = aggregation.conjuncts.iter().any(|conjunct| {
        let columns = collect_columns(conjunct);
        columns.len() != 1 || columns.iter().any(|column| column.index() >= dimensions)
    });
    if leaves_rows_out && !never_fail(&aggregation.groups, &columns, &parts) {
        return Ok(None);
    }
    let groups = most_groups(&columns, &parts);
    let cells = scan.blocks().rows();
    let is_small = groups.is_some_and(|groups| {
        groups <= FEW_GROUPS
            || (groups <= MOST_GROUPS as u64
                && cells.is_none_or(|cells| groups <= cells.saturating_mul(SPARSE)))
    });
    if !is_small {
        return Ok(None);
    }
    let dynamic_filter = below.dynamic_filter;
    // The engine would have the states of a first stage sorted as well, if those of some were.
    let ordering = if stage == Stage::Whole || plan.output_ordering().is_some() {
        ordering(&parts, &aggregation.groups, &columns, &plan.schema())
    } else {
        Vec::new()
    };
    Ok(Some(Arc::new(
        ArrayAggregateExec::new(
            &parts,
            scan,
            aggregation,
            stage,
            groups,
            ordering,
            Arc::clone(plan),
        )
        .with_dynamic_filter(dynamic_filter),
    )))
}
