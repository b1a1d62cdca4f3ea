//! The types of rows that INSERT and UPDATE write.
//!
//! DataFusion casts them to the types of the table while it plans the statement. A parameter has no type then, or that
//! of its column, and its value may have another one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, WriteOp};
use datafusion::optimizer::AnalyzerRule;

/// Casts the rows that INSERT and UPDATE write to the types of their table, if they have others.
#[derive(Debug, Default)]
pub(crate) struct WrittenTypes;

impl AnalyzerRule for WrittenTypes {
    fn name(&self) -> &str {
        "written_types"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Dml(write) => with_types(write),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

fn with_types(write: DmlStatement) -> Result<Transformed<LogicalPlan>> {
    // DataFusion plans a projection with an expression for each column of the table.
    let (WriteOp::Insert(_) | WriteOp::Update, LogicalPlan::Projection(rows)) =
        (&write.op, write.input.as_ref())
    else {
        return Ok(Transformed::no(LogicalPlan::Dml(write)));
    };
    let schema = write.target.schema();
    let found = rows.schema.fields();
    let are_equal = found.len() != schema.fields().len()
        || found
            .iter()
            .zip(schema.fields())
            .all(|(found, expected)| found.data_type() == expected.data_type());
    if are_equal {
        return Ok(Transformed::no(LogicalPlan::Dml(write)));
    }
    let written = rows.expr.iter().zip(found).zip(schema.fields());
    let written = written.map(|((expression, found), expected)| {
        if found.data_type() == expected.data_type() {
            return Ok(expression.clone());
        }
        let expression = expression.clone().unalias();
        let cast = expression.cast_to(expected.data_type(), rows.input.schema())?;
        Ok(cast.alias(found.name()))
    });
    let written = written.collect::<Result<Vec<Expr>>>()?;
    let rows = Projection::try_new(written, Arc::clone(&rows.input))?;
    let input = Arc::new(LogicalPlan::Projection(rows));
    Ok(Transformed::yes(LogicalPlan::Dml(DmlStatement {
        input,
        ..write
    })))
}
