//! Reads, changes and rewrites everything after the payloads of a file. Payloads are never
//! changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{Error, Result};
use crate::format::array::{ChunkReader, Fill};
use crate::format::io::storage::Access;
use crate::format::io::target;
use crate::format::tet::file::TetFile;
use crate::format::tet::footer::{
    FOOTER_VERSION, FOOTER_VERSION_WITH_INDEXES, MAGIC, Spill, TAIL_BYTES,
};
use crate::format::tet::limits::MAX_HISTORY;
use crate::format::tet::superblock::FLAG_FOOTER;
use crate::format::tet::writer::zone_map;

/// File offset of the flags in the superblock.
const FLAGS_OFFSET: u64 = 12;

/// Everything after the payloads of a file: the footer with its spilled regions.
///
/// ```text
/// payloads | zone maps | secondary index | metadata | footer JSON | tail (THST)
/// ```
#[derive(Debug, Default)]
pub(crate) struct FileTail {
    /// The footer JSON as stored, without the keys that locate the regions.
    json: BTreeMap<String, Box<RawValue>>,
    metadata: Option<Vec<u8>>,
    pub zone_maps: Option<Vec<u8>>,
    pub secondary_index: Option<Vec<u8>>,
}

impl FileTail {
    /// Reads the ending of a file; empty if the file has none. A region outside the file counts as
    /// absent.
    pub fn of(file: &TetFile, access: Access) -> Result<Self> {
        let storage = file.storage();
        let mut ending = Self::default();
        if file.payload_end() == storage.length() {
            return Ok(ending);
        }
        // Opening the file has shown that it has a readable footer.
        let tail_start = storage.length() - TAIL_BYTES;
        let mut length = [0; 8];
        storage.copy_range(access, tail_start, &mut length)?;
        let json_start = tail_start.saturating_sub(u64::from_le_bytes(length));
        let json = storage.read_range(access, json_start..tail_start)?;
        ending.json = serde_json::from_slice(&json)
            .map_err(|error| Error::io(storage.path(), "read the footer of")(error.into()))?;
        let mut region = |key: &str| -> Result<Option<Vec<u8>>> {
            let found = ending.json.remove(key);
            let spill = found.and_then(|found| serde_json::from_str::<Spill>(found.get()).ok());
            let range = spill.and_then(|spill| {
                let end = spill.offset.checked_add(spill.len)?;
                (end <= json_start).then_some(spill.offset..end)
            });
            range
                .map(|range| storage.read_range(access, range))
                .transpose()
        };
        ending.metadata = region("metadata_ref")?;
        // A version 1 footer has no other regions, whatever its keys.
        let footer = file.footer();
        ending.zone_maps = region("zone_maps_ref")?.filter(|_| footer.has_zone_maps());
        ending.secondary_index =
            region("secondary_index_ref")?.filter(|_| footer.has_secondary_index());
        Ok(ending)
    }

    /// Adds a row to the history, unless the history is full.
    pub fn note(&mut self, op: &str, source: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let at = now.map_or(0, |now| now.as_secs()).to_string();
        let row = json!({ "op": op, "source": source, "at": at });
        // Opening the file has shown that the history, if present, is a list.
        let history = self.json.get("history");
        let history = history.and_then(|rows| serde_json::from_str(rows.get()).ok());
        let mut rows: Vec<Box<RawValue>> = history.unwrap_or_default();
        if rows.len() < MAX_HISTORY
            && let Ok(row) = to_raw_value(&row)
        {
            rows.push(row);
        }
        if let Ok(rows) = to_raw_value(&rows) {
            self.json.insert("history".to_string(), rows);
        }
    }

    /// Encodes the ending, to be written at `position`, the end of the payloads. Returns no bytes
    /// if there is nothing to write.
    fn encode(mut self, path: &Path, position: u64) -> Result<Vec<u8>> {
        let unwritable =
            |error: serde_json::Error| Error::io(path, "encode the footer of")(error.into());
        let mut bytes = Vec::new();
        let has_indexes = self.zone_maps.is_some() || self.secondary_index.is_some();
        // The format prescribes this order.
        for (key, region) in [
            ("zone_maps_ref", self.zone_maps),
            ("secondary_index_ref", self.secondary_index),
            ("metadata_ref", self.metadata),
        ] {
            if let Some(region) = region {
                let offset = position + bytes.len() as u64;
                let reference = json!({ "offset": offset, "len": region.len() });
                let reference = to_raw_value(&reference).map_err(unwritable)?;
                self.json.insert(key.to_string(), reference);
                bytes.extend_from_slice(&region);
            }
        }
        if self.json.is_empty() {
            return Ok(bytes);
        }
        let json = serde_json::to_vec(&self.json).map_err(unwritable)?;
        bytes.extend_from_slice(&json);
        bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
        let version = match has_indexes {
            true => FOOTER_VERSION_WITH_INDEXES,
            false => FOOTER_VERSION,
        };
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&MAGIC);
        Ok(bytes)
    }
}

/// Replaces everything after `payload_end` by `ending`. Writes a new file beside `path`, then
/// renames it to `path`.
pub(crate) fn replace(path: &Path, payload_end: u64, ending: FileTail) -> Result<()> {
    let bytes = ending.encode(path, payload_end)?;
    let mut temporary = target::create_beside(path)?;
    let write = |temporary: &mut File| -> io::Result<()> {
        let mut payloads = File::open(path)?.take(payload_end);
        let copied = io::copy(&mut payloads, temporary)?;
        if copied != payload_end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        temporary.write_all(&bytes)?;
        let mut flags = [0; 4];
        let mut original = payloads.into_inner();
        original.seek(SeekFrom::Start(FLAGS_OFFSET))?;
        original.read_exact(&mut flags)?;
        let flags = match bytes.is_empty() {
            true => u32::from_le_bytes(flags) & !FLAG_FOOTER,
            false => u32::from_le_bytes(flags) | FLAG_FOOTER,
        };
        temporary.seek(SeekFrom::Start(FLAGS_OFFSET))?;
        temporary.write_all(&flags.to_le_bytes())
    };
    write(temporary.as_file_mut()).map_err(Error::io(path, "write"))?;
    if let Ok(metadata) = path.metadata() {
        // Keep the permissions, so that the same users can read the new file.
        let _ = temporary.as_file().set_permissions(metadata.permissions());
    }
    target::persist(temporary, path)
}

/// Computes the zone maps of a file from all of its cells. Returns them encoded as `ZONE.json`.
pub(crate) fn zone_maps(file: &Arc<TetFile>, access: Access) -> Result<Vec<u8>> {
    let mut reader = ChunkReader::new(Arc::<TetFile>::clone(file), access);
    let mut zones = Vec::new();
    for dataset in file.datasets() {
        let dtype = dataset.check(file.path())?;
        let metadata = file.metadata(dataset);
        let fill = metadata.and_then(|metadata| Fill::of(metadata, dtype));
        for ordinal in 0..dataset.chunk_count().unwrap_or(0) {
            let chunk = dataset.chunk_at(ordinal);
            let row = reader.open(dataset, &chunk)?;
            while !reader.advance()? {}
            let cells = reader.cells(0..row.raw_bytes as usize)?;
            let zone = zone_map::zone(dtype, fill, cells);
            zones.push((dataset.id(), dtype, chunk, zone));
        }
    }
    zone_map::encode(zones.into_iter())
        .map_err(|error| Error::io(file.path(), "encode the zone maps of")(error.into()))
}
