//! Subqueries of rows: `(lat, lon) IN (SELECT lat, lon FROM stations)`.
//!
//! DataFusion 55.2 refuses a subquery of several columns. They become one column with a struct, of which
//! [`RowSubqueries`](crate::provider::rules::logic::RowSubqueries) makes comparisons of columns.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, TableFactor, VisitorMut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::provider::rules::logic::ROW;
use crate::provider::sql::walk::walk_statement_mut;

/// Makes a struct of the columns of each subquery that is compared with a row.
pub(crate) fn combine_columns(statement: &mut Statement) {
    // The visitor never breaks.
    let _ = walk_statement_mut(statement, &mut Rows);
}

struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::InSubquery { expr, subquery, .. } = expr
            && let Expr::Tuple(row) = expr.as_ref()
            && let Some(mut combined) = template(row.len())
            && let Some(inner) = derived_table(&mut combined)
        {
            std::mem::swap(inner, subquery);
            **subquery = combined;
        }
        ControlFlow::Continue(())
    }
}

/// Returns a query that makes a struct of the columns of a derived table.
fn template(columns: usize) -> Option<Query> {
    let columns: Vec<_> = (1..=columns).map(|n| format!("\"{ROW}_{n}\"")).collect();
    let columns = columns.join(", ");
    let sql = format!("SELECT ({columns}) AS \"{ROW}\" FROM (SELECT 0) AS \"{ROW}\" ({columns})");
    let parser = Parser::new(&GenericDialect {}).try_with_sql(&sql);
    Some(*parser.ok()?.parse_query().ok()?)
}

fn derived_table(query: &mut Query) -> Option<&mut Box<Query>> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}
