//! Access to the Zarr stores of the test data, which are all kept in one JSON document, and to
//! their cells.

use std::path::{Path, PathBuf};

use half::f16;
use serde_json::Value;
use tempfile::TempDir;
use tet_sql::format::tet::{Categories, Dtype};
use tet_sql::format::zarr::ZarrHierarchy;

/// Reads a JSON document from `tests/data/zarr`.
pub fn document(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/zarr");
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

/// Returns the path and content of every file of a store.
pub fn files(store: &Value) -> Vec<(String, Vec<u8>)> {
    let files = store.as_object().unwrap().iter();
    let content = |value: &Value| match value.get("hex") {
        Some(digits) => {
            let digits = digits.as_str().unwrap();
            let byte = |n| u8::from_str_radix(&digits[n..n + 2], 16).unwrap();
            (0..digits.len()).step_by(2).map(byte).collect()
        }
        None => value.as_str().unwrap().as_bytes().to_vec(),
    };
    files
        .map(|(name, value)| (name.clone(), content(value)))
        .collect()
}

/// Writes files into a directory.
pub fn put(folder: &Path, files: &[(String, Vec<u8>)]) {
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

/// Unpacks a store into a temporary directory, and returns the path of the store.
pub fn unpacked(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    put(&path, &files(&document("stores.json")[name]));
    (folder, path)
}

/// Calls a function for each chunk of an array.
pub fn for_each_chunk(grid: &[u64], mut call: impl FnMut(&[u64])) {
    if grid.contains(&0) {
        return;
    }
    let mut chunk = vec![0; grid.len()];
    loop {
        call(&chunk);
        let Some(axis) = (0..grid.len())
            .rev()
            .find(|axis| chunk[*axis] + 1 < grid[*axis])
        else {
            return;
        };
        chunk[axis] += 1;
        chunk[axis + 1..].fill(0);
    }
}

/// Returns all cells of an array in row-major order, assembled cell by cell.
pub fn cells(folder: &ZarrHierarchy, number: usize) -> Vec<u8> {
    let array = &folder.arrays()[number];
    let size = array.dtype().size() as usize;
    let shape = array.shape();
    let mut all = vec![0xaa; shape.iter().product::<u64>() as usize * size];
    // The previous content of the buffer must not matter.
    let mut chunk_cells = vec![1, 2, 3];
    for_each_chunk(&array.chunk_grid(), |chunk| {
        folder.read_chunk(number, chunk, &mut chunk_cells).unwrap();
        let start: Vec<u64> = chunk
            .iter()
            .zip(array.chunk_shape())
            .map(|(c, size)| c * size)
            .collect();
        let axes = start.iter().zip(array.chunk_shape().iter().zip(shape));
        let extents: Vec<u64> = axes
            .map(|(start, (size, extent))| (*size).min(extent - start))
            .collect();
        assert_eq!(
            chunk_cells.len() as u64,
            extents.iter().product::<u64>() * size as u64
        );
        let mut n = 0;
        for_each_chunk(&extents, |position| {
            let mut offset = 0;
            for axis in 0..shape.len() {
                offset = offset * shape[axis] + start[axis] + position[axis];
            }
            let offset = offset as usize * size;
            all[offset..offset + size].copy_from_slice(&chunk_cells[n * size..][..size]);
            n += 1;
        });
    });
    all
}

/// A cell as a number. Integers of all types are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Integer(i128),
    Float(f64),
}

pub fn numbers(dtype: Dtype, cells: &[u8]) -> Vec<Number> {
    let number = |cell: &[u8]| match dtype {
        Dtype::U8 => Number::Integer(cell[0].into()),
        Dtype::I8 => Number::Integer((cell[0] as i8).into()),
        Dtype::U16 => Number::Integer(u16::from_le_bytes(cell.try_into().unwrap()).into()),
        Dtype::U32 => Number::Integer(u32::from_le_bytes(cell.try_into().unwrap()).into()),
        Dtype::U64 => Number::Integer(u64::from_le_bytes(cell.try_into().unwrap()).into()),
        Dtype::I16 => Number::Integer(i16::from_le_bytes(cell.try_into().unwrap()).into()),
        Dtype::I32 => Number::Integer(i32::from_le_bytes(cell.try_into().unwrap()).into()),
        Dtype::I64 => Number::Integer(i64::from_le_bytes(cell.try_into().unwrap()).into()),
        Dtype::F16 => Number::Float(f16::from_le_bytes(cell.try_into().unwrap()).to_f64()),
        Dtype::F32 => Number::Float(f32::from_le_bytes(cell.try_into().unwrap()).into()),
        Dtype::F64 => Number::Float(f64::from_le_bytes(cell.try_into().unwrap())),
    };
    cells
        .chunks_exact(dtype.size() as usize)
        .map(number)
        .collect()
}

/// Returns the strings of an array of category codes.
pub fn texts(folder: &ZarrHierarchy, number: usize) -> Vec<String> {
    let array = &folder.arrays()[number];
    assert_eq!(array.dtype(), Dtype::I64);
    // All categories in the test data fit in one attribute.
    let categories = Categories::parse(&array.metadata().attrs[Categories::ATTRIBUTE]).unwrap();
    let codes = numbers(Dtype::I64, &cells(folder, number));
    codes
        .into_iter()
        .map(|code| match code {
            Number::Integer(code) => categories.text(code as i64).unwrap().to_string(),
            Number::Float(_) => unreachable!(),
        })
        .collect()
}
