//! The positions of a variable's cells in the file.

use crate::format::array::{Dataset, checked_product};
use crate::format::netcdf::header::Header;
use crate::format::npy::contiguous_chunk;

/// Records of a chunk that are at most this many bytes apart in total, so that workers share the
/// records of a long file.
const MAX_SPAN: u64 = 32 << 20;
/// Number of records that a chunk may always have, however far apart they are.
const MIN_RECORDS: u64 = 1024;

/// The records of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Records {
    /// The number of records.
    pub count: u64,
    /// The number of bytes from one record to the next.
    pub size: u64,
}

impl Records {
    /// Computes the records of a file of `length` bytes. Returns `None` if sizes overflow.
    ///
    /// A record has a slab of each variable with the record dimension, padded to a multiple of four
    /// bytes. There is no padding if only one variable has slabs.
    pub fn of(header: &Header, length: u64) -> Option<Self> {
        let mut size = 0u64;
        let mut slabs = Vec::new();
        for variable in &header.variables {
            let lengths = variable.dimensions.iter();
            let lengths: Vec<_> = lengths.map(|at| header.dimensions[*at].length).collect();
            if lengths.first() != Some(&0) {
                continue;
            }
            let slab = checked_product(&lengths[1..])?.checked_mul(variable.nc_type.size())?;
            size = size.checked_add(slab.checked_next_multiple_of(4)?)?;
            slabs.push((variable.begin, slab));
        }
        let mut filled = slabs.iter().filter(|(_, slab)| *slab > 0);
        if let (Some((_, only)), None) = (filled.next(), filled.next()) {
            size = *only;
        }
        let count = header.records.unwrap_or_else(|| {
            let complete = slabs.iter().filter(|(_, slab)| *slab > 0);
            let complete = complete.map(|(begin, slab)| {
                let last = length
                    .checked_sub(*slab)
                    .and_then(|last| last.checked_sub(*begin));
                last.map_or(0, |last| last / size + 1)
            });
            complete.min().unwrap_or(0)
        });
        Some(Self { count, size })
    }
}

/// The position of a variable's cells in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VariableLayout {
    /// The offset of the first cell.
    pub begin: u64,
    /// The number of bytes of a cell in the file.
    pub cell: u64,
    /// The number of bytes from one record to the next. `None` if all cells are contiguous.
    pub record: Option<u64>,
}

/// Byte ranges of equal length at equal distances: where the cells of a chunk lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Runs {
    /// The offset of the first range.
    pub start: u64,
    pub length: u64,
    pub count: u64,
    /// The distance between the starts of two ranges.
    pub stride: u64,
}

impl Runs {
    /// Returns the end of the last range, or `None` on overflow.
    pub fn end(&self) -> Option<u64> {
        let last = self.count.saturating_sub(1).checked_mul(self.stride)?;
        self.start.checked_add(last)?.checked_add(self.length)
    }

    /// Returns the ranges without those that a file of `length` bytes ends within. Of a single
    /// range, the units of `unit` bytes that the file has are kept.
    pub fn within(self, length: u64, unit: u64) -> Self {
        let left = length.saturating_sub(self.start);
        if self.count <= 1 {
            return Self {
                length: self.length.min(left / unit * unit),
                ..self
            };
        }
        let whole = match left.checked_sub(self.length) {
            Some(rest) => rest / self.stride + 1,
            None => 0,
        };
        Self {
            count: self.count.min(whole),
            ..self
        }
    }
}

impl VariableLayout {
    /// Returns the shape of chunks of about 4 MiB. Within a record, a chunk is contiguous.
    ///
    /// `size` is the number of bytes of a cell in memory.
    pub fn chunk_shape(&self, shape: &[u64], size: u64) -> Vec<u64> {
        let mut chunk = contiguous_chunk(shape, size.max(self.cell));
        if let (Some(first), Some(record)) = (chunk.first_mut(), self.record) {
            let most = (MAX_SPAN / record.max(1)).max(MIN_RECORDS);
            *first = (*first).min(most);
        }
        chunk
    }

    /// Returns the byte ranges of a chunk, which must be in the chunk grid. Returns `None` if
    /// offsets overflow.
    pub fn runs(&self, dataset: &Dataset, chunk: &[u64]) -> Option<Runs> {
        let (from, extents) = dataset.chunk_bounds(chunk);
        let outer = usize::from(self.record.is_some());
        // The chunk spans the fastest axes, so the cells within a record are contiguous.
        let mut first = 0u64;
        for (extent, from) in dataset.shape.iter().zip(&from).skip(outer) {
            first = first.checked_mul(*extent)?.checked_add(*from)?;
        }
        let cells = checked_product(&extents[outer..])?;
        let mut runs = Runs {
            start: self.begin.checked_add(first.checked_mul(self.cell)?)?,
            length: cells.checked_mul(self.cell)?,
            count: 1,
            stride: 0,
        };
        if let Some(record) = self.record {
            let offset = from[0].checked_mul(record)?;
            runs.start = runs.start.checked_add(offset)?;
            (runs.count, runs.stride) = (extents[0], record);
            if record == runs.length {
                runs.length = runs.length.checked_mul(runs.count)?;
                (runs.count, runs.stride) = (1, 0);
            }
        }
        runs.end().map(|_| runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::array::Dtype;
    use crate::format::netcdf::element::NcType;
    use crate::format::netcdf::header::{Dimension, Variable};

    fn header(lengths: &[u64], variables: &[(&[usize], NcType, u64)]) -> Header {
        let dimension = |length: &u64| Dimension {
            name: "x".to_string(),
            length: *length,
        };
        let variable = |(dimensions, nc_type, begin): &(&[usize], NcType, u64)| Variable {
            name: "v".to_string(),
            dimensions: dimensions.to_vec(),
            attributes: Vec::new(),
            nc_type: *nc_type,
            begin: *begin,
        };
        Header {
            version: 1,
            records: None,
            dimensions: lengths.iter().map(dimension).collect(),
            attributes: Vec::new(),
            variables: variables.iter().map(variable).collect(),
            length: 0,
        }
    }

    #[test]
    fn a_record_is_padded_unless_it_has_a_single_slab() {
        use NcType::{Byte, Double, Short};
        let of = |variables: &[(&[usize], NcType, u64)], length| {
            Records::of(&header(&[0, 3, 5], variables), length).unwrap()
        };
        let one = of(&[(&[0, 1], Short, 100), (&[1], Double, 70)], 118);
        assert_eq!((one.size, one.count), (6, 3));
        let two = of(&[(&[0, 1], Short, 100), (&[0, 2], Byte, 108)], 133);
        assert_eq!((two.size, two.count), (16, 2));
        assert_eq!(of(&[], 100).count, 0);
        assert_eq!(of(&[(&[0], Double, 200)], 100).count, 0);
        assert_eq!(
            Records::of(&header(&[0, u64::MAX], &[(&[0, 1], Short, 0)]), 9),
            None
        );
    }

    #[test]
    fn chunks_are_runs_of_bytes() {
        let dataset = |shape: &[u64], chunk: &[u64]| Dataset::new(0, "v", Dtype::I16, shape, chunk);
        let fixed = VariableLayout {
            begin: 100,
            cell: 2,
            record: None,
        };
        let runs = |start, length, count, stride| {
            Some(Runs {
                start,
                length,
                count,
                stride,
            })
        };
        let box_of = dataset(&[5, 4, 3], &[2, 4, 3]);
        assert_eq!(fixed.runs(&box_of, &[1, 0, 0]), runs(148, 48, 1, 0));
        assert_eq!(fixed.runs(&box_of, &[2, 0, 0]), runs(196, 24, 1, 0));
        assert_eq!(fixed.runs(&dataset(&[], &[]), &[]), runs(100, 2, 1, 0));
        let record = VariableLayout {
            record: Some(1000),
            ..fixed
        };
        assert_eq!(record.runs(&box_of, &[1, 0, 0]), runs(2100, 24, 2, 1000));
        let rows = dataset(&[5, 4, 3], &[1, 2, 3]);
        assert_eq!(record.runs(&rows, &[4, 1, 0]), runs(4112, 12, 1, 1000));
        let only = VariableLayout {
            record: Some(24),
            ..fixed
        };
        assert_eq!(only.runs(&box_of, &[1, 0, 0]), runs(148, 48, 1, 0));
        let far = VariableLayout {
            begin: u64::MAX - 10,
            ..fixed
        };
        assert_eq!(far.runs(&box_of, &[1, 0, 0]), None);
    }

    #[test]
    fn chunks_of_distant_records_have_at_least_some_records() {
        let layout = |record| VariableLayout {
            begin: 0,
            cell: 8,
            record,
        };
        let of = |record| layout(record).chunk_shape(&[1_000_000], 8)[0];
        assert_eq!(of(None), (4 << 20) / 8);
        assert_eq!(of(Some(128)), (32 << 20) / 128);
        assert_eq!(of(Some(1 << 30)), 1024);
        assert_eq!(
            layout(Some(1 << 22)).chunk_shape(&[9, 1000, 1000], 8),
            [1, 524, 1000]
        );
        assert_eq!(layout(None).chunk_shape(&[], 8), [] as [u64; 0]);
    }
}
