//! Columns whose expressions DataFusion calls NOT NULL in one plan only.
//!
//! DataFusion 55.2 derives twice whether an expression may be NULL: in the logical plan, and again in the
//! physical one. `x IS TRUE` and `CASE WHEN a <> b THEN a ELSE 0 END` are NOT NULL only in the logical plan.
//! Aggregates above such a column are then an internal error, and its values do not fit in a created table.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::{Alias, TryCast};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Union};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;

/// Makes columns nullable in the logical plan that are nullable in the physical one, by casts to the type
/// that they have.
///
/// ```text
/// logical     Projection: TRY_CAST(x IS TRUE AS Boolean) AS h    a TRY_CAST is nullable
/// physical    ProjectionExec: x IS NOT DISTINCT FROM true as h   a cast to the same type is left out
/// ```
///
/// This has to be the last rule, because other rules move expressions to columns of their own.
#[derive(Debug, Default)]
pub(crate) struct AgreedNullability;

impl OptimizerRule for AgreedNullability {
    fn name(&self) -> &str {
        "agreed_nullability"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let properties = ExecutionProps::new();
        let mut is_changed = false;
        let plan = plan.transform_up_with_subqueries(|node| {
            // Inputs may have changed.
            let mut node = match is_changed {
                true => with_new_schema(node)?,
                false => node,
            };
            let (expressions, input) = match &mut node {
                LogicalPlan::Projection(node) => (&mut node.expr, &node.input),
                LogicalPlan::Aggregate(node) => (&mut node.group_expr, &node.input),
                _ => return Ok(Transformed::new_transformed(node, is_changed)),
            };
            let mut is_wider = false;
            for expr in expressions {
                if is_wider_when_executed(expr, input.schema(), &properties)? {
                    *expr = nullable(std::mem::take(expr), input.schema())?;
                    is_wider = true;
                }
            }
            is_changed |= is_wider;
            let node = match is_wider {
                true => node.recompute_schema()?,
                false => node,
            };
            Ok(Transformed::new_transformed(node, is_changed))
        })?;
        Ok(Transformed::new_transformed(plan.data, is_changed))
    }
}

/// Returns `true` for an expression that is nullable in the physical plan only.
fn is_wider_when_executed(
    expr: &Expr,
    input: &DFSchema,
    properties: &ExecutionProps,
) -> Result<bool> {
    let may_differ = expr.exists(|one| {
        Ok(matches!(
            one,
            Expr::IsTrue(_)
                | Expr::IsFalse(_)
                | Expr::IsUnknown(_)
                | Expr::IsNotTrue(_)
                | Expr::IsNotFalse(_)
                | Expr::IsNotUnknown(_)
                | Expr::Case(_)
        ))
    })?;
    if !may_differ || matches!(expr, Expr::GroupingSet(_)) {
        return Ok(false);
    }
    let (_, field) = expr.to_field(input)?;
    // A cast would remove an extension type.
    if field.is_nullable() || field.extension_type_name().is_some() {
        return Ok(false);
    }
    let context = PhysicalPlanningContext::default();
    // Scalar subqueries cannot be planned here.
    let executed = create_physical_expr(expr, input, properties, &context)
        .and_then(|executed| executed.nullable(input.as_arrow()));
    Ok(executed.unwrap_or(false))
}

/// Returns an expression with the same values and the same name that is nullable.
fn nullable(expr: Expr, input: &DFSchema) -> Result<Expr> {
    let data_type = expr.get_type(input)?;
    let cast = |expr: Box<Expr>| Expr::TryCast(TryCast::new(expr, data_type));
    Ok(match expr {
        Expr::Alias(alias) => Expr::Alias(Alias {
            expr: Box::new(cast(alias.expr)),
            ..alias
        }),
        other => {
            let (relation, name) = other.qualified_name();
            cast(Box::new(other)).alias_qualified(relation, name)
        }
    })
}

/// Returns a node with the nullability of its inputs.
fn with_new_schema(node: LogicalPlan) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::SubqueryAlias(_) => node.recompute_schema(),
        // DataFusion keeps the schema of a union.
        LogicalPlan::Union(union) => Ok(LogicalPlan::Union(with_nullable_columns(union)?)),
        other => Ok(other),
    }
}

/// Makes those columns of a union nullable that are nullable in one of its inputs.
fn with_nullable_columns(union: Union) -> Result<Union> {
    let Union { inputs, schema } = union;
    let fields = schema.iter().enumerate().map(|(index, (relation, field))| {
        let is_nullable = inputs.iter().any(|input| {
            let fields = input.schema().fields();
            fields.get(index).is_some_and(|field| field.is_nullable())
        });
        let field = match is_nullable && !field.is_nullable() {
            true => Arc::new(field.as_ref().clone().with_nullable(true)),
            false => Arc::clone(field),
        };
        (relation.cloned(), field)
    });
    let widened = DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?
        .with_functional_dependencies(schema.functional_dependencies().clone())?;
    Ok(Union {
        inputs,
        schema: Arc::new(widened),
    })
}
