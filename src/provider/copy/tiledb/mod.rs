//! `COPY (SELECT ...) TO 'points' STORED AS TILEDB`: writes the rows of a query as a TileDB array, and
//! `INSERT INTO` an array: adds a fragment.
//!
//! ```text
//! rows ──convert──> cells ──spool──> domain known ──> schema ──> sorted cells ──> fragment ──> commit
//! ```
//!
//! The domain of a new array is known only after the last row. Inserted rows need no spool.

mod columns;
mod fills;
mod fragment;
mod insert;
mod layout;
mod options;
mod ordinals;
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

use crate::provider::copy::format::{self, CopyTarget, ParsedTarget};
use crate::provider::copy::tiledb::options::TileDbCopyOptions;
use crate::provider::copy::tiledb::sink::TileDbSink;

pub use insert::insert_into_tiledb;

/// Makes `COPY ... TO` write TileDB arrays.
pub(in crate::provider) fn format_factory() -> Arc<dyn FileFormatFactory> {
    format::format_factory::<TileDbCopyOptions>()
}

impl ParsedTarget for TileDbCopyOptions {
    const EXTENSION: &'static str = "tiledb";

    fn parse(given: &HashMap<String, String>) -> Result<Self> {
        Self::parse(given)
    }
}

impl CopyTarget for TileDbCopyOptions {
    const NOT_LISTED: &'static str = "TileDB arrays cannot be read as listing tables; use CREATE EXTERNAL TABLE ... \
                                      STORED AS TILEDB, or FROM 'points.tiledb'";
    const COMPRESSED: &'static str =
        "a TileDB array compresses its tiles: OPTIONS (filters 'zstd')";
    const PARTITIONED: &'static str =
        "an array is written as one directory, without PARTITIONED BY";

    fn extension(&self) -> String {
        Self::EXTENSION.to_string()
    }

    fn sink(
        &self,
        path: PathBuf,
        schema: &SchemaRef,
        input: &Arc<dyn ExecutionPlan>,
    ) -> Result<(Arc<dyn DataSink>, Option<LexRequirement>)> {
        let sink = TileDbSink::try_new(path, schema, input, self.clone())?;
        Ok((Arc::new(sink), None))
    }
}
