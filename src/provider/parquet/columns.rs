//! Keeps the attributes of columns in Parquet files, and writes no statistics of NaN.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::config::TableParquetOptions;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::copy::parquet_columns;
use crate::provider::scan::ArrayScan;
use crate::provider::source::{DATASET, DIMENSION};

/// The prefixes of metadata that belongs to Arrow or Parquet, and holds no attributes.
const NO_ATTRIBUTES: [&str; 2] = ["ARROW:", "PARQUET:"];
/// The value of the writer option `statistics_enabled` that disables statistics.
const NO_STATISTICS: &str = "none";

/// The columns of one table of Parquet files.
#[derive(Debug)]
pub(in crate::provider) struct ParquetColumns {
    options: TableParquetOptions,
    /// The attributes that all files agree on, by column name. Set once the schema has been
    /// inferred, which itself has no attributes.
    attributes: OnceLock<HashMap<String, Attributes>>,
}

/// Returns the schema of a table of Parquet files with the attributes of its columns as field
/// metadata, or `None` for other tables.
pub(crate) fn annotated_schema(table: &dyn TableProvider) -> Option<SchemaRef> {
    let files = table.downcast_ref::<ListingTable>()?;
    let attributes = parquet_columns(&files.options().format)?.attributes.get()?;
    let schema = table.schema();
    let columns = schema
        .fields()
        .iter()
        .map(|field| match attributes.get(field.name()) {
            Some(attributes) => {
                let metadata = attributes.clone().into_iter().collect();
                Arc::new(field.as_ref().clone().with_metadata(metadata))
            }
            None => Arc::clone(field),
        });
    Some(Arc::new(Schema::new(columns.collect::<Vec<_>>())))
}

impl ParquetColumns {
    /// Returns the columns of a table in DataFusion's Parquet format, or `None` for another format.
    pub fn of(format: &dyn FileFormat) -> Option<Self> {
        let parquet = format.downcast_ref::<ParquetFormat>()?;
        Some(Self {
            options: parquet.options().clone(),
            attributes: OnceLock::new(),
        })
    }

    /// Records the attributes of the columns of `schema`, which was inferred from `objects`.
    pub async fn infer_attributes(
        &self,
        schema: &Schema,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<()> {
        let single = ParquetFormat::default()
            .with_options(self.options.clone())
            .with_skip_metadata(false);
        let mut attributes: Option<Vec<Attributes>> = None;
        for object in objects {
            let object = std::slice::from_ref(object);
            let own = single.infer_schema(state, store, object).await?;
            let own = schema
                .fields()
                .iter()
                .map(|field| of_column(&own, field.name()));
            attributes = Some(match attributes {
                None => own.map(Option::unwrap_or_default).collect(),
                Some(all) => all
                    .into_iter()
                    .zip(own)
                    .map(|(all, own)| agreed(all, own))
                    .collect(),
            });
            if attributes.iter().flatten().all(Attributes::is_empty) {
                return Ok(());
            }
        }
        let names = schema.fields().iter().map(|field| field.name().clone());
        let attributes = names.zip(attributes.into_iter().flatten());
        // A concurrent call may already have set the same attributes.
        let _ = self.attributes.set(attributes.collect());
        Ok(())
    }

    /// Returns the format that writes the rows of `input`, without statistics for columns that may
    /// contain NaN. DataFusion 55 would otherwise read a column as constant if its min equals its
    /// max.
    pub fn writer(&self, input: &Arc<dyn ExecutionPlan>, conf: &FileSinkConfig) -> ParquetFormat {
        let mut options = self.options.clone();
        let is_nan_null = reads_nan_as_null(input);
        for field in conf.output_schema().fields() {
            if field.data_type().is_floating() && !(is_nan_null && is_of_array(field)) {
                let column = options.column_specific_options.entry(field.name().clone());
                let statistics = &mut column.or_default().statistics_enabled;
                statistics.get_or_insert_with(|| NO_STATISTICS.to_string());
            }
        }
        ParquetFormat::default().with_options(options)
    }
}

type Attributes = BTreeMap<String, String>;

/// Returns the attributes of a column, or `None` if there is no such column.
fn of_column(schema: &Schema, name: &str) -> Option<Attributes> {
    let metadata = schema.field_with_name(name).ok()?.metadata().iter();
    let metadata =
        metadata.filter(|(key, _)| !NO_ATTRIBUTES.iter().any(|one| key.starts_with(one)));
    Some(
        metadata
            .map(|(key, text)| (key.clone(), text.clone()))
            .collect(),
    )
}

/// Returns the attributes in `all` that another file has as well. A file without the column does
/// not count.
fn agreed(mut all: Attributes, own: Option<Attributes>) -> Attributes {
    if let Some(own) = own {
        all.retain(|key, text| own.get(key) == Some(text));
    }
    all
}

/// Returns `true` if the column is read from an array unchanged: a dimension, or the values of a
/// dataset.
fn is_of_array(field: &Field) -> bool {
    let is_values = field
        .metadata()
        .get(DATASET)
        .is_some_and(|name| !name.is_empty());
    is_values || field.metadata().contains_key(DIMENSION)
}

/// Returns `true` if all rows come from arrays that are read with NaN as null.
fn reads_nan_as_null(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().all(reads_nan_as_null);
    }
    ArrayScan::of(plan.as_ref()).is_some_and(|(_, scan)| scan.plan().options.nan_as_null)
}
