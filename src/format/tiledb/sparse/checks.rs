//! The checks that find the cells of a tile that count.

use crate::error::{Error, Result};
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::directory::Delete;
use crate::format::tiledb::fragment::Fragment;
use crate::format::tiledb::sparse::overlap::meet;

/// The checks that cells of a fragment must pass to count.
#[derive(Debug)]
pub(crate) struct Checks<'a> {
    pub fragment: &'a Fragment,
    /// The ordinal of the fragment.
    number: usize,
    /// `true` if some cells may be outside of the window of time.
    pub is_partial: bool,
    /// `true` if there may be newer cells with the same coordinates.
    pub has_rivals: bool,
    /// The deletes that may apply.
    pub deletes: Vec<&'a Delete>,
}

impl<'a> Checks<'a> {
    /// Returns the checks of the cells of a fragment, or `None` if all of them count.
    ///
    /// # Errors
    /// Fails if there is no such fragment, or if the deletes that it has processed cannot be read.
    pub fn of(array: &'a TileDbArray, fragment: usize) -> Result<Option<Self>> {
        // Every cell of every fragment counts.
        if array.sparse_cells().is_some() {
            return Ok(None);
        }
        let window = array.window_of_time();
        let this = fragment_of(array, fragment)?;
        let (first, last) = this.timestamps();
        let mut deletes = Vec::new();
        for delete in array.deletes() {
            if delete.timestamp >= first && !is_processed(this, delete)? {
                deletes.push(delete);
            }
        }
        let checks = Self {
            fragment: this,
            number: fragment,
            is_partial: this.has_timestamps() && !(window.start <= first && last <= window.end),
            has_rivals: !array.schema().allows_duplicates
                && (this.has_timestamps() || array.fragments().len() > 1),
            deletes,
        };
        let is_none = !checks.is_partial
            && !checks.has_rivals
            && !this.has_deletes()
            && checks.deletes.is_empty();
        Ok((!is_none).then_some(checks))
    }

    /// Returns the fragments and tiles whose cells may replace cells of a tile, or `None` if no cell can be
    /// replaced.
    ///
    /// # Errors
    /// Fails if bounding boxes cannot be read.
    pub fn rivals(&self, array: &TileDbArray, tile: u64) -> Result<Option<Vec<(usize, u64)>>> {
        if !self.has_rivals {
            return Ok(None);
        }
        let this = self.fragment;
        let bounds = this.bounds()?;
        let index = usize::try_from(tile).unwrap_or(usize::MAX);
        let tile_box = bounds.of_tile(index);
        let mut rivals = Vec::new();
        for (other, rival) in array.fragments().iter().enumerate() {
            let is_same = other == self.number;
            let is_newer = rival.timestamps().1 >= this.timestamps().0;
            if is_same && !this.has_timestamps() || !is_newer || rival.tiles() == 0 {
                continue;
            }
            // The bounding box of a fragment is in memory; those of its tiles may have to be read.
            let boxes = tile_box.as_deref().zip(rival.domain());
            if boxes.is_some_and(|(tile, rival)| !meet(tile, rival)) {
                continue;
            }
            // The tile of the fragment itself is compared as well: versions may be neighbours.
            let tiles = rival.bounds()?.meeting(bounds, index);
            rivals.extend(tiles.into_iter().map(|tile| (other, tile as u64)));
        }
        let is_own = |rival: &(usize, u64)| *rival == (self.number, tile);
        let is_none = rivals.iter().all(is_own) && !this.has_timestamps();
        Ok((!is_none).then_some(rivals))
    }
}

/// Returns `true` if a delete was applied when a fragment was written.
fn is_processed(fragment: &Fragment, delete: &Delete) -> Result<bool> {
    let file = |marker: &str| marker.rsplit('/').next().map(str::to_string);
    let marker = file(&delete.marker);
    let mut processed = fragment.processed_deletes()?.iter();
    Ok(processed.any(|processed| file(processed) == marker))
}

/// Returns a fragment of an array.
///
/// # Errors
/// Fails if there is no such fragment.
pub(super) fn fragment_of(array: &TileDbArray, fragment: usize) -> Result<&Fragment> {
    let missing = || Error::invalid(array.path(), format!("has no fragment {fragment}"));
    array.fragments().get(fragment).ok_or_else(missing)
}
