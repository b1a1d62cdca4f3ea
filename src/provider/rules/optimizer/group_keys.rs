//! Keys of groups and of unnested rows.
//!
//! DataFusion 55 takes the key of a subquery with GROUP BY, joined with other tables, for a key of the groups above the join, though the
//! groups are also by columns of the other tables. It also takes a key of rows for a key of the rows that `unnest` makes of them.
//! Columns that such a key seems to determine are then dropped from GROUP BY and ORDER BY, and DISTINCT and outer joins are taken for
//! superfluous:
//!
//! ```text
//! SELECT k, x FROM (SELECT z.k, t.x FROM t JOIN (SELECT k FROM u GROUP BY k) AS z ON z.k = t.k GROUP BY z.k, t.x) ORDER BY k, x
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Dependency, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::eliminate_join::EliminateJoin;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerContext, OptimizerRule};

/// A rule of DataFusion that uses keys, over plans with correct keys.
#[derive(Debug)]
pub(crate) struct CorrectKeys(Arc<dyn OptimizerRule + Send + Sync>);

impl CorrectKeys {
    /// Returns all rules that use keys.
    pub(crate) fn all() -> [Self; 4] {
        [
            Self(Arc::new(ReplaceDistinctWithAggregate::new())),
            Self(Arc::new(EliminateJoin::new())),
            Self(Arc::new(EliminateDuplicatedExpr::new())),
            Self(Arc::new(OptimizeProjections::new())),
        ]
    }
}

impl OptimizerRule for CorrectKeys {
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
        let uses_keys = match plan {
            LogicalPlan::Distinct(_) | LogicalPlan::Sort(_) => true,
            _ => self.apply_order().is_none(),
        };
        if !uses_keys {
            return self.0.rewrite(plan, config);
        }
        let plan = with_correct_keys(plan)?;
        let is_corrected = plan.transformed;
        let mut plan = self.0.rewrite(plan.data, config)?;
        plan.transformed |= is_corrected;
        Ok(plan)
    }
}

/// Drops the columns that DataFusion added to the groups of a [`DataFrame`](datafusion::prelude::DataFrame) because of wrong keys of
/// its input, unless the query uses them.
///
/// `DerivedTables` corrects the keys of SQL queries before their groups are planned.
#[derive(Debug)]
pub(crate) struct AddedGroups;

impl AnalyzerRule for AddedGroups {
    fn name(&self) -> &str {
        "added_groups"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_false_keys(&plan)? {
            return Ok(plan);
        }
        let end = plan.apply_with_subqueries(|node| {
            let LogicalPlan::Aggregate(aggregate) = node else {
                return Ok(TreeNodeRecursion::Continue);
            };
            let input = with_correct_keys(aggregate.input.as_ref().clone())?.data;
            let keys = aggregate.input.schema().functional_dependencies();
            Ok(match keys == input.schema().functional_dependencies() {
                true => TreeNodeRecursion::Continue,
                false => TreeNodeRecursion::Stop,
            })
        })?;
        if end != TreeNodeRecursion::Stop {
            return Ok(plan);
        }
        let config = OptimizerContext::new_with_config_options(Arc::new(config.clone()));
        let plan = OptimizeProjections::new().rewrite(plan, &config)?;
        Ok(plan.data)
    }
}

/// Corrects the keys of a plan and of its subqueries.
pub(crate) fn with_correct_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_false_keys(&plan)? {
        return Ok(Transformed::no(plan));
    }
    // The operators above have the same keys.
    plan.transform_up_with_subqueries(|node| {
        let mut node = node.recompute_schema()?;
        let (schema, keys) = match &mut node {
            LogicalPlan::Aggregate(aggregate) => {
                let keys = keys(aggregate);
                (&mut aggregate.schema, keys)
            }
            LogicalPlan::Unnest(unnest) => {
                (&mut unnest.schema, Some(FunctionalDependencies::empty()))
            }
            _ => return Ok(Transformed::yes(node)),
        };
        if let Some(keys) = keys {
            *schema = Arc::new(schema.as_ref().clone().with_functional_dependencies(keys)?);
        }
        Ok(Transformed::yes(node))
    })
}

fn has_false_keys(plan: &LogicalPlan) -> Result<bool> {
    let mut has_any = false;
    plan.apply_with_subqueries(|node| {
        has_any = has_false_key(node);
        Ok(match has_any {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(has_any)
}

fn has_false_key(node: &LogicalPlan) -> bool {
    let aggregate = match node {
        LogicalPlan::Aggregate(aggregate) => aggregate,
        LogicalPlan::Unnest(unnest) => return !unnest.schema.functional_dependencies().is_empty(),
        _ => return false,
    };
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
    let mut seen = HashSet::new();
    let mut groups = Vec::with_capacity(aggregate.group_expr.len());
    for group in &aggregate.group_expr {
        // A repeated expression is one column.
        if !seen.insert(group) {
            continue;
        }
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
            let key = FunctionalDependence::new(source, all.clone(), known.nullable);
            keys.push(key.with_mode(Dependency::Single));
        }
    }
    if keys.is_empty() && !groups.is_empty() {
        let fields = aggregate.schema.fields().iter().take(groups.len());
        let nullable = fields.into_iter().any(|field| field.is_nullable());
        let key = FunctionalDependence::new((0..groups.len()).collect(), all, nullable);
        keys.push(key.with_mode(Dependency::Single));
    }
    Some(FunctionalDependencies::new(keys))
}
