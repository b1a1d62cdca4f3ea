//! `COPY (SELECT ...) TO 'pages.tatami' STORED AS TATAMI`: writes the rows of a query as documents.

mod columns;
mod options;
mod sink;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::sink::DataSink;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::copy::documents::options::DocumentOptions;
use crate::provider::copy::documents::sink::DocumentSink;
use crate::provider::copy::format::{CopyFormat, CopyTarget};

/// The file name extension.
const EXTENSION: &str = "tatami";

/// The factory that makes `COPY ... TO 'pages.tatami'` work.
#[derive(Debug)]
pub(in crate::provider) struct DocumentFormatFactory;

impl GetExt for DocumentFormatFactory {
    fn get_ext(&self) -> String {
        EXTENSION.to_string()
    }
}

impl FileFormatFactory for DocumentFormatFactory {
    fn create(
        &self,
        _state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let options = DocumentOptions::parse(format_options)?;
        Ok(Arc::new(CopyFormat(options)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CopyFormat(DocumentOptions::default()))
    }
}

impl CopyTarget for DocumentOptions {
    const NOT_LISTED: &'static str = ".tatami files cannot be read as listing tables; use CREATE EXTERNAL TABLE ... \
                                      STORED AS TATAMI, or FROM 'pages.tatami'";
    const COMPRESSED: &'static str =
        "a .tatami file compresses its pages: OPTIONS (compression 'zstd')";
    const PARTITIONED: &'static str = "documents are written as one file, without PARTITIONED BY";

    fn extension(&self) -> String {
        EXTENSION.to_string()
    }

    fn sink(
        &self,
        path: PathBuf,
        schema: &SchemaRef,
        _input: &Arc<dyn ExecutionPlan>,
    ) -> Result<(Arc<dyn DataSink>, Option<LexRequirement>)> {
        let sink = DocumentSink::try_new(path, schema, self.clone())?;
        let order = sink.order();
        Ok((Arc::new(sink), order))
    }
}
