//! An aggregation over the rows of a scan: grouping expressions, aggregates and a predicate.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::functions_aggregate::array_agg::ArrayAgg;
use datafusion::functions_aggregate::first_last::{FirstValue, LastValue};
use datafusion::functions_aggregate::nth_value::NthValueAgg;
use datafusion::functions_aggregate::string_agg::StringAgg;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use serde::{Deserialize, Serialize};

use crate::provider::plans::below::{InlinedInput, replace_columns};

/// The stage of DataFusion's aggregation that the operator replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The operator emits partial states, which DataFusion merges with others.
    Partial,
    /// The operator emits the final values of all groups.
    Whole,
}

/// An aggregation over the rows of a scan. While the plan is being matched, the expressions refer
/// to the columns of the current node; in the end, to the columns of the table.
#[derive(Debug, Clone)]
pub(crate) struct Aggregation {
    /// The grouping expressions.
    pub groups: Vec<Arc<dyn PhysicalExpr>>,
    /// The aggregates to compute per group.
    pub aggregates: Vec<Aggregate>,
    /// The conjuncts of the predicate that rows have to satisfy.
    pub conjuncts: Vec<Arc<dyn PhysicalExpr>>,
}

/// An aggregate function with its arguments and its FILTER clause.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    /// DataFusion's function. Use `arguments` instead of the function's own expressions, which are
    /// bound to other columns.
    pub function: Arc<AggregateFunctionExpr>,
    /// The arguments of the function.
    pub arguments: Vec<Arc<dyn PhysicalExpr>>,
    /// The FILTER clause.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
}

/// Returns `true` if the result of an aggregate function depends on the order of the rows.
pub(crate) fn is_order_sensitive(function: &AggregateFunctionExpr) -> bool {
    let inner = function.fun().inner();
    !function.order_sensitivity().is_insensitive()
        || inner.is::<FirstValue>()
        || inner.is::<LastValue>()
        || inner.is::<NthValueAgg>()
        || inner.is::<ArrayAgg>()
        || inner.is::<StringAgg>()
}

impl Aggregation {
    /// Returns the aggregation of a DataFusion node whose input is rows; `None` if the node has
    /// grouping sets, order-sensitive functions or volatile expressions.
    pub fn of(node: &AggregateExec) -> Option<Self> {
        let group_by = node.group_expr();
        if group_by.has_grouping_set() || group_by.groups().len() > 1 {
            return None;
        }
        let aggregates = node.aggr_expr().iter().zip(node.filter_expr());
        let rows = node.input_schema();
        let aggregation = Self {
            groups: group_by.input_exprs(),
            aggregates: aggregates
                .map(|(function, filter)| Aggregate::new(function, filter.as_ref(), &rows))
                .collect(),
            conjuncts: Vec::new(),
        };
        let mut functions = aggregation.aggregates.iter();
        let is_order_sensitive = functions.any(|aggregate| is_order_sensitive(&aggregate.function));
        let is_volatile = aggregation.expressions().any(is_volatile);
        (!is_order_sensitive && !is_volatile).then_some(aggregation)
    }

    /// Rewrites the aggregation in terms of the columns of a node further down, and adds the
    /// conjuncts in between.
    pub fn over<N>(&self, below: &InlinedInput<N>) -> Result<Self> {
        let mut aggregation = self.map(|expr| {
            replace_columns(expr, &|number| below.columns.get(number).map(Arc::clone))
        })?;
        let conjuncts = below.conjuncts.iter().map(Arc::clone);
        aggregation.conjuncts.extend(conjuncts);
        Ok(aggregation)
    }

    /// Returns all expressions.
    pub fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let aggregates = self.aggregates.iter();
        self.groups
            .iter()
            .chain(
                aggregates
                    .flat_map(|aggregate| aggregate.arguments.iter().chain(&aggregate.filter)),
            )
            .chain(&self.conjuncts)
    }

    /// Applies `change` to all expressions.
    pub fn map(
        &self,
        change: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let all = |expressions: &[Arc<dyn PhysicalExpr>]| -> Result<Vec<_>> {
            expressions.iter().map(&change).collect()
        };
        let aggregates = self.aggregates.iter().map(|aggregate| {
            Ok(Aggregate {
                function: Arc::clone(&aggregate.function),
                arguments: all(&aggregate.arguments)?,
                filter: match &aggregate.filter {
                    Some(filter) => Some(change(filter)?),
                    None => None,
                },
            })
        });
        Ok(Self {
            groups: all(&self.groups)?,
            aggregates: aggregates.collect::<Result<_>>()?,
            conjuncts: all(&self.conjuncts)?,
        })
    }
}
