//! The THST footer at the end of a file: its provenance, and the metadata of its datasets.
//!
//! Version 1 is specified in the document "File layout". Version 2 is what the reference writes
//! today: two more spilled regions (zone maps and secondary index) precede the metadata spill, and
//! payloads end before them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::DatasetMetadata;
use crate::format::array::{FileMetadata, HistoryRow};
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::bytes::Fields;

/// The last four bytes of a file with a footer.
pub(crate) const MAGIC: [u8; 4] = *b"THST";
/// The version that the document specifies. The writer uses it unless it embeds zone maps.
pub(crate) const FOOTER_VERSION: u32 = 1;
/// The version with embedded zone maps and secondary index.
pub(crate) const FOOTER_VERSION_WITH_INDEXES: u32 = 2;
/// Length of the tail in bytes: JSON length, version, magic.
pub(crate) const TAIL_BYTES: u64 = 16;
/// Maximum length of a metadata spill in bytes.
pub(crate) const MAX_SPILL_BYTES: u64 = 16 << 20;

/// The contents of a file's footer. The format stores all values as strings, numbers included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footer {
    /// Provenance, oldest step first.
    pub history: Vec<HistoryRow>,
    /// Metadata of the file and its datasets.
    pub metadata: Metadata,
    /// The region of the embedded zone maps, if any. Its offset is checked only when the zone maps
    /// are read, since nothing else depends on it.
    pub(crate) zone_maps: Option<Spill>,
    /// The region of the embedded secondary index, if any. Its offset is checked only on reading,
    /// too.
    pub(crate) secondary_index: Option<Spill>,
}

impl Footer {
    /// Returns `true` if zone maps are embedded.
    pub fn has_zone_maps(&self) -> bool {
        self.zone_maps.is_some()
    }

    /// Returns `true` if a secondary index is embedded.
    pub fn has_secondary_index(&self) -> bool {
        self.secondary_index.is_some()
    }
}

/// Metadata of the file and of its datasets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct Metadata {
    /// Metadata of the file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileMetadata>,
    /// Metadata of each dataset, by name. Entries for unknown names are kept but have no effect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub datasets: BTreeMap<String, DatasetMetadata>,
}

/// A spilled region as recorded in the footer. It may lie outside the file.
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

/// A history row: an object or, in older files, an array of three strings.
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

/// Reads the footer that the superblock declares. Returns it with the file offset at which payloads
/// end.
pub(crate) fn read_footer(storage: &Storage, access: Access) -> Result<(Footer, u64)> {
    let path = storage.path();
    let malformed = |field, found: String, expected: &str| {
        Err(Error::malformed(
            ErrorLocation::file(path),
            field,
            found,
            format!(
                "{expected} (to read the data without the footer, use --ignore-footer, or the option ignore_footer)"
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
    // serde would also accept an array with the struct's fields in order.
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
