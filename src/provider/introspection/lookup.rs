//! Resolves the argument of a table function to a table.

use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, Session, TableProvider};
use datafusion::common::{Result, ScalarValue, TableReference, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Expr;
use futures::FutureExt;

use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::catalog::location::Location;
use crate::provider::catalog::url_catalogs::without_urls;

/// Returns the only argument of a function, which must be the name of a table as a text literal.
pub(in crate::provider) fn table_name<'a>(
    function: &str,
    arguments: &'a [Expr],
) -> Result<&'a str> {
    if let [Expr::Literal(value, _)] = arguments
        && let Some(Some(text)) = value.try_as_str()
    {
        return Ok(text);
    }
    let given: Vec<_> = arguments
        .iter()
        .map(|argument| match argument {
            Expr::Literal(ScalarValue::Null, _) => "NULL".to_string(),
            other => other.to_string(),
        })
        .collect();
    plan_err!(
        "{function} takes the name of a table as text, as in SELECT * FROM {function}('t'), not ({})",
        given.join(", ")
    )
}

/// Resolves a text to a table. The text is a table name as in SQL, with or without schema and
/// catalog, or else a path to arrays, with the dataset after a `#`.
///
/// Table functions are planned synchronously, so a catalog must find the table without waiting.
pub(in crate::provider) fn table(
    function: &str,
    session: &dyn Session,
    text: &str,
) -> Result<Arc<dyn TableProvider>> {
    let catalogs = session.catalog_list();
    let config = session.config_options();
    let by_name = TableReference::from(text);
    // Names take precedence, because `weather.tet` may also be the table `tet` of the schema
    // `weather`.
    let formats = FormatRegistry::of(session.config());
    let is_path = Location::is_array_location(text, &formats);
    let by_path = is_path.then(|| (TableReference::bare(text), true));
    for (reference, with_paths) in [Some((by_name.clone(), false)), by_path]
        .into_iter()
        .flatten()
    {
        let found = find(catalogs.as_ref(), config, reference, with_paths);
        match found.now_or_never() {
            Some(Ok(Some(table))) => return Ok(table),
            Some(Ok(None)) => {}
            Some(Err(error)) => return Err(error),
            None => {
                return plan_err!(
                    "{function}: the catalog of {text} looks up tables asynchronously, which table functions \
                     do not support"
                );
            }
        }
    }
    let catalog = &config.catalog;
    let resolved = by_name.resolve(&catalog.default_catalog, &catalog.default_schema);
    plan_err!("{function}: table '{resolved}' not found")
}

async fn find(
    catalogs: &dyn CatalogProviderList,
    config: &ConfigOptions,
    reference: TableReference,
    with_paths: bool,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let defaults = &config.catalog;
    let reference = reference.resolve(&defaults.default_catalog, &defaults.default_schema);
    let schema = catalogs
        .catalog(&reference.catalog)
        .and_then(|catalog| catalog.schema(&reference.schema));
    match schema {
        Some(schema) if with_paths => schema.table(&reference.table).await,
        Some(schema) => without_urls(schema).table(&reference.table).await,
        None => Ok(None),
    }
}
