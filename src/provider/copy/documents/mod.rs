//! `COPY (SELECT ...) TO 'pages.tatami' STORED AS TATAMI`: writes the rows of a query as documents.

mod columns;
mod options;
mod sink;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics, not_impl_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileSinkConfig, FileSource, JsonSource,
};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::copy::documents::options::DocumentOptions;
use crate::provider::copy::documents::sink::DocumentSink;
use crate::provider::copy::format::local_path;

/// The factory that makes `COPY ... TO 'pages.tatami'` work.
#[derive(Debug)]
pub(in crate::provider) struct DocumentFormatFactory;

impl GetExt for DocumentFormatFactory {
    fn get_ext(&self) -> String {
        "tatami".to_string()
    }
}

impl FileFormatFactory for DocumentFormatFactory {
    fn create(
        &self,
        _state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(DocumentFormat(DocumentOptions::parse(
            format_options,
        )?)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(DocumentFormat(DocumentOptions::default()))
    }
}

#[derive(Debug)]
struct DocumentFormat(DocumentOptions);

/// The error for reading a `.tatami` file as a DataFusion listing table.
const NOT_LISTED: &str = ".tatami files cannot be read as listing tables; use CREATE EXTERNAL TABLE ... \
                          STORED AS TATAMI, or FROM 'pages.tatami'";

#[async_trait]
impl FileFormat for DocumentFormat {
    fn get_ext(&self) -> String {
        DocumentFormatFactory.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        match compression.is_compressed() {
            false => Ok(self.get_ext()),
            true => plan_err!("a .tatami file compresses its pages: OPTIONS (compression 'zstd')"),
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
        not_impl_err!("{NOT_LISTED}")
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        _table_schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        not_impl_err!("{NOT_LISTED}")
    }

    async fn create_physical_plan(
        &self,
        _state: &dyn Session,
        _conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("{NOT_LISTED}")
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if conf.insert_op != InsertOp::Append || !conf.table_partition_cols.is_empty() {
            return plan_err!(
                "{}: documents are written as one file, without PARTITIONED BY",
                conf.original_url
            );
        }
        let path = local_path(&conf.original_url)?;
        let sink = DocumentSink::try_new(path, conf.output_schema(), self.0.clone())?;
        // An ORDER BY of the query takes precedence over the order of the sort key.
        let order = order_requirements.or(sink.order());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    /// Returns a placeholder. DataFusion never reads from it, because
    /// [`Self::create_physical_plan`] fails first.
    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(JsonSource::new(table_schema))
    }
}
