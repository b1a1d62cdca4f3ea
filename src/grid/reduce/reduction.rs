//! The accumulators of all groups, for any type of cell.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, Float64Array, PrimitiveArray, UInt64Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowNativeType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use half::f16;

use crate::grid::reduce::cell::{Cell, KnownSum, Number, Within};
use crate::grid::reduce::group_counts::GroupCounts;
use crate::grid::reduce::layout::Layout;
use crate::grid::reduce::moments::{GroupExtremes, GroupSums, Moments, RequestedAggregates};

/// The type of stored numbers. All are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellType {
    /// IEEE 754 half precision, reduced as f32.
    F16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
}

impl CellType {
    /// Returns `true` for floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Returns `true` for signed integers.
    pub fn is_signed_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// Returns `true` for unsigned integers of fewer than `bytes` bytes.
    pub fn is_unsigned_below(self, bytes: usize) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64) && self.size() < bytes
    }

    /// Returns the bit pattern of a NaN; `None` for integers.
    pub fn nan(self) -> Option<u64> {
        match self {
            Self::F16 => Some(f16::NAN.to_bits().into()),
            Self::F32 => Some(f32::NAN.to_bits().into()),
            Self::F64 => Some(f64::NAN.to_bits()),
            _ => None,
        }
    }

    /// Returns the size of a cell in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// Reduces the cells of many chunks to accumulators for each of many groups.
///
/// NaN, the fill value and cells outside the bounds are *skipped*: they contribute to no aggregate.
/// All other cells are *kept*.
#[derive(Debug, Clone)]
pub struct Reduction {
    moments: AnyMoments,
    /// For [`CellType::F16`], the bits of the fill value, if there is one. `None` for other types.
    halves: Option<Option<u16>>,
    /// f16 cells converted to f32, per source.
    widened: Vec<Vec<u8>>,
}

#[derive(Debug, Clone)]
enum AnyMoments {
    F32(Moments<f32>),
    F64(Moments<f64>),
    I8(Moments<i8>),
    I16(Moments<i16>),
    I32(Moments<i32>),
    I64(Moments<i64>),
    U8(Moments<u8>),
    U16(Moments<u16>),
    U32(Moments<u32>),
    U64(Moments<u64>),
}

macro_rules! for_any {
    ($any:expr, $moments:ident => $then:expr) => {
        match $any {
            AnyMoments::F32($moments) => $then,
            AnyMoments::F64($moments) => $then,
            AnyMoments::I8($moments) => $then,
            AnyMoments::I16($moments) => $then,
            AnyMoments::I32($moments) => $then,
            AnyMoments::I64($moments) => $then,
            AnyMoments::U8($moments) => $then,
            AnyMoments::U16($moments) => $then,
            AnyMoments::U32($moments) => $then,
            AnyMoments::U64($moments) => $then,
        }
    };
}

impl Reduction {
    /// Returns empty accumulators for this many groups. Skips NaN, cells with the bits `fill`, and
    /// cells outside `bounds`, which are inclusive. Bounds are bit patterns of the cell type, or of
    /// f32 for f16 cells.
    pub fn new(
        cell_type: CellType,
        groups: usize,
        wanted: RequestedAggregates,
        bounds: Option<(u64, u64)>,
        fill: Option<u64>,
    ) -> Self {
        fn typed<C: Number>(
            groups: usize,
            wanted: RequestedAggregates,
            bounds: Option<(u64, u64)>,
            fill: Option<u64>,
        ) -> Moments<C> {
            let within = bounds.map(within);
            Moments::new(groups, wanted, within, fill.map(C::from_pattern))
        }
        let moments = match cell_type {
            CellType::F16 => AnyMoments::F32(typed(groups, wanted, bounds, None)),
            CellType::F32 => AnyMoments::F32(typed(groups, wanted, bounds, fill)),
            CellType::F64 => AnyMoments::F64(typed(groups, wanted, bounds, fill)),
            CellType::I8 => AnyMoments::I8(typed(groups, wanted, bounds, fill)),
            CellType::I16 => AnyMoments::I16(typed(groups, wanted, bounds, fill)),
            CellType::I32 => AnyMoments::I32(typed(groups, wanted, bounds, fill)),
            CellType::I64 => AnyMoments::I64(typed(groups, wanted, bounds, fill)),
            CellType::U8 => AnyMoments::U8(typed(groups, wanted, bounds, fill)),
            CellType::U16 => AnyMoments::U16(typed(groups, wanted, bounds, fill)),
            CellType::U32 => AnyMoments::U32(typed(groups, wanted, bounds, fill)),
            CellType::U64 => AnyMoments::U64(typed(groups, wanted, bounds, fill)),
        };
        let halves = (cell_type == CellType::F16).then(|| fill.map(|fill| fill as u16));
        Self {
            moments,
            halves,
            widened: Vec::new(),
        }
    }

    /// Changes the bounds for cells that are added from now on. The reduction must have been
    /// created with bounds.
    pub fn set_bounds(&mut self, bounds: (u64, u64)) {
        for_any!(&mut self.moments, moments => moments.set_bounds(within(bounds)));
    }

    /// Adds the cells of chunks with the same layout. Each source holds the cells of
    /// [`Layout::span`].
    pub fn add(&mut self, sources: &[&[u8]], layout: &Layout) {
        if let Some(fill) = self.halves {
            self.widened.resize_with(sources.len(), Vec::new);
            for (source, widened) in sources.iter().zip(&mut self.widened) {
                widen(source, fill, widened);
            }
        }
        fn typed<C: Number>(moments: &mut Moments<C>, sources: &[&[u8]], layout: &Layout) {
            let sources: Vec<&[C::Bytes]> = sources.iter().map(|bytes| C::split(bytes)).collect();
            moments.add(&sources, &layout.pieces);
        }
        if self.halves.is_some() {
            let sources: Vec<&[u8]> = self.widened.iter().map(Vec::as_slice).collect();
            for_any!(&mut self.moments, moments => typed(moments, &sources, layout));
        } else {
            for_any!(&mut self.moments, moments => typed(moments, sources, layout));
        }
    }

    /// Adds the accumulators of another reduction of the same kind.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.moments, &other.moments) {
            (AnyMoments::F32(one), AnyMoments::F32(other)) => one.merge(other),
            (AnyMoments::F64(one), AnyMoments::F64(other)) => one.merge(other),
            (AnyMoments::I8(one), AnyMoments::I8(other)) => one.merge(other),
            (AnyMoments::I16(one), AnyMoments::I16(other)) => one.merge(other),
            (AnyMoments::I32(one), AnyMoments::I32(other)) => one.merge(other),
            (AnyMoments::I64(one), AnyMoments::I64(other)) => one.merge(other),
            (AnyMoments::U8(one), AnyMoments::U8(other)) => one.merge(other),
            (AnyMoments::U16(one), AnyMoments::U16(other)) => one.merge(other),
            (AnyMoments::U32(one), AnyMoments::U32(other)) => one.merge(other),
            (AnyMoments::U64(one), AnyMoments::U64(other)) => one.merge(other),
            _ => debug_assert!(false, "reductions of different types"),
        }
    }

    /// Adds cells of one group that statistics describe, without reading them: the bits of their
    /// min and max (of f32 for f16 cells), the sum of the kept cells, and the number of kept and of
    /// skipped cells. Only for reductions without deviations; one with sums needs `sum`.
    pub fn add_known(
        &mut self,
        group: usize,
        extremes: Option<(u64, u64)>,
        sum: Option<KnownSum>,
        count: u64,
        missing: u64,
    ) {
        fn typed<C: Cell>(extremes: Option<(u64, u64)>) -> Option<(C, C)> {
            extremes.map(|(min, max)| (C::from_pattern(min), C::from_pattern(max)))
        }
        for_any!(&mut self.moments, moments => {
            moments.add_known(group, typed(extremes), sum, count, missing);
        });
    }

    /// Adds skipped cells without reading them.
    pub fn add_missing(&mut self, cells: &GroupCounts) {
        for_any!(&mut self.moments, moments => moments.add_missing(cells));
    }

    /// Adds kept cells without reading them. Only for reductions that compute nothing but counts.
    pub fn add_counted(&mut self, cells: &GroupCounts) {
        for_any!(&mut self.moments, moments => moments.add_counted(cells));
    }

    /// Adds kept cells that all have these bits (of f32 for f16 cells) without reading them.
    pub fn add_constant(&mut self, cells: &GroupCounts, pattern: u64) {
        fn typed<C: Number>(moments: &mut Moments<C>, cells: &GroupCounts, pattern: u64) {
            moments.add_constant(cells, C::from_pattern(pattern));
        }
        for_any!(&mut self.moments, moments => typed(moments, cells, pattern));
    }

    /// Returns the accumulated values. `cells` is the number of cells in each group, kept and
    /// skipped together.
    pub fn results(self, cells: &Counts) -> Results {
        fn typed<C, T, N>(moments: Moments<C>, cells: &Counts) -> Results
        where
            C: Number<Natural: ArrowNativeType> + ArrowNativeType,
            T: ArrowPrimitiveType<Native = C>,
            N: ArrowPrimitiveType<Native = C::Natural>,
        {
            // If all cells are expected, the counts are minus the numbers of skipped cells.
            let expects_all = moments.expects_all();
            let counts = match expects_all && moments.counts.is_empty() {
                true => cells.clone(),
                false => {
                    let counts = moments.counts.into_iter().enumerate();
                    let counts = counts.map(|(group, count)| match expects_all {
                        true => cells.of(group).wrapping_add_signed(count),
                        false => count as u64,
                    });
                    Counts::Each(counts.collect::<Vec<_>>().into())
                }
            };
            let extremes = |found: Option<GroupExtremes<C>>, start: C| -> Option<ArrayRef> {
                let found = found?;
                let is_found = found.cells.iter().enumerate().map(|(group, cell)| {
                    *cell != start || found.seen.get(group).copied().unwrap_or(false)
                });
                let nulls: NullBuffer = is_found.collect::<Vec<bool>>().into();
                let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
                Some(Arc::new(PrimitiveArray::<T>::new(
                    found.cells.into(),
                    nulls,
                )))
            };
            Results {
                min: extremes(moments.min, C::HIGHEST),
                max: extremes(moments.max, C::LOWEST),
                sums: moments.totals.map(|totals| match totals {
                    GroupSums::Float(totals) => Arc::new(Float64Array::from(totals)) as ArrayRef,
                    GroupSums::Natural(totals) => {
                        Arc::new(PrimitiveArray::<N>::new(totals.into(), None))
                    }
                }),
                deviations: moments.deviations.map(|deviations| {
                    let deviations = deviations.iter();
                    [
                        Arc::new(UInt64Array::from_iter_values(
                            deviations.clone().map(|deviation| deviation.count),
                        )) as ArrayRef,
                        Arc::new(Float64Array::from_iter_values(
                            deviations.clone().map(|deviation| deviation.mean),
                        )),
                        Arc::new(Float64Array::from_iter_values(
                            deviations.map(|deviation| deviation.squares),
                        )),
                    ]
                }),
                counts,
            }
        }
        match self.moments {
            AnyMoments::F32(moments) => typed::<_, Float32Type, Float64Type>(moments, cells),
            AnyMoments::F64(moments) => typed::<_, Float64Type, Float64Type>(moments, cells),
            AnyMoments::I8(moments) => typed::<_, Int8Type, Int64Type>(moments, cells),
            AnyMoments::I16(moments) => typed::<_, Int16Type, Int64Type>(moments, cells),
            AnyMoments::I32(moments) => typed::<_, Int32Type, Int64Type>(moments, cells),
            AnyMoments::I64(moments) => typed::<_, Int64Type, Int64Type>(moments, cells),
            AnyMoments::U8(moments) => typed::<_, UInt8Type, Int64Type>(moments, cells),
            AnyMoments::U16(moments) => typed::<_, UInt16Type, Int64Type>(moments, cells),
            AnyMoments::U32(moments) => typed::<_, UInt32Type, Int64Type>(moments, cells),
            AnyMoments::U64(moments) => typed::<_, UInt64Type, Int64Type>(moments, cells),
        }
    }
}

fn within<C: Cell>((min, max): (u64, u64)) -> Within<C> {
    Within {
        min: C::from_pattern(min),
        max: C::from_pattern(max),
    }
}

/// A number of cells per group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counts {
    /// One number for all groups.
    Same(u64),
    /// One number per group.
    Each(ScalarBuffer<u64>),
}

impl Counts {
    /// Returns the number of cells in `group`.
    pub fn of(&self, group: usize) -> u64 {
        match self {
            Self::Same(count) => *count,
            Self::Each(counts) => counts[group],
        }
    }

    /// Returns `true` if any group has no cells.
    pub fn has_zero(&self) -> bool {
        match self {
            Self::Same(count) => *count == 0,
            Self::Each(counts) => counts.contains(&0),
        }
    }
}

/// The accumulated values of a reduction, one per group.
#[derive(Debug, Clone)]
pub struct Results {
    /// The number of kept cells.
    pub counts: Counts,
    /// The sums as Float64, or as Int64 that may have wrapped. Zero where no cell is kept.
    pub sums: Option<ArrayRef>,
    /// The min of each group, in the type of the cells. Null where no cell is kept.
    pub min: Option<ArrayRef>,
    /// The max of each group, in the type of the cells. Null where no cell is kept.
    pub max: Option<ArrayRef>,
    /// The number of kept cells, their mean, and the sum of their squared deviations from the mean.
    pub deviations: Option<[ArrayRef; 3]>,
}

/// Converts f16 cells to f32, and the fill value to NaN.
fn widen(halves: &[u8], fill: Option<u16>, singles: &mut Vec<u8>) {
    singles.clear();
    singles.reserve(halves.len() * 2);
    for half in halves.as_chunks().0 {
        let bits = u16::from_le_bytes(*half);
        let single = if fill == Some(bits) {
            f32::NAN
        } else {
            f16::from_bits(bits).to_f32()
        };
        singles.extend_from_slice(&single.to_le_bytes());
    }
}
