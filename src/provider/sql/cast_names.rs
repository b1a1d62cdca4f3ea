//! Names of selected casts.
//!
//! DataFusion 55.2 names `CAST(lat AS INT)` after its operand, and then rejects a select list that also has `lat`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, VisitorMut};

use crate::provider::sql::walk::walk_statement_mut;

/// Names each selected cast that has no alias after its text, such as `lat::INT`.
pub(super) fn name_casts(statement: &mut Statement) {
    let _ = walk_statement_mut(statement, &mut CastNames);
}

struct CastNames;

impl VisitorMut for CastNames {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_cast(expr)
            {
                *item = SelectItem::ExprWithAlias {
                    alias: Ident::with_quote('"', expr.to_string()),
                    expr: expr.clone(),
                };
            }
        }
        ControlFlow::Continue(())
    }
}

fn is_cast(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(expr) => is_cast(expr),
        expr => matches!(expr, Expr::Cast { .. }),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use crate::create_logical_plan;

    #[tokio::test]
    async fn casts_are_selected_beside_their_operands() {
        let ctx = SessionContext::new();
        for (columns, names) in [
            (
                "x, CAST(x AS INT), (x::SMALLINT)",
                "x, CAST(x AS INT), (x::SMALLINT)",
            ),
            ("*, x::INT", "x, x::INT"),
        ] {
            let sql = format!("SELECT {columns} FROM (VALUES (1.5)) t(x)");
            let plan = create_logical_plan(&ctx.state(), &sql).await.unwrap();
            let fields = plan.schema().fields().iter();
            let found: Vec<_> = fields.map(|field| field.name().as_str()).collect();
            assert_eq!(found.join(", "), names);
        }
        let error = create_logical_plan(&ctx.state(), "SELECT 1 AS a, 2 AS a").await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("unique expression names"), "{error}");
    }
}
