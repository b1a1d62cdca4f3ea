//! Changes collections, by appending records to a manifest.

use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::target;
use crate::format::tatami::bytes::{put_byte_string, put_varint};
use crate::format::tatami::collection::{
    self, Collection, MANIFEST_MAGIC, MANIFEST_VERSION, MAX_MANIFEST_BYTES, Member, MemberZone,
    RECORD_ADD, RECORD_REMOVE, RECORD_SET_TIER,
};
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::row_group::Bounds;
use crate::format::tatami::writer::zones;

/// A change of a collection.
#[derive(Debug, Clone)]
pub enum CollectionChange {
    /// Adds a member. Replaces the member with the same identifier, if there is one.
    Add(Member),
    /// Removes the member with this identifier. Its file remains.
    Remove([u8; 16]),
    /// Moves the member with this identifier to another tier.
    SetTier([u8; 16], u8),
}

impl Collection {
    /// Appends changes to a manifest. Creates the manifest if it does not exist. The manifest is replaced
    /// atomically: readers see all of the changes or none.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the path of a member is not UTF-8 or leads out of the directory of the manifest;
    /// the errors of [`Self::open`] if the existing file is not a valid manifest; [`Error::Io`] if the
    /// manifest cannot be read or written.
    pub fn append(path: impl AsRef<Path>, changes: &[CollectionChange]) -> Result<()> {
        let path = path.as_ref();
        let mut log = match std::fs::read(path) {
            Ok(log) => log,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                [MANIFEST_MAGIC.as_slice(), &[MANIFEST_VERSION]].concat()
            }
            Err(error) => return Err(Error::io(path, "read")(error)),
        };
        let known = collection::parse(&log)
            .map_err(|fault| fault.at(ErrorLocation::part(path, "manifest")))?;
        // Readers stop at a record that is cut off, so that record is dropped before new ones are appended.
        log.truncate(log.len() - known.unread_bytes);
        for change in changes {
            change
                .encode(&mut log)
                .map_err(|fault| Error::invalid(path, fault))?;
        }
        if log.len() as u64 > MAX_MANIFEST_BYTES {
            let message = format!("a manifest has at most {MAX_MANIFEST_BYTES} bytes");
            return Err(Error::invalid(path, message));
        }
        let mut temporary = target::create_beside(path)?;
        temporary
            .write_all(&log)
            .map_err(Error::io(path, "write"))?;
        target::persist(temporary, path)
    }
}

impl CollectionChange {
    /// Appends the record of the change. Returns a message if it cannot be encoded.
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let mut body = Vec::new();
        let kind = match self {
            Self::Add(member) => {
                member.encode(&mut body)?;
                RECORD_ADD
            }
            Self::Remove(uuid) => {
                body.extend_from_slice(uuid);
                RECORD_REMOVE
            }
            Self::SetTier(uuid, tier) => {
                body.extend_from_slice(uuid);
                body.push(*tier);
                RECORD_SET_TIER
            }
        };
        let start = out.len();
        out.push(kind);
        put_byte_string(out, &body);
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        Ok(())
    }
}

impl Member {
    /// Creates the description of a file as a member. `path` is relative to the directory of the manifest. If
    /// the file has no identifier, one is derived from the path and the checksum of the footer.
    pub fn of_file(path: impl AsRef<Path>, file: &TatamiFile) -> Self {
        let path = path.as_ref();
        let footer_crc = file.trailer().footer_crc;
        let zones = file.schema().fields.iter().enumerate();
        let zones = zones.filter_map(|(column, field)| {
            let mut bounds = None;
            for chunk in file.row_groups().iter().map(|group| &group.chunks[column]) {
                if let Some(zone) = &chunk.zone {
                    zones::extend(field.column_type, &mut bounds, zone);
                }
            }
            Some(MemberZone {
                column: field.name.clone(),
                column_type: field.column_type,
                bounds: bounds?,
            })
        });
        let zones: Vec<MemberZone> = zones.collect();
        let sort_key = file.schema().sort_key().map(|key| {
            let field = &file.schema().fields[key];
            let zone = zones.iter().find(|zone| zone.column == field.name);
            zone.cloned().unwrap_or_else(|| MemberZone {
                column: field.name.clone(),
                column_type: field.column_type,
                bounds: Bounds {
                    min: Box::default(),
                    max: Box::default(),
                },
            })
        });
        let mut uuid = file.header().uuid;
        if uuid == [0; 16] {
            let name = path.as_os_str().as_encoded_bytes();
            uuid[..8].copy_from_slice(&fnv_64(name).to_le_bytes());
            let name_and_crc = [name, &footer_crc.to_le_bytes()].concat();
            uuid[8..].copy_from_slice(&fnv_64(&name_and_crc).to_le_bytes());
        }
        Self {
            path: path.to_path_buf(),
            uuid,
            rows: file.rows(),
            bytes: file.length(),
            sort_key,
            zones,
            tier: 0,
            crawls: Vec::new(),
            created_ms: file.header().created_ms,
            footer_crc,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let path = Some(&self.path).filter(|path| collection::is_inside(path));
        let path = path.and_then(|path| path.to_str());
        let path = path.ok_or_else(|| {
            let path = self.path.display();
            format!("the member path {path} is not a path inside the directory of the manifest")
        })?;
        put_byte_string(out, path.as_bytes());
        out.extend_from_slice(&self.uuid);
        put_varint(out, self.rows);
        put_varint(out, self.bytes);
        match &self.sort_key {
            Some(key) => key.encode(out),
            // No name, type 0 and empty bounds.
            None => out.extend_from_slice(&[0; 4]),
        }
        put_varint(out, self.zones.len() as u64);
        for zone in &self.zones {
            zone.encode(out);
        }
        out.push(self.tier);
        put_varint(out, self.crawls.len() as u64);
        for crawl in &self.crawls {
            put_byte_string(out, crawl.as_bytes());
        }
        put_varint(out, self.created_ms);
        out.extend_from_slice(&self.footer_crc.to_le_bytes());
        Ok(())
    }
}

impl MemberZone {
    fn encode(&self, out: &mut Vec<u8>) {
        put_byte_string(out, self.column.as_bytes());
        out.push(self.column_type.id());
        self.bounds.encode(out);
    }
}

/// Returns the FNV-1a hash of 64 bits.
fn fnv_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
