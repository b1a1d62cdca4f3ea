//! `DROP TABLE` of tables that it cannot drop.

use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, DropTable, LogicalPlan, TableType};

use crate::provider::catalog::groups::GroupSchema;
use crate::provider::catalog::schema::ArraySchema;
use crate::provider::catalog::url_catalogs::without_urls;

/// Checks the table of `DROP TABLE`, and names it as its file does: `ocean.salt` becomes
/// `air."ocean/salt"`. All other plans stay as they are.
///
/// DataFusion would report that a table of a file does not exist, or keep it silently if the statement
/// says IF EXISTS.
///
/// # Errors
/// Returns an error if the table is part of a file, or is a view.
pub(super) async fn check(state: &SessionState, plan: &mut LogicalPlan) -> Result<()> {
    let LogicalPlan::Ddl(DdlStatement::DropTable(DropTable { name, .. })) = plan else {
        return Ok(());
    };
    let written = name.to_string();
    let Ok(schema) = state.schema_for_ref(name.clone()) else {
        return Ok(());
    };
    let Some(table) = schema.table(name.table()).await? else {
        return Ok(());
    };
    let mut schema = without_urls(schema);
    let group = schema.downcast_ref::<GroupSchema>();
    if let Some((file, in_file)) = group.and_then(|group| group.in_file(name.table())) {
        let default = &state.config_options().catalog.default_catalog;
        let catalog = name.catalog().unwrap_or(default).to_string();
        *name = TableReference::full(catalog, file, in_file);
        schema = without_urls(state.schema_for_ref(name.clone())?);
    }
    if let Some(file) = schema.downcast_ref::<ArraySchema>() {
        file.check_drop(name.table(), &written)?;
    }
    if table.table_type() == TableType::View && name.schema() != Some(INFORMATION_SCHEMA) {
        return plan_err!("cannot drop {written} as a table: it is a view; use DROP VIEW");
    }
    Ok(())
}
