//! What is asked of the rows of a scan: groups, aggregates, a predicate.

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

use crate::provider::plans::below::{Below, with_columns};

/// An aggregation over the rows of a scan. Its expressions speak of the columns that they are bound to; in the end those
/// of the table.
#[derive(Debug, Clone)]
pub(crate) struct Aggregation {
    /// What rows are grouped by.
    pub groups: Vec<Arc<dyn PhysicalExpr>>,
    /// What is computed of each group.
    pub aggregates: Vec<Aggregate>,
    /// What rows have to satisfy, all of it.
    pub conjuncts: Vec<Arc<dyn PhysicalExpr>>,
}

/// One aggregate.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    /// The engine's function. Its own expressions are not to be evaluated.
    pub function: Arc<AggregateFunctionExpr>,
    /// What it is computed of.
    pub arguments: Vec<Arc<dyn PhysicalExpr>>,
    /// The rows that it is computed of.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
}

impl Aggregation {
    /// What a node of the engine that looks at rows asks for; `None` if that takes more than groups, functions that heed
    /// no order, and expressions that always come to the same.
    pub fn of(node: &AggregateExec) -> Option<Self> {
        let group_by = node.group_expr();
        if group_by.has_grouping_set() || group_by.groups().len() > 1 {
            return None;
        }
        let aggregates = node.aggr_expr().iter().zip(node.filter_expr());
        let aggregation = Self {
            groups: group_by.input_exprs(),
            aggregates: aggregates
                .map(|(function, filter)| Aggregate {
                    function: Arc::clone(function),
                    arguments: function.expressions(),
                    filter: filter.clone(),
                })
                .collect(),
            conjuncts: Vec::new(),
        };
        let functions = aggregation.aggregates.iter();
        let heeds_order = functions
            .map(|aggregate| &aggregate.function)
            .any(|function| {
                let inner = function.fun().inner();
                !function.order_sensitivity().is_insensitive()
                    || inner.is::<FirstValue>()
                    || inner.is::<LastValue>()
                    || inner.is::<NthValueAgg>()
                    || inner.is::<ArrayAgg>()
                    || inner.is::<StringAgg>()
            });
        let is_volatile = aggregation.expressions().any(is_volatile);
        (!heeds_order && !is_volatile).then_some(aggregation)
    }

    /// The same in terms of the columns of a node further down.
    pub fn over<N>(&self, below: &Below<N>) -> Result<Self> {
        let mut aggregation = self
            .map(|expr| with_columns(expr, &|number| below.columns.get(number).map(Arc::clone)))?;
        let conjuncts = below.conjuncts.iter().map(Arc::clone);
        aggregation.conjuncts.extend(conjuncts);
        Ok(aggregation)
    }

    /// All expressions.
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

    /// The same with all expressions changed.
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
