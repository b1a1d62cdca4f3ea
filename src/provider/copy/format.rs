//! The formats of this crate as DataFusion file formats: `COPY ... STORED AS TET`, or `COPY` to a path that
//! ends in `.tet`, and likewise for the others.

use std::collections::HashMap;
use std::fmt::Debug;
#[cfg(any(feature = "tatami", feature = "tiledb"))]
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics, not_impl_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileSinkConfig, FileSource, JsonSource,
};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;

#[cfg(feature = "remote")]
use crate::format::io::remote::is_url;
use crate::provider::adapters::create::CreateArrays;
#[cfg(feature = "cli")]
use crate::provider::adapters::file_kind::FileKind;
use crate::provider::adapters::registry::Format;
use crate::provider::copy::arrays::sink::ArraySink;
use crate::provider::copy::options::CopyOptions;
#[cfg(feature = "remote")]
use crate::provider::copy::upload::Upload;
#[cfg(feature = "remote")]
use crate::provider::remote::{StoreOptions, register_for_copy};

/// A factory that makes `COPY ... TO 'file.tet'` work, with or without `STORED AS TET`, and
/// likewise for other formats. [`enable_arrays`](crate::enable_arrays) registers one for each name of
/// the formats in the session's registry.
#[derive(Debug, Clone)]
pub struct ArrayFormatFactory(ArrayTarget);

impl ArrayFormatFactory {
    /// Returns a factory for each keyword and each file name extension of a format. There are none
    /// if rows cannot be written to the format.
    pub fn of(format: &dyn Format) -> Vec<Self> {
        let Some(creator) = format.creator().filter(|creator| creator.keeps_metadata()) else {
            return Vec::new();
        };
        let keywords = format
            .keywords()
            .iter()
            .map(|keyword| keyword.to_lowercase());
        // COPY looks up the part of a file name after its last dot.
        let extensions = format
            .extensions()
            .iter()
            .filter(|name| !name.contains('.'));
        let extensions = extensions.map(ToString::to_string);
        let mut names: Vec<String> = keywords.chain(extensions).collect();
        names.sort();
        names.dedup();
        let factories = names.into_iter().map(|name| {
            Self(ArrayTarget {
                name,
                creator: Arc::clone(&creator),
                options: CopyOptions::default(),
            })
        });
        factories.collect()
    }

    /// Returns a factory with other default options, or `None` if rows cannot be written to this
    /// format.
    #[cfg(feature = "cli")]
    pub(in crate::provider) fn with_options(kind: FileKind, options: CopyOptions) -> Option<Self> {
        let creator = kind.creator().filter(|creator| creator.keeps_metadata())?;
        Some(Self(ArrayTarget {
            name: kind.stored_as().to_lowercase(),
            creator,
            options,
        }))
    }
}

impl GetExt for ArrayFormatFactory {
    fn get_ext(&self) -> String {
        self.0.name.clone()
    }
}

impl FileFormatFactory for ArrayFormatFactory {
    fn create(
        &self,
        _state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        CopyFormat::parse(format_options, |given| {
            let mut target = self.0.clone();
            let creator = target.creator.as_ref();
            target.options = target.options.parse(given, &target.name, creator)?;
            Ok(target)
        })
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CopyFormat::new(self.0.clone()))
    }
}

/// A format that `COPY` writes to one local file or directory.
pub(super) trait CopyTarget: Debug + Send + Sync + 'static {
    /// The error for reading a file as a DataFusion listing table.
    const NOT_LISTED: &'static str;
    /// The error for the compression of a whole file.
    const COMPRESSED: &'static str;
    /// The error for PARTITIONED BY, without the path.
    const PARTITIONED: &'static str;

    /// The file name extension.
    fn extension(&self) -> String;

    /// Creates the sink for the rows of `input`, whose columns are those of `schema`, and the order in
    /// which the rows have to arrive.
    fn sink(
        &self,
        path: PathBuf,
        schema: &SchemaRef,
        input: &Arc<dyn ExecutionPlan>,
    ) -> Result<(Arc<dyn DataSink>, Option<LexRequirement>)>;
}

/// A [`CopyTarget`] whose options are all given by the statement.
#[cfg(any(feature = "tatami", feature = "tiledb"))]
pub(super) trait ParsedTarget: CopyTarget + Default {
    /// The file name extension, which is also the keyword after `STORED AS`.
    const EXTENSION: &'static str;

    /// Parses the options of a statement.
    fn parse(given: &HashMap<String, String>) -> Result<Self>;
}

/// Returns the factory that makes `COPY ... TO` work for a target.
#[cfg(any(feature = "tatami", feature = "tiledb"))]
pub(super) fn format_factory<T: ParsedTarget>() -> Arc<dyn FileFormatFactory> {
    Arc::new(CopyFormatFactory::<T>(PhantomData))
}

#[cfg(any(feature = "tatami", feature = "tiledb"))]
#[derive(Debug)]
struct CopyFormatFactory<T>(PhantomData<T>);

#[cfg(any(feature = "tatami", feature = "tiledb"))]
impl<T: ParsedTarget> GetExt for CopyFormatFactory<T> {
    fn get_ext(&self) -> String {
        T::EXTENSION.to_string()
    }
}

#[cfg(any(feature = "tatami", feature = "tiledb"))]
impl<T: ParsedTarget> FileFormatFactory for CopyFormatFactory<T> {
    fn create(
        &self,
        _state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        CopyFormat::parse(format_options, T::parse)
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CopyFormat::new(T::default()))
    }
}

/// A [`CopyTarget`] as DataFusion's file format.
#[derive(Debug)]
struct CopyFormat<T> {
    target: T,
    /// The options of the statement that describe the store of its location.
    #[cfg(feature = "remote")]
    store: StoreOptions,
}

impl<T: CopyTarget> CopyFormat<T> {
    fn new(target: T) -> Self {
        Self {
            target,
            #[cfg(feature = "remote")]
            store: StoreOptions::default(),
        }
    }

    /// Creates the format for the options of a statement. `parse` parses those that do not concern the
    /// store.
    fn parse(
        given: &HashMap<String, String>,
        parse: impl FnOnce(&HashMap<String, String>) -> Result<T>,
    ) -> Result<Arc<dyn FileFormat>> {
        #[cfg(feature = "remote")]
        {
            let mut given = given.clone();
            let store = StoreOptions::take(&mut given);
            let target = parse(&given)?;
            Ok(Arc::new(Self { target, store }))
        }
        #[cfg(not(feature = "remote"))]
        Ok(Arc::new(Self::new(parse(given)?)))
    }
}

/// Arrays of one format.
#[derive(Debug, Clone)]
struct ArrayTarget {
    /// The keyword or the file name extension of the format, in lower case.
    name: String,
    creator: Arc<dyn CreateArrays>,
    /// The options that apply unless a statement overrides them.
    options: CopyOptions,
}

impl CopyTarget for ArrayTarget {
    const NOT_LISTED: &'static str = "array files cannot be read as listing tables; use CREATE EXTERNAL TABLE ... \
                                      STORED AS TET, or FROM 'file.tet'";
    const COMPRESSED: &'static str = "arrays compress their chunks: OPTIONS (compression 'zstd')";
    const PARTITIONED: &'static str = "an array is written as one file, without PARTITIONED BY";

    fn extension(&self) -> String {
        self.name.clone()
    }

    fn sink(
        &self,
        path: PathBuf,
        schema: &SchemaRef,
        input: &Arc<dyn ExecutionPlan>,
    ) -> Result<(Arc<dyn DataSink>, Option<LexRequirement>)> {
        let (creator, options) = (Arc::clone(&self.creator), self.options.clone());
        let sink = ArraySink::try_new(creator, path, Arc::clone(schema), input, options)?;
        Ok((Arc::new(sink), None))
    }
}

#[async_trait]
impl<T: CopyTarget> FileFormat for CopyFormat<T> {
    fn get_ext(&self) -> String {
        self.target.extension()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        match compression.is_compressed() {
            false => Ok(self.get_ext()),
            true => plan_err!("{}", T::COMPRESSED),
        }
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        _objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        not_impl_err!("{}", T::NOT_LISTED)
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        _table_schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        not_impl_err!("{}", T::NOT_LISTED)
    }

    async fn create_physical_plan(
        &self,
        _state: &dyn Session,
        _conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("{}", T::NOT_LISTED)
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if conf.insert_op != InsertOp::Append || !conf.table_partition_cols.is_empty() {
            return plan_err!("{}: {}", conf.original_url, T::PARTITIONED);
        }
        #[cfg(feature = "remote")]
        register_for_copy(state, &conf.original_url, &self.store)?;
        #[cfg(feature = "remote")]
        let upload = is_url(&conf.original_url)
            .then(|| Upload::try_new(&conf.original_url, state.config()))
            .transpose()?;
        #[cfg(feature = "remote")]
        let written = upload.as_ref().map(|upload| upload.written().to_path_buf());
        #[cfg(not(feature = "remote"))]
        let (written, _) = (None, state);
        let path = written.map_or_else(|| local_path(&conf.original_url), Ok)?;
        let (sink, order) = self.target.sink(path, conf.output_schema(), &input)?;
        #[cfg(feature = "remote")]
        let sink = match upload {
            Some(upload) => upload.after(sink),
            None => sink,
        };
        // `order_requirements` is only the order that the input happens to have.
        let order = order.or(order_requirements);
        Ok(Arc::new(DataSinkExec::new(input, sink, order)))
    }

    /// Returns a placeholder. DataFusion never reads from it, because
    /// [`Self::create_physical_plan`] fails first.
    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(JsonSource::new(table_schema))
    }
}

/// Converts the location of a `COPY` to a local path.
fn local_path(location: &str) -> Result<PathBuf> {
    if !location.contains("://") {
        return Ok(PathBuf::from(location));
    }
    let url = ListingTableUrl::parse(location)?;
    match url.get_url().to_file_path() {
        Ok(path) if url.scheme() == "file" => Ok(path),
        _ => plan_err!("{location}: arrays are written to local paths"),
    }
}
