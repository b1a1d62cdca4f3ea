//! The names that the prompt knows.

use crate::diagnostics::labels;
use crate::meta::tables;
use crate::prompt::scope::{self, CursorContext};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::Dialect;
use std::collections::BTreeMap;
use std::sync::Arc;
use tet_sql::ArrayTable;
use tet_sql::grid::Axis;

/// The names in a session, and those in the current statement.
#[derive(Debug, Default)]
pub struct Names {
    /// All tables of the session.
    pub tables: Vec<TableNames>,
    /// The tables that the statement names.
    pub scope: Vec<ScopedTable>,
    /// Scalar, aggregate and window functions with their signatures.
    pub functions: BTreeMap<String, String>,
    /// Table functions.
    pub table_functions: Vec<String>,
    /// The settings that SET can change.
    pub settings: Vec<String>,
}

/// A table of the session.
#[derive(Debug)]
pub struct TableNames {
    /// The schema, qualified by its catalog unless that is the default catalog.
    pub schema: String,
    /// The name of the table.
    pub table: String,
    /// The columns of the table.
    pub columns: Vec<String>,
}

/// A table that a statement names.
#[derive(Debug)]
pub struct ScopedTable {
    /// The alias, or else the name of the table.
    pub name: String,
    /// The columns of the table.
    pub columns: Vec<String>,
    /// The labels of each text dimension.
    pub labels: BTreeMap<String, Vec<String>>,
    /// The coordinates of each time dimension, as text.
    pub times: BTreeMap<String, Vec<String>>,
}

impl Names {
    /// Collects the names of a session for a statement. `before` is the text before the cursor. A
    /// table that cannot be opened offers no columns.
    pub async fn of(
        context: &SessionContext,
        text: &str,
        before: &str,
        dialect: &dyn Dialect,
    ) -> Self {
        let mut names = Self::default();
        for listed in tables::list(context) {
            let table = context.table_provider(listed.reference).await;
            names.tables.push(TableNames {
                schema: listed.schema,
                table: listed.table,
                columns: table.map_or_else(|_| Vec::new(), |table| columns(&table)),
            });
        }
        // Formatting labels takes time, so only those of the dimension before the cursor are
        // collected.
        let wanted = match scope::place(before, dialect) {
            CursorContext::Label(column, _) => Some(column),
            _ => None,
        };
        for named in scope::tables(text, dialect) {
            let reference = match named.parts.as_slice() {
                [table] => TableReference::bare(table.as_str()),
                [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
                [catalog, schema, table] => {
                    TableReference::full(catalog.as_str(), schema.as_str(), table.as_str())
                }
                _ => continue,
            };
            let own_name = reference.table().to_owned();
            if let Ok(table) = context.table_provider(reference).await {
                names.scope.push(ScopedTable {
                    name: named.alias.unwrap_or(own_name),
                    columns: columns(&table),
                    labels: labels_of(&table, wanted.as_deref(), labels::of_axis),
                    times: labels_of(&table, wanted.as_deref(), labels::times_of_axis),
                });
            }
        }
        names.add_functions(context);
        let entries = context.copied_config().options().entries();
        names.settings = entries.into_iter().map(|entry| entry.key).collect();
        names
    }

    fn add_functions(&mut self, context: &SessionContext) {
        let state = context.state();
        let mut add = |name: &str, signature: Option<&str>| {
            let signature = signature.filter(|text| !text.contains('\n'));
            let signature = signature.map_or_else(|| format!("{name}(...)"), str::to_owned);
            self.functions.insert(name.to_owned(), signature);
        };
        for (name, function) in state.scalar_functions() {
            add(
                name,
                function
                    .documentation()
                    .map(|known| known.syntax_example.as_str()),
            );
        }
        for (name, function) in state.aggregate_functions() {
            add(
                name,
                function
                    .documentation()
                    .map(|known| known.syntax_example.as_str()),
            );
        }
        for (name, function) in state.window_functions() {
            add(
                name,
                function
                    .documentation()
                    .map(|known| known.syntax_example.as_str()),
            );
        }
        self.table_functions = state.table_functions().keys().cloned().collect();
    }
}

fn columns(table: &Arc<dyn TableProvider>) -> Vec<String> {
    let schema = table.schema();
    let fields = schema.fields().iter();
    fields.map(|field| field.name().clone()).collect()
}

fn labels_of(
    table: &Arc<dyn TableProvider>,
    wanted: Option<&str>,
    of_axis: fn(&Axis) -> Option<Vec<String>>,
) -> BTreeMap<String, Vec<String>> {
    let array = table.downcast_ref::<ArrayTable>();
    let grid = array.and_then(ArrayTable::grid);
    let axes = grid.iter().flat_map(|grid| grid.axes());
    let axes =
        axes.filter(|axis| wanted.is_some_and(|name| axis.name().eq_ignore_ascii_case(name)));
    let labels = axes.filter_map(|axis| Some((axis.name().to_owned(), of_axis(axis)?)));
    labels.collect()
}
