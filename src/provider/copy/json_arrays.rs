//! JSON files that hold one array of objects, instead of an object per line.

use std::io::{Cursor, Read};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

/// The maximum number of bytes at the start of a file that are searched for the first character.
const HEAD: u64 = 4096;

/// Returns the format that reads files as arrays of objects, or `None` if the format is not JSON, or if the files
/// have an object per line.
///
/// # Errors
/// Returns an error if only some of the files hold an array: DataFusion would skip the lines of the others.
pub(super) async fn array_format(
    format: &dyn FileFormat,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<Option<Arc<dyn FileFormat>>> {
    let Some(json) = format.downcast_ref::<JsonFormat>() else {
        return Ok(None);
    };
    let mut arrays = None;
    let mut lines = None;
    for file in files.iter().filter(|file| file.size > 0) {
        let kind = match holds_array(json, store, file).await? {
            true => &mut arrays,
            false => &mut lines,
        };
        kind.get_or_insert(&file.location);
        if let (Some(array), Some(line)) = (arrays, lines) {
            return plan_err!(
                "{array}: the file holds one array, expected an object per line as in {line}; combine such files by \
                 UNION ALL BY NAME"
            );
        }
    }
    if arrays.is_none() && json.is_newline_delimited() {
        return Ok(None);
    }
    let json = JsonFormat::default().with_options(json.options().clone());
    Ok(Some(Arc::new(json.with_newline_delimited(false))))
}

/// Returns `true` if the first character of a file is a bracket.
async fn holds_array(
    format: &JsonFormat,
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
) -> Result<bool> {
    let ranges = [0..file.size.min(HEAD)];
    let heads = store.get_ranges(&file.location, &ranges).await?;
    let Some(head) = heads.into_iter().next() else {
        return Ok(false);
    };
    let compression = FileCompressionType::from(format.options().compression);
    let mut text = Vec::new();
    // Decompression may fail at the end of the head. The text before it is enough.
    let _ = compression
        .convert_read(Cursor::new(head))?
        .take(HEAD)
        .read_to_end(&mut text);
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    Ok(first == Some(&b'['))
}

/// DataFusion's reader of arrays of objects. It never reads a file in several ranges, because DataFusion's reader
/// fails if it is given a range of an array.
pub(super) struct JsonArraySource(Arc<dyn FileSource>);

impl JsonArraySource {
    /// Creates a source of the files that `inner` reads.
    pub fn new(inner: Arc<dyn FileSource>) -> Self {
        Self(inner)
    }
}

impl FileSource for JsonArraySource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.0.create_file_opener(store, base_config, partition)
    }

    fn table_schema(&self) -> &TableSchema {
        self.0.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self(self.0.with_batch_size(batch_size)))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.0.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.0.metrics()
    }

    fn file_type(&self) -> &str {
        self.0.file_type()
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn FileSource>>> {
        let inner = self.0.try_pushdown_projection(projection)?;
        Ok(inner.map(|inner| -> Arc<dyn FileSource> { Arc::new(Self(inner)) }))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }
}
