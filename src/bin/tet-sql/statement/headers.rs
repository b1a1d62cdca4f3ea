//! Column headers as written in the statement.
//!
//! DataFusion names the columns of `SELECT avg(value), 1 FROM temperature` `avg(temperature.value)`
//! and `Int64(1)`. Formats for reading show `avg(value)` and `1`. Formats for programs, files
//! written by COPY and the server keep DataFusion's names.

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Expr, Query, SelectItem, SetExpr};
use std::sync::Arc;
use tet_sql::provider::sql::budget::parse;

/// Returns the schema of a statement's result, in which expressions without an alias are named as
/// the statement writes them.
pub fn as_written(state: &SessionState, sql: &str, schema: &SchemaRef) -> SchemaRef {
    let statement = parse(state, sql);
    match statement.as_ref().ok().and_then(select_list) {
        Some(items) => renamed(items, schema),
        None => Arc::clone(schema),
    }
}

fn renamed(items: &[SelectItem], schema: &SchemaRef) -> SchemaRef {
    let is_wildcard = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
        )
    };
    let count = schema.fields().len();
    // A wildcard stands for any number of columns, so items before it are counted from the left and
    // items after it from the right.
    let first_wildcard = items.iter().position(is_wildcard);
    let last_wildcard = items.iter().rposition(is_wildcard);
    let (left, right) = match first_wildcard.zip(last_wildcard) {
        None if items.len() == count => (items, &[][..]),
        None => return Arc::clone(schema),
        Some((first, last)) => (&items[..first], &items[last + 1..]),
    };
    if left.len() + right.len() > count {
        return Arc::clone(schema);
    }
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    let from_left = left.iter().enumerate();
    let from_right = right.iter().enumerate();
    let columns = from_left.chain(from_right.map(|(index, item)| {
        let index = count - right.len() + index;
        (index, item)
    }));
    for (index, item) in columns {
        if let Some(name) = written(item) {
            fields[index] = Arc::new(fields[index].as_ref().clone().with_name(name));
        }
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Returns the text of an expression that has neither a name nor an alias.
fn written(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => None,
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
        _ => None,
    }
}

/// Returns the list of the first SELECT, which also names the columns of a set operation.
fn select_list(statement: &Statement) -> Option<&[SelectItem]> {
    let Statement::Statement(statement) = statement else {
        return None;
    };
    match statement.as_ref() {
        ast::Statement::Query(query) => of_query(query),
        _ => None,
    }
}

fn of_query(query: &Query) -> Option<&[SelectItem]> {
    let mut body = query.body.as_ref();
    loop {
        match body {
            SetExpr::Select(select) => return Some(&select.projection),
            SetExpr::Query(query) => return of_query(query),
            SetExpr::SetOperation { left, .. } => body = left.as_ref(),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn headers(sql: &str) -> Vec<String> {
        let context = SessionContext::new();
        let table = "CREATE TABLE t AS SELECT 1 AS x, 2 AS y";
        context.sql(table).await.unwrap().collect().await.unwrap();
        let frame = context.sql(sql).await.unwrap();
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let named = as_written(&context.state(), sql, &schema);
        let names = named.fields().iter();
        names.map(|field| field.name().clone()).collect()
    }

    #[tokio::test]
    async fn expressions_are_called_as_written() {
        for (sql, expected) in [
            ("SELECT 1, 'a', x + 1 FROM t", ["1", "'a'", "x + 1"]),
            (
                "SELECT avg(x), t.y, count(*) FROM t GROUP BY t.y",
                ["avg(x)", "y", "count(*)"],
            ),
            ("SELECT *, x + y FROM t", ["x", "y", "x + y"]),
            ("SELECT -x, t.* FROM t", ["-x", "x", "y"]),
            (
                "SELECT max(x), 2, 3 AS z FROM t UNION ALL SELECT 1, 2, 3",
                ["max(x)", "2", "z"],
            ),
            (
                "SELECT * FROM (SELECT max(x) AS \"Int64(1)\", 2 AS b, 3 AS c FROM t)",
                ["Int64(1)", "b", "c"],
            ),
        ] {
            assert_eq!(headers(sql).await, expected, "{sql}");
        }
        assert_eq!(headers("VALUES (1)").await, ["column1"]);
    }
}
