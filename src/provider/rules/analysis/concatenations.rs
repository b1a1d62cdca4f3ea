//! Bounds the texts that `||` makes.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

/// Replaces `||` of texts by a bounded function. Runs after DataFusion has resolved the types.
#[derive(Debug)]
pub(crate) struct BoundedConcatenations {
    function: Arc<ScalarUDF>,
}

impl BoundedConcatenations {
    /// Creates the rule with the function that takes the place of `||`.
    pub fn new(function: ScalarUDF) -> Self {
        Self {
            function: Arc::new(function),
        }
    }

    fn bounded(&self, expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let is_text = |side: &Expr| side.get_type(schema).is_ok_and(|side| side.is_string());
        match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if op == Operator::StringConcat && is_text(&left) && is_text(&right) =>
            {
                Transformed::yes(self.function.call(vec![*left, *right]))
            }
            other => Transformed::no(other),
        }
    }
}

impl AnalyzerRule for BoundedConcatenations {
    fn name(&self) -> &str {
        "bounded_concatenations"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            let mut is_needed = false;
            node.apply_expressions(|expression| {
                is_needed |= expression.exists(|one| Ok(is_concatenation(one)))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            if !is_needed {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expression| {
                let name = names.save(&expression);
                let bounded = expression.transform_up(|one| Ok(self.bounded(one, &schema)))?;
                Ok(match bounded.transformed {
                    true => bounded.update_data(|expression| name.restore(expression)),
                    false => bounded,
                })
            })
        })?;
        Ok(plan.data)
    }
}

fn is_concatenation(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::StringConcat,
            ..
        })
    )
}
