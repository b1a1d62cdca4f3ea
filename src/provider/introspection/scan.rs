//! Scans whose rows are computed while they are read.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
#[cfg(feature = "proto")]
use {
    datafusion::common::not_impl_err, datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

/// Rows that are computed while they are read.
pub(in crate::provider) trait RowSource: Debug + Send + Sync + 'static {
    /// The name in EXPLAIN: `tet_chunks(temperature)`.
    fn label(&self) -> String;

    /// The number of rows, if known without reading.
    fn count(&self) -> Option<u64>;

    /// Reads the requested columns of the rows, in row order.
    fn read(self: Arc<Self>, request: Request) -> Batches;
}

/// The columns and rows to read from a [`RowSource`].
#[derive(Debug, Clone)]
pub(in crate::provider) struct Request {
    /// Indices into the columns of the table.
    pub columns: Vec<usize>,
    /// The schema of these columns.
    pub schema: SchemaRef,
    /// Maximum number of rows per batch.
    pub batch_size: usize,
    /// Maximum number of rows in all batches.
    pub fetch: u64,
}

/// An iterator over batches, which computes each batch on demand.
pub(in crate::provider) type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Builds a batch from columns. The row count is explicit because `columns` may be empty.
pub(in crate::provider) fn batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

/// A scan of a [`RowSource`] in a single partition.
#[derive(Debug, Clone)]
pub(in crate::provider) struct RowScan {
    source: Arc<dyn RowSource>,
    columns: Vec<usize>,
    schema: SchemaRef,
    fetch: Option<usize>,
}

impl RowScan {
    /// Creates a scan of a table with this schema. Without a projection, the scan returns all
    /// columns.
    pub fn try_new(
        source: Arc<dyn RowSource>,
        table: &SchemaRef,
        projection: Option<&Vec<usize>>,
        fetch: Option<usize>,
    ) -> Result<Self> {
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => (0..table.fields().len()).collect(),
        };
        Ok(Self {
            schema: Arc::new(table.project(&columns)?),
            source,
            columns,
            fetch,
        })
    }

    /// Wraps the scan in a plan node.
    pub fn into_exec(self) -> Arc<DataSourceExec> {
        DataSourceExec::from_data_source(self)
    }
}

impl DataSource for RowScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("partition {partition} requested from a scan with 1 partition");
        }
        let batches = Arc::clone(&self.source).read(Request {
            columns: self.columns.clone(),
            schema: Arc::clone(&self.schema),
            batch_size: context.session_config().batch_size().max(1),
            fetch: self.fetch.map_or(u64::MAX, |fetch| fetch as u64),
        });
        let schema = Arc::clone(&self.schema);
        let batches = stream::iter(batches);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let names = self.schema.fields().iter();
        let names: Vec<_> = names.map(|field| field.name().as_str()).collect();
        write!(f, "{}, columns=[{}]", self.source.label(), names.join(", "))?;
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(1)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let rows = self
            .source
            .count()
            .and_then(|rows| usize::try_from(rows).ok());
        if let Some(rows) = rows {
            let rows = self.fetch.map_or(rows, |fetch| rows.min(fetch));
            statistics.num_rows = Precision::Exact(rows);
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self {
            fetch: limit,
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_swapping_with_projection(
        &self,
        _projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        // The source already computes only the requested columns, and expressions run above the
        // scan.
        Ok(None)
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        _context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        not_impl_err!(
            "{} cannot be encoded: it lists the session itself",
            self.source.label()
        )
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
