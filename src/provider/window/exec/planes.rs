//! Reads the planes of a tile along the order axis.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;

use crate::grid::{Cells, IndexSet, Selection, Window};
use crate::provider::scan::in_flight::{InFlight, PendingBlock};
use crate::provider::source::{ReadCounts, SharedChunks, WindowReader};
use crate::provider::window::exec::states::Plane;
use crate::provider::window::plan::spec::{MIN_PLANES, WindowSpec};
use crate::provider::window::plan::tiles::Tile;

/// The number of cells that are read at a time, unless a single plane has more.
const MAX_CELLS: u64 = 64 << 10;
/// Consecutive planes, in walking order.
struct PlaneGroup {
    /// The number of the first plane.
    first: usize,
    count: usize,
    /// `true` if the last plane comes first in the arrays.
    is_reversed: bool,
    /// For each plane expression, the cells of all planes.
    arrays: Vec<ArrayRef>,
}

/// The planes of one tile that are in memory.
pub(in crate::provider::window) struct PlaneRing {
    groups: VecDeque<PlaneGroup>,
    lanes: usize,
    /// The end of the planes that were read.
    end: usize,
}

impl PlaneRing {
    /// Creates the ring of a tile with this number of series, before the plane `start`.
    pub fn new(lanes: usize, start: usize) -> Self {
        Self {
            groups: VecDeque::new(),
            lanes,
            end: start,
        }
    }

    /// Returns the end of the planes that were read.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Returns the cells of an expression in a plane, which must be in memory.
    pub fn plane(&self, number: usize, expression: usize) -> Plane<'_> {
        let after = self.groups.partition_point(|group| group.first <= number);
        let group = &self.groups[after - 1];
        let offset = match group.is_reversed {
            true => group.count - 1 - (number - group.first),
            false => number - group.first,
        };
        Plane {
            cells: &group.arrays[expression],
            start: offset * self.lanes,
            lanes: self.lanes,
        }
    }

    /// Drops the planes before this one.
    pub fn keep_from(&mut self, number: usize) {
        let is_before = |group: &PlaneGroup| group.first + group.count <= number;
        while self.groups.front().is_some_and(is_before) {
            self.groups.pop_front();
        }
    }

    fn push(&mut self, group: PlaneGroup) {
        self.end = group.first + group.count;
        self.groups.push_back(group);
    }
}

/// Reads the planes of one tile in walking order, in groups.
pub(in crate::provider::window) struct PlaneReader {
    spec: Arc<WindowSpec>,
    reader: Option<Box<dyn WindowReader>>,
    attributes: Vec<usize>,
    in_flight: InFlight,
    /// The counters of the reader when they were last taken.
    counts: ReadCounts,
    tile: Tile,
    /// The planes that are not read yet.
    left: Range<usize>,
    /// The chunk that is open, and its planes that are not read yet.
    open: Option<(Window, Range<usize>)>,
    /// The next chunk.
    next: Option<(Window, Range<usize>, PendingBlock)>,
    /// For a group with this number of planes, the cells of its planes in the order of reading.
    order: Option<(usize, UInt32Array)>,
}

impl PlaneReader {
    /// Creates a reader.
    pub fn try_new(
        spec: &Arc<WindowSpec>,
        context: &TaskContext,
        shared: Option<&Arc<SharedChunks>>,
    ) -> Result<Self> {
        let attributes = spec.attributes();
        let mut reader = match attributes.is_empty() {
            true => None,
            false => Some(spec.grid.window_reader(&attributes, &spec.options)?),
        };
        if let (Some(reader), Some(shared)) = (&mut reader, shared) {
            reader.share_decoded(shared)?;
        }
        let memory = MemoryConsumer::new("ArrayWindow fetch").register(context.memory_pool());
        Ok(Self {
            spec: Arc::clone(spec),
            reader,
            attributes,
            in_flight: InFlight::new(memory),
            counts: ReadCounts::default(),
            tile: Tile {
                ranges: Vec::new(),
                lanes: 0,
            },
            left: 0..0,
            open: None,
            next: None,
            order: None,
        })
    }

    /// Starts to read these planes of a tile.
    pub fn start(&mut self, tile: &Tile, planes: Range<usize>) {
        self.tile = tile.clone();
        self.left = planes;
        self.open = None;
        if let Some((_, _, pending)) = self.next.take() {
            self.in_flight.cancel(pending);
        }
        self.order = None;
    }

    /// Returns the counters before and after what was read since the last call.
    pub fn take_counts(&mut self) -> (ReadCounts, ReadCounts) {
        let counts = self.reader.iter().map(|reader| reader.counts()).sum();
        (std::mem::replace(&mut self.counts, counts), counts)
    }

    /// Does a bounded amount of work. Returns `false` if all planes were read.
    pub async fn advance(&mut self, ring: &mut PlaneRing) -> Result<bool> {
        let Some((window, planes)) = &mut self.open else {
            return self.open_next().await;
        };
        if let Some(reader) = &mut self.reader
            && !reader.advance()?
        {
            return Ok(true);
        }
        let most = most_planes(&self.spec, &self.tile, window);
        let group = planes.start..planes.end.min(planes.start + most);
        planes.start = group.end;
        let window = window.clone();
        if planes.start == planes.end {
            self.open = None;
        }
        let arrays = self.read(&window, group.clone())?;
        ring.push(PlaneGroup {
            first: group.start,
            count: group.len(),
            is_reversed: self.spec.is_descending,
            arrays,
        });
        Ok(true)
    }

    /// Opens the next chunk, and starts to fetch the one after it.
    async fn open_next(&mut self) -> Result<bool> {
        self.in_flight.release();
        let next = match self.next.take() {
            Some(next) => Some(next),
            None => self.take_next()?,
        };
        let Some((window, planes, pending)) = next else {
            return Ok(false);
        };
        self.next = self.take_next()?;
        let fetched = self.in_flight.arrive(pending).await?;
        if let Some(reader) = &mut self.reader {
            reader.open(&window, fetched)?;
            let cells = Cells::new(&window, &self.spec.selection);
            if cells.cover_most_of(&window) {
                reader.read_ahead();
            }
        }
        self.open = Some((window, planes));
        Ok(true)
    }

    /// Returns the next chunk along the order axis, its planes, and its fetch.
    fn take_next(&mut self) -> Result<Option<(Window, Range<usize>, PendingBlock)>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let spec = &self.spec;
        let set = &spec.selection.axes()[spec.axis];
        let Some(index) = set.nth(spec.rank(self.left.start)) else {
            return internal_err!("plane {} is not selected", self.left.start);
        };
        let chunks = spec.grid.chunk_grid().axis(spec.axis);
        let mut range = chunks.range(chunks.chunk_at(index));
        let ranks = set.rank(range.start)..set.rank(range.end);
        let mut planes = match spec.is_descending {
            false => ranks.start as usize..ranks.end as usize,
            true => spec.count - ranks.end as usize..spec.count - ranks.start as usize,
        };
        planes = planes.start.max(self.left.start)..planes.end.min(self.left.end);
        self.left.start = planes.end;
        let mut ranges = self.tile.ranges.clone();
        if let Some(part) = self.part(&range, &planes) {
            range = part;
        }
        ranges[spec.axis] = range;
        let window = Window::new(ranges);
        let fetch = match self.attributes.is_empty() {
            true => None,
            false => spec.grid.fetch(&window, &self.attributes, &spec.options),
        };
        let pending = self.in_flight.start(fetch)?;
        Ok(Some((window, planes, pending)))
    }

    /// Returns the indices of the planes, if they are less than half of the chunk.
    fn part(&self, chunk: &Range<u64>, planes: &Range<usize>) -> Option<Range<u64>> {
        let set = &self.spec.selection.axes()[self.spec.axis];
        let (one, other) = (
            set.nth(self.spec.rank(planes.start))?,
            set.nth(self.spec.rank(planes.end - 1))?,
        );
        let part = one.min(other)..one.max(other) + 1;
        ((part.end - part.start) * 2 < chunk.end - chunk.start).then_some(part)
    }

    /// Reads the cells of a group of planes and evaluates the expressions.
    fn read(&mut self, window: &Window, group: Range<usize>) -> Result<Vec<ArrayRef>> {
        let spec = Arc::clone(&self.spec);
        if spec.planes.is_empty() {
            return Ok(Vec::new());
        }
        let cells = Cells::new(window, &self.selected(&group));
        let mut attributes = Vec::new();
        if let Some(reader) = &mut self.reader {
            let mut runs = Vec::new();
            cells.runs(0..cells.rows(), &mut runs);
            attributes = reader.read(&runs)?;
        }
        let mut attributes = attributes.into_iter();
        let mut columns = Vec::with_capacity(spec.columns.len());
        for column in &spec.columns {
            columns.push(match spec.grid.axes().get(*column) {
                Some(axis) => cells.coordinates(*column, axis.coordinates()?, 0..cells.rows())?,
                None => match attributes.next() {
                    Some(values) => values,
                    None => return internal_err!("a window reader gave too few attributes"),
                },
            });
        }
        let rows = cells.rows() as usize;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&spec.read_schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let mut arrays = Vec::with_capacity(spec.planes.len());
        for plane in &spec.planes {
            let values = plane.expr.evaluate(&batch)?.into_array(rows)?;
            arrays.push(match self.order_of(window, group.len())? {
                Some(order) => take(&values, order, None)?,
                None => values,
            });
        }
        Ok(arrays)
    }

    /// Returns the selection, with only the planes of a group along the order axis.
    fn selected(&self, group: &Range<usize>) -> Selection {
        let spec = &self.spec;
        let mut sets = spec.selection.axes().to_vec();
        let (one, other) = (spec.rank(group.start), spec.rank(group.end - 1));
        let set = &sets[spec.axis];
        let ranks = one.min(other)..one.max(other) + 1;
        sets[spec.axis] = IndexSet::from_ranges(set.length(), set.ranges_of_ranks(ranks));
        Selection::new(sets)
    }

    /// Returns the row of each cell, plane by plane; `None` if the rows are in that order.
    fn order_of(&mut self, window: &Window, planes: usize) -> Result<Option<&UInt32Array>> {
        let inner = inner_lanes(&self.spec, window);
        let outer = self.tile.lanes / inner.max(1);
        if outer <= 1 || planes == 1 {
            return Ok(None);
        }
        if self
            .order
            .as_ref()
            .is_none_or(|(known, _)| *known != planes)
        {
            if u32::try_from(outer * inner * planes).is_err() {
                return internal_err!("a group of planes has 2^32 cells or more");
            }
            let mut rows = Vec::with_capacity(outer * inner * planes);
            for plane in 0..planes {
                for line in 0..outer {
                    let start = ((line * planes + plane) * inner) as u32;
                    rows.extend(start..start + inner as u32);
                }
            }
            self.order = Some((planes, rows.into()));
        }
        Ok(self.order.as_ref().map(|(_, rows)| rows))
    }
}

/// Returns the product of the numbers of selected indices along the axes after the order axis.
fn inner_lanes(spec: &WindowSpec, window: &Window) -> usize {
    let ranges = window.ranges().iter().zip(spec.selection.axes());
    let counts = ranges.skip(spec.axis + 1);
    let counts = counts.map(|(range, set)| set.rank(range.end) - set.rank(range.start));
    counts.product::<u64>() as usize
}

/// Returns the maximum number of planes of a tile that are read at a time.
fn most_planes(spec: &WindowSpec, tile: &Tile, window: &Window) -> usize {
    let lanes = tile.lanes.max(1) as u64;
    let is_scattered = inner_lanes(spec, window) < tile.lanes;
    let least = if is_scattered { MIN_PLANES } else { 1 };
    (MAX_CELLS / lanes).max(least) as usize
}
