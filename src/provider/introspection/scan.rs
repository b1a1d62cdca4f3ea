//! Scans of rows that are found out while they are read.

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

/// Rows that are found out while they are read.
pub(super) trait RowSource: Debug + Send + Sync + 'static {
    /// What EXPLAIN calls it: `tet_chunks(temperature)`.
    fn label(&self) -> String;

    /// How many rows there are, if that is known without reading.
    fn count(&self) -> Option<u64>;

    /// Reads some columns of the rows, in their order.
    fn read(self: Arc<Self>, request: Request) -> Batches;
}

/// What is wanted of a [`RowSource`].
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// The columns, as numbers of the table's.
    pub columns: Vec<usize>,
    /// Their schema.
    pub schema: SchemaRef,
    /// Rows of a batch, at most.
    pub batch_size: usize,
    /// The most rows that are wanted.
    pub fetch: u64,
}

/// Rows, some at a time.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// A batch of these columns, of which there may be none.
pub(super) fn batch(
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

/// A scan of a [`RowSource`], in one partition.
#[derive(Debug, Clone)]
pub(super) struct RowScan {
    source: Arc<dyn RowSource>,
    columns: Vec<usize>,
    schema: SchemaRef,
    fetch: Option<usize>,
}

impl RowScan {
    /// A scan of some columns of a table with this schema, or of all.
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

    /// The scan as a plan node.
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
            return internal_err!("partition {partition} of 1 was asked for");
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
        // Unused columns are gone already; expressions are computed above the scan.
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
