//! The scan of `tatami_search`.

use std::collections::BTreeSet;
use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float32Array, RecordBatch, StringArray, UInt64Array};
use arrow::compute::{self, SortOptions, concat, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

#[cfg(feature = "proto")]
use {
    crate::provider::codec::Operator, datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

use crate::format::tatami::search::{Hit, Mode};
use crate::provider::adapters::tatami::rows::RowReader;
use crate::provider::adapters::tatami::search::hits::MergedHits;
use crate::provider::adapters::tatami::table::DocumentTable;
use crate::provider::adapters::tatami::values::compact;
use crate::provider::introspection::scan::batch;
use crate::provider::planning::mask::mask;

/// The number of hits in the first batch if there is no limit. Each further batch has twice as many, so
/// that a query that stops early reads few documents.
const FIRST_HITS: usize = 32;

/// A scan of the documents that a search finds, by descending score. The columns of the filter are read
/// first; the other columns are read only for documents that satisfy the filter.
#[derive(Debug, Clone)]
pub(in crate::provider) struct SearchScan {
    pub(super) name: String,
    pub(super) documents: Vec<Arc<DocumentTable>>,
    /// The value of the column `file` for each file, if the table has this column.
    pub(super) files: Option<Arc<[String]>>,
    /// The columns of the files, then `file` if the table has it, then `score` and `doc`.
    pub(super) table: SchemaRef,
    pub(super) words: String,
    pub(super) mode: Mode,
    /// The output columns, as indices of the table's columns.
    pub(super) projection: Vec<usize>,
    /// The predicate over the table's columns.
    pub(super) filter: Option<Arc<dyn PhysicalExpr>>,
    pub(super) fetch: Option<usize>,
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
}

impl SearchScan {
    pub(super) fn try_new(
        name: String,
        (documents, files): (Vec<Arc<DocumentTable>>, Option<Arc<[String]>>),
        table: SchemaRef,
        (words, mode): (String, Mode),
        projection: Vec<usize>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        fetch: Option<usize>,
    ) -> Result<Self> {
        Ok(Self {
            schema: Arc::new(table.project(&projection)?),
            name,
            documents,
            files,
            table,
            words,
            mode,
            projection,
            filter,
            fetch,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    pub fn into_exec(self) -> Arc<DataSourceExec> {
        DataSourceExec::from_data_source(self)
    }
}

impl DataSource for SearchScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("partition {partition} requested from a scan with 1 partition");
        }
        let largest = context.session_config().batch_size().max(1);
        let mut read = self.projection.clone();
        read.extend(self.filter.iter().flat_map(|filter| {
            let columns = collect_columns(filter);
            columns.into_iter().map(|column| column.index())
        }));
        let tables = self.documents.iter();
        let rows = tables.map(|table| table.blob_batch_rows(&read));
        let largest = rows.min().map_or(largest, |rows| largest.min(rows));
        let first = self.fetch.map_or(FIRST_HITS, |fetch| match self.filter {
            Some(_) => fetch.max(FIRST_HITS),
            None => fetch,
        });
        let filter = match &self.filter {
            Some(filter) => {
                let columns = collect_columns(filter);
                let columns: BTreeSet<usize> = columns.iter().map(Column::index).collect();
                let columns: Vec<usize> = columns.into_iter().collect();
                let schema = Arc::new(self.table.project(&columns)?);
                let filter = reassign_expr_columns(Arc::clone(filter), &schema)?;
                Some(Filter {
                    columns,
                    schema,
                    filter,
                })
            }
            None => None,
        };
        let readers = self.documents.iter().map(|table| table.row_reader());
        let search = Running {
            hits: MergedHits::try_new(&self.documents, &self.words, self.mode, first)?,
            readers: readers.collect(),
            scan: self.clone(),
            filter,
            next: first.clamp(1, largest),
            largest,
            left: self.fetch.unwrap_or(usize::MAX),
            metrics: SearchMetrics::new(&self.metrics, partition),
        };
        let batches = futures::stream::try_unfold(search, |mut search| async move {
            loop {
                match search.batch()? {
                    Some(batch) if batch.num_rows() > 0 => return Ok(Some((batch, search))),
                    // Many hits may not satisfy the filter. Other tasks run in between.
                    Some(_) => tokio::task::yield_now().await,
                    None => return Ok(None),
                }
            }
        });
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let names = self.schema.fields().iter();
        let names: Vec<_> = names.map(|field| field.name().as_str()).collect();
        write!(
            f,
            "tatami={}, search='{}', mode={}, projection=[{}]",
            self.name,
            self.words,
            self.mode,
            names.join(", ")
        )?;
        if let Some(filter) = &self.filter {
            write!(f, ", filter={filter}")?;
        }
        match self.fetch {
            Some(fetch) => write!(f, ", k={fetch}"),
            None => Ok(()),
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(1)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let fields = self.table.fields().len();
        // Within one file, equal scores are ordered by document. Across files, row numbers repeat.
        let mut keys = vec![(fields - 2, true)];
        if self.documents.len() == 1 {
            keys.push((fields - 1, false));
        }
        let mut ordering = Vec::new();
        for (column, descending) in keys {
            let Some(number) = self.projection.iter().position(|other| *other == column) else {
                break;
            };
            let name = self.table.field(column).name();
            ordering.push(PhysicalSortExpr::new(
                Arc::new(Column::new(name, number)),
                SortOptions {
                    descending,
                    nulls_first: descending,
                },
            ));
        }
        EquivalenceProperties::new_with_orderings(Arc::clone(&self.schema), [ordering])
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
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

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        _projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        let (search, filter) = self.encoded()?;
        let filter = context.encode_child(&filter)?;
        Operator::Search(Box::new(search))
            .encode(vec![filter])
            .map(Some)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match &self.filter {
            Some(filter) => f(filter),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }
}

/// The metrics of a search.
///
/// | name | meaning |
/// | --- | --- |
/// | `output_rows` | documents found that satisfy the filter |
/// | `hits` | documents found, before the filter |
/// | `bytes_read` | stored bytes of the pages and blob runs that were read for them |
struct SearchMetrics {
    baseline: BaselineMetrics,
    hits: Count,
    bytes_read: Count,
}

impl SearchMetrics {
    fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(set, partition),
            hits: counter("hits"),
            bytes_read: counter("bytes_read"),
        }
    }
}

/// A search that is running.
struct Running {
    scan: SearchScan,
    hits: MergedHits,
    readers: Vec<RowReader>,
    filter: Option<Filter>,
    /// The number of hits of the next batch.
    next: usize,
    largest: usize,
    /// The number of rows left until the limit is reached.
    left: usize,
    metrics: SearchMetrics,
}

/// A predicate, with the columns that it refers to.
struct Filter {
    columns: Vec<usize>,
    schema: SchemaRef,
    filter: Arc<dyn PhysicalExpr>,
}

impl Running {
    /// Returns the documents of the next hits that satisfy the filter, perhaps none. `None` at the end.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let elapsed = self.metrics.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let mut hits = match self.left {
            0 => return Ok(None),
            _ => self.hits.take(self.next)?,
        };
        if hits.is_empty() {
            return Ok(None);
        }
        self.metrics.hits.add(hits.len());
        self.next = (self.next * 2).min(self.largest);
        // The columns that the filter has read.
        let mut known = Vec::new();
        if let Some(filter) = &self.filter {
            let columns = columns(&mut self.readers, &self.scan, &filter.columns, &hits, &[])?;
            let rows = batch(&filter.schema, columns, hits.len())?;
            let mask = mask(&filter.filter, &rows)?;
            let mut kept = mask.values().iter();
            hits.retain(|_| kept.next() == Some(true));
            hits.truncate(self.left);
            for (column, values) in filter.columns.iter().zip(rows.columns()) {
                let values = compute::filter(values, &mask)?;
                known.push((*column, compact(values.slice(0, hits.len()))));
            }
        }
        hits.truncate(self.left);
        self.left -= hits.len();
        let scan = &self.scan;
        let found = match hits.is_empty() {
            true => RecordBatch::new_empty(Arc::clone(&scan.schema)),
            false => {
                let columns = columns(&mut self.readers, scan, &scan.projection, &hits, &known)?;
                batch(&scan.schema, columns, hits.len())?
            }
        };
        let read: u64 = self.readers.iter().map(RowReader::bytes_read).sum();
        let before = self.metrics.bytes_read.value();
        self.metrics.bytes_read.add(read as usize - before);
        self.metrics.baseline.record_output(found.num_rows());
        Ok(Some(found))
    }
}

/// Returns columns of the table for these hits, in the order of the hits. Reads those that are not `known`.
fn columns(
    readers: &mut [RowReader],
    scan: &SearchScan,
    columns: &[usize],
    hits: &[(usize, Hit)],
    known: &[(usize, ArrayRef)],
) -> Result<Vec<ArrayRef>> {
    // Documents are read in the order of the file, and then put into the order of the hits.
    let mut order: Vec<usize> = (0..hits.len()).collect();
    order.sort_unstable_by_key(|index| (hits[*index].0, hits[*index].1.document));
    let mut indices = vec![0u64; hits.len()];
    for (read, index) in order.iter().enumerate() {
        indices[*index] = read as u64;
    }
    let indices = UInt64Array::from(indices);
    let mut documents: Vec<Vec<u64>> = vec![Vec::new(); readers.len()];
    for index in order {
        let (file, hit) = &hits[index];
        documents[*file].push(hit.document.into());
    }
    let score = scan.table.fields().len() - 2;
    let column = |column: &usize| -> Result<ArrayRef> {
        if let Some((_, values)) = known.iter().find(|(known, _)| known == column) {
            return Ok(Arc::clone(values));
        }
        if *column == score {
            let scores = hits.iter().map(|(_, hit)| hit.score);
            return Ok(Arc::new(Float32Array::from_iter_values(scores)));
        }
        if let Some(files) = &scan.files
            && column + 1 == score
        {
            let files = hits.iter().map(|(file, _)| &files[*file]);
            return Ok(Arc::new(StringArray::from_iter_values(files)));
        }
        if *column > score {
            let documents = hits.iter().map(|(_, hit)| u64::from(hit.document));
            return Ok(Arc::new(UInt64Array::from_iter_values(documents)));
        }
        let mut parts: Vec<ArrayRef> = Vec::new();
        for (number, reader) in readers.iter_mut().enumerate() {
            if !documents[number].is_empty() {
                let column = scan.documents[number].stored_column(*column)?;
                parts.push(reader.read(column, &documents[number])?);
            }
        }
        let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
        Ok(take(&concat(&parts)?, &indices, None)?)
    };
    columns.iter().map(column).collect()
}
