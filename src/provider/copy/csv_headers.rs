//! Headers of the CSV files of one table.

use std::slice::from_ref;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::object_store::{ObjectMeta, ObjectStore};

/// Checks that CSV files have the same columns in the same order: DataFusion matches them by position. Other
/// formats, and files without a header, are not checked.
///
/// # Errors
/// Returns an error that names the first file with other columns.
pub(super) async fn check_headers(
    format: &dyn FileFormat,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<()> {
    let Some(csv) = format.downcast_ref::<CsvFormat>() else {
        return Ok(());
    };
    let has_header = csv.has_header();
    let has_header = has_header.unwrap_or(state.config_options().catalog.has_header);
    let mut files = files.iter().filter(|file| file.size > 0);
    let (Some(first), true) = (files.next(), has_header) else {
        return Ok(());
    };
    let csv = CsvFormat::default().with_options(csv.options().clone());
    let csv = csv.with_schema_infer_max_rec(1);
    let expected = csv.infer_schema(state, store, from_ref(first)).await?;
    for file in files {
        let found = csv.infer_schema(state, store, from_ref(file)).await?;
        let names = [&found, &expected].map(|schema| {
            let names = schema.fields().iter().map(|field| field.name().as_str());
            names.collect::<Vec<_>>().join(", ")
        });
        let [found, expected] = &names;
        if found != expected {
            return plan_err!(
                "{}: the columns are {found}, expected {expected} as in {}; combine files with different columns by UNION ALL BY NAME",
                file.location,
                first.location
            );
        }
    }
    Ok(())
}
