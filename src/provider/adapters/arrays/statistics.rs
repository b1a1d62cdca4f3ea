//! Translates zone maps and value postings of a dataset to statistics of its column.
//!
//! A zone map counts NaN and fill values together as nulls, and ignores both in its bounds. Its
//! statistics therefore apply to the column only if both are null there, or if a chunk has neither.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Float64Array, PrimitiveArray, UInt64Array,
};
use arrow::datatypes::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue};
use half::f16;

use crate::format::array::{ChunkStatistics, ChunkSummary, Dtype, ValueIndex};
use crate::grid::{ChunkGrid, Window};
use crate::provider::adapters::arrays::array::StoredArray;
use crate::provider::adapters::arrays::decoding::Decoding;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{Availability, ColumnBounds};

/// The maximum number of chunks of one window whose zone maps are merged.
const MAX_CHUNKS: u64 = 256;
/// The maximum number of chunks of an array whose statistics are cached.
const MAX_KEPT: u64 = 2 << 20;

impl StoredArray {
    /// Returns the availability of zone maps and postings. The first call reads them.
    pub fn availability(&self, options: &ReadOptions) -> Availability {
        if !options.zone_maps {
            return Availability::default();
        }
        let zones = self.file().chunk_statistics(options.access).err();
        let error = zones.or_else(|| self.file().value_index(options.access).err());
        Availability {
            is_known: self.zone_maps(options).is_some() || self.postings(options).is_some(),
            unusable: error.map(|error| error.to_string()),
        }
    }

    fn zone_maps(&self, options: &ReadOptions) -> Option<Arc<dyn ChunkStatistics>> {
        let is_decoded = matches!(
            self.decoding(),
            Decoding::Text(_) | Decoding::Time(..) | Decoding::Duration(_)
        );
        if !options.zone_maps || is_decoded {
            return None;
        }
        // Broken zone maps count as absent, since queries are correct without them.
        self.file().chunk_statistics(options.access).ok().flatten()
    }

    fn postings(&self, options: &ReadOptions) -> Option<Arc<dyn ValueIndex>> {
        if !options.zone_maps
            || !matches!(self.decoding(), Decoding::None)
            || !self.nulls_are_null(options)
        {
            return None;
        }
        self.file().value_index(options.access).ok().flatten()
    }

    /// Returns `true` if every cell that a zone map counts as null is null in the column.
    fn nulls_are_null(&self, options: &ReadOptions) -> bool {
        (options.nan_as_null || !self.dtype().is_float())
            && (options.fill_as_null || self.fill().is_none())
    }

    /// Statistics of the values in each of these windows.
    pub fn window_statistics(
        &self,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<Option<ColumnBounds>> {
        let Some(zones) = self.zone_maps(options) else {
            return Ok(None);
        };
        let nulls_are_null = self.nulls_are_null(options);
        let mut ranges = Vec::with_capacity(windows.len());
        let mut nulls = Vec::with_capacity(windows.len());
        let mut is_exact = true;
        for window in windows {
            let known = self
                .zone_of(zones.as_ref(), window)
                .filter(|(zone, _)| zone.nulls == 0 || nulls_are_null);
            let Some((zone, is_whole)) = known else {
                is_exact = false;
                ranges.push(None);
                nulls.push(None);
                continue;
            };
            is_exact &= is_whole;
            ranges.push(zone.range);
            nulls.push(match zone.nulls {
                0 => Some(0),
                all if all == zone.elements => Some(window.cells()),
                some => is_whole.then_some(some),
            });
        }
        let (min, max) = self.bounds(&ranges);
        Ok(Some(ColumnBounds {
            min,
            max,
            nulls: UInt64Array::from(nulls),
            sums: None,
            is_exact,
        }))
    }

    /// Statistics of the values in each chunk, if every chunk has a zone map.
    pub fn chunk_statistics(&self, options: &ReadOptions) -> Option<Arc<ColumnBounds>> {
        let zones = self.zone_maps(options)?;
        let nulls_are_null = self.nulls_are_null(options);
        let kept = &self.kept_statistics().0[usize::from(nulls_are_null)];
        let kept = kept.get_or_init(|| {
            self.all_chunks(zones.as_ref(), nulls_are_null)
                .map(Arc::new)
        });
        kept.clone()
    }

    fn all_chunks(
        &self,
        zones: &dyn ChunkStatistics,
        nulls_are_null: bool,
    ) -> Option<ColumnBounds> {
        let count = self
            .chunk_grid()
            .count()
            .filter(|count| *count <= MAX_KEPT)?;
        if !zones.is_complete(self.dataset()) {
            return None;
        }
        let mut ranges = Vec::with_capacity(count as usize);
        let mut nulls = Vec::with_capacity(count as usize);
        for number in 0..count {
            let zone = zones.summary(self.dataset(), &self.dataset().chunk_at(number))?;
            let is_known = zone.nulls == 0 || nulls_are_null;
            ranges.push(zone.range.filter(|_| is_known));
            nulls.push(is_known.then_some(zone.nulls));
        }
        let (min, max) = self.bounds(&ranges);
        let nulls = UInt64Array::from(nulls);
        Some(ColumnBounds {
            min,
            max,
            is_exact: nulls.null_count() == 0,
            nulls,
            sums: None,
        })
    }

    /// Merges the zones of the chunks that a window intersects. The second result is `true` if the
    /// window holds all cells of these chunks.
    fn zone_of(
        &self,
        zones: &dyn ChunkStatistics,
        window: &Window,
    ) -> Option<(ChunkSummary, bool)> {
        let touched = self.chunk_grid().chunks_in(window);
        let counts = touched.iter().map(|range| range.end - range.start);
        let count = counts
            .clone()
            .try_fold(1u64, |count, extent| count.checked_mul(extent))
            .filter(|count| (1..=MAX_CHUNKS).contains(count))?;
        let order = |bits| self.dtype().order(bits);
        let mut whole: Option<ChunkSummary> = None;
        for number in 0..count {
            let chunk = ChunkGrid::nth_of(&touched, number);
            let zone = zones.summary(self.dataset(), &chunk)?;
            whole = Some(match whole {
                None => zone,
                Some(one) => ChunkSummary {
                    elements: one.elements + zone.elements,
                    nulls: one.nulls + zone.nulls,
                    range: match (one.range, zone.range) {
                        (Some(one), Some(other)) => Some((
                            std::cmp::min_by_key(one.0, other.0, |bits| order(*bits)),
                            std::cmp::max_by_key(one.1, other.1, |bits| order(*bits)),
                        )),
                        (one, other) => one.or(other),
                    },
                },
            });
        }
        let zone = whole?;
        let is_whole = zone.elements == window.cells();
        Some((zone, is_whole))
    }

    /// Converts ranges of bit patterns to lower and upper bounds in the column's type.
    fn bounds(&self, ranges: &[Option<(u64, u64)>]) -> (ArrayRef, ArrayRef) {
        let bounds = match self.dtype() {
            Dtype::F16 => typed::<Float32Type>(ranges, |bits| f16::from_bits(bits as u16).to_f32()),
            Dtype::F32 => typed::<Float32Type>(ranges, |bits| f32::from_bits(bits as u32)),
            Dtype::F64 => typed::<Float64Type>(ranges, f64::from_bits),
            Dtype::I8 => typed::<Int8Type>(ranges, |bits| bits as u8 as i8),
            Dtype::I16 => typed::<Int16Type>(ranges, |bits| bits as u16 as i16),
            Dtype::I32 => typed::<Int32Type>(ranges, |bits| bits as u32 as i32),
            Dtype::I64 => typed::<Int64Type>(ranges, |bits| bits as i64),
            Dtype::U8 => typed::<UInt8Type>(ranges, |bits| bits as u8),
            Dtype::U16 => typed::<UInt16Type>(ranges, |bits| bits as u16),
            Dtype::U32 => typed::<UInt32Type>(ranges, |bits| bits as u32),
            Dtype::U64 => typed::<UInt64Type>(ranges, |bits| bits),
        };
        let Decoding::Unpack { scale, offset } = self.decoding() else {
            return bounds;
        };
        // Scaling preserves the order or reverses it.
        let unpack = |bounds: ArrayRef| {
            let decoded = self.decoding().decode(bounds, || self.location());
            decoded.unwrap_or_else(|_| Arc::new(Float64Array::new_null(ranges.len())))
        };
        // Infinity times zero would be NaN.
        if !(scale.is_finite() && offset.is_finite()) || *scale == 0.0 {
            let unknown: ArrayRef = Arc::new(Float64Array::new_null(ranges.len()));
            return (Arc::clone(&unknown), unknown);
        }
        let (min, max) = (unpack(bounds.0), unpack(bounds.1));
        if *scale < 0.0 { (max, min) } else { (min, max) }
    }

    /// Compares each window with a set of values by the postings: `true` if the window contains
    /// only these values, `false` if it contains none of them, null if unknown.
    pub fn contained(
        &self,
        windows: &[Window],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        let Some(postings) = self.postings(options) else {
            return Ok(None);
        };
        let Some(postings) = postings.of(self.dataset()) else {
            return Ok(None);
        };
        let mut wanted = HashSet::new();
        for value in values {
            match self.stored(value) {
                Some(bits) => wanted.extend(bits),
                None => return Ok(None),
            }
        }
        let is_wanted: Vec<bool> = postings
            .values()
            .iter()
            .map(|value| wanted.contains(value))
            .collect();
        // DataFusion treats -0.0 and 0.0 as equal in some places and as different in others.
        let sign = 1u64 << (self.dtype().size() * 8 - 1);
        let is_zero = |value: u64| self.dtype().is_float() && value & !sign == 0;
        let in_window = windows.iter().map(|window| {
            let chunk = self.chunk_grid().chunk_equal_to(window)?;
            let ordinal = self.dataset().chunk_ordinal(&chunk)?;
            let here = (0..is_wanted.len()).filter(|nth| postings.contains_nth(*nth, ordinal));
            let (mut any, mut wanted, mut zero) = (false, Some(false), false);
            for nth in here {
                if !any {
                    wanted = Some(is_wanted[nth]);
                } else if wanted != Some(is_wanted[nth]) {
                    return None;
                }
                any = true;
                zero |= is_zero(postings.values()[nth]);
            }
            // Postings do not cover a chunk without any value.
            wanted.filter(|wanted| any && !(*wanted && zero))
        });
        Ok(Some(in_window.collect()))
    }

    /// The bit patterns of cells that equal a value, empty if no cell can; `None` if unknown.
    fn stored(&self, value: &ScalarValue) -> Option<Vec<u64>> {
        let both_zeros = |bits: u64, is_zero: bool| {
            let sign = 1u64 << (self.dtype().size() * 8 - 1);
            if is_zero { vec![0, sign] } else { vec![bits] }
        };
        Some(match (self.dtype(), value) {
            (Dtype::F16, ScalarValue::Float32(Some(value))) if !value.is_nan() => {
                let half = f16::from_f32(*value);
                if half.to_f32() != *value {
                    return Some(Vec::new());
                }
                both_zeros(half.to_bits().into(), *value == 0.0)
            }
            (Dtype::F32, ScalarValue::Float32(Some(value))) if !value.is_nan() => {
                both_zeros(value.to_bits().into(), *value == 0.0)
            }
            (Dtype::F64, ScalarValue::Float64(Some(value))) if !value.is_nan() => {
                both_zeros(value.to_bits(), *value == 0.0)
            }
            (Dtype::I8, ScalarValue::Int8(Some(value))) => vec![(*value as u8).into()],
            (Dtype::I16, ScalarValue::Int16(Some(value))) => vec![(*value as u16).into()],
            (Dtype::I32, ScalarValue::Int32(Some(value))) => vec![(*value as u32).into()],
            (Dtype::I64, ScalarValue::Int64(Some(value))) => vec![*value as u64],
            (Dtype::U8, ScalarValue::UInt8(Some(value))) => vec![(*value).into()],
            (Dtype::U16, ScalarValue::UInt16(Some(value))) => vec![(*value).into()],
            (Dtype::U32, ScalarValue::UInt32(Some(value))) => vec![(*value).into()],
            (Dtype::U64, ScalarValue::UInt64(Some(value))) => vec![*value],
            _ => return None,
        })
    }
}

fn typed<T: ArrowPrimitiveType>(
    ranges: &[Option<(u64, u64)>],
    value: impl Fn(u64) -> T::Native,
) -> (ArrayRef, ArrayRef) {
    let min = ranges.iter().map(|range| range.map(|(min, _)| value(min)));
    let max = ranges.iter().map(|range| range.map(|(_, max)| value(max)));
    (
        Arc::new(PrimitiveArray::<T>::from_iter(min)),
        Arc::new(PrimitiveArray::<T>::from_iter(max)),
    )
}
