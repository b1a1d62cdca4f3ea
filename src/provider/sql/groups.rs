//! Statements about schemas that are groups of files.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{self, Ident, ObjectName};

use crate::provider::catalog::groups::{GroupSchema, NEW_SCHEMA};
use crate::provider::catalog::url_catalogs::without_urls;

/// Replaces the table of `SHOW COLUMNS FROM ocean.salt` by `air."ocean/salt"`. DataFusion compares the names
/// with those that `information_schema` lists, where each table has one.
pub(super) fn show_columns_of_file(state: &SessionState, statement: &mut Statement) {
    let Statement::Statement(statement) = statement else {
        return;
    };
    let ast::Statement::ShowColumns { show_options, .. } = statement.as_mut() else {
        return;
    };
    let parent = show_options.show_in.as_mut();
    let Some(name) = parent.and_then(|parent| parent.parent_name.as_mut()) else {
        return;
    };
    let options = &state.config_options().sql_parser;
    let table = object_name_to_table_reference(name.clone(), options.enable_ident_normalization);
    let Ok(table) = table else {
        return;
    };
    let Ok(schema) = state.schema_for_ref(table.clone()) else {
        return;
    };
    let schema = without_urls(schema);
    let found = schema.downcast_ref::<GroupSchema>();
    if let Some((schema, in_file)) = found.and_then(|found| found.in_file(table.table())) {
        let parts = table.catalog().into_iter().chain([&*schema, &*in_file]);
        let parts = parts.map(|part| Ident::with_quote('"', part));
        *name = ObjectName::from(parts.collect::<Vec<_>>());
    }
}

/// Returns a plan that creates a schema although a group has its name. All other plans stay as they are.
pub(super) fn create_beside_groups(state: &SessionState, mut plan: LogicalPlan) -> LogicalPlan {
    if let LogicalPlan::Ddl(DdlStatement::CreateCatalogSchema(create)) = &mut plan {
        let name = create.schema_name.as_str();
        let (catalog, name) = match name.split_once('.') {
            Some((catalog, name)) => (Some(catalog), name),
            None => (None, name),
        };
        let default = state.config_options().catalog.default_catalog.as_str();
        let table = TableReference::full(catalog.unwrap_or(default), name, "");
        let schema = state.schema_for_ref(table);
        if schema.is_ok_and(is_group) {
            let catalog = catalog.map_or(String::new(), |catalog| format!("{catalog}."));
            create.schema_name = format!("{catalog}{NEW_SCHEMA}{name}");
        }
    }
    plan
}

fn is_group(schema: Arc<dyn SchemaProvider>) -> bool {
    without_urls(schema).downcast_ref::<GroupSchema>().is_some()
}
