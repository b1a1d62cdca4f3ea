//! Encodes the footer: version 1, or version 2 with zone maps.

use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::format::array::HistoryRow;
use crate::format::tet::footer::{
    FOOTER_VERSION, FOOTER_VERSION_WITH_INDEXES, MAGIC, MAX_SPILL_BYTES, Metadata,
};
use crate::format::tet::limits::{MAX_DESCRIBED, MAX_HISTORY, is_allowed};
use crate::format::tet::writer::spec::text_limit;

/// Length of the footer JSON in bytes above which the metadata moves to a spill, as in the
/// reference.
const MAX_INLINE: usize = 64 << 10;

#[derive(Serialize)]
struct StoredFooter<'a> {
    history: &'a [HistoryRow],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_ref: Option<Spill>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone_maps_ref: Option<Spill>,
}

/// The location of a region outside the footer JSON.
#[derive(Serialize, Clone, Copy)]
struct Spill {
    offset: u64,
    len: u64,
}

/// Encodes everything after the payloads, which end at `position`: zone maps if there are any, the
/// metadata spill if the metadata is large, footer JSON and tail. Returns `None` if there is
/// nothing to write.
pub(super) fn encode(
    path: &Path,
    history: &[HistoryRow],
    metadata: &Metadata,
    zone_maps: Option<Vec<u8>>,
    position: u64,
) -> Result<Option<Vec<u8>>> {
    let has_metadata = *metadata != Metadata::default();
    if !has_metadata && history.is_empty() && zone_maps.is_none() {
        return Ok(None);
    }
    check(path, history, metadata)?;
    let version = match zone_maps {
        Some(_) => FOOTER_VERSION_WITH_INDEXES,
        None => FOOTER_VERSION,
    };
    let zone_maps_ref = zone_maps.as_ref().map(|zone_maps| Spill {
        offset: position,
        len: zone_maps.len() as u64,
    });
    let mut bytes = zone_maps.unwrap_or_default();
    let mut footer = json(
        path,
        &StoredFooter {
            history,
            metadata: has_metadata.then_some(metadata),
            metadata_ref: None,
            zone_maps_ref,
        },
    )?;
    if footer.len() > MAX_INLINE && has_metadata {
        let spill = json(path, metadata)?;
        if spill.len() as u64 > MAX_SPILL_BYTES {
            let message = format!(
                "{} bytes of metadata; the format allows {MAX_SPILL_BYTES}",
                spill.len()
            );
            return Err(Error::invalid(path, message));
        }
        footer = json(
            path,
            &StoredFooter {
                history,
                metadata: None,
                metadata_ref: Some(Spill {
                    offset: position + bytes.len() as u64,
                    len: spill.len() as u64,
                }),
                zone_maps_ref,
            },
        )?;
        bytes.extend_from_slice(&spill);
    }
    let length = footer.len() as u64;
    bytes.extend_from_slice(&footer);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    Ok(Some(bytes))
}

fn check(path: &Path, history: &[HistoryRow], metadata: &Metadata) -> Result<()> {
    for (count, most, what) in [
        (history.len(), MAX_HISTORY, "history rows"),
        (
            metadata.datasets.len(),
            MAX_DESCRIBED,
            "datasets with metadata",
        ),
    ] {
        if count > most {
            let message = format!("{count} {what}; the format allows {most}");
            return Err(Error::invalid(path, message));
        }
    }
    let file = metadata.file.iter().flat_map(|file| {
        [&file.tool, &file.library_version, &file.created_at].map(|text| text.as_deref())
    });
    let texts = history
        .iter()
        .flat_map(|row| [row.op.as_str(), &row.source, &row.at])
        .chain(file.flatten());
    match texts.into_iter().find(|text| !is_allowed(text)) {
        Some(text) => Err(Error::invalid(path, text_limit(text))),
        None => Ok(()),
    }
}

fn json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::io(path, "encode the footer of")(error.into()))
}
