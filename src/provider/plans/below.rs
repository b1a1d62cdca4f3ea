//! Expresses the output of a plan node in terms of the scan below.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::scan::ArrayScan;

/// The maximum number of expression nodes that substituting projections may produce. Stacked
/// projections that use each other's columns more than once double the expressions at every level.
const MAX_NODES: usize = 4096;

/// The rows of a plan node, expressed in the columns of a node below.
#[derive(Debug)]
pub(crate) struct InlinedInput<N> {
    /// The node below.
    pub node: N,
    /// The output columns, as expressions over the columns of `node`.
    pub columns: Vec<Arc<dyn PhysicalExpr>>,
    /// The predicates that a row of `node` must satisfy to be in the output.
    pub conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    /// A dynamic filter over the columns of `node`. Applying this filter is optional, since it only
    /// rules out rows that the query does not need.
    pub dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
}

impl InlinedInput<Arc<dyn ExecutionPlan>> {
    /// Descends through filters, projections and exchanges. `None` if one of them cannot be
    /// expressed by columns and conjuncts, such as a filter with a limit or a volatile expression.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let mut below = Self {
            node: Arc::clone(plan),
            columns: columns_of(plan),
            conjuncts: Vec::new(),
            dynamic_filter: None,
        };
        loop {
            let node = Arc::clone(&below.node);
            below.node = if let Some(filter) = node.downcast_ref::<FilterExec>() {
                if filter.fetch().is_some() || is_volatile(filter.predicate()) {
                    return Ok(None);
                }
                if let Some(projection) = filter.projection() {
                    let inner = columns_of(filter.input());
                    below.replace(&|number| inner.get(*projection.get(number)?).cloned())?;
                }
                let conjuncts = split_conjunction(filter.predicate()).into_iter().cloned();
                below.conjuncts.extend(conjuncts);
                Arc::clone(filter.input())
            } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
                let expressions = projection.expr();
                if expressions
                    .iter()
                    .any(|projected| is_volatile(&projected.expr))
                {
                    return Ok(None);
                }
                let inner: Vec<_> = expressions
                    .iter()
                    .map(|projected| Arc::clone(&projected.expr))
                    .collect();
                if below.size_over(&inner) > MAX_NODES {
                    return Ok(None);
                }
                below.replace(&|number| inner.get(number).cloned())?;
                Arc::clone(projection.input())
            } else {
                let further = below_exchange(&node);
                if Arc::ptr_eq(further, &node) {
                    return Ok(Some(below));
                }
                Arc::clone(further)
            };
        }
    }
}

impl InlinedInput<ArrayScan> {
    /// Descends through filters, projections and exchanges to a scan, and expresses the rows in the
    /// columns of the scan's table. `None` if there is any other node in between, or a limit.
    pub fn of_scan(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(below) = InlinedInput::of(plan)? else {
            return Ok(None);
        };
        let Some((_, scan)) = ArrayScan::of(below.node.as_ref()) else {
            return Ok(None);
        };
        let plan = scan.plan();
        if plan.fetch.is_some() {
            return Ok(None);
        }
        let schema = scan.source().schema();
        let column = |columns: &[usize], number: usize| -> Option<Arc<dyn PhysicalExpr>> {
            let number = *columns.get(number)?;
            Some(Arc::new(Column::new(schema.field(number).name(), number)))
        };
        let mut over_scan = Self {
            node: scan.clone(),
            columns: below.columns,
            conjuncts: below.conjuncts,
            dynamic_filter: None,
        };
        over_scan.replace(&|number| column(&plan.projection, number))?;
        if let Some(filter) = &plan.filter {
            let filter = replace_columns(filter, &|number| column(&plan.columns, number))?;
            let conjuncts = split_conjunction(&filter).into_iter().cloned();
            over_scan.conjuncts.extend(conjuncts);
        }
        if let Some(filter) = &plan.dynamic_filter {
            let filter = replace_columns(filter, &|number| column(&plan.projection, number))?;
            let conjuncts = split_conjunction(&filter).into_iter();
            let others = conjuncts.filter(|conjunct| !over_scan.conjuncts.contains(conjunct));
            over_scan.dynamic_filter = conjunction_opt(others.cloned());
        }
        Ok(Some(over_scan))
    }
}

impl<N> InlinedInput<N> {
    /// Applies the filters and the projection to `narrowed`, a copy of the node that keeps only the
    /// columns `used`, which are sorted. `schema` is the schema of the result.
    pub fn over_narrowed(
        &self,
        mut narrowed: Arc<dyn ExecutionPlan>,
        used: &[usize],
        schema: &SchemaRef,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if schema.fields().len() != self.columns.len() {
            return internal_err!(
                "the plan computes {} columns, which do not fit the schema {schema}",
                self.columns.len()
            );
        }
        let fields = narrowed.schema();
        let moved = |expr: &Arc<dyn PhysicalExpr>| moved(expr, used, &fields);
        let conjuncts = self.conjuncts.iter().map(moved);
        if let Some(predicate) = conjunction_opt(conjuncts.collect::<Result<Vec<_>>>()?) {
            narrowed = Arc::new(FilterExec::try_new(predicate, narrowed)?);
        }
        let output = self.columns.iter().zip(schema.fields());
        let output = output.map(|(expr, field)| {
            let alias = field.name().clone();
            let expr = moved(expr)?;
            Ok(ProjectionExpr { expr, alias })
        });
        let output = output.collect::<Result<Vec<_>>>()?;
        // `schema` carries the attributes of the output columns as metadata.
        let plan = ProjectionExec::try_new_with_schema_metadata(output, narrowed, schema)?;
        Ok(Arc::new(plan))
    }

    /// Counts the expression nodes after each column is replaced by its expression in `inner`.
    fn size_over(&self, inner: &[Arc<dyn PhysicalExpr>]) -> usize {
        let inner: Vec<usize> = inner.iter().map(|expr| size(expr, &|_| 1)).collect();
        let of_column = |number: usize| inner.get(number).copied().unwrap_or(1);
        let all = self.columns.iter().chain(&self.conjuncts);
        all.map(|expr| size(expr, &of_column)).sum()
    }

    fn replace(&mut self, replace: &dyn Fn(usize) -> Option<Arc<dyn PhysicalExpr>>) -> Result<()> {
        for expr in self.columns.iter_mut().chain(&mut self.conjuncts) {
            *expr = replace_columns(expr, replace)?;
        }
        Ok(())
    }
}

/// Counts the nodes of an expression, where each column counts as `of_column` nodes.
fn size(expr: &Arc<dyn PhysicalExpr>, of_column: &dyn Fn(usize) -> usize) -> usize {
    let mut nodes = 0usize;
    // The closure never returns an error.
    let _ = expr.apply(|expr| {
        let column = expr.downcast_ref::<Column>();
        nodes = nodes.saturating_add(column.map_or(1, |column| of_column(column.index())));
        Ok(TreeNodeRecursion::Continue)
    });
    nodes
}

fn columns_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn PhysicalExpr>> {
    let schema = plan.schema();
    let columns = schema.fields().iter().enumerate();
    columns
        .map(|(number, field)| Arc::new(Column::new(field.name(), number)) as _)
        .collect()
}

/// Descends through repartitioning, coalescing and cooperative nodes without a limit.
pub(crate) fn below_exchange(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    if plan.fetch().is_some() {
        return plan;
    }
    let input = if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        repartition.input()
    } else if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() {
        coalesce.input()
    } else if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        cooperative.input()
    } else {
        return plan;
    };
    below_exchange(input)
}

/// Returns the indices of the columns that expressions refer to, sorted.
pub(crate) fn columns_in<'a>(
    expressions: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
) -> Vec<usize> {
    let columns = expressions.flat_map(collect_columns);
    let numbers: BTreeSet<usize> = columns.map(|column| column.index()).collect();
    numbers.into_iter().collect()
}

/// Replaces each column of an expression by the result of `replace` for the column's index.
pub(crate) fn replace_columns(
    expr: &Arc<dyn PhysicalExpr>,
    replace: &dyn Fn(usize) -> Option<Arc<dyn PhysicalExpr>>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(expr).transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else {
            return Ok(Transformed::no(expr));
        };
        match replace(column.index()) {
            // The replacement refers to other columns, so its own columns are left alone.
            Some(with) => Ok(Transformed::new(with, true, TreeNodeRecursion::Jump)),
            None => internal_err!("{column} is not a column of the input"),
        }
    })?;
    Ok(replaced.data)
}

/// Rewrites an expression over the columns of a plan for a plan that keeps only the columns `kept`, which
/// are sorted. `schema` is the schema of that plan.
pub(crate) fn moved(
    expr: &Arc<dyn PhysicalExpr>,
    kept: &[usize],
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    replace_columns(expr, &|number| {
        let index = kept.binary_search(&number).ok()?;
        Some(Arc::new(Column::new(schema.field(index).name(), index)))
    })
}
