//! Types of stored numbers, the types that sums are accumulated in, and filters of cells.

use std::ops::AddAssign;

/// A type of stored number.
pub trait Cell: Copy + PartialOrd + Send + Sync + 'static {
    /// The little-endian bytes of one number.
    type Bytes: Copy + Send + Sync + 'static;
    /// Zero.
    const ZERO: Self;
    /// The lower bound of all numbers.
    const LOWEST: Self;
    /// The upper bound of all numbers.
    const HIGHEST: Self;
    /// `true` if the type has NaN.
    const HAS_NAN: bool;
    /// A mask that reverses the order: `a < b` exactly if `a ^ REVERSAL > b ^ REVERSAL`. All bits of integers, the
    /// sign bit of floating-point numbers.
    const REVERSAL: Self;

    /// A counter of up to 65,535 cells. It is as wide as a cell where that suffices, so that a
    /// vector holds as many counters as cells.
    type Count: Copy + Default + PartialEq + Into<u64> + From<bool> + From<u16> + AddAssign;

    /// Splits bytes into cells, without requiring alignment. A trailing partial cell is dropped.
    fn split(bytes: &[u8]) -> &[Self::Bytes];

    /// Returns the number that these bytes store.
    fn load(bytes: Self::Bytes) -> Self;

    /// Returns the number with the bit pattern in the low bits of `pattern`.
    fn from_pattern(pattern: u64) -> Self;

    /// Returns the bitwise XOR of both numbers.
    fn xor(self, other: Self) -> Self;

    /// Returns `true` if both numbers have the same bits.
    fn is_same(self, other: Self) -> bool;

    /// Returns the nearest f64.
    fn to_f64(self) -> f64;
}

/// A type of cell whose sums are accumulated in `T`: f64, or an i64 that wraps. Unsigned numbers
/// use i64 too, since the wrapped sum has the same bits.
pub trait SumInto<T>: Cell {
    /// The type of a partial sum. It holds the sum of at least 65,536 cells with no other error
    /// than floating-point rounding and the wrapping of `T`.
    type Partial: Partial;

    /// Converts the cell to a partial sum.
    fn widen(self) -> Self::Partial;

    /// Adds two partial sums. The result wraps where `T` wraps.
    fn plus(one: Self::Partial, other: Self::Partial) -> Self::Partial;

    /// Adds a partial sum to a total.
    fn flush(partial: Self::Partial, total: &mut T);

    /// Returns `true` if the sum is NaN, so that one of the cells may have been NaN.
    fn is_tainted(partial: Self::Partial) -> bool;
}

/// A sum of some cells.
pub trait Partial: Copy + Default {
    /// `true` if subtracting an addend restores the exact sum of the others.
    const IS_EXACT: bool;

    /// Subtracts `addend` from the sum, `times` times.
    fn without(self, addend: Self, times: u64) -> Self;
}

impl Partial for f64 {
    const IS_EXACT: bool = false;

    #[inline(always)]
    fn without(self, addend: Self, times: u64) -> Self {
        self - addend * times as f64
    }
}

macro_rules! partial {
    ($($type:ty),*) => {
        $(impl Partial for $type {
            const IS_EXACT: bool = true;

            #[inline(always)]
            fn without(self, addend: Self, times: u64) -> Self {
                self.wrapping_sub(addend.wrapping_mul(times as $type))
            }
        })*
    };
}

partial!(i32, u32, i64, u64);

macro_rules! bytes {
    ($type:ty, $count:ty) => {
        type Count = $count;
        type Bytes = [u8; size_of::<$type>()];

        #[inline(always)]
        fn split(bytes: &[u8]) -> &[Self::Bytes] {
            bytes.as_chunks().0
        }

        #[inline(always)]
        fn load(bytes: Self::Bytes) -> Self {
            Self::from_le_bytes(bytes)
        }
    };
}

macro_rules! float {
    ($type:ty, $count:ty) => {
        impl Cell for $type {
            const ZERO: Self = 0.0;
            const LOWEST: Self = <$type>::NEG_INFINITY;
            const HIGHEST: Self = <$type>::INFINITY;
            const HAS_NAN: bool = true;
            const REVERSAL: Self = -0.0;

            bytes!($type, $count);

            fn from_pattern(pattern: u64) -> Self {
                Self::from_bits(pattern as _)
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                Self::from_bits(self.to_bits() ^ other.to_bits())
            }

            #[inline(always)]
            fn is_same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
        }

        impl Number for $type {
            type Natural = f64;
        }

        impl SumInto<f64> for $type {
            type Partial = f64;

            #[inline(always)]
            fn widen(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn plus(one: f64, other: f64) -> f64 {
                one + other
            }

            #[inline(always)]
            fn flush(partial: f64, total: &mut f64) {
                *total += partial;
            }

            #[inline(always)]
            fn is_tainted(partial: f64) -> bool {
                partial.is_nan()
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);

macro_rules! integer {
    ($type:ty, $count:ty, $partial:ty, $float_partial:ty) => {
        impl Cell for $type {
            const ZERO: Self = 0;
            const LOWEST: Self = <$type>::MIN;
            const HIGHEST: Self = <$type>::MAX;
            const HAS_NAN: bool = false;
            const REVERSAL: Self = !0;

            bytes!($type, $count);

            fn from_pattern(pattern: u64) -> Self {
                pattern as _
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            fn is_same(self, other: Self) -> bool {
                self == other
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }

        impl Number for $type {
            type Natural = i64;
        }

        impl SumInto<i64> for $type {
            type Partial = $partial;

            #[inline(always)]
            fn widen(self) -> $partial {
                self as $partial
            }

            #[inline(always)]
            fn plus(one: $partial, other: $partial) -> $partial {
                one.wrapping_add(other)
            }

            #[inline(always)]
            fn flush(partial: $partial, total: &mut i64) {
                *total = total.wrapping_add(partial as i64);
            }

            #[inline(always)]
            fn is_tainted(_: $partial) -> bool {
                false
            }
        }

        impl SumInto<f64> for $type {
            type Partial = $float_partial;

            #[inline(always)]
            fn widen(self) -> $float_partial {
                self as $float_partial
            }

            #[inline(always)]
            fn plus(one: $float_partial, other: $float_partial) -> $float_partial {
                one + other
            }

            #[inline(always)]
            fn flush(partial: $float_partial, total: &mut f64) {
                *total += partial as f64;
            }

            #[inline(always)]
            fn is_tainted(_: $float_partial) -> bool {
                false
            }
        }
    };
}

integer!(i8, u16, i32, i32);
integer!(i16, u16, i32, i32);
integer!(u8, u16, u32, u32);
integer!(u16, u16, u32, u32);
integer!(i32, u32, i64, i64);
integer!(u32, u32, u64, u64);
integer!(i64, u64, i64, f64);
integer!(u64, u64, u64, f64);

/// A type that sums are accumulated in.
pub trait Total: Copy + Default + Send + 'static {
    /// Adds another sum.
    fn add(&mut self, other: Self);

    /// Converts a sum that statistics state. Integers wrap or round like sums of cells.
    fn of_sum(sum: KnownSum) -> Self;
}

impl Total for f64 {
    fn add(&mut self, other: Self) {
        *self += other;
    }

    fn of_sum(sum: KnownSum) -> Self {
        match sum {
            KnownSum::Integer(sum) => sum as f64,
            KnownSum::Float(sum) => sum,
        }
    }
}

impl Total for i64 {
    fn add(&mut self, other: Self) {
        *self = self.wrapping_add(other);
    }

    fn of_sum(sum: KnownSum) -> Self {
        match sum {
            KnownSum::Integer(sum) => sum as i64,
            KnownSum::Float(sum) => sum as i64,
        }
    }
}

/// The exact sum of some cells, known without reading them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KnownSum {
    /// A sum of integers.
    Integer(i128),
    /// A sum of floating-point numbers.
    Float(f64),
}

/// A cell that can be summed as f64 and as the natural sum type of its kind.
pub trait Number: SumInto<f64> + SumInto<Self::Natural> {
    /// f64 for floating-point numbers, i64 for integers.
    type Natural: Total;
}

/// A filter that keeps or skips cells. All filters skip NaN.
pub trait Keep<C>: Copy + Send + Sync {
    /// `true` if all numbers are kept, so that only NaN is skipped.
    const KEEPS_NUMBERS: bool;

    /// Returns `true` if the cell is kept.
    fn keeps(self, cell: C) -> bool;

    /// Returns the only number that is skipped, if there is exactly one.
    #[inline(always)]
    fn exception(self) -> Option<C> {
        None
    }
}

/// Keeps all numbers.
#[derive(Debug, Clone, Copy)]
pub struct Numbers;

// Only NaN differs from itself.
#[allow(clippy::eq_op)]
impl<C: Cell> Keep<C> for Numbers {
    const KEEPS_NUMBERS: bool = true;

    #[inline(always)]
    fn keeps(self, cell: C) -> bool {
        cell == cell
    }
}

/// Keeps all numbers except the fill value.
#[derive(Debug, Clone, Copy)]
pub struct ExceptFill<C> {
    /// The fill value.
    pub fill: C,
}

impl<C: Cell> Keep<C> for ExceptFill<C> {
    const KEEPS_NUMBERS: bool = false;

    #[inline(always)]
    fn keeps(self, cell: C) -> bool {
        Numbers.keeps(cell) & !cell.is_same(self.fill)
    }

    #[inline(always)]
    fn exception(self) -> Option<C> {
        Some(self.fill)
    }
}

/// Keeps the cells between two bounds, which are inclusive. NaN is outside any bounds.
#[derive(Debug, Clone, Copy)]
pub struct Within<C> {
    /// The lower bound.
    pub min: C,
    /// The upper bound.
    pub max: C,
}

impl<C: Cell> Keep<C> for Within<C> {
    const KEEPS_NUMBERS: bool = false;

    #[inline(always)]
    fn keeps(self, cell: C) -> bool {
        // `&` evaluates both comparisons: a branch would cost more.
        (self.min <= cell) & (cell <= self.max)
    }
}

impl<C: Cell> Within<C> {
    /// Returns a cell outside of the bounds, which is NaN for floating-point numbers, or `None` if the
    /// bounds include all values of the type.
    pub fn outside(self) -> Option<C> {
        let candidates = [C::from_pattern(u64::MAX), C::LOWEST, C::HIGHEST];
        candidates.into_iter().find(|cell| !self.keeps(*cell))
    }
}

/// Keeps the cells between two bounds, except the fill value.
#[derive(Debug, Clone, Copy)]
pub struct WithinExceptFill<C> {
    /// The bounds.
    pub within: Within<C>,
    /// The fill value.
    pub fill: C,
}

impl<C: Cell> Keep<C> for WithinExceptFill<C> {
    const KEEPS_NUMBERS: bool = false;

    #[inline(always)]
    fn keeps(self, cell: C) -> bool {
        self.within.keeps(cell) & !cell.is_same(self.fill)
    }
}
