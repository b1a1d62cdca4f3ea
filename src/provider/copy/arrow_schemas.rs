//! Schemas of Arrow files.

use std::slice::from_ref;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::object_store::{ObjectMeta, ObjectStore};

/// Returns the schema of a table of Arrow files, or `None` for another format.
///
/// The schema has no metadata. The metadata that pandas writes differs from file to file, and DataFusion's plans of
/// UNION would have other metadata than their inputs.
pub(super) async fn schema_of(
    format: &dyn FileFormat,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<Option<SchemaRef>> {
    let Some(arrow) = format.downcast_ref::<ArrowFormat>() else {
        return Ok(None);
    };
    let mut schemas = Vec::new();
    for file in files {
        let schema = arrow.infer_schema(state, store, from_ref(file)).await?;
        schemas.push(Schema::new(schema.fields().clone()));
    }
    Ok(Some(Arc::new(Schema::try_merge(schemas)?)))
}
