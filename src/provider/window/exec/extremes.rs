//! The min and max of many series at a time.

use arrow::array::AsArray;
use arrow::datatypes::{ArrowNativeType, ArrowPrimitiveType};
use datafusion::common::Result;

use crate::provider::window::exec::states::{CellCounts, Plane, SeriesState, fold};

/// An integer that orders cells as DataFusion does: floats in total order.
pub(in crate::provider::window) trait OrderKey:
    Copy + Ord + Send + 'static
{
    const MAX: Self;
    const MIN: Self;
}

impl OrderKey for i32 {
    const MAX: Self = Self::MAX;
    const MIN: Self = Self::MIN;
}

impl OrderKey for i64 {
    const MAX: Self = Self::MAX;
    const MIN: Self = Self::MIN;
}

/// Converts a native number to its order key, and back.
pub(in crate::provider::window) trait Keyed: ArrowNativeType {
    /// The key.
    type Key: OrderKey;
    /// Returns the key.
    fn key(self) -> Self::Key;
    /// Returns the number with a key.
    fn of_key(key: Self::Key) -> Self;
}

macro_rules! keyed {
    ($($number:ty => $key:ty),*) => {$(
        impl Keyed for $number {
            type Key = $key;
            fn key(self) -> $key {
                self as $key
            }
            fn of_key(key: $key) -> Self {
                key as $number
            }
        }
    )*};
}
keyed!(i8 => i32, i16 => i32, i32 => i32, u8 => i32, u16 => i32, u32 => i64, i64 => i64);

impl Keyed for u64 {
    type Key = i64;
    fn key(self) -> i64 {
        (self ^ (1 << 63)) as i64
    }
    fn of_key(key: i64) -> Self {
        key as u64 ^ (1 << 63)
    }
}

impl Keyed for f32 {
    type Key = i32;
    fn key(self) -> i32 {
        let bits = self.to_bits() as i32;
        bits ^ (((bits >> 31) as u32) >> 1) as i32
    }
    fn of_key(key: i32) -> Self {
        f32::from_bits((key ^ (((key >> 31) as u32) >> 1) as i32) as u32)
    }
}

impl Keyed for f64 {
    type Key = i64;
    fn key(self) -> i64 {
        let bits = self.to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    }
    fn of_key(key: i64) -> Self {
        f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64)
    }
}

/// The min or max of each series, for cells of one type.
pub(in crate::provider::window) struct Extremes<T: ArrowPrimitiveType, const IS_MAX: bool>
where
    T::Native: Keyed,
{
    keys: Vec<<T::Native as Keyed>::Key>,
    counts: CellCounts,
}

impl<T: ArrowPrimitiveType, const IS_MAX: bool> Extremes<T, IS_MAX>
where
    T::Native: Keyed,
{
    const NEUTRAL: <T::Native as Keyed>::Key = match IS_MAX {
        true => <<T::Native as Keyed>::Key as OrderKey>::MIN,
        false => <<T::Native as Keyed>::Key as OrderKey>::MAX,
    };

    fn better(
        one: <T::Native as Keyed>::Key,
        other: <T::Native as Keyed>::Key,
    ) -> <T::Native as Keyed>::Key {
        match IS_MAX {
            true => one.max(other),
            false => one.min(other),
        }
    }

    /// Appends the extremes of two states; the numbers of series without cells are arbitrary.
    pub fn append(&self, other: &Self, to: &mut Vec<T::Native>) {
        let pairs = self.keys.iter().zip(&other.keys);
        to.extend(pairs.map(|(one, other)| T::Native::of_key(Self::better(*one, *other))));
    }

    /// Calls `visit` with the number of cells of each series.
    pub fn each_count(&self, other: &Self, visit: impl FnMut(usize, u32)) {
        self.counts.with(&other.counts, self.keys.len(), visit);
    }

    /// Returns the counts.
    pub fn counts(&self) -> &CellCounts {
        &self.counts
    }
}

impl<T: ArrowPrimitiveType, const IS_MAX: bool> SeriesState for Extremes<T, IS_MAX>
where
    T::Native: Keyed,
{
    fn new(lanes: usize) -> Self {
        Self {
            keys: vec![Self::NEUTRAL; lanes],
            counts: CellCounts::default(),
        }
    }

    fn clear(&mut self) {
        self.keys.fill(Self::NEUTRAL);
        self.counts.clear();
    }

    fn copy_from(&mut self, other: &Self) {
        self.keys.copy_from_slice(&other.keys);
        self.counts.copy_from(&other.counts);
    }

    fn add(&mut self, plane: Plane<'_>) -> Result<()> {
        let nulls = self.counts.add(plane);
        let numbers = plane.cells.as_primitive::<T>().values();
        let numbers = &numbers[plane.start..plane.start + plane.lanes];
        fold(&mut self.keys, numbers, nulls.as_ref(), |best, number| {
            Self::better(best, number.key())
        });
        Ok(())
    }
}
