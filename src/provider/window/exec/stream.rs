//! Runs one partition of an operator: one tile after another.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::source::SharedChunks;
use crate::provider::window::exec::output::TileOutput;
use crate::provider::window::exec::planes::{PlaneReader, PlaneRing};
use crate::provider::window::plan::needs::PlaneNeeds;
use crate::provider::window::plan::spec::{SeriesRank, WindowSpec, width};
use crate::provider::window::plan::tiles::TileJob;

/// Returns the rows of one partition. The stream yields to the scheduler after every bounded amount of
/// work, and after ranking the cells of a tile.
pub(in crate::provider::window) fn rows(
    spec: Arc<WindowSpec>,
    partition: usize,
    context: &TaskContext,
    shared: Option<Arc<SharedChunks>>,
    metrics: ScanMetrics,
) -> Result<SendableRecordBatchStream> {
    let memory = MemoryConsumer::new("ArrayWindow").register(context.memory_pool());
    let schema = Arc::clone(&spec.schema);
    let run = Run {
        reader: PlaneReader::try_new(&spec, context, shared.as_ref())?,
        jobs: spec.tiles.jobs(partition),
        halves: Vec::new(),
        needs: None,
        tile: None,
        rows: None,
        memory,
        batch_size: context.session_config().batch_size().max(1),
        metrics,
        spec,
    };
    let batches = futures::stream::try_unfold(run, |mut run| async move {
        Ok(run.next().await?.map(|batch| (batch, run)))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
}

struct Run {
    spec: Arc<WindowSpec>,
    reader: PlaneReader,
    /// The jobs that were not started yet, by their numbers.
    jobs: Range<usize>,
    /// Jobs with tiles that were cut in half, because memory is short.
    halves: Vec<TileJob>,
    /// The needs of the planes of the last job.
    needs: Option<(Range<usize>, Arc<PlaneNeeds>)>,
    tile: Option<OpenTile>,
    /// Rows that are not output yet.
    rows: Option<RecordBatch>,
    memory: MemoryReservation,
    batch_size: usize,
    metrics: ScanMetrics,
}

/// The tile that is being processed.
struct OpenTile {
    job: TileJob,
    needs: Arc<PlaneNeeds>,
    ring: PlaneRing,
    output: TileOutput,
    /// The next output plane.
    next: usize,
    /// `true` while totals are computed.
    is_totalling: bool,
}

impl OpenTile {
    /// Returns the output planes that can be output now.
    fn ready(&self) -> Range<usize> {
        let first = self.needs.first;
        let left = &self.needs.high[self.next - first..];
        let is_read = |high: &&u32| **high as usize <= self.ring.end();
        let ready = left.iter().take(self.output.planes).take_while(is_read);
        self.next..self.next + ready.count()
    }
}

impl Run {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.rows.take() {
                let count = rows.num_rows().min(self.batch_size);
                if count < rows.num_rows() {
                    self.rows = Some(rows.slice(count, rows.num_rows() - count));
                }
                let batch = rows.slice(0, count);
                return Ok(Some(batch.record_output(&self.metrics.baseline)));
            }
            let Some(tile) = &mut self.tile else {
                if !self.open_tile()? {
                    self.metrics.baseline.done();
                    return Ok(None);
                }
                continue;
            };
            let ready = match tile.is_totalling {
                true => 0..0,
                false => tile.ready(),
            };
            let is_last = ready.end == tile.job.planes.end;
            if !ready.is_empty() && (is_last || ready.len() == tile.output.planes) {
                let elapsed = self.metrics.baseline.elapsed_compute().clone();
                let _timer = elapsed.timer();
                tile.next = ready.end;
                self.rows = Some(tile.output.rows(ready, &tile.ring)?);
                match tile.needs.low.get(tile.next - tile.needs.first) {
                    Some(low) => tile.ring.keep_from(*low as usize),
                    None => self.tile = None,
                }
                continue;
            }
            let before = tile.ring.end();
            let has_more = self.reader.advance(&mut tile.ring).await?;
            let (one, other) = self.reader.take_counts();
            self.metrics.add(one, other);
            if tile.is_totalling {
                let end = tile.ring.end();
                tile.output.add_to_totals(before..end, &tile.ring)?;
                tile.ring.keep_from(end);
                if !has_more {
                    tile.is_totalling = false;
                    start(&mut self.reader, tile);
                }
            } else if !has_more {
                return internal_err!("a window needs planes that were not read");
            }
            tokio::task::yield_now().await;
        }
    }

    /// Opens the next tile. Returns `false` if there is none.
    fn open_tile(&mut self) -> Result<bool> {
        let job = match self.halves.pop() {
            Some(job) => job,
            None => match self.jobs.next() {
                Some(number) => self.spec.tiles.job(number, self.spec.count),
                None => {
                    self.memory.free();
                    return Ok(false);
                }
            },
        };
        let spec = &self.spec;
        let needs = match &self.needs {
            Some((planes, needs)) if *planes == job.planes => Arc::clone(needs),
            _ => {
                let planes = job.planes.clone();
                let (outputs, aggregates) = (&spec.outputs, &spec.aggregates);
                let needs = PlaneNeeds::new(outputs, aggregates, planes, spec.totals_first);
                Arc::new(needs)
            }
        };
        self.needs = Some((job.planes.clone(), Arc::clone(&needs)));
        if let Err(error) = self.memory.try_resize(bytes(spec, &needs, job.tile.lanes)) {
            let Some([one, other]) = spec.tiles.halves(&job) else {
                return Err(error);
            };
            self.halves.extend([other, one]);
            return Ok(true);
        }
        let is_totalling = spec.totals_first;
        let mut tile = OpenTile {
            ring: PlaneRing::new(job.tile.lanes, 0),
            output: TileOutput::try_new(spec, &job.tile, self.batch_size)?,
            next: job.planes.start,
            needs,
            job,
            is_totalling,
        };
        match is_totalling {
            true => self.reader.start(&tile.job.tile, 0..spec.count),
            false => start(&mut self.reader, &mut tile),
        }
        self.tile = Some(tile);
        Ok(true)
    }
}

/// Starts to read the planes that the output planes of a tile need.
fn start(reader: &mut PlaneReader, tile: &mut OpenTile) {
    let planes = tile.needs.all();
    tile.ring = PlaneRing::new(tile.job.tile.lanes, planes.start);
    reader.start(&tile.job.tile, planes);
}

/// Returns the bytes that a tile with this number of series takes, apart from the chunk being read.
fn bytes(spec: &WindowSpec, needs: &PlaneNeeds, lanes: usize) -> usize {
    let per_plane: usize = spec
        .planes
        .iter()
        .map(|plane| width(&plane.data_type))
        .sum();
    let states = spec.aggregates.iter().zip(&needs.states);
    let states: usize = states
        .map(|(aggregate, states)| (states + 2) * aggregate.state_bytes())
        .sum();
    let planes = needs.planes + spec.planes_being_read;
    let ranks = spec.ranks().count() * spec.count * SeriesRank::BYTES;
    let sorted = spec.ranks().map(|rank| rank.block() * rank.longest());
    let sorted = sorted.max().unwrap_or(0) * SeriesRank::SORTED_BYTES;
    lanes
        .saturating_mul(planes * per_plane + states + ranks)
        .saturating_add(sorted)
}
