//! Wrappers of DataFusion's row formats (CSV, Parquet, JSON, Arrow) that make `COPY` atomic.
//!
//! DataFusion writes the files of a `COPY` under their final names while rows arrive, so a `COPY`
//! that fails leaves incomplete files behind. These formats write into a temporary directory next
//! to the target, and rename the files once all of them are complete.

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics, internal_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::{
    FileOutputMode, FileScanConfig, FileSinkConfig, FileSource,
};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use url::Url;

use crate::error::Error;
use crate::format::io::target::{self, TemporaryDirectory};
#[cfg(feature = "parquet")]
use crate::provider::parquet::ParquetColumns;
#[cfg(feature = "remote")]
use crate::provider::remote::{StoreOptions, register_for_copy};

/// The file extensions, each with DataFusion's name of the format.
const EXTENSIONS: [(&str, &str); 7] = [
    ("csv", "csv"),
    ("parquet", "parquet"),
    ("arrow", "arrow"),
    ("feather", "arrow"),
    ("json", "json"),
    ("ndjson", "json"),
    ("jsonl", "json"),
];
/// Attempts to delete a directory in which an aborted writer may still create files, and the pause
/// between attempts.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

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
        #[cfg(feature = "remote")]
        let mut others = format_options.clone();
        #[cfg(feature = "remote")]
        let (store, format_options) = (StoreOptions::take(&mut others), &others);
        let format = RowFormat::new(self.format.create(state, format_options)?);
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
            inner,
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
        let schema = self.inner.infer_schema(state, store, objects).await?;
        #[cfg(feature = "parquet")]
        if let Some(parquet) = &self.parquet {
            parquet
                .infer_attributes(&schema, state, store, objects)
                .await?;
        }
        Ok(schema)
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
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
        let format = self.writer(&input, &conf);
        let Some(paths) = CopyPaths::of(&conf)? else {
            return format
                .create_writer_physical_plan(input, state, conf, order_requirements)
                .await;
        };
        let conf = FileSinkConfig {
            table_paths: vec![paths.url()?],
            ..conf
        };
        let writer = format.create_writer_physical_plan(
            Arc::clone(&input),
            state,
            conf,
            order_requirements.clone(),
        );
        let sink = RowSink {
            writer: writer.await?,
            paths,
        };
        sink.inner()?;
        let sink = Arc::new(sink);
        Ok(Arc::new(DataSinkExec::new(input, sink, order_requirements)))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
    }
}

/// The temporary path and the final path of a `COPY`.
#[derive(Debug)]
struct CopyPaths {
    target: PathBuf,
    /// `true` if the target is a directory of files.
    is_folder: bool,
    /// The temporary directory, which exists only while rows are written.
    folder: PathBuf,
}

impl CopyPaths {
    /// Returns the paths of a `COPY` to the local file system, or `None` for any other statement or
    /// store.
    fn of(conf: &FileSinkConfig) -> Result<Option<Self>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let original = conf.original_url.as_str();
        let Some(url) = conf.table_paths.first().filter(|_| !original.is_empty()) else {
            return Ok(None);
        };
        let target = match original.contains("://") {
            false => PathBuf::from(original),
            true if url.scheme() == "file" => match url.get_url().to_file_path() {
                Ok(path) => path,
                Err(()) => return plan_err!("{original}: not a path to a local file"),
            },
            true => return Ok(None),
        };
        let target = std::path::absolute(target).map_err(Error::io(Path::new(original), "find"))?;
        // A trailing slash or a name without an extension means a directory. The URL does not tell:
        // DataFusion truncates a path at the first `*`, `?` or `[`.
        let is_file = match conf.file_output_mode {
            FileOutputMode::Automatic => target.extension().is_some(),
            FileOutputMode::SingleFile => true,
            FileOutputMode::Directory => false,
        };
        let is_folder = target.is_dir() || original.ends_with('/') || !is_file;
        let target = target::resolved(&target).into_owned();
        let mut existing = target.ancestors().skip(1);
        let existing = existing.find(|folder| folder.is_dir());
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let name = format!(
            ".tet-writing-{}-{}-{}.tmp",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed),
            since.map_or(0, |since| since.subsec_nanos())
        );
        Ok(Some(Self {
            folder: existing.unwrap_or(Path::new("/")).join(name),
            target,
            is_folder,
        }))
    }

    /// Returns the path in the temporary directory, which has the target's file name.
    fn written(&self) -> PathBuf {
        self.folder
            .join(self.target.file_name().unwrap_or_default())
    }

    /// Returns the path in the temporary directory as a URL.
    fn url(&self) -> Result<ListingTableUrl> {
        let url = match self.is_folder {
            true => Url::from_directory_path(self.written()),
            false => Url::from_file_path(self.written()),
        };
        match url {
            Ok(url) => ListingTableUrl::parse(url),
            Err(()) => plan_err!("{}: not a path to a local file", self.target.display()),
        }
    }

    /// Moves the complete files to their final paths.
    fn put(&self) -> Result<(), Error> {
        if let Some(parent) = self.target.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io(&self.target, "create"))?;
        }
        let written = self.written();
        if self.is_folder {
            return move_directory(&written, &self.target);
        }
        if !written.exists() {
            // Some formats create no file if there are no rows.
            File::create(&written).map_err(Error::io(&self.target, "create"))?;
        }
        move_file(&written, &self.target)
    }
}

fn move_file(written: &Path, target: &Path) -> Result<(), Error> {
    let file = File::open(written);
    file.and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(written, target))
        .map_err(Error::io(target, "move the finished file into place"))?;
    target::sync_name(target);
    Ok(())
}

fn move_directory(written: &Path, target: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(target).map_err(Error::io(target, "create"))?;
    if !written.exists() {
        return Ok(());
    }
    for entry in written.read_dir().map_err(Error::io(written, "list"))? {
        let path = entry.map_err(Error::io(written, "list"))?.path();
        let target = target.join(path.file_name().unwrap_or_default());
        match path.is_dir() {
            true => move_directory(&path, &target)?,
            false => move_file(&path, &target)?,
        }
    }
    Ok(())
}

/// A sink that writes files into a temporary directory and renames them once they are complete.
struct RowSink {
    /// DataFusion's operator, whose sink writes into the temporary directory.
    writer: Arc<dyn ExecutionPlan>,
    paths: CopyPaths,
}

impl RowSink {
    fn inner(&self) -> Result<&dyn DataSink> {
        match self.writer.downcast_ref::<DataSinkExec>() {
            Some(writer) => Ok(writer.sink()),
            None => internal_err!("{} is not a sink of rows", self.writer.name()),
        }
    }
}

impl Debug for RowSink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowSink")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for RowSink {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        match self.inner() {
            Ok(inner) => inner.fmt_as(t, f),
            Err(_) => write!(f, "RowSink"),
        }
    }
}

#[async_trait]
impl DataSink for RowSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.inner().ok()?.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        match self.inner() {
            Ok(inner) => inner.schema(),
            // Unreachable: `create_writer_physical_plan` has checked `inner`.
            Err(_) => self.writer.properties().eq_properties.schema(),
        }
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let target = &self.paths.target;
        let folder =
            TemporaryDirectoryGuard(Some(target::create_directory(&self.paths.folder, target)?));
        let rows = self.inner()?.write_all(data, context).await?;
        self.paths.put()?;
        folder.remove();
        Ok(rows)
    }
}

/// The temporary directory of a running `COPY`.
///
/// If the `COPY` fails, a thread deletes the directory repeatedly: blocking writes of an aborted
/// task continue for a moment, and may create their file again along with the directory.
struct TemporaryDirectoryGuard(Option<TemporaryDirectory>);

impl TemporaryDirectoryGuard {
    fn remove(mut self) {
        self.0.take();
    }
}

impl Drop for TemporaryDirectoryGuard {
    fn drop(&mut self) {
        let Some(folder) = self.0.take() else {
            return;
        };
        let _ = std::fs::remove_dir_all(folder.path());
        std::thread::spawn(move || {
            for _ in 0..ATTEMPTS {
                std::thread::sleep(PAUSE);
                let _ = std::fs::remove_dir_all(folder.path());
            }
        });
    }
}
