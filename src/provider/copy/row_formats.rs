//! Wrappers of DataFusion's row formats (CSV, Parquet, JSON, Arrow) that make `COPY` atomic.
//!
//! DataFusion writes the files of a `COPY` under their final names while rows arrive, so a `COPY`
//! that fails leaves incomplete files behind. These formats write into a temporary directory next
//! to the target, and rename the files once all of them are complete.

use std::collections::HashMap;
use std::fmt::Debug;
use std::slice::from_ref;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, GetExt, Result, Statistics, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::{
    FileOutputMode, FileScanConfig, FileSinkConfig, FileSource,
};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::copy::arrow_schemas;
use crate::provider::copy::csv_headers::check_headers;
use crate::provider::copy::json_arrays::{JsonArraySource, array_format};
use crate::provider::copy::row_paths::{CopyPaths, is_directory};
use crate::provider::copy::row_sink::RowSink;
use crate::provider::copy::stored_types::{check_storable, stored_schema};
use crate::provider::error::{describe, invalid_file, names_file};
#[cfg(feature = "parquet")]
use crate::provider::parquet::{ParquetColumns, check_footers};
#[cfg(feature = "remote")]
use crate::provider::remote::{StoreOptions, register_for_copy};

/// The file extensions, each with DataFusion's name of the format.
const EXTENSIONS: [(&str, &str); 8] = [
    ("csv", "csv"),
    (TAB_SEPARATED, "csv"),
    (PARQUET, PARQUET),
    ("arrow", "arrow"),
    ("feather", "arrow"),
    ("json", "json"),
    ("ndjson", "json"),
    ("jsonl", "json"),
];
/// The extension of CSV files with tabs instead of commas.
const TAB_SEPARATED: &str = "tsv";
/// DataFusion's name and file extension of Parquet.
const PARQUET: &str = "parquet";
/// The extensions of compressed files, each with the name of the compression.
const COMPRESSIONS: [(&str, &str); 4] = [
    (".gz", "gzip"),
    (".bz2", "bzip2"),
    (".xz", "xz"),
    (".zst", "zstd"),
];

/// A DataFusion row format, registered under one of its file extensions.
#[derive(Debug)]
pub(in crate::provider) struct RowFormatFactory {
    extension: &'static str,
    format: Arc<dyn FileFormatFactory>,
}

impl RowFormatFactory {
    /// Returns a factory for each extension whose format is registered in the session.
    pub fn all(state: &SessionState) -> Vec<Self> {
        let factories = EXTENSIONS.iter().filter_map(|(extension, format)| {
            let format = state.get_file_format_factory(format)?;
            let format = match format.downcast_ref::<Self>() {
                Some(other) => Arc::clone(&other.format),
                None => format,
            };
            Some(Self { extension, format })
        });
        factories.collect()
    }
}

impl GetExt for RowFormatFactory {
    fn get_ext(&self) -> String {
        self.extension.to_string()
    }
}

impl FileFormatFactory for RowFormatFactory {
    fn create(
        &self,
        state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let mut options = format_options.clone();
        #[cfg(feature = "remote")]
        let store = StoreOptions::take(&mut options);
        if self.extension == TAB_SEPARATED {
            let delimiter = options.entry("format.delimiter".to_string());
            delimiter.or_insert_with(|| "\t".to_string());
        }
        let format = RowFormat::new(self.format.create(state, &options)?);
        Ok(Arc::new(RowFormat {
            #[cfg(feature = "remote")]
            store,
            ..format
        }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(RowFormat::new(self.format.default()))
    }
}

/// A DataFusion format with an atomic `COPY`. Parquet keeps the attributes of columns.
#[derive(Debug)]
struct RowFormat {
    inner: Arc<dyn FileFormat>,
    /// The format that reads the files, if they are JSON files that hold arrays. Set once the schema has been inferred.
    arrays: OnceLock<Arc<dyn FileFormat>>,
    #[cfg(feature = "parquet")]
    parquet: Option<ParquetColumns>,
    /// The options of the statement that describe the store of its location.
    #[cfg(feature = "remote")]
    store: StoreOptions,
}

impl RowFormat {
    fn new(inner: Arc<dyn FileFormat>) -> Self {
        Self {
            #[cfg(feature = "remote")]
            store: StoreOptions::default(),
            #[cfg(feature = "parquet")]
            parquet: ParquetColumns::of(inner.as_ref()),
            arrays: OnceLock::new(),
            inner,
        }
    }

    /// Checks that the name of a target does not promise a compression that the file will not have.
    fn check_name(&self, target: &str) -> Result<()> {
        let mut compressions = COMPRESSIONS.into_iter();
        let named = compressions.find(|(extension, _)| target.ends_with(extension));
        let chosen = self.compression_type().map(|chosen| chosen.get_ext());
        match named {
            Some((extension, compression)) if chosen.as_deref() != Some(extension) => plan_err!(
                "{target}: the name ends in {extension}, but the rows would not be compressed with {compression}; \
                 leave out {extension}, and compress the file afterwards"
            ),
            _ => Ok(()),
        }
    }

    /// Checks the footer of a Parquet file, on whose damage DataFusion's reader panics.
    #[cfg_attr(
        not(feature = "parquet"),
        allow(clippy::unused_async, unused_variables)
    )]
    async fn check_footer(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        object: &ObjectMeta,
    ) -> Result<()> {
        #[cfg(feature = "parquet")]
        if self.parquet.is_some() {
            check_footers(state, store, std::slice::from_ref(object)).await?;
        }
        Ok(())
    }

    /// Infers the schema of a table of files.
    async fn schema_of(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        // DataFusion leaves out files of 0 bytes.
        if let ([], Some(magic)) = (objects, self.magic()) {
            return plan_err!("the file has 0 bytes, expected {magic} at its end");
        }
        #[cfg(feature = "parquet")]
        if self.parquet.is_some() {
            check_footers(state, store, objects).await?;
        }
        check_headers(self.inner.as_ref(), state, store, objects).await?;
        if let Some(schema) = arrow_schemas::schema_of(self.inner.as_ref(), store, objects).await? {
            return Ok(schema);
        }
        if let Some(arrays) = array_format(self.inner.as_ref(), store, objects).await? {
            // A concurrent call may already have set the same format.
            let _ = self.arrays.set(arrays);
        }
        let format = self.arrays.get().unwrap_or(&self.inner);
        let schema = format.infer_schema(state, store, objects).await?;
        #[cfg(feature = "parquet")]
        if let Some(parquet) = &self.parquet {
            parquet
                .infer_attributes(&schema, state, store, objects)
                .await?;
        }
        Ok(schema)
    }

    /// Returns an error of reading files with the name of the first file that alone causes one.
    async fn named(
        &self,
        error: DataFusionError,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> DataFusionError {
        if names_file(&error) {
            return error;
        }
        let format = self.arrays.get().unwrap_or(&self.inner);
        for object in objects {
            let inferred = format.infer_schema(state, store, from_ref(object)).await;
            if let Err(error) = inferred {
                return match names_file(&error) {
                    true => error,
                    false => invalid_file(&object.location, describe(&error)).into(),
                };
            }
        }
        error
    }

    /// Returns the last bytes of each file, if the format has any.
    fn magic(&self) -> Option<&'static str> {
        match self.inner.get_ext().trim_start_matches('.') {
            PARQUET => Some("\"PAR1\""),
            "arrow" => Some("\"ARROW1\""),
            _ => None,
        }
    }

    /// Returns the format that writes the rows of `input`.
    fn writer(&self, input: &Arc<dyn ExecutionPlan>, conf: &FileSinkConfig) -> Arc<dyn FileFormat> {
        #[cfg(feature = "parquet")]
        if let Some(parquet) = &self.parquet {
            return Arc::new(parquet.writer(input, conf));
        }
        let _ = (input, conf);
        Arc::clone(&self.inner)
    }
}

/// Returns the columns of a table in the Parquet format of a [`RowFormatFactory`].
#[cfg(feature = "parquet")]
pub(in crate::provider) fn parquet_columns(
    format: &Arc<dyn FileFormat>,
) -> Option<&ParquetColumns> {
    format.downcast_ref::<RowFormat>()?.parquet.as_ref()
}

#[async_trait]
impl FileFormat for RowFormat {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        match self.schema_of(state, store, objects).await {
            Ok(schema) => Ok(schema),
            Err(error) => Err(self.named(error, state, store, objects).await),
        }
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.check_footer(state, store, object).await?;
        self.inner
            .infer_stats(state, store, table_schema, object)
            .await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        self.inner
            .infer_ordering(state, store, table_schema, object)
            .await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        self.check_footer(state, store, object).await?;
        self.inner
            .infer_stats_and_ordering(state, store, table_schema, object)
            .await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_physical_plan(state, conf).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        #[cfg(feature = "remote")]
        register_for_copy(state, &conf.original_url, &self.store)?;
        self.check_name(&conf.original_url)?;
        if self.get_ext() == PARQUET {
            check_storable(&conf.output_schema)?;
        }
        let format = self.writer(&input, &conf);
        let paths = CopyPaths::of(&conf)?;
        let conf = FileSinkConfig {
            file_output_mode: match conf.original_url.is_empty() || is_directory(&conf) {
                true => conf.file_output_mode,
                false => FileOutputMode::SingleFile,
            },
            table_paths: match &paths {
                Some(paths) => vec![paths.url()?],
                None => conf.table_paths,
            },
            output_schema: match self.get_ext() == PARQUET {
                true => stored_schema(&conf.output_schema),
                false => Arc::clone(&conf.output_schema),
            },
            ..conf
        };
        let keys = conf.table_partition_cols.iter();
        let partition_keys = keys.map(|(name, _)| name.clone()).collect();
        let writer = format.create_writer_physical_plan(
            Arc::clone(&input),
            state,
            conf,
            order_requirements.clone(),
        );
        let sink = RowSink {
            writer: writer.await?,
            paths,
            is_parquet: self.get_ext() == PARQUET,
            partition_keys,
        };
        sink.inner()?;
        let sink = Arc::new(sink);
        Ok(Arc::new(DataSinkExec::new(input, sink, order_requirements)))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        match self.arrays.get() {
            Some(arrays) => Arc::new(JsonArraySource::new(arrays.file_source(table_schema))),
            None => self.inner.file_source(table_schema),
        }
    }
}
