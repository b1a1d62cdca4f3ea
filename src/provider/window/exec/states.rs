//! Aggregates of many series at a time.
//!
//! The series of a tile lie side by side: lane `l` of a plane of cells belongs to series `l`. All
//! loops run over contiguous lanes.

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};

/// Calls `$visit` with the primitive array that `$array` is, as a number type.
macro_rules! with_numbers {
    ($array:expr, $numbers:ident => $visit:expr) => {
        match $array.data_type() {
            DataType::Int8 => with_numbers!(@ $array, Int8Type, $numbers => $visit),
            DataType::Int16 => with_numbers!(@ $array, Int16Type, $numbers => $visit),
            DataType::Int32 => with_numbers!(@ $array, Int32Type, $numbers => $visit),
            DataType::Int64 => with_numbers!(@ $array, Int64Type, $numbers => $visit),
            DataType::UInt8 => with_numbers!(@ $array, UInt8Type, $numbers => $visit),
            DataType::UInt16 => with_numbers!(@ $array, UInt16Type, $numbers => $visit),
            DataType::UInt32 => with_numbers!(@ $array, UInt32Type, $numbers => $visit),
            DataType::UInt64 => with_numbers!(@ $array, UInt64Type, $numbers => $visit),
            DataType::Float32 => with_numbers!(@ $array, Float32Type, $numbers => $visit),
            DataType::Float64 => with_numbers!(@ $array, Float64Type, $numbers => $visit),
            other => return internal_err!("a window over an axis cannot aggregate {other}"),
        }
    };
    (@ $array:expr, $type:ty, $numbers:ident => $visit:expr) => {{
        let $numbers: &PrimitiveArray<$type> = $array.as_primitive();
        $visit
    }};
}

pub(super) use with_numbers;

/// One plane of cells: the cells of all series of a tile at one index of the order axis.
#[derive(Clone, Copy)]
pub(in crate::provider::window) struct Plane<'a> {
    /// The planes of a group, one after another.
    pub cells: &'a ArrayRef,
    /// The first cell of the plane.
    pub start: usize,
    /// The number of series.
    pub lanes: usize,
}

/// An aggregate of the cells of each series. Adding is commutative and associative, up to rounding.
pub(in crate::provider::window) trait SeriesState: Send {
    /// Returns the state without cells.
    fn new(lanes: usize) -> Self;

    /// Returns to the state without cells.
    fn clear(&mut self);

    /// Becomes equal to another state of the same series.
    fn copy_from(&mut self, other: &Self);

    /// Adds one cell to each series.
    fn add(&mut self, plane: Plane<'_>) -> Result<()>;
}

/// The number of cells and of null cells of each series.
#[derive(Default)]
pub(in crate::provider::window) struct CellCounts {
    /// The number of planes.
    planes: u32,
    /// The number of nulls of each series; `None` if there are none.
    nulls: Option<Vec<u32>>,
    /// A buffer for `nulls`, kept while there are none.
    spare: Vec<u32>,
}

impl CellCounts {
    /// Forgets all cells.
    pub fn clear(&mut self) {
        self.planes = 0;
        if let Some(nulls) = self.nulls.take() {
            self.spare = nulls;
        }
    }

    /// Becomes equal to another count.
    pub fn copy_from(&mut self, other: &Self) {
        self.clear();
        self.planes = other.planes;
        if let Some(nulls) = &other.nulls {
            let mut copy = std::mem::take(&mut self.spare);
            copy.clear();
            copy.extend_from_slice(nulls);
            self.nulls = Some(copy);
        }
    }

    /// Counts the cells of a plane, and returns their nulls if there are any.
    pub fn add(&mut self, plane: Plane<'_>) -> Option<NullBuffer> {
        self.planes += 1;
        let nulls = plane.cells.nulls()?.slice(plane.start, plane.lanes);
        if nulls.null_count() == 0 {
            return None;
        }
        let counts = self.nulls.get_or_insert_with(|| {
            let mut counts = std::mem::take(&mut self.spare);
            counts.clear();
            counts.resize(plane.lanes, 0);
            counts
        });
        for (count, is_valid) in counts.iter_mut().zip(nulls.iter()) {
            *count += u32::from(!is_valid);
        }
        Some(nulls)
    }

    /// Calls `visit` with the number of cells of each series that are not null, in both states.
    pub fn with(&self, other: &Self, lanes: usize, mut visit: impl FnMut(usize, u32)) {
        let planes = self.planes + other.planes;
        match (&self.nulls, &other.nulls) {
            (None, None) => (0..lanes).for_each(|lane| visit(lane, planes)),
            (Some(nulls), None) | (None, Some(nulls)) => {
                let counts = nulls.iter().enumerate();
                counts.for_each(|(lane, nulls)| visit(lane, planes - nulls));
            }
            (Some(nulls), Some(others)) => {
                let counts = nulls.iter().zip(others).enumerate();
                counts.for_each(|(lane, (one, other))| visit(lane, planes - one - other));
            }
        }
    }

    /// Returns the number of cells of both states if no cell of any series is null.
    pub fn without_nulls(&self, other: &Self) -> Option<u32> {
        let has_none = self.nulls.is_none() && other.nulls.is_none();
        has_none.then_some(self.planes + other.planes)
    }
}

impl SeriesState for CellCounts {
    fn new(_lanes: usize) -> Self {
        Self::default()
    }

    fn clear(&mut self) {
        self.clear();
    }

    fn copy_from(&mut self, other: &Self) {
        self.copy_from(other);
    }

    fn add(&mut self, plane: Plane<'_>) -> Result<()> {
        self.add(plane);
        Ok(())
    }
}

/// Appends the counts of two states.
pub(in crate::provider::window) fn append_counts(
    one: &CellCounts,
    other: &CellCounts,
    lanes: usize,
    to: &mut Vec<i64>,
) {
    to.reserve(lanes);
    one.with(other, lanes, |_, count| to.push(i64::from(count)));
}

/// A number that cells are added up as.
pub(in crate::provider::window) trait Summed:
    Copy + Default + Send + 'static
{
    /// Adds two numbers. Integers wrap around, like DataFusion's.
    fn plus(self, other: Self) -> Self;
    /// Converts the number.
    fn to_f64(self) -> f64;
}

impl Summed for f64 {
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn to_f64(self) -> f64 {
        self
    }
}

impl Summed for i64 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn to_f64(self) -> f64 {
        self as f64
    }
}

/// Converts the number of a cell to the number that it is added up as.
trait SummedAs<T> {
    fn number(self) -> T;
}

macro_rules! summed_as {
    ($($from:ty),*) => {$(
        impl SummedAs<f64> for $from {
            fn number(self) -> f64 {
                self as f64
            }
        }
        impl SummedAs<i64> for $from {
            // Unsigned sums have the same bits as signed ones.
            fn number(self) -> i64 {
                self as i64
            }
        }
    )*};
}
summed_as!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

/// The sum of each series. Unsigned integers are added up as signed ones with the same bits.
pub(in crate::provider::window) struct Sums<T> {
    sums: Vec<T>,
    pub counts: CellCounts,
}

/// Replaces each number by a function of it and of the number of a cell, except where the cell is
/// null.
pub(in crate::provider::window) fn fold<A: Copy, N: Copy>(
    to: &mut [A],
    numbers: &[N],
    nulls: Option<&NullBuffer>,
    step: impl Fn(A, N) -> A,
) {
    let pairs = to.iter_mut().zip(numbers);
    match nulls {
        None => pairs.for_each(|(to, number)| *to = step(*to, *number)),
        Some(nulls) => {
            for ((to, number), is_valid) in pairs.zip(nulls.iter()) {
                let with = step(*to, *number);
                *to = if is_valid { with } else { *to };
            }
        }
    }
}

impl<T: Summed> SeriesState for Sums<T>
where
    i8: SummedAs<T>,
    i16: SummedAs<T>,
    i32: SummedAs<T>,
    i64: SummedAs<T>,
    u8: SummedAs<T>,
    u16: SummedAs<T>,
    u32: SummedAs<T>,
    u64: SummedAs<T>,
    f32: SummedAs<T>,
    f64: SummedAs<T>,
{
    fn new(lanes: usize) -> Self {
        Self {
            sums: vec![T::default(); lanes],
            counts: CellCounts::default(),
        }
    }

    fn clear(&mut self) {
        self.sums.fill(T::default());
        self.counts.clear();
    }

    fn copy_from(&mut self, other: &Self) {
        self.sums.copy_from_slice(&other.sums);
        self.counts.copy_from(&other.counts);
    }

    fn add(&mut self, plane: Plane<'_>) -> Result<()> {
        let nulls = self.counts.add(plane);
        with_numbers!(plane.cells, numbers => {
            let numbers = &numbers.values()[plane.start..plane.start + plane.lanes];
            fold(&mut self.sums, numbers, nulls.as_ref(), |sum, number| sum.plus(number.number()));
        });
        Ok(())
    }
}

impl<T: Summed> Sums<T> {
    /// Appends the sums of two states; the numbers of series without cells are arbitrary.
    pub fn append_sums<V>(&self, other: &Self, to: &mut Vec<V>, convert: impl Fn(T) -> V) {
        let pairs = self.sums.iter().zip(&other.sums);
        to.extend(pairs.map(|(one, other)| convert(one.plus(*other))));
    }

    /// Appends the means of two states; the numbers of series without cells are arbitrary.
    pub fn append_means(&self, other: &Self, to: &mut Vec<f64>) {
        let lanes = self.sums.len();
        if let Some(count) = self.counts.without_nulls(&other.counts) {
            let count = f64::from(count);
            self.append_sums(other, to, |sum| sum.to_f64() / count);
        } else {
            to.reserve(lanes);
            self.counts.with(&other.counts, lanes, |lane, count| {
                let sum = self.sums[lane].plus(other.sums[lane]);
                to.push(sum.to_f64() / f64::from(count));
            });
        }
    }

    /// Calls `visit` with the number of cells of each series.
    pub fn each_count(&self, other: &Self, visit: impl FnMut(usize, u32)) {
        self.counts.with(&other.counts, self.sums.len(), visit);
    }
}

/// The mean and the sum of squared deviations of each series.
pub(in crate::provider::window) struct Moments {
    /// The mean and the sum of squared deviations.
    moments: Vec<(f64, f64)>,
    numbers: Vec<u32>,
}

impl SeriesState for Moments {
    fn new(lanes: usize) -> Self {
        Self {
            moments: vec![(0.0, 0.0); lanes],
            numbers: vec![0; lanes],
        }
    }

    fn clear(&mut self) {
        self.moments.fill((0.0, 0.0));
        self.numbers.fill(0);
    }

    fn copy_from(&mut self, other: &Self) {
        self.moments.copy_from_slice(&other.moments);
        self.numbers.copy_from_slice(&other.numbers);
    }

    fn add(&mut self, plane: Plane<'_>) -> Result<()> {
        let nulls = plane.cells.nulls();
        with_numbers!(plane.cells, numbers => {
            let numbers = &numbers.values()[plane.start..plane.start + plane.lanes];
            let states = self.moments.iter_mut().zip(&mut self.numbers);
            for (lane, (((mean, squares), count), number)) in states.zip(numbers).enumerate() {
                if nulls.is_some_and(|nulls| nulls.is_null(plane.start + lane)) {
                    continue;
                }
                let number: f64 = number.number();
                *count += 1;
                let delta = number - *mean;
                *mean += delta / f64::from(*count);
                *squares += delta * (number - *mean);
            }
        });
        Ok(())
    }
}

impl Moments {
    /// Calls `visit` with the number of cells of each series in both states, and the sum of their
    /// squared deviations.
    pub fn each(&self, other: &Self, mut visit: impl FnMut(u32, f64)) {
        let one = self.moments.iter().zip(&self.numbers);
        let other = other.moments.iter().zip(&other.numbers);
        for ((one, count), (other, others)) in one.zip(other) {
            let all = count + others;
            let squares = match (count, others) {
                (0, _) => other.1,
                (_, 0) => one.1,
                (count, others) => {
                    let delta = other.0 - one.0;
                    let weight = f64::from(*count) * f64::from(*others) / f64::from(all);
                    one.1 + other.1 + delta * delta * weight
                }
            };
            visit(all, squares);
        }
    }
}
