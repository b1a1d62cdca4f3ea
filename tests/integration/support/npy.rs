//! A reader for NumPy's `.npy` and `.npz` files, which give tests expected arrays that this project
//! did not write.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use tet_sql::format::tet::Dtype;

use crate::support::cells::{self, Cell};

/// An array as NumPy saved it, little-endian and row-major.
#[derive(Debug, Clone)]
pub struct NpyArray {
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

impl NpyArray {
    /// Reads a `.npy` file.
    pub fn open(path: &Path) -> Self {
        Self::parse(&std::fs::read(path).unwrap())
    }

    /// Parses format version 1.0: magic number, version, header length in two bytes, header, cells.
    fn parse(file: &[u8]) -> Self {
        assert_eq!(&file[..8], b"\x93NUMPY\x01\x00");
        let header_end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
        let header = std::str::from_utf8(&file[10..header_end]).unwrap();
        assert!(header.contains("'fortran_order': False"), "{header}");
        let between = |start: &str, end: &str| {
            let rest = header.split_once(start).unwrap().1;
            rest.split_once(end).unwrap().0
        };
        let dtype = match between("'descr': '", "'") {
            "<f2" => Dtype::F16,
            "<f4" => Dtype::F32,
            "<f8" => Dtype::F64,
            "<i2" => Dtype::I16,
            "<i4" => Dtype::I32,
            "<i8" => Dtype::I64,
            "|u1" => Dtype::U8,
            "<u2" => Dtype::U16,
            "<u4" => Dtype::U32,
            "<u8" => Dtype::U64,
            other => panic!("dtype {other}"),
        };
        let shape: Vec<u64> = between("'shape': (", ")")
            .split(',')
            .map(str::trim)
            .filter(|extent| !extent.is_empty())
            .map(|extent| extent.parse().unwrap())
            .collect();
        let bytes = file[header_end..].to_vec();
        assert_eq!(
            bytes.len() as u64,
            shape.iter().product::<u64>() * dtype.size()
        );
        Self {
            dtype,
            shape,
            bytes,
        }
    }

    /// Returns the cells of the table when no cell reads as null.
    pub fn raw_cells(&self) -> Vec<Cell> {
        cells::from_stored(self.dtype, &self.bytes)
    }

    /// Returns the cells of the table when NaN and the fill value read as null.
    pub fn cells(&self, fill: Option<f64>) -> Vec<Cell> {
        let numbers = self.numbers();
        self.raw_cells()
            .into_iter()
            .zip(numbers)
            .map(|(cell, number)| cell.filter(|_| !number.is_nan() && Some(number) != fill))
            .collect()
    }

    /// Returns the cells as f64. Integers beyond 2^53 are rounded.
    pub fn numbers(&self) -> Vec<f64> {
        self.raw_cells()
            .into_iter()
            .map(|cell| cells::number(self.dtype, cell.unwrap()))
            .collect()
    }
}

/// Reads a `.npz` file with uncompressed members, as written by `numpy.savez`.
pub fn open_npz(path: &Path) -> BTreeMap<String, NpyArray> {
    let file = std::fs::read(path).unwrap();
    let u16_at = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    // NumPy leaves the sizes out of the local headers, so only the central directory has them.
    let end = file
        .windows(4)
        .rposition(|four| four == b"PK\x05\x06")
        .unwrap();
    let mut entry = u32_at(end + 16);
    let mut arrays = BTreeMap::new();
    for _ in 0..u16_at(end + 10) {
        assert_eq!(&file[entry..entry + 4], b"PK\x01\x02");
        assert_eq!(u16_at(entry + 10), 0, "a member is compressed");
        let (size, name_length) = (u32_at(entry + 24), u16_at(entry + 28));
        let name = std::str::from_utf8(&file[entry + 46..entry + 46 + name_length]).unwrap();
        let local = u32_at(entry + 42);
        let start = local + 30 + u16_at(local + 26) + u16_at(local + 28);
        arrays.insert(
            name.strip_suffix(".npy").unwrap().to_string(),
            NpyArray::parse(&file[start..start + size]),
        );
        entry += 46 + name_length + u16_at(entry + 30) + u16_at(entry + 32);
    }
    arrays
}

/// Returns the row-major indices of the cells of `array[a:b, c:d, ...]`, in the order of the slice.
pub fn slice_indices(shape: &[u64], ranges: &[Range<u64>]) -> Vec<usize> {
    let mut positions = vec![0];
    for (extent, range) in shape.iter().zip(ranges) {
        positions = positions
            .iter()
            .flat_map(|outer| range.clone().map(move |inner| outer * extent + inner))
            .collect();
    }
    positions
        .iter()
        .map(|position| *position as usize)
        .collect()
}

#[test]
fn npy_header_and_cells_are_parsed() {
    let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }\n";
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend([-1i16, 2, 3, 4, 5, 6].iter().flat_map(|v| v.to_le_bytes()));
    let array = NpyArray::parse(&file);
    assert_eq!(
        (array.dtype, array.shape.as_slice()),
        (Dtype::I16, &[2, 3][..])
    );
    assert_eq!(array.numbers(), [-1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(array.cells(Some(2.0))[..2], [Some(0xffff), None]);
    assert_eq!(slice_indices(&[2, 3], &[0..2, 1..3]), [1, 2, 4, 5]);
}
