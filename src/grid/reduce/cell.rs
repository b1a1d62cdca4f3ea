//! Numbers as they are stored, and what sums of them are kept in.

use std::ops::AddAssign;

/// A type of stored number.
pub trait Cell: Copy + PartialOrd + Send + Sync + 'static {
    /// The bytes of one, little-endian.
    type Bytes: Copy + Send + Sync + 'static;
    /// Nothing, to be added.
    const ZERO: Self;
    /// No number is less.
    const LEAST: Self;
    /// No number is greater.
    const GREATEST: Self;
    /// Whether there are values that are not numbers.
    const HAS_NAN: bool;

    /// What up to 65,535 cells are counted in: as wide as a cell, where that is wide enough, so that as many fit into a
    /// vector.
    type Count: Copy + Default + PartialEq + Into<u64> + From<bool> + From<u16> + AddAssign;

    /// Whole cells; a rest of bytes is left out. No alignment is asked for.
    fn split(bytes: &[u8]) -> &[Self::Bytes];

    /// The number.
    fn load(bytes: Self::Bytes) -> Self;

    /// The number of this bit pattern, of which the low bits count.
    fn from_pattern(pattern: u64) -> Self;

    /// Whether both have the same bits.
    fn is_same(self, other: Self) -> bool;

    /// The nearest double.
    fn to_f64(self) -> f64;
}

/// A cell whose sums are kept in `T`: f64, or i64 that wraps around (also for unsigned numbers, whose sums have the same
/// bits).
pub trait SumInto<T>: Cell {
    /// What at least 65,536 cells are added up in without loss, other than that of floating-point additions.
    type Partial: Partial;

    /// The cell as a partial sum.
    fn widen(self) -> Self::Partial;

    /// Adds two partial sums, which wrap around where the total does.
    fn plus(one: Self::Partial, other: Self::Partial) -> Self::Partial;

    /// Adds a partial sum to a total.
    fn flush(partial: Self::Partial, total: &mut T);

    /// Whether the sum may have met a value that is not a number.
    fn is_tainted(partial: Self::Partial) -> bool;
}

/// A sum of some cells.
pub trait Partial: Copy + Default {
    /// Whether what was added can be taken away again, and leaves nothing behind.
    const IS_EXACT: bool;

    /// Without so many of these addends.
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
            const LEAST: Self = <$type>::NEG_INFINITY;
            const GREATEST: Self = <$type>::INFINITY;
            const HAS_NAN: bool = true;

            bytes!($type, $count);

            fn from_pattern(pattern: u64) -> Self {
                Self::from_bits(pattern as _)
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
            const LEAST: Self = <$type>::MIN;
            const GREATEST: Self = <$type>::MAX;
            const HAS_NAN: bool = false;

            bytes!($type, $count);

            fn from_pattern(pattern: u64) -> Self {
                pattern as _
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

integer!(i16, u16, i32, i32);
integer!(u8, u16, u32, u32);
integer!(u16, u16, u32, u32);
integer!(i32, u32, i64, i64);
integer!(u32, u32, u64, u64);
integer!(i64, u64, i64, f64);
integer!(u64, u64, u64, f64);

/// What sums are kept in.
pub trait Total: Copy + Default + Send + 'static {
    /// Adds another.
    fn add(&mut self, other: Self);
}

impl Total for f64 {
    fn add(&mut self, other: Self) {
        *self += other;
    }
}

impl Total for i64 {
    fn add(&mut self, other: Self) {
        *self = self.wrapping_add(other);
    }
}

/// A cell that can be added up as a double and as what a number of its type is added up in.
pub trait Number: SumInto<f64> + SumInto<Self::Natural> {
    /// f64 for floating-point numbers, i64 for integers.
    type Natural: Total;
}

/// Which cells count.
pub trait Keep<C>: Copy + Send + Sync {
    /// Whether these are all that are numbers.
    const KEEPS_NUMBERS: bool;

    /// Whether this one does.
    fn keeps(self, cell: C) -> bool;

    /// The only number that does not, if there is just one.
    #[inline(always)]
    fn exception(self) -> Option<C> {
        None
    }
}

/// All numbers.
#[derive(Debug, Clone, Copy)]
pub struct Numbers;

// A number is equal to itself.
#[allow(clippy::eq_op)]
impl<C: Cell> Keep<C> for Numbers {
    const KEEPS_NUMBERS: bool = true;

    #[inline(always)]
    fn keeps(self, cell: C) -> bool {
        cell == cell
    }
}

/// All but the cells that are marked as missing.
#[derive(Debug, Clone, Copy)]
pub struct Except<C> {
    /// The mark.
    pub fill: C,
}

impl<C: Cell> Keep<C> for Except<C> {
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

/// Cells between two bounds, which count themselves. NaN is between no bounds.
#[derive(Debug, Clone, Copy)]
pub struct Within<C> {
    /// The least that counts.
    pub least: C,
    /// The greatest that counts.
    pub greatest: C,
}

impl<C: Cell> Keep<C> for Within<C> {
    const KEEPS_NUMBERS: bool = false;

    #[inline(always)]
    fn keeps(self, cell: C) -> bool {
        // Both are evaluated: a branch would cost more.
        (self.least <= cell) & (cell <= self.greatest)
    }
}

/// Those that count by both.
#[derive(Debug, Clone, Copy)]
pub struct Both<A, B>(pub A, pub B);

impl<C: Cell, A: Keep<C>, B: Keep<C>> Keep<C> for Both<A, B> {
    const KEEPS_NUMBERS: bool = A::KEEPS_NUMBERS && B::KEEPS_NUMBERS;

    #[inline(always)]
    fn keeps(self, cell: C) -> bool {
        self.0.keeps(cell) & self.1.keeps(cell)
    }
}
