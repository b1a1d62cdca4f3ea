//! Keys of aggregations.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Dependency, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's `optimize_projections`, which drops columns that are not used, over aggregations with correct keys.
///
/// DataFusion 55 takes the key of a subquery with GROUP BY, joined with other tables, for a key of the groups above the join, though the
/// groups are also by columns of the other tables. It then drops these columns from an aggregation of the groups:
///
/// ```text
/// SELECT DISTINCT x, a FROM (SELECT t.x, d.a FROM t, (SELECT DISTINCT a FROM u) AS d GROUP BY t.x, d.a)
/// ```
#[derive(Debug, Default)]
pub(crate) struct KeptGroups(OptimizeProjections);

impl OptimizerRule for KeptGroups {
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
        let end = plan.apply(|node| {
            Ok(match node {
                LogicalPlan::Aggregate(aggregate) if has_false_key(aggregate) => {
                    TreeNodeRecursion::Stop
                }
                _ => TreeNodeRecursion::Continue,
            })
        })?;
        if end != TreeNodeRecursion::Stop {
            return self.0.rewrite(plan, config);
        }
        // The operators above an aggregation have its keys, too.
        let plan = plan.transform_up(|node| match node {
            LogicalPlan::Aggregate(mut aggregate) => {
                if let Some(keys) = keys(&aggregate) {
                    let schema = aggregate.schema.as_ref().clone();
                    aggregate.schema = Arc::new(schema.with_functional_dependencies(keys)?);
                }
                Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
            }
            node => node.recompute_schema().map(Transformed::yes),
        })?;
        let plan = self.0.rewrite(plan.data, config)?;
        Ok(Transformed::yes(plan.data))
    }
}

fn has_false_key(aggregate: &Aggregate) -> bool {
    let Some(keys) = keys(aggregate) else {
        return false;
    };
    let mut found = aggregate.schema.functional_dependencies().iter();
    found.any(|found| {
        let mut keys = keys.iter();
        !keys.any(|key| key.source_indices == found.source_indices)
    })
}

/// Returns the columns of an aggregation that tell its groups apart: those of its input, if they determine all columns of GROUP BY, or
/// else all. Returns `None` for grouping sets, which have no keys.
fn keys(aggregate: &Aggregate) -> Option<FunctionalDependencies> {
    let input = aggregate.input.schema();
    let mut groups = Vec::with_capacity(aggregate.group_expr.len());
    for group in &aggregate.group_expr {
        groups.push(match group {
            Expr::GroupingSet(_) => return None,
            Expr::Column(column) => input.maybe_index_of_column(column),
            _ => None,
        });
    }
    let all: Vec<_> = (0..aggregate.schema.fields().len()).collect();
    let mut keys = Vec::new();
    for known in input.functional_dependencies().iter() {
        let source = known.source_indices.iter();
        let source = source.map(|index| groups.iter().position(|group| *group == Some(*index)));
        let Some(mut source) = source.collect::<Option<Vec<_>>>() else {
            continue;
        };
        source.sort_unstable();
        let determined: HashSet<_> = known.target_indices.iter().copied().collect();
        let determines_groups = || {
            let mut groups = groups.iter();
            groups.all(|group| group.is_some_and(|group| determined.contains(&group)))
        };
        if known.mode == Dependency::Single || determines_groups() {
            keys.push(FunctionalDependence::new(
                source,
                all.clone(),
                known.nullable,
            ));
        }
    }
    if keys.is_empty() && !groups.is_empty() {
        let fields = aggregate.schema.fields().iter().take(groups.len());
        let nullable = fields.into_iter().any(|field| field.is_nullable());
        keys.push(FunctionalDependence::new(
            (0..groups.len()).collect(),
            all,
            nullable,
        ));
    }
    Some(FunctionalDependencies::new(keys))
}
