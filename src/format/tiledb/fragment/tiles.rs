//! The data files of a fragment, and the positions of tiles in them.

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::{Error, Result};
use crate::format::io::storage::Storage;
use crate::format::tiledb::fault::Fault;
use crate::format::tiledb::fragment::{Field, FieldFile, Fragment, statistics};

/// The files of one field and the positions of its tiles.
#[derive(Debug, Default)]
pub(super) struct Slot {
    fixed: TileFile,
    variable: TileFile,
    validity: TileFile,
    variable_sizes: OnceLock<Vec<u64>>,
}

#[cfg(feature = "remote")]
impl Slot {
    fn file(&self, file: FieldFile) -> &TileFile {
        match file {
            FieldFile::Fixed => &self.fixed,
            FieldFile::Variable => &self.variable,
            FieldFile::Validity => &self.validity,
        }
    }
}

#[derive(Debug, Default)]
struct TileFile {
    storage: OnceLock<Storage>,
    offsets: OnceLock<Vec<u64>>,
    /// Held while a thread opens the file and reads the offsets, which may take requests.
    opening: Mutex<()>,
}

impl Fragment {
    /// Returns the part of a data file with a tile.
    pub(crate) fn tile_range(
        &self,
        field: &Field,
        file: FieldFile,
        tile: u64,
    ) -> Result<(&Storage, Range<u64>)> {
        let slot = self.slot(field)?;
        let footer = &self.footer;
        let (files, positions, sizes, part) = match file {
            FieldFile::Fixed => (
                &slot.fixed,
                &footer.tile_offsets,
                &footer.file_sizes,
                "tile offsets",
            ),
            FieldFile::Variable => (
                &slot.variable,
                &footer.variable_tile_offsets,
                &footer.variable_file_sizes,
                "variable tile offsets",
            ),
            FieldFile::Validity => (
                &slot.validity,
                &footer.validity_tile_offsets,
                &footer.validity_file_sizes,
                "validity tile offsets",
            ),
        };
        let is_open = files.offsets.get().is_some() && files.storage.get().is_some();
        // The lock guards no value.
        let opening =
            (!is_open).then(|| files.opening.lock().unwrap_or_else(PoisonError::into_inner));
        let offsets = self.tile_list(&files.offsets, positions[field.slot], part)?;
        let missing = || Error::invalid(self.directory(), format!("has no tile {tile}"));
        let tile = usize::try_from(tile).map_err(|_| missing())?;
        let start = *offsets.get(tile).ok_or_else(missing)?;
        let end = offsets.get(tile + 1).copied().unwrap_or(sizes[field.slot]);
        let storage = match files.storage.get() {
            Some(storage) => storage,
            None => {
                let opened = self.directory.join(field.file_name(file)).open()?;
                files.storage.get_or_init(|| opened)
            }
        };
        drop(opening);
        Ok((storage, start..end))
    }

    /// Returns the parts of the data files with a tile of a field, one for each file of the field.
    #[cfg(feature = "remote")]
    pub(crate) fn tile_ranges(
        &self,
        field: &Field,
        tile: u64,
    ) -> Result<Vec<(&Storage, Range<u64>)>> {
        if field.variable.is_some() {
            self.variable_bytes(field, tile)?;
        }
        let files = field.files().map(|file| self.tile_range(field, file, tile));
        files.collect()
    }

    /// Returns `true` if [`Self::tile_ranges`] needs no request.
    #[cfg(feature = "remote")]
    pub(crate) fn is_prepared(&self, field: &Field) -> bool {
        let Ok(slot) = self.slot(field) else {
            return false;
        };
        let mut files = field.files().map(|file| slot.file(file));
        (field.variable.is_none() || slot.variable_sizes.get().is_some())
            && files.all(|file| file.offsets.get().is_some() && file.storage.get().is_some())
    }

    /// Estimates the stored size of a tile of a field in bytes, without a request.
    #[cfg(feature = "remote")]
    pub(crate) fn stored_tile_bytes(&self, field: &Field, tile: u64) -> u64 {
        let Ok(slot) = self.slot(field) else {
            return 0;
        };
        let bytes = field.files().map(|file| {
            let all = match file {
                FieldFile::Fixed => self.footer.file_sizes[field.slot],
                FieldFile::Variable => self.footer.variable_file_sizes[field.slot],
                FieldFile::Validity => self.footer.validity_file_sizes[field.slot],
            };
            let tile = usize::try_from(tile).unwrap_or(usize::MAX);
            let offsets = slot.file(file).offsets.get();
            match offsets.and_then(|offsets| offsets.get(tile..)) {
                Some([start, end, ..]) => end.saturating_sub(*start),
                Some([start]) => all.saturating_sub(*start),
                _ => all / self.tiles.max(1),
            }
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the files of a field. All lists of the footer have as many slots.
    fn slot(&self, field: &Field) -> Result<&Slot> {
        let foreign = || Error::invalid(self.directory(), "the field is one of another fragment");
        self.slots.get(field.slot).ok_or_else(foreign)
    }

    /// Returns the decoded size of the values of variable length of a tile.
    pub(crate) fn variable_bytes(&self, field: &Field, tile: u64) -> Result<u64> {
        let sizes = &self.slot(field)?.variable_sizes;
        let position = self.footer.variable_tile_sizes[field.slot];
        let sizes = self.tile_list(sizes, position, "variable tile sizes")?;
        let size = usize::try_from(tile).ok().and_then(|tile| sizes.get(tile));
        let missing = || Error::invalid(self.directory(), format!("has no tile {tile}"));
        size.copied().ok_or_else(missing)
    }

    /// Returns a list with one number per tile, which is read on first use.
    fn tile_list<'a>(
        &self,
        list: &'a OnceLock<Vec<u64>>,
        position: u64,
        part: &str,
    ) -> Result<&'a Vec<u64>> {
        if let Some(list) = list.get() {
            return Ok(list);
        }
        let numbers = self.generic(position, part, |payload| {
            let numbers = statistics::parse_list(payload)?;
            match numbers.len() as u64 == self.tiles {
                true => Ok(numbers),
                false => Err(Fault::new("number of tiles", numbers.len(), self.tiles)),
            }
        })?;
        Ok(list.get_or_init(|| numbers))
    }
}
