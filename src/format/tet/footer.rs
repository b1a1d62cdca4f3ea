//! The THST footer at the end of a file: provenance, and what each dataset's axes and values mean.
//!
//! Version 1 is the one of the document "File layout". Version 2 is what the reference writes today: two
//! more spilled regions (zone maps and secondary index) precede the metadata spill, and payloads end
//! before them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, Place, Result};
use crate::format::array::DatasetMetadata;
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::bytes::Fields;

/// The last four bytes of a file with a footer.
pub(crate) const MAGIC: [u8; 4] = *b"THST";
/// The version of the document, and the one we write.
pub(crate) const FOOTER_VERSION: u32 = 1;
/// The version with embedded zone maps and indexes.
pub(crate) const FOOTER_VERSION_WITH_INDEXES: u32 = 2;
/// Bytes of the tail: JSON length, version, magic.
pub(crate) const TAIL_BYTES: u64 = 16;
/// Bytes of metadata that a spill may hold.
pub(crate) const MAX_SPILL_BYTES: u64 = 16 << 20;

/// What a file's footer says. Everything is text in the format, numbers included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footer {
    /// Provenance, oldest first.
    pub history: Vec<HistoryRow>,
    /// File and dataset metadata.
    pub metadata: Metadata,
    /// Where the zone maps lie, if they are embedded. Not checked, since nothing but their user depends on them.
    pub(crate) zone_maps: Option<Spill>,
    /// The same of the secondary index.
    pub(crate) secondary_index: Option<Spill>,
}

impl Footer {
    /// Whether zone maps are embedded.
    pub fn has_zone_maps(&self) -> bool {
        self.zone_maps.is_some()
    }

    /// Whether a secondary index is embedded.
    pub fn has_secondary_index(&self) -> bool {
        self.secondary_index.is_some()
    }
}

/// One step of a file's provenance.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct HistoryRow {
    /// What was done: `convert`, `write`, `transform`, ...
    pub op: String,
    /// From what: `h5`, `nc`, `zarr`, a path, ...
    pub source: String,
    /// Seconds since 1970, in decimal.
    pub at: String,
    /// Files or generations it came from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// Parameters of the step.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Who did it (W3C PROV).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The PROV activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// The PROV entity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
}

/// Metadata of the file and of its datasets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct Metadata {
    /// About the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileMetadata>,
    /// About each dataset, by name. Names that no dataset has are kept and mean nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub datasets: BTreeMap<String, DatasetMetadata>,
}

/// Who wrote the file, with what, when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct FileMetadata {
    /// The writing program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_version: Option<String>,
    /// Seconds since 1970, in decimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}

/// A spilled region of the file, as the footer has it: it need not lie within the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spill {
    pub offset: u64,
    pub len: u64,
}

#[derive(Debug, Deserialize)]
struct StoredFooter {
    #[serde(default)]
    history: Vec<StoredHistoryRow>,
    metadata: Option<Metadata>,
    metadata_ref: Option<Spill>,
    zone_maps_ref: Option<Spill>,
    secondary_index_ref: Option<Spill>,
}

/// A history row is an object, or in older files an array of three strings.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum StoredHistoryRow {
    Legacy([String; 3]),
    Row {
        op: String,
        source: String,
        at: String,
        #[serde(default)]
        parents: Vec<String>,
        #[serde(default)]
        params: BTreeMap<String, String>,
        agent: Option<String>,
        activity: Option<String>,
        entity: Option<String>,
    },
}

impl From<StoredHistoryRow> for HistoryRow {
    fn from(row: StoredHistoryRow) -> Self {
        match row {
            StoredHistoryRow::Legacy([op, source, at]) => Self {
                op,
                source,
                at,
                ..Self::default()
            },
            StoredHistoryRow::Row {
                op,
                source,
                at,
                parents,
                params,
                agent,
                activity,
                entity,
            } => Self {
                op,
                source,
                at,
                parents,
                params,
                agent,
                activity,
                entity,
            },
        }
    }
}

/// Reads the footer that the superblock promises. Returns it with the end of the payload region.
pub(crate) fn read_footer(storage: &Storage, access: Access) -> Result<(Footer, u64)> {
    let path = storage.path();
    let malformed = |field, found: String, expected: &str| {
        Err(Error::malformed(
            Place::file(path),
            field,
            found,
            format!(
                "{expected} (a broken footer can be left unread: option ignore_footer, --ignore-footer of tet-sql)"
            ),
        ))
    };
    let length = storage.length();
    let Some(tail_start) = length.checked_sub(TAIL_BYTES) else {
        return malformed(
            "footer",
            "absent".into(),
            "a footer, since flag bit 0 is set",
        );
    };
    let tail = storage.read_range(access, tail_start..length)?;
    let mut fields = Fields::new(path, "footer tail", &tail);
    let json_length = fields.u64()?;
    let version = fields.u32()?;
    let magic = fields.take(4)?;
    if magic != MAGIC {
        return malformed(
            "footer magic",
            format!("\"{}\"", magic.escape_ascii()),
            "\"THST\", since flag bit 0 is set",
        );
    }
    if ![FOOTER_VERSION, FOOTER_VERSION_WITH_INDEXES].contains(&version) {
        return malformed("history_version", version.to_string(), "1 or 2");
    }
    let Some(json_start) = tail_start.checked_sub(json_length) else {
        return malformed(
            "history_json_len",
            json_length.to_string(),
            "a length within the file",
        );
    };
    let json = storage.read_range(access, json_start..tail_start)?;
    // serde would take an array for the struct's fields in order.
    if json.trim_ascii_start().first() != Some(&b'{') {
        return malformed(
            "footer JSON",
            format!("\"{}\"...", json[..json.len().min(20)].escape_ascii()),
            "an object",
        );
    }
    let stored: StoredFooter = match serde_json::from_slice(&json) {
        Ok(stored) => stored,
        Err(error) => {
            return malformed(
                "footer JSON",
                format!("unreadable ({error})"),
                "an object with history and metadata whose values are strings",
            );
        }
    };
    let with_indexes = version == FOOTER_VERSION_WITH_INDEXES;
    let zone_maps = stored.zone_maps_ref.filter(|_| with_indexes);
    let secondary_index = stored.secondary_index_ref.filter(|_| with_indexes);
    let spilled = [stored.metadata_ref, zone_maps, secondary_index]
        .into_iter()
        .flatten()
        .try_fold(0u64, |sum, spill| sum.checked_add(spill.len));
    let Some(payload_end) = spilled.and_then(|spilled| json_start.checked_sub(spilled)) else {
        return malformed(
            "length of the spilled regions",
            spilled.map_or("2^64 bytes or more".to_string(), |spilled| {
                format!("{spilled} bytes")
            }),
            "lengths that fit before the footer JSON",
        );
    };
    let metadata = match (stored.metadata_ref, stored.metadata) {
        (Some(spill), _) => {
            let end = spill.offset.checked_add(spill.len);
            let Some(end) = end.filter(|end| *end <= json_start) else {
                return malformed(
                    "metadata_ref",
                    format!("{} bytes at {}", spill.len, spill.offset),
                    "a region that ends before the footer JSON",
                );
            };
            if spill.len > MAX_SPILL_BYTES {
                return malformed(
                    "metadata_ref",
                    format!("{} bytes", spill.len),
                    "at most 16 MiB",
                );
            }
            let json = storage.read_range(access, spill.offset..end)?;
            if json.trim_ascii_start().first() != Some(&b'{') {
                return malformed("metadata spill", "no object".into(), "a JSON object");
            }
            match serde_json::from_slice(&json) {
                Ok(metadata) => metadata,
                Err(error) => {
                    return malformed(
                        "metadata spill",
                        format!("unreadable ({error})"),
                        "a JSON object whose values are strings",
                    );
                }
            }
        }
        (None, inline) => inline.unwrap_or_default(),
    };
    let footer = Footer {
        history: stored.history.into_iter().map(HistoryRow::from).collect(),
        metadata,
        zone_maps,
        secondary_index,
    };
    Ok((footer, payload_end))
}
