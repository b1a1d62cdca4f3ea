//! Builds the rows of output planes.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::builder::NullBufferBuilder;
use arrow::array::{
    Array, ArrayRef, AsArray, MutableArrayData, PrimitiveArray, RecordBatch, RecordBatchOptions,
    UInt32Array, downcast_integer, downcast_temporal, make_array,
};
use arrow::compute::{concat, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float32Type, Float64Type, Int64Type, TimeUnit,
    UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};

use crate::grid::{Cells, IndexSet, Selection, Window};
use crate::provider::window::exec::extremes::{Extremes, Keyed};
use crate::provider::window::exec::planes::PlaneRing;
use crate::provider::window::exec::ranks::Ranks;
use crate::provider::window::exec::sliding::Sliding;
use crate::provider::window::exec::states::{
    CellCounts, Moments, SeriesState, Sums, append_counts,
};
use crate::provider::window::plan::spec::{
    OutputColumn, SeriesAggregate, SeriesFunction, WindowSpec,
};
use crate::provider::window::plan::tiles::Tile;

/// An aggregate of the series of one tile.
trait SeriesKernel: Send {
    /// Appends the values of a plane.
    fn append(&mut self, index: usize, ring: &PlaneRing) -> Result<()>;

    /// Adds a plane to the total over all planes.
    fn add_to_total(&mut self, number: usize, ring: &PlaneRing) -> Result<()>;

    /// Returns the values that were appended since the last call.
    fn finish(&mut self) -> ArrayRef;
}

/// Appends the results of a pair of states.
type Append<S, N> = Box<dyn Fn(&S, &S, &mut Vec<N>, &mut NullBufferBuilder) + Send>;

/// Computes an aggregate with one kind of state, whose results are of one type.
struct Kernel<S, T: ArrowPrimitiveType> {
    sliding: Sliding<S>,
    append: Append<S, T::Native>,
    /// The result over an empty frame; null if `None`.
    of_nothing: Option<T::Native>,
    lanes: usize,
    /// The type of the results, with the time zone of times.
    data_type: DataType,
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<S: SeriesState, T: ArrowPrimitiveType> SeriesKernel for Kernel<S, T> {
    fn append(&mut self, index: usize, ring: &PlaneRing) -> Result<()> {
        match self.sliding.at(index, ring)? {
            Some((one, other)) => (self.append)(one, other, &mut self.values, &mut self.nulls),
            None => {
                let value = self.of_nothing.unwrap_or_default();
                self.values.resize(self.values.len() + self.lanes, value);
                match self.of_nothing {
                    Some(_) => self.nulls.append_n_non_nulls(self.lanes),
                    None => self.nulls.append_n_nulls(self.lanes),
                }
            }
        }
        Ok(())
    }

    fn add_to_total(&mut self, number: usize, ring: &PlaneRing) -> Result<()> {
        self.sliding.add_to_total(number, ring)
    }

    fn finish(&mut self) -> ArrayRef {
        let values = std::mem::take(&mut self.values);
        let values = PrimitiveArray::<T>::new(values.into(), self.nulls.finish());
        Arc::new(values.with_data_type(self.data_type.clone()))
    }
}

/// Appends a validity bit per series: valid if the series has a cell.
fn append_validity(
    counts: (&CellCounts, &CellCounts),
    each: impl FnOnce(&mut dyn FnMut(usize, u32)),
    lanes: usize,
    nulls: &mut NullBufferBuilder,
) {
    match counts.0.without_nulls(counts.1) {
        Some(0) => nulls.append_n_nulls(lanes),
        Some(_) => nulls.append_n_non_nulls(lanes),
        None => each(&mut |_, count| nulls.append(count > 0)),
    }
}

/// Creates the kernel of an aggregate. `data_type` is the type of the cells.
fn kernel(
    aggregate: &SeriesAggregate,
    data_type: &DataType,
    lanes: usize,
) -> Result<Box<dyn SeriesKernel>> {
    fn new<S: SeriesState + 'static, T: ArrowPrimitiveType>(
        aggregate: &SeriesAggregate,
        lanes: usize,
        data_type: DataType,
        of_nothing: Option<T::Native>,
        append: impl Fn(&S, &S, &mut Vec<T::Native>, &mut NullBufferBuilder) + Send + 'static,
    ) -> Box<dyn SeriesKernel> {
        Box::new(Kernel::<S, T> {
            sliding: Sliding::new(aggregate.plane, lanes, Arc::clone(&aggregate.frames)),
            append: Box::new(append),
            of_nothing,
            lanes,
            data_type,
            values: Vec::new(),
            nulls: NullBufferBuilder::new(0),
        })
    }

    macro_rules! sum {
        ($number:ty, $result:ty, $append:expr) => {
            new::<Sums<$number>, $result>(
                aggregate,
                lanes,
                <$result>::DATA_TYPE,
                None,
                move |one, other, to, nulls| {
                    let append: fn(&Sums<$number>, &Sums<$number>, &mut Vec<_>) = $append;
                    append(one, other, to);
                    let counts = (&one.counts, &other.counts);
                    append_validity(counts, |visit| one.each_count(other, visit), lanes, nulls);
                },
            )
        };
    }

    fn extreme<T: ArrowPrimitiveType, const IS_MAX: bool>(
        aggregate: &SeriesAggregate,
        data_type: &DataType,
        lanes: usize,
    ) -> Box<dyn SeriesKernel>
    where
        T::Native: Keyed,
    {
        new::<Extremes<T, IS_MAX>, T>(
            aggregate,
            lanes,
            data_type.clone(),
            None,
            move |one, other, to, nulls| {
                one.append(other, to);
                let counts = (one.counts(), other.counts());
                append_validity(counts, |visit| one.each_count(other, visit), lanes, nulls);
            },
        )
    }

    fn extreme_of<const IS_MAX: bool>(
        aggregate: &SeriesAggregate,
        data_type: &DataType,
        lanes: usize,
    ) -> Result<Box<dyn SeriesKernel>> {
        macro_rules! of {
            ($type:ty) => {
                extreme::<$type, IS_MAX>(aggregate, data_type, lanes)
            };
        }
        Ok(downcast_integer! {
            data_type => (of),
            DataType::Float32 => of!(Float32Type),
            DataType::Float64 => of!(Float64Type),
            DataType::Duration(TimeUnit::Second) => of!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => of!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => of!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => of!(DurationNanosecondType),
            other => downcast_temporal! {
                other => (of),
                other => return internal_err!("a window over an axis has no extreme of {other}"),
            },
        })
    }

    Ok(match aggregate.function {
        SeriesFunction::Count => new::<CellCounts, Int64Type>(
            aggregate,
            lanes,
            DataType::Int64,
            Some(0),
            move |one, other, to, nulls| {
                append_counts(one, other, lanes, to);
                nulls.append_n_non_nulls(lanes);
            },
        ),
        SeriesFunction::FloatSum => {
            sum!(f64, Float64Type, |one, other, to| one.append_sums(
                other,
                to,
                |sum| sum
            ))
        }
        SeriesFunction::IntegerSum => {
            sum!(i64, Int64Type, |one, other, to| one.append_sums(
                other,
                to,
                |sum| sum
            ))
        }
        SeriesFunction::UnsignedSum => {
            sum!(i64, UInt64Type, |one, other, to| one.append_sums(
                other,
                to,
                |sum| sum as u64
            ))
        }
        SeriesFunction::Mean => {
            sum!(f64, Float64Type, |one, other, to| one
                .append_means(other, to))
        }
        SeriesFunction::Min => extreme_of::<false>(aggregate, data_type, lanes)?,
        SeriesFunction::Max => extreme_of::<true>(aggregate, data_type, lanes)?,
        SeriesFunction::Deviation { is_sample, is_root } => new::<Moments, Float64Type>(
            aggregate,
            lanes,
            DataType::Float64,
            None,
            move |one, other, to, nulls| {
                one.each(other, |count, squares| {
                    let least = 1 + u32::from(is_sample);
                    let variance = squares / f64::from(count.max(least) - least + 1);
                    to.push(if is_root { variance.sqrt() } else { variance });
                    nulls.append(count >= least);
                });
            },
        ),
    })
}

/// The cells that a column takes from another plane.
#[derive(Clone)]
struct Picked {
    plane: Option<u32>,
    cells: ArrayRef,
    start: usize,
}

/// Builds the output of one tile, plane by plane in walking order.
pub(in crate::provider::window) struct TileOutput {
    spec: Arc<WindowSpec>,
    tile: Tile,
    /// The number of planes that are output together.
    pub planes: usize,
    kernels: Vec<Box<dyn SeriesKernel>>,
    /// For each aggregate, `true` if all of its frames are the same.
    totals: Vec<bool>,
    /// For each output column, the cells that it took last.
    picked: Vec<Option<Picked>>,
    /// For each output column, its ranks.
    ranks: Vec<Option<Ranks>>,
    /// For each output column, the coordinates of `planes` planes, if the column is an axis other than
    /// the order axis.
    coordinates: Vec<Option<ArrayRef>>,
    /// For each row of `planes` planes, the plane.
    repeat: UInt32Array,
}

impl TileOutput {
    /// Creates the output of a tile.
    pub fn try_new(spec: &Arc<WindowSpec>, tile: &Tile, batch_size: usize) -> Result<Self> {
        let lanes = tile.lanes;
        let planes = (batch_size / lanes.max(1)).clamp(1, spec.count.max(1));
        let kernels = spec
            .aggregates
            .iter()
            .map(|aggregate| kernel(aggregate, &spec.planes[aggregate.plane].data_type, lanes));
        let totals = spec.aggregates.iter().map(SeriesAggregate::is_total);
        let mut coordinates = Vec::with_capacity(spec.outputs.len());
        for output in &spec.outputs {
            coordinates.push(match output {
                OutputColumn::Axis(axis) if *axis != spec.axis => {
                    let one = lane_coordinates(spec, tile, *axis)?;
                    let all: Vec<&dyn Array> = vec![one.as_ref(); planes];
                    Some(if planes == 1 { one } else { concat(&all)? })
                }
                _ => None,
            });
        }
        let ranks = spec.outputs.iter().map(|output| match output {
            OutputColumn::Rank(rank) => Some(Ranks::new(rank, lanes)),
            _ => None,
        });
        let repeat = (0..planes as u32).flat_map(|plane| std::iter::repeat_n(plane, lanes));
        Ok(Self {
            kernels: kernels.collect::<Result<_>>()?,
            totals: totals.collect(),
            picked: vec![None; spec.outputs.len()],
            ranks: ranks.collect(),
            coordinates,
            repeat: UInt32Array::from_iter_values(repeat),
            spec: Arc::clone(spec),
            tile: tile.clone(),
            planes,
        })
    }

    /// Adds planes to the totals. All planes must be added, in order, before the first rows.
    pub fn add_to_totals(&mut self, numbers: Range<usize>, ring: &PlaneRing) -> Result<()> {
        for (is_total, kernel) in self.totals.iter().zip(&mut self.kernels) {
            if *is_total {
                for number in numbers.clone() {
                    kernel.add_to_total(number, ring)?;
                }
            }
        }
        for (output, picked) in self.spec.outputs.iter().zip(&mut self.picked) {
            if let OutputColumn::Pick { plane, planes, .. } = output
                && let Some(Some(number)) = planes.first()
                && numbers.contains(&(*number as usize))
                && output.is_total()
            {
                let cells = ring.plane(*number as usize, *plane);
                *picked = Some(Picked {
                    plane: Some(*number),
                    cells: Arc::clone(cells.cells),
                    start: cells.start,
                });
            }
        }
        Ok(())
    }

    /// Returns the rows of some planes, at most [`Self::planes`].
    pub fn rows(&mut self, planes: Range<usize>, ring: &PlaneRing) -> Result<RecordBatch> {
        let spec = Arc::clone(&self.spec);
        let rows = planes.len() * self.tile.lanes;
        for kernel in &mut self.kernels {
            for plane in planes.clone() {
                kernel.append(plane, ring)?;
            }
        }
        let aggregates: Vec<_> = self
            .kernels
            .iter_mut()
            .map(|kernel| kernel.finish())
            .collect();
        let kept = self.kept(planes.clone(), ring)?;
        let keep = |column: ArrayRef| match &kept {
            Some(kept) => take(&column, kept, None),
            None => Ok(column),
        };
        // For each output row, the index of its plane.
        let repeat = keep(Arc::new(self.repeat.slice(0, rows)))?;
        let repeat = repeat.as_primitive::<UInt32Type>();
        let mut columns = Vec::with_capacity(spec.outputs.len());
        for (number, output) in spec.outputs.iter().enumerate() {
            columns.push(match output {
                OutputColumn::Axis(axis) => match &self.coordinates[number] {
                    Some(coordinates) => keep(coordinates.slice(0, rows))?,
                    None => {
                        let set = &spec.selection.axes()[*axis];
                        let indices = planes.clone();
                        let indices = indices.filter_map(|plane| set.nth(spec.rank(plane)));
                        let along = spec.grid.axes()[*axis].coordinates()?.at(indices)?;
                        take(&along, repeat, None)?
                    }
                },
                OutputColumn::Values(values) => {
                    take(&values.slice(planes.start, planes.len()), repeat, None)?
                }
                OutputColumn::Plane(plane) => {
                    let cells = planes.clone().map(|number| {
                        let cells = ring.plane(number, *plane);
                        (Arc::clone(cells.cells), cells.start)
                    });
                    keep(joined(&cells.collect::<Vec<_>>(), self.tile.lanes)?)?
                }
                OutputColumn::Pick { .. } => keep(self.picks(number, planes.clone(), ring)?)?,
                OutputColumn::Aggregate(aggregate) => keep(Arc::clone(&aggregates[*aggregate]))?,
                OutputColumn::Rank(_) => match &self.ranks[number] {
                    Some(ranks) => keep(ranks.of_planes(planes.clone()))?,
                    None => return internal_err!("output column {number} has no ranks"),
                },
            });
        }
        let rows = kept.as_ref().map_or(rows, |kept| kept.len());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&spec.schema);
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }

    /// Ranks the cells on the first call. Returns the indices of the rows of some planes that are output; `None` for all.
    fn kept(&mut self, planes: Range<usize>, ring: &PlaneRing) -> Result<Option<UInt32Array>> {
        let mut kept: Option<Vec<u32>> = None;
        for ranks in self.ranks.iter_mut().flatten() {
            ranks.prepare(ring)?;
            if let Some((max_rank, ranks)) = ranks.bounded(planes.clone()) {
                let kept = kept.get_or_insert_with(|| (0..ranks.len() as u32).collect());
                kept.retain(|row| ranks[*row as usize] <= max_rank);
            }
        }
        Ok(kept.map(UInt32Array::from))
    }

    /// Returns the cells that an output column takes from other planes.
    fn picks(&mut self, number: usize, planes: Range<usize>, ring: &PlaneRing) -> Result<ArrayRef> {
        let OutputColumn::Pick {
            plane,
            planes: from,
            default,
        } = &self.spec.outputs[number]
        else {
            return internal_err!("output column {number} takes no cells of other planes");
        };
        let picked = &mut self.picked[number];
        let mut cells = Vec::with_capacity(planes.len());
        for index in planes {
            if picked
                .as_ref()
                .is_none_or(|picked| picked.plane != from[index])
            {
                let (array, start) = match from[index] {
                    Some(number) => {
                        let cells = ring.plane(number as usize, *plane);
                        (Arc::clone(cells.cells), cells.start)
                    }
                    None => (default.to_array_of_size(self.tile.lanes)?, 0),
                };
                *picked = Some(Picked {
                    plane: from[index],
                    cells: array,
                    start,
                });
            }
            cells.extend(
                picked
                    .iter()
                    .map(|picked| (Arc::clone(&picked.cells), picked.start)),
            );
        }
        joined(&cells, self.tile.lanes)
    }
}

/// Returns the planes that start at these cells of arrays, one after another.
fn joined(planes: &[(ArrayRef, usize)], lanes: usize) -> Result<ArrayRef> {
    if let [(array, start)] = planes {
        return Ok(array.slice(*start, lanes));
    }
    let mut arrays: Vec<&ArrayRef> = Vec::new();
    let mut runs: Vec<(usize, Range<usize>)> = Vec::new();
    for (array, start) in planes {
        let is_known = arrays.last().is_some_and(|last| Arc::ptr_eq(last, array));
        if !is_known {
            arrays.push(array);
        }
        let number = arrays.len() - 1;
        match runs.last_mut() {
            Some((last, cells)) if *last == number && cells.end == *start => {
                cells.end = start + lanes;
            }
            _ => runs.push((number, *start..start + lanes)),
        }
    }
    if let ([array], [(_, cells)]) = (arrays.as_slice(), runs.as_slice()) {
        return Ok(array.slice(cells.start, cells.len()));
    }
    let data: Vec<_> = arrays.iter().map(|array| array.to_data()).collect();
    let mut joined = MutableArrayData::new(data.iter().collect(), false, planes.len() * lanes);
    for (array, cells) in runs {
        joined.try_extend(array, cells.start, cells.end)?;
    }
    Ok(make_array(joined.freeze()))
}

/// Returns the coordinates of each series of a tile along an axis.
fn lane_coordinates(spec: &WindowSpec, tile: &Tile, axis: usize) -> Result<ArrayRef> {
    let first = spec.selection.axes()[spec.axis].first().unwrap_or(0);
    let mut sets = spec.selection.axes().to_vec();
    sets[spec.axis] = IndexSet::from_ranges(sets[spec.axis].length(), [first..first + 1]);
    let mut ranges = tile.ranges.clone();
    ranges[spec.axis] = first..first + 1;
    let cells = Cells::new(&Window::new(ranges), &Selection::new(sets));
    let coordinates = spec.grid.axes()[axis].coordinates()?;
    Ok(cells.coordinates(axis, coordinates, 0..cells.rows())?)
}
