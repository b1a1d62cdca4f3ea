//! -0.0 and 0.0 in the PARTITION BY of windows.
//!
//! DataFusion sorts the rows by the keys of PARTITION BY and compares their bits, so that -0.0 and 0.0 are two partitions.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Window};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::attributes::is_dimension;
use crate::provider::rules::logic::zeros::with_positive_zero;

/// The prefix of computed columns by which rows are partitioned.
pub(super) const KEY: &str = "__key_of_equals_";

/// Makes -0.0 and 0.0 one partition of a window:
///
/// ```text
/// Projection: x, count(*) PARTITION BY [x] ..
///   Window: count(*) PARTITION BY [__key_of_equals_0] ..
///     Projection: x, CASE WHEN x = 0 THEN 0 ELSE x END AS __key_of_equals_0
/// ```
///
/// Dimensions of arrays stay as they are, because windows along an axis depend on them.
///
/// The keys are computed below the window: if a filter equates a column with another expression, DataFusion 55 may
/// substitute that expression for the column inside the sort expression, and then no longer finds the key.
#[derive(Debug, Default)]
pub(crate) struct ZeroPartitions;

impl AnalyzerRule for ZeroPartitions {
    fn name(&self) -> &str {
        "zero_partitions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Window(window) => with_computed_keys(window),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

/// Returns the window with keys that have no -0.0, or unchanged if no key is a floating-point number.
fn with_computed_keys(window: Window) -> Result<Transformed<LogicalPlan>> {
    let input = &window.input;
    let mut keys = Keys {
        input,
        found: Vec::new(),
    };
    let mut functions = Vec::with_capacity(window.window_expr.len());
    let mut results: Vec<_> = columns(input).collect();
    for expression in &window.window_expr {
        let mut function = expression.clone().unalias();
        if let Expr::WindowFunction(function) = &mut function {
            for key in &mut function.params.partition_by {
                keys.replace(key);
            }
        }
        let result = Column::from_name(function.schema_name().to_string());
        let name = expression.schema_name().to_string();
        results.push(Expr::Column(result).alias(name));
        if !functions.contains(&function) {
            functions.push(function);
        }
    }
    if keys.found.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let computed = keys.found.into_iter().enumerate();
    let computed = computed.map(|(index, (_, key))| key.alias(name_of(index)));
    let computed = columns(input).chain(computed).collect();
    let computed = LogicalPlan::Projection(Projection::try_new(computed, Arc::clone(input))?);
    // Windows whose sort keys were equal may no longer be computed together.
    let windows = LogicalPlanBuilder::window_plan(computed, functions)?;
    let results = Projection::try_new(results, Arc::new(windows))?;
    Ok(Transformed::yes(LogicalPlan::Projection(results)))
}

fn columns(plan: &LogicalPlan) -> impl Iterator<Item = Expr> {
    plan.schema().columns().into_iter().map(Expr::Column)
}

fn name_of(key: usize) -> String {
    format!("{KEY}{key}")
}

/// The keys of the windows over one input that are computed: each as written, and without -0.0.
struct Keys<'a> {
    input: &'a LogicalPlan,
    found: Vec<(Expr, Expr)>,
}

impl Keys<'_> {
    /// Replaces a key by a computed column, if it may be -0.0.
    fn replace(&mut self, key: &mut Expr) {
        // The plan of a view or of a created table is analysed twice.
        if matches!(key, Expr::Column(column) if column.name.starts_with(KEY)) {
            return;
        }
        let known = self.found.iter().position(|(written, _)| written == key);
        let index = match known {
            Some(index) => index,
            None => {
                let Some(positive) = with_positive_zero(key, self.input.schema()) else {
                    return;
                };
                if is_dimension(self.input, key) {
                    return;
                }
                self.found.push((key.clone(), positive));
                self.found.len() - 1
            }
        };
        *key = Expr::Column(Column::from_name(name_of(index)));
    }
}
