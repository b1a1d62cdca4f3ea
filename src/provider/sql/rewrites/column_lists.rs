//! Lists of column names, as in `WITH t(a, b) AS (SELECT 0, 0)`.
//!
//! DataFusion 55.2 names the columns of the query first, and rejects two with the same name, although the list
//! replaces these names.

use std::ops::ControlFlow;

use datafusion::common::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Ident, Query, SelectItem, SetExpr, SetQuantifier, TableFactor, VisitorMut,
};

use crate::provider::sql::walk::walk_statement_mut;

/// Returns `true` if two selected expressions have the same name.
pub(in crate::provider::sql) fn has_duplicate_names(error: &DataFusionError) -> bool {
    let message = error.to_string();
    message.contains("Projections require unique expression names")
}

/// Names the selected expressions without an alias in queries whose column names are not used: those below a
/// list with as many names, and those of `INSERT`.
pub(in crate::provider::sql) fn name_items(statement: &mut Statement) {
    // The visitor never breaks.
    let _ = walk_statement_mut(statement, &mut ColumnLists);
}

struct ColumnLists;

impl VisitorMut for ColumnLists {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.iter_mut();
        for cte in with.flat_map(|with| &mut with.cte_tables) {
            name_columns(&mut cte.query.body, Some(cte.alias.columns.len()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = factor
        {
            name_columns(&mut subquery.body, Some(alias.columns.len()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<()> {
        match statement {
            ast::Statement::CreateView(view) => {
                name_columns(&mut view.query.body, Some(view.columns.len()));
            }
            ast::Statement::CreateTable(table) => {
                if let Some(query) = &mut table.query {
                    name_columns(&mut query.body, Some(table.columns.len()));
                }
            }
            ast::Statement::Insert(insert) => {
                if let Some(query) = &mut insert.source {
                    name_columns(&mut query.body, None);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Names the expressions of a query that has as many columns as the list of names. The names are unlike those of
/// columns, because the query's ORDER BY would find them first.
fn name_columns(body: &mut SetExpr, names: Option<usize>) {
    match body {
        SetExpr::Select(select) => {
            let items = &mut select.projection;
            let is_listed = |item: &SelectItem| {
                matches!(
                    item,
                    SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
                )
            };
            if names.is_some_and(|names| names != items.len()) || !items.iter().all(is_listed) {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item {
                    *item = SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: Ident::with_quote('"', format!("column {}", index + 1)),
                    };
                }
            }
        }
        SetExpr::Query(query) => name_columns(&mut query.body, names),
        SetExpr::SetOperation {
            set_quantifier,
            left,
            right,
            ..
        } => {
            let is_by_name = matches!(
                set_quantifier,
                SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
            );
            if !is_by_name {
                name_columns(left, names);
                name_columns(right, names);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use crate::{create_logical_plan, execute_logical_plan};

    #[tokio::test]
    async fn a_list_names_columns_with_the_same_name() {
        let ctx = SessionContext::new();
        for statement in [
            "CREATE VIEW v(i, n) AS SELECT 0, 0",
            "CREATE TABLE t(i BIGINT, n BIGINT) AS SELECT 0, 0",
            "INSERT INTO t SELECT 0, 0",
        ] {
            let plan = create_logical_plan(&ctx.state(), statement).await.unwrap();
            let frame = execute_logical_plan(&ctx, plan).await.unwrap();
            frame.collect().await.unwrap();
        }
        for from in [
            "v",
            "(SELECT x, x FROM (VALUES (0), (1)) AS u(x) ORDER BY x) AS t(i, n)",
            "(SELECT 0, 0 UNION ALL (SELECT 1, 1)) AS t(i, n)",
        ] {
            let sql = format!(
                "WITH f(i, n) AS (SELECT 0, 0) SELECT i, n FROM f JOIN {from} USING (i, n)"
            );
            let plan = create_logical_plan(&ctx.state(), &sql).await.unwrap();
            let frame = execute_logical_plan(&ctx, plan).await.unwrap();
            let table = frame.to_string().await.unwrap();
            assert!(table.contains("| 0 | 0 |"), "{table}");
        }
        // Fewer names than columns name none of them.
        let sql = "SELECT i FROM (SELECT 0, 0) AS t(i)";
        assert!(create_logical_plan(&ctx.state(), sql).await.is_err());
    }
}
