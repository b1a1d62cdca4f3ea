//! `COPY (SELECT ...) TO 'pages.tatami' STORED AS TATAMI`: writes the rows of a query as documents.

mod columns;
mod options;
mod sink;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::datasource::sink::DataSink;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::copy::documents::options::DocumentOptions;
use crate::provider::copy::documents::sink::DocumentSink;
use crate::provider::copy::format::{self, CopyTarget, ParsedTarget};

/// Makes `COPY ... TO` write .tatami files.
pub(in crate::provider) fn format_factory() -> Arc<dyn FileFormatFactory> {
    format::format_factory::<DocumentOptions>()
}

impl ParsedTarget for DocumentOptions {
    const EXTENSION: &'static str = "tatami";

    fn parse(given: &HashMap<String, String>) -> Result<Self> {
        Self::parse(given)
    }
}

impl CopyTarget for DocumentOptions {
    const NOT_LISTED: &'static str = ".tatami files cannot be read as listing tables; use CREATE EXTERNAL TABLE ... \
                                      STORED AS TATAMI, or FROM 'pages.tatami'";
    const COMPRESSED: &'static str =
        "a .tatami file compresses its pages: OPTIONS (compression 'zstd')";
    const PARTITIONED: &'static str = "documents are written as one file, without PARTITIONED BY";

    fn extension(&self) -> String {
        Self::EXTENSION.to_string()
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
