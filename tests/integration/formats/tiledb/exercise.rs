//! Reads all of an array or a group, which may be damaged. The fuzz target `tiledb` uses this file as well.

use std::path::Path;
use std::sync::Arc;

use tet_sql::Error;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{
    DenseReader, EncryptionKey, FieldKind, OpenOptions, SparseReader, TileBuffers, TileDbArray,
    TileDbGroup, TileReader,
};

/// Tiles that are read of each fragment.
const MAX_TILES: u64 = 6;
/// Cells of the windows that are read: their size is up to the caller.
const MAX_CELLS: usize = 1 << 20;

/// Reads everything within the limits. Stops at the first error.
pub fn read(path: &Path, access: Access, key: Option<&EncryptionKey>) -> Result<(), Error> {
    let options = OpenOptions {
        timestamp_end: Some(u64::MAX),
        key: key.cloned(),
        ..OpenOptions::default()
    };
    if TileDbGroup::recognises(path) {
        let group = TileDbGroup::open(path, &options)?;
        group.metadata()?;
        for member in group.members() {
            if let Some(path) = group.member_path(member) {
                read(&path, access, key)?;
            }
        }
        return Ok(());
    }
    let array = Arc::new(TileDbArray::open(path, &options, access)?);
    array.metadata()?;
    for label in &array.schema().labels {
        if let Some(path) = array.label_path(label) {
            read(&path, access, key)?;
        }
    }
    for attribute in 0..array.schema().attributes.len() {
        array.enumeration(attribute)?;
    }
    let mut buffers = TileBuffers::default();
    let mut tiles = TileReader::default();
    for (index, fragment) in array.fragments().iter().enumerate() {
        let mut kinds: Vec<_> = (0..fragment.schema().attributes.len())
            .map(FieldKind::Attribute)
            .collect();
        if fragment.schema().is_sparse {
            kinds.extend((0..fragment.schema().dimensions.len()).map(FieldKind::Dimension));
            fragment.bounds()?;
        }
        if fragment.has_timestamps() {
            kinds.push(FieldKind::Timestamps);
        }
        if fragment.has_deletes() {
            kinds.push(FieldKind::DeleteTimes);
        }
        fragment.statistics()?;
        fragment.processed_deletes()?;
        for attribute in 0..fragment.schema().attributes.len() {
            fragment.summaries(attribute)?;
            fragment.summary(attribute)?;
        }
        for kind in kinds {
            let field = fragment.field(kind)?;
            for tile in 0..fragment.tiles().min(MAX_TILES) {
                tiles.read(fragment, &field, tile, &mut buffers)?;
                assert_eq!(buffers.cells as u64, fragment.cells(tile));
            }
        }
        if array.schema().is_sparse {
            let mut reader = SparseReader::new(Arc::clone(&array))?;
            for tile in 0..fragment.tiles().min(MAX_TILES) {
                reader.selection(index, tile)?;
                for attribute in 0..array.schema().attributes.len() {
                    reader.attribute(index, tile, attribute, &mut buffers)?;
                }
            }
        }
    }
    if array.schema().is_sparse {
        return Ok(());
    }
    let grid = array.grid()?;
    let mut reader = DenseReader::new(Arc::clone(&array));
    let tiles = grid.tile_box(grid.used());
    for tile in 0..MAX_TILES {
        let tile = tiles
            .ranges
            .iter()
            .map(|range| (range.start + tile).min(range.end - 1));
        let Some(cells) = grid.tile(&tile.collect::<Vec<_>>()) else {
            continue;
        };
        if cells.cells().is_none_or(|cells| cells > MAX_CELLS as u64) {
            continue;
        }
        let window = array.window(cells)?;
        for attribute in 0..array.schema().attributes.len() {
            if array.schema().attributes[attribute].fill.len() < MAX_CELLS {
                reader.read(&window, attribute, &mut buffers)?;
                assert_eq!(buffers.cells, window.len());
            }
        }
    }
    Ok(())
}
