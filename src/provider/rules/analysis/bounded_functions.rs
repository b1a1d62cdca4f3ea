//! Bounds the values that operators and literals make.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::functions::bounded::{bounded, is_text_or_binary};
use crate::provider::functions::memory::SessionMemory;
use crate::provider::rules::names::change_expressions;

/// Replaces `||` of texts and binary values by a bounded function, and the functions that DataFusion
/// calls for `list || list` and `[x, y]` by bounded ones. Runs after DataFusion has resolved the types.
#[derive(Debug)]
pub(crate) struct BoundedFunctions {
    concatenation: Arc<ScalarUDF>,
    memory: SessionMemory,
}

impl BoundedFunctions {
    /// Creates the rule with the function that takes the place of `||`.
    pub fn new(concatenation: ScalarUDF, memory: SessionMemory) -> Self {
        Self {
            concatenation: Arc::new(concatenation),
            memory,
        }
    }

    fn bounded(&self, expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let is_joined = |side: &Expr| {
            let data_type = side.get_type(schema);
            data_type.is_ok_and(|data_type| is_text_or_binary(&data_type))
        };
        match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if op == Operator::StringConcat && is_joined(&left) && is_joined(&right) =>
            {
                Transformed::yes(self.concatenation.call(vec![*left, *right]))
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                match bounded(&func, &self.memory) {
                    Some(bounded) => Transformed::yes(bounded.call(args)),
                    None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
                }
            }
            other => Transformed::no(other),
        }
    }

    /// Returns `true` for expressions that may need a bound.
    fn is_unbounded(&self, expression: &Expr) -> bool {
        match expression {
            Expr::BinaryExpr(binary) => binary.op == Operator::StringConcat,
            Expr::ScalarFunction(call) => bounded(&call.func, &self.memory).is_some(),
            _ => false,
        }
    }
}

impl AnalyzerRule for BoundedFunctions {
    fn name(&self) -> &str {
        "bounded_functions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            let mut is_needed = false;
            node.apply_expressions(|expression| {
                is_needed |= expression.exists(|one| Ok(self.is_unbounded(one)))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            if !is_needed {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            change_expressions(node, |expression| {
                expression.transform_up(|one| Ok(self.bounded(one, &schema)))
            })
        })?;
        Ok(plan.data)
    }
}
