//! Metadata of arrays and groups as texts.

use crate::format::tiledb::{Datatype, MetadataValue, Scalar};

/// Returns the text of a value: texts as they are, bytes in hexadecimal digits, and numbers separated
/// by commas.
pub(super) fn text(value: &MetadataValue) -> String {
    use Datatype::*;
    match value.datatype {
        StringAscii | StringUtf8 | Char | GeometryWkt => {
            let text = String::from_utf8_lossy(&value.bytes);
            text.trim_end_matches('\0').to_string()
        }
        Blob | Any | GeometryWkb | StringUtf16 | StringUtf32 | StringUcs2 | StringUcs4 => value
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
        datatype => {
            let numbers = value.bytes.chunks_exact(datatype.size());
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
