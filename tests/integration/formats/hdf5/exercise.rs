//! Reads a file that may be broken anywhere. The fuzz target uses this module as well.

use std::path::Path;
use std::sync::Arc;

use tet_sql::Access;
use tet_sql::format::array::{ArrayFile, ChunkReader};
use tet_sql::format::hdf5::Hdf5File;

/// Chunks with more cells are not read: they may be valid, and would need that much memory.
const MAX_CHUNK_CELLS: u64 = 1 << 20;

/// Opens a file and reads some chunks of each dataset.
pub fn exercise(path: &Path, access: Access) {
    let Ok(file) = Hdf5File::open(path, access) else {
        return;
    };
    let file: Arc<dyn ArrayFile> = Arc::new(file);
    for dataset in file.datasets() {
        let cells = dataset
            .chunk_shape()
            .iter()
            .try_fold(1u64, |cells, extent| cells.checked_mul(*extent));
        let is_small = cells.is_some_and(|cells| cells <= MAX_CHUNK_CELLS);
        if dataset.check(path).is_err() || !is_small || dataset.shape().contains(&0) {
            continue;
        }
        let grid = dataset.chunk_grid();
        let first = vec![0; grid.len()];
        let last: Vec<u64> = grid.iter().map(|count| count - 1).collect();
        let middle: Vec<u64> = grid.iter().map(|count| count / 2).collect();
        let mut reader = ChunkReader::new(Arc::clone(&file), access);
        for chunk in [first, middle, last] {
            let Ok(stored) = reader.open(dataset, &chunk) else {
                continue;
            };
            while let Ok(false) = reader.advance() {}
            reader.cells(0..stored.raw_bytes as usize).ok();
        }
    }
}
