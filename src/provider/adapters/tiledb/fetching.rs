//! Fetches the tiles of blocks from an object store.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};

use crate::format::tiledb::fetch::{FetchedTiles, FieldTile, NeededTiles, fetch_tiles};
use crate::format::tiledb::{Field, FieldKind, TileDbArray, needed_tiles};
use crate::grid::{ChunkGrid, Window};
use crate::provider::adapters::tiledb::dense::DenseGrid;
use crate::provider::adapters::tiledb::sparse::SparseBlocks;
use crate::provider::source::{Fetch, FetchedBlock, GridSource};

/// The maximum number of tiles of a window that are fetched ahead. Windows of more tiles are read tile by
/// tile.
const MAX_TILES: u64 = 1024;

/// Returns the tiles that a fetch got; none if nothing was fetched.
pub(super) fn fetched_tiles(fetched: Option<FetchedBlock>) -> Result<FetchedTiles> {
    let Some(fetched) = fetched else {
        return Ok(FetchedTiles::default());
    };
    match fetched.downcast() {
        Ok(tiles) => Ok(*tiles),
        Err(_) => internal_err!("the fetched tiles are those of another source"),
    }
}

/// Returns the fetch of the tiles of a window of a dense array; `None` if the array is in the file system.
pub(super) fn of_window(grid: &DenseGrid, window: &Window, attributes: &[usize]) -> Option<Fetch> {
    let array = grid.array();
    if array.is_local() || attributes.is_empty() || window.cells() == 0 {
        return None;
    }
    let chunks = grid.chunk_grid().chunks_in(window);
    let mut count = chunks.iter().map(|range| range.end - range.start);
    let count = count.try_fold(1u64, |count, along| count.checked_mul(along));
    let count = count.filter(|count| *count <= MAX_TILES)?;
    let mut fields: HashMap<(usize, usize), Option<Arc<Field>>> = HashMap::new();
    let mut tiles = Vec::new();
    for number in 0..count {
        let chunk = ChunkGrid::nth_of(&chunks, number);
        let shown = array.window(grid.cells_in_chunk(window, &chunk)).ok()?;
        for source in shown.sources() {
            for attribute in attributes {
                let field = match fields.entry((source.fragment, *attribute)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => {
                        let field = array.attribute_in(source.fragment, *attribute).ok()?;
                        unknown.insert(field.map(Arc::new))
                    }
                };
                if let Some(field) = field {
                    tiles.push(FieldTile {
                        fragment: source.fragment,
                        field: Arc::clone(field),
                        tile: source.tile,
                    });
                }
            }
        }
    }
    let needed = NeededTiles {
        own: tiles,
        shared: Vec::new(),
    };
    Some(fetch(array, needed, |_, needed| Ok(needed)))
}

/// Returns the fetch of these columns of a block of a sparse array; `None` if the array is in the file
/// system.
pub(super) fn of_block(blocks: &SparseBlocks, block: u64, columns: &[usize]) -> Option<Fetch> {
    let array = blocks.stored.array();
    if array.is_local() {
        return None;
    }
    let (number, tile) = blocks.tile(block).ok()?;
    let fragment = array.fragments().get(number)?;
    let dimensions = array.schema().dimensions.len();
    let mut needed = NeededTiles::default();
    for column in columns {
        let field = match column.checked_sub(dimensions) {
            None => Some(fragment.field(FieldKind::Dimension(*column)).ok()?),
            Some(attribute) => array.attribute_in(number, attribute).ok()?,
        };
        if let Some(field) = field {
            needed.own.push(FieldTile {
                fragment: number,
                field: Arc::new(field),
                tile,
            });
        }
    }
    let is_known = blocks.knows_selection(number, tile);
    Some(fetch(array, needed, move |array, needed| match is_known {
        true => Ok(needed),
        false => needed_tiles(array, (number, tile), needed),
    }))
}

/// Returns the fetch of tiles, and of those that `complete` adds.
fn fetch(
    array: &Arc<TileDbArray>,
    needed: NeededTiles,
    complete: impl FnOnce(&TileDbArray, NeededTiles) -> crate::error::Result<NeededTiles>
    + Send
    + 'static,
) -> Fetch {
    let bytes = needed.own.iter().map(|tile| {
        let fragment = array.fragments().get(tile.fragment);
        fragment.map_or(0, |fragment| {
            fragment.stored_tile_bytes(&tile.field, tile.tile)
        })
    });
    let bytes = bytes.fold(0, u64::saturating_add);
    let array = Arc::clone(array);
    Fetch {
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        fetched: Box::pin(async move {
            let tiles = fetch_tiles(array, |array| complete(array, needed)).await?;
            Ok(Box::new(tiles) as FetchedBlock)
        }),
    }
}
