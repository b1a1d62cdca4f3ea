//! Metadata of arrays and groups: values by key.

use std::collections::{BTreeMap, HashSet};

use crate::error::{ErrorLocation, Result};
use crate::format::io::place::Place;
use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::codecs::EncryptionKey;
use crate::format::tiledb::directory::{Stamp, TimeWindow, files};
use crate::format::tiledb::fault::Decoded;
use crate::format::tiledb::schema::{Datatype, Scalar};

/// A value of metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataValue {
    /// The datatype of the values.
    pub datatype: Datatype,
    /// The little-endian values, any number of them.
    pub bytes: Vec<u8>,
}

impl MetadataValue {
    /// Returns the value as text: texts as they are, bytes in hexadecimal digits, and numbers separated
    /// by commas.
    pub fn text(&self) -> String {
        use Datatype::*;
        match self.datatype {
            StringAscii | StringUtf8 | Char | GeometryWkt => {
                let text = String::from_utf8_lossy(&self.bytes);
                text.trim_end_matches('\0').to_string()
            }
            Blob | Any | GeometryWkb | StringUtf16 | StringUtf32 | StringUcs2 | StringUcs4 => self
                .bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            datatype => {
                let numbers = self.bytes.chunks_exact(datatype.size());
                let texts = numbers.filter_map(|bytes| {
                    let number = Scalar::from_bytes(datatype, bytes)?;
                    Some(match datatype {
                        Bool => (number != Scalar::Unsigned(0)).to_string(),
                        _ => number.to_string(),
                    })
                });
                texts.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// Reads the metadata of the array or group in a directory, as of the end of the window.
pub(crate) fn read(
    root: &Place,
    window: TimeWindow,
    key: Option<&EncryptionKey>,
) -> Result<BTreeMap<String, MetadataValue>> {
    let directory = root.join("__meta");
    let names = directory.list()?;
    let mut vacuumed = HashSet::new();
    let selected = |name: &str| Stamp::parse(name).is_some_and(|stamp| window.contains(&stamp));
    for name in names.iter().filter(|name| name.ends_with(".vac")) {
        if name.strip_suffix(".vac").is_some_and(selected) {
            let bytes = files::read(&directory.join(name))?;
            let text = String::from_utf8_lossy(&bytes);
            let last_parts = text.lines().filter_map(|line| line.rsplit('/').next());
            vacuumed.extend(last_parts.map(str::to_string));
        }
    }
    let mut values = BTreeMap::new();
    for name in names
        .iter()
        .filter(|name| selected(name) && !vacuumed.contains(*name))
    {
        let path = directory.join(name);
        let payload = files::read_generic(&path, key)?;
        let applied = apply(&payload, &mut values);
        applied.map_err(|fault| fault.at(ErrorLocation::file(path.path())))?;
    }
    Ok(values)
}

/// Applies the entries of one file.
fn apply(payload: &[u8], values: &mut BTreeMap<String, MetadataValue>) -> Decoded<()> {
    let mut fields = Fields::new(payload);
    while fields.remaining() > 0 {
        let key = fields.text("metadata key")?;
        if fields.flag("deleted")? {
            values.remove(&key);
            continue;
        }
        let datatype = Datatype::from_code("metadata datatype", fields.u8("metadata datatype")?)?;
        let count = u64::from(fields.u32("number of metadata values")?);
        let bytes = fields.take_u64("metadata value", count * datatype.size() as u64)?;
        let bytes = bytes.to_vec();
        values.insert(key, MetadataValue { datatype, bytes });
    }
    Ok(())
}
