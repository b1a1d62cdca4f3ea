//! Fetches stored tiles from an object store before they are decoded.
//!
//! ```text
//! NeededTiles --- locate ---> ranges of objects --- fetch ---> FetchedTiles ---> TileReader
//!  of a block     opens data files,                one request for ranges
//!                 reads tile offsets               that are near each other
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{try_join, try_join_all};

use crate::error::{Error, Result};
use crate::format::io::parallel::call_all;
use crate::format::io::remote::{FetchedRanges, RemoteObject, fetch_ranges, runtime};
use crate::format::io::storage::Storage;
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::fragment::{Field, Fragment};

/// The maximum number of tiles of other blocks that are fetched with a block.
const MAX_SHARED_TILES: usize = 256;

/// The size below which a tile is fetched with its neighbours.
const SMALL_BYTES: u64 = 256 << 10;

/// A tile of a field of a fragment.
#[derive(Debug, Clone)]
pub(crate) struct FieldTile {
    /// The ordinal of the fragment.
    pub fragment: usize,
    pub field: Arc<Field>,
    pub tile: u64,
}

/// The tiles that reading a block takes.
#[derive(Debug, Default)]
pub(crate) struct NeededTiles {
    /// The tiles of the block itself.
    pub own: Vec<FieldTile>,
    /// Tiles that other blocks are likely to need as well. Their bytes are kept with the objects.
    pub shared: Vec<FieldTile>,
}

/// The ranges of one object.
type ObjectRanges = (Arc<RemoteObject>, Vec<Range<u64>>);

/// The stored bytes of tiles.
#[derive(Debug, Default)]
pub(crate) struct FetchedTiles {
    /// By the address of the object, and by the start of the range. Each entry keeps its object alive, so
    /// that no other object has the address.
    parts: HashMap<(usize, u64), (Arc<RemoteObject>, Bytes)>,
    /// The number of requests.
    pub requests: u64,
    /// The number of bytes that the requests fetched.
    pub bytes_fetched: u64,
}

impl FetchedTiles {
    /// Returns a range of an object, if it was fetched.
    pub fn find(&self, storage: &Storage, range: &Range<u64>) -> Option<&Bytes> {
        let object = storage.object()?;
        let (_, bytes) = self.parts.get(&(address(object), range.start))?;
        (bytes.len() as u64 == range.end.checked_sub(range.start)?).then_some(bytes)
    }
}

fn address(object: &Arc<RemoteObject>) -> usize {
    Arc::as_ptr(object) as usize
}

/// Finds and fetches tiles of an array. `needed` runs on a thread that may wait for requests. Dropping the
/// future aborts the requests.
///
/// # Errors
/// Fails if a request fails. Tiles whose metadata are malformed are not fetched; reading them fails.
pub(crate) async fn fetch_tiles(
    array: Arc<TileDbArray>,
    needed: impl FnOnce(&TileDbArray) -> Result<NeededTiles> + Send + 'static,
) -> Result<FetchedTiles> {
    let path = array.path().to_path_buf();
    let failed = |error| Error::io(&path, "read")(error);
    let located = runtime::spawn_blocking(move || {
        let needed = needed(&array)?;
        let shared = &needed.shared[..needed.shared.len().min(MAX_SHARED_TILES)];
        let all: Vec<&FieldTile> = needed.own.iter().chain(shared).collect();
        prepare(&array, &all)?;
        Ok::<_, Error>((ranges(&array, &needed.own), ranges(&array, shared)))
    });
    let (own, shared) = located.map_err(failed)?.await.map_err(failed)??;
    let fetched = runtime::spawn(async move {
        let prefetches = shared
            .iter()
            .map(|(object, ranges)| prefetch(object, ranges));
        let mut fetched = FetchedTiles::default();
        for (requests, bytes) in try_join_all(prefetches).await? {
            fetched.requests += requests;
            fetched.bytes_fetched += bytes;
        }
        let fetches = own
            .iter()
            .map(|(object, ranges)| fetch_near(object, ranges));
        let parts = try_join_all(fetches).await?;
        for ((object, ranges), found) in own.iter().zip(parts) {
            fetched.requests += found.requests;
            fetched.bytes_fetched += found.bytes_fetched;
            for (range, bytes) in ranges.iter().zip(found.parts) {
                let key = (address(object), range.start);
                fetched.parts.insert(key, (Arc::clone(object), bytes));
            }
        }
        Ok(fetched)
    });
    fetched.map_err(failed)?.await.map_err(failed)?
}

/// Reads ranges of an object into memory. Other blocks may be waiting for the same small ranges, and then
/// share their requests. Returns the number of requests, and of the bytes that they fetched.
async fn prefetch(object: &Arc<RemoteObject>, ranges: &[Range<u64>]) -> Result<(u64, u64)> {
    let is_small = |range: &&Range<u64>| range.end - range.start < SMALL_BYTES;
    let (small, large): (Vec<_>, Vec<_>) = ranges.iter().partition(is_small);
    let small = small
        .into_iter()
        .map(|range| object.fetch_ahead(range.clone()));
    let large = object.prefetch_all(large.into_iter().cloned().collect());
    let (small, large) = try_join(try_join_all(small), large).await?;
    let sum = |sum: (u64, u64), (_, requests, bytes): (Bytes, u64, u64)| {
        (sum.0 + requests, sum.1 + bytes)
    };
    Ok(small.into_iter().fold(large, sum))
}

/// Fetches ranges of an object. If there is a single small one, its neighbours are likely to be needed by the
/// next blocks, and are fetched with it.
async fn fetch_near(object: &Arc<RemoteObject>, ranges: &[Range<u64>]) -> Result<FetchedRanges> {
    match ranges {
        [range] if range.end - range.start < SMALL_BYTES => {
            let (bytes, requests, bytes_fetched) = object.fetch_ahead(range.clone()).await?;
            Ok(FetchedRanges {
                parts: vec![bytes],
                requests,
                bytes_fetched,
            })
        }
        _ => fetch_ranges(object, ranges).await,
    }
}

/// Opens the data files of tiles and reads their tile offsets, those of several fields at the same time.
fn prepare(array: &TileDbArray, tiles: &[&FieldTile]) -> Result<()> {
    let mut fields: Vec<(&Fragment, &FieldTile)> = Vec::new();
    for tile in tiles {
        let is_same = |(_, other): &&(&Fragment, &FieldTile)| {
            (other.fragment, other.field.slot) == (tile.fragment, tile.field.slot)
        };
        if let Some(fragment) = array.fragments().get(tile.fragment)
            && !fragment.is_prepared(&tile.field)
            && !fields.iter().any(|other| is_same(&other))
        {
            fields.push((fragment, tile));
        }
    }
    call_all(array.path(), &fields, |(fragment, tile)| {
        // The reader reports the errors of malformed metadata.
        let _ = fragment.tile_ranges(&tile.field, tile.tile);
        Ok(())
    })?;
    Ok(())
}

/// Returns the ranges of tiles by object.
fn ranges(array: &TileDbArray, tiles: &[FieldTile]) -> Vec<ObjectRanges> {
    let mut objects: Vec<ObjectRanges> = Vec::new();
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for tile in tiles {
        let fragment = array.fragments().get(tile.fragment);
        let found = fragment.map(|fragment| fragment.tile_ranges(&tile.field, tile.tile));
        for (storage, range) in found.into_iter().flatten().flatten() {
            let Some(object) = storage.object() else {
                continue;
            };
            // The reader reports ranges that are not in the file.
            if range.is_empty() || range.end > object.size() {
                continue;
            }
            let number = *numbers.entry(address(object)).or_insert_with(|| {
                objects.push((Arc::clone(object), Vec::new()));
                objects.len() - 1
            });
            objects[number].1.push(range);
        }
    }
    objects
}
