//! Numbers that are known without reading values: row counts, and statistics of blocks.

use std::ops::Add;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::compute::{TakeOptions, take};
use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue};

/// A number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCount {
    /// Exactly this number.
    Exact(u64),
    /// At most this number, for example because some rows are overwritten or deleted.
    AtMost(u64),
    /// Not known, or 2^64 or more.
    Unknown,
}

impl RowCount {
    /// Returns the exact number of rows, if known.
    pub fn exact(self) -> Option<u64> {
        match self {
            Self::Exact(rows) => Some(rows),
            Self::AtMost(_) | Self::Unknown => None,
        }
    }

    /// Returns the maximum number of rows, if known.
    pub fn at_most(self) -> Option<u64> {
        match self {
            Self::Exact(rows) | Self::AtMost(rows) => Some(rows),
            Self::Unknown => None,
        }
    }

    /// Returns the count for DataFusion's statistics. DataFusion counts rows in `i64`, so larger
    /// counts are absent.
    pub(in crate::provider) fn precision(self) -> Precision<usize> {
        let rows = self.at_most().filter(|rows| *rows <= i64::MAX as u64);
        match (rows.and_then(|rows| usize::try_from(rows).ok()), self) {
            (Some(rows), Self::Exact(_)) => Precision::Exact(rows),
            (Some(rows), _) => Precision::Inexact(rows),
            (None, _) => Precision::Absent,
        }
    }
}

impl From<Option<u64>> for RowCount {
    /// Converts an exact count; `None` stands for 2^64 or more.
    fn from(rows: Option<u64>) -> Self {
        rows.map_or(Self::Unknown, Self::Exact)
    }
}

impl Add for RowCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = self.at_most().zip(other.at_most());
        match sum.and_then(|(one, other)| one.checked_add(other)) {
            Some(sum) if self.exact().and(other.exact()).is_some() => Self::Exact(sum),
            Some(sum) => Self::AtMost(sum),
            None => Self::Unknown,
        }
    }
}

/// Returns the sum of integers of a type as a statistic, in the type of SQL's `sum`. Absent if the sum
/// does not fit into that type.
pub(in crate::provider) fn sum_of_integers(
    data_type: &DataType,
    sum: i128,
) -> Precision<ScalarValue> {
    let sum = match data_type.is_unsigned_integer() {
        true => u64::try_from(sum).map(|sum| ScalarValue::UInt64(Some(sum))),
        false => i64::try_from(sum).map(|sum| ScalarValue::Int64(Some(sum))),
    };
    sum.map_or(Precision::Absent, Precision::Exact)
}

/// Statistics of several columns in several blocks.
#[derive(Debug, Clone)]
pub struct BlockStatistics {
    /// The number of rows in each whole block, selected or not; null if not known exactly.
    pub rows: UInt64Array,
    /// The statistics of each requested column; `None` if nothing is known.
    pub columns: Vec<Option<ColumnBounds>>,
}

impl BlockStatistics {
    /// Returns unknown statistics for this number of columns and blocks.
    pub fn unknown(columns: usize, blocks: usize) -> Self {
        Self {
            rows: std::iter::repeat_n(None, blocks).collect(),
            columns: vec![None; columns],
        }
    }
}

/// Statistics of one column in several blocks. Each array has one value per block.
#[derive(Debug, Clone)]
pub struct ColumnBounds {
    /// A lower bound of the block's values, in the type of the column; null if unknown.
    pub min: ArrayRef,
    /// An upper bound of the block's values, in the type of the column; null if unknown.
    pub max: ArrayRef,
    /// The number of nulls in the whole block; null if unknown.
    pub nulls: UInt64Array,
    /// The exact sums of the values of the whole block, in the type of `sum`; null if unknown.
    /// `None` if unknown for every block.
    pub sums: Option<ArrayRef>,
    /// `true` if the bounds are exact for every block: both occur as values, unless all values are
    /// null.
    pub is_exact: bool,
}

impl ColumnBounds {
    /// Returns the statistics of the blocks at these indices. `is_exact` is copied, so it may be
    /// `false` even if the statistics of these blocks happen to be exact.
    ///
    /// # Errors
    /// Returns an error if an index is out of range.
    pub fn take(&self, indices: Vec<u64>) -> Result<Self> {
        let first = indices.first().map_or(0, |first| *first as usize);
        let follow = indices
            .windows(2)
            .all(|two| two[0].wrapping_add(1) == two[1]);
        if follow && first + indices.len() <= self.nulls.len() {
            return Ok(Self {
                min: self.min.slice(first, indices.len()),
                max: self.max.slice(first, indices.len()),
                nulls: self.nulls.slice(first, indices.len()),
                sums: self
                    .sums
                    .as_ref()
                    .map(|sums| sums.slice(first, indices.len())),
                is_exact: self.is_exact,
            });
        }
        let indices = UInt64Array::from(indices);
        let options = TakeOptions { check_bounds: true };
        let nulls = take(&self.nulls, &indices, Some(options.clone()))?;
        Ok(Self {
            min: take(&self.min, &indices, Some(options.clone()))?,
            max: take(&self.max, &indices, Some(options.clone()))?,
            sums: match &self.sums {
                Some(sums) => Some(take(sums, &indices, Some(options))?),
                None => None,
            },
            nulls: nulls.as_primitive().clone(),
            is_exact: self.is_exact,
        })
    }
}
