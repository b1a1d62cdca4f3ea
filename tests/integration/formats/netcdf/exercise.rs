//! Reads everything in a file that may be broken anywhere. The fuzz target uses this module as well.

use std::path::Path;
use std::sync::Arc;

use tet_sql::Access;
use tet_sql::format::array::{ArrayFile, ChunkReader, Dataset};
use tet_sql::format::netcdf::NetcdfFile;

/// Maximum number of chunks read from a dataset. A changed shape can claim any number.
const MAX_CHUNKS: u64 = 64;

/// Opens a file and reads its datasets. Returns the number of bytes read.
pub fn exercise(path: &Path, access: Access) -> usize {
    let Ok(file) = NetcdfFile::open(path, access) else {
        return 0;
    };
    let file: Arc<dyn ArrayFile> = Arc::new(file);
    let read = |dataset: &Dataset| read(&file, dataset);
    file.datasets().iter().map(read).sum()
}

fn read(file: &Arc<dyn ArrayFile>, dataset: &Dataset) -> usize {
    let grid = dataset.chunk_grid();
    if grid.contains(&0) {
        return 0;
    }
    let chunks = grid
        .iter()
        .try_fold(1u64, |count, axis| count.checked_mul(*axis));
    let mut reader = ChunkReader::new(Arc::clone(file), file.access());
    let mut bytes = 0;
    for ordinal in 0..chunks.unwrap_or(u64::MAX).min(MAX_CHUNKS) {
        let mut rest = ordinal;
        let mut chunk = grid.clone();
        for axis in chunk.iter_mut().rev() {
            (*axis, rest) = (rest % *axis, rest / *axis);
        }
        let Ok(stored) = reader.open(dataset, &chunk) else {
            break;
        };
        while let Ok(false) = reader.advance() {}
        let cells = reader.cells(0..stored.raw_bytes as usize);
        bytes += cells.map_or(0, <[u8]>::len);
    }
    bytes
}
