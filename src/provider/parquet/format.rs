//! A Parquet format that wraps DataFusion's own and keeps column attributes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::{ParquetFormat, ParquetFormatFactory};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::copy::unwrap_row_format;
use crate::provider::scan::ArrayScan;
use crate::provider::source::{DATASET, DIMENSION};

/// The prefixes of metadata that belongs to Arrow or Parquet, and holds no attributes.
const NO_ATTRIBUTES: [&str; 2] = ["ARROW:", "PARQUET:"];
/// The value of the writer option `statistics_enabled` that disables statistics.
const NO_STATISTICS: &str = "none";

/// A wrapper of DataFusion's Parquet factory whose tables keep the attributes of their columns.
#[derive(Debug)]
pub(crate) struct AttributedParquet {
    inner: Arc<dyn FileFormatFactory>,
}

impl AttributedParquet {
    /// Replaces DataFusion's factory in a session.
    pub fn register(state: &mut SessionState) {
        let inner = state.get_file_format_factory("parquet");
        let inner = inner.filter(|inner| inner.is::<ParquetFormatFactory>());
        if let Some(inner) = inner {
            // Registration with `overwrite` set never fails.
            let _ = state.register_file_format(Arc::new(Self { inner }), true);
        }
    }
}

impl GetExt for AttributedParquet {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

impl FileFormatFactory for AttributedParquet {
    fn create(
        &self,
        state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(attributed(self.inner.create(state, options)?))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        attributed(self.inner.default())
    }
}

fn attributed(inner: Arc<dyn FileFormat>) -> Arc<dyn FileFormat> {
    match inner.downcast_ref::<ParquetFormat>() {
        Some(parquet) => Arc::new(AttributedFormat {
            options: parquet.options().clone(),
            inner,
            attributes: OnceLock::new(),
        }),
        None => inner,
    }
}

/// The format of one table.
#[derive(Debug)]
struct AttributedFormat {
    options: TableParquetOptions,
    inner: Arc<dyn FileFormat>,
    /// The attributes that all files agree on, by column name. Set once the schema has been
    /// inferred, which itself has no attributes.
    attributes: OnceLock<HashMap<String, Attributes>>,
}

/// Returns the schema of a table of Parquet files with the attributes of its columns as field
/// metadata, or `None` for other tables.
pub(crate) fn annotated_schema(table: &dyn TableProvider) -> Option<SchemaRef> {
    let files = table.downcast_ref::<ListingTable>()?;
    let format = unwrap_row_format(&files.options().format).downcast_ref::<AttributedFormat>()?;
    let attributes = format.attributes.get()?;
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

#[async_trait]
impl FileFormat for AttributedFormat {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    /// Infers the schema, and records the attributes of its columns.
    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let schema = self.inner.infer_schema(state, store, objects).await?;
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
                return Ok(schema);
            }
        }
        let names = schema.fields().iter().map(|field| field.name().clone());
        let attributes = names.zip(attributes.into_iter().flatten());
        // A concurrent call may already have set the same attributes.
        let _ = self.attributes.set(attributes.collect());
        Ok(schema)
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let inner = &self.inner;
        inner.infer_stats(state, store, table_schema, object).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        let inner = &self.inner;
        inner
            .infer_ordering(state, store, table_schema, object)
            .await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_physical_plan(state, conf).await
    }

    /// Disables statistics for columns that may contain NaN. DataFusion 55 would otherwise read a
    /// column as constant if its min equals its max.
    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut options = self.options.clone();
        let is_nan_null = reads_nan_as_null(&input);
        for field in conf.output_schema().fields() {
            if field.data_type().is_floating() && !(is_nan_null && is_of_array(field)) {
                let column = options.column_specific_options.entry(field.name().clone());
                let statistics = &mut column.or_default().statistics_enabled;
                statistics.get_or_insert_with(|| NO_STATISTICS.to_string());
            }
        }
        let format = ParquetFormat::default().with_options(options);
        format
            .create_writer_physical_plan(input, state, conf, order)
            .await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
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
    let source = plan.downcast_ref::<DataSourceExec>();
    let scan = source.and_then(|source| source.data_source().downcast_ref::<ArrayScan>());
    scan.is_some_and(|scan| scan.plan().options.nan_as_null)
}
