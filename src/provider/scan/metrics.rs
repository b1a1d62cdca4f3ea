//! The metrics of a scan, shown by EXPLAIN ANALYZE and asserted by tests.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time,
};

use crate::provider::planning::pruning::PrunedCounts;
use crate::provider::source::{PruningLabels, ReadCounts};

/// The metrics of one partition of a scan.
///
/// | name | meaning |
/// | --- | --- |
/// | `chunks_total` | chunks of the whole table |
/// | `chunks_pruned_by_slice` | chunks outside the selection, or whose values are not needed |
/// | `chunks_pruned_by_search_index` | of the rest, blocks without the words of `matches` |
/// | `chunks_pruned_by_bounds` | of the rest, blocks ruled out by the bounds of a located column |
/// | `chunks_pruned_by_zone_map` | of the rest, chunks ruled out by a zone map |
/// | `chunks_pruned_by_value_index` | of the rest, chunks ruled out by a bloom filter or an index of values |
/// | `chunks_pruned_by_dynamic_filter` | of the rest, chunks pruned by joins, TopK or subqueries |
/// | `chunks_known_by_zone_map` | of the rest, chunks that zone maps answered for an aggregate |
/// | `chunks_read` | chunks whose values were read |
/// | `bytes_read` | stored bytes of compressed chunks, bytes of the cells taken from raw ones |
/// | `decode_time` | time spent decompressing |
/// | `requests` | requests to object stores for chunks; absent if there were none |
/// | `bytes_fetched` | the bytes that these requests fetched |
/// | `fetch_wait` | time spent waiting for them |
#[derive(Debug, Clone)]
pub(crate) struct ScanMetrics {
    pub baseline: BaselineMetrics,
    set: ExecutionPlanMetricsSet,
    partition: usize,
    chunks_total: Count,
    chunks_pruned_by_slice: Count,
    chunks_pruned_by_zone_map: Count,
    chunks_pruned_by_dynamic_filter: Count,
    chunks_known_by_zone_map: Count,
    chunks_read: Count,
    bytes_read: Count,
    decode_time: Time,
    // Created on first use, since few scans read object stores.
    requests: Arc<OnceLock<Count>>,
    bytes_fetched: Arc<OnceLock<Count>>,
    fetch_wait: Arc<OnceLock<Time>>,
}

impl ScanMetrics {
    pub fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(set, partition),
            chunks_total: counter("chunks_total"),
            chunks_pruned_by_slice: counter("chunks_pruned_by_slice"),
            set: set.clone(),
            partition,
            chunks_pruned_by_zone_map: counter("chunks_pruned_by_zone_map"),
            chunks_pruned_by_dynamic_filter: counter("chunks_pruned_by_dynamic_filter"),
            chunks_known_by_zone_map: counter("chunks_known_by_zone_map"),
            chunks_read: counter("chunks_read"),
            bytes_read: counter("bytes_read"),
            decode_time: MetricBuilder::new(set).subset_time("decode_time", partition),
            requests: Arc::default(),
            bytes_fetched: Arc::default(),
            fetch_wait: Arc::default(),
        }
    }

    /// Sets the metrics that are known before reading. Call it for one partition only, since
    /// DataFusion adds up partitions.
    pub fn set_plan(
        &self,
        total: Option<u64>,
        read: Option<u64>,
        pruned: PrunedCounts,
        labels: PruningLabels,
    ) {
        let [total, read] = [total, read].map(|count| count.unwrap_or(u64::MAX));
        let others = pruned.selected + pruned.bounds + pruned.zone_map + pruned.value_index;
        self.chunks_total.add(total as usize);
        self.chunks_pruned_by_slice
            .add(total.saturating_sub(read).saturating_sub(others) as usize);
        for (label, count) in pruned.labelled(labels) {
            if label == PruningLabels::default().zone_map {
                self.chunks_pruned_by_zone_map.add(count as usize);
            } else if count > 0 {
                // Few sources have such blocks, so metrics that are zero are left out.
                let name = format!("chunks_{label}");
                let counter = MetricBuilder::new(&self.set).counter(name, self.partition);
                counter.add(count as usize);
            }
        }
    }

    /// Counts a chunk that contributes to no aggregate.
    pub fn add_sliced(&self) {
        self.chunks_pruned_by_slice.add(1);
    }

    /// Counts a chunk that was pruned while the scan ran.
    pub fn add_pruned(&self) {
        self.chunks_pruned_by_dynamic_filter.add(1);
    }

    /// Counts a chunk that was answered from statistics.
    pub fn add_known(&self) {
        self.chunks_known_by_zone_map.add(1);
    }

    /// Adds the difference between two counts of a reader.
    pub fn add(&self, before: ReadCounts, after: ReadCounts) {
        self.chunks_read
            .add((after.chunks - before.chunks) as usize);
        self.bytes_read.add((after.bytes - before.bytes) as usize);
        self.decode_time
            .add_duration(after.decode_time - before.decode_time);
        let requests = (after.requests - before.requests) as usize;
        if requests > 0 {
            self.add_count("requests", requests);
            let bytes = after.bytes_fetched - before.bytes_fetched;
            self.add_count("bytes_fetched", bytes as usize);
        }
    }

    /// Adds time spent waiting for object stores.
    pub fn add_wait(&self, waited: Duration) {
        if !waited.is_zero() {
            let wait = self.fetch_wait.get_or_init(|| {
                MetricBuilder::new(&self.set).subset_time("fetch_wait", self.partition)
            });
            wait.add_duration(waited);
        }
    }

    /// Adds to a metric that only scans of object stores have.
    fn add_count(&self, name: &'static str, count: usize) {
        let known = match name {
            "requests" => &self.requests,
            _ => &self.bytes_fetched,
        };
        let counter =
            known.get_or_init(|| MetricBuilder::new(&self.set).counter(name, self.partition));
        counter.add(count);
    }
}
