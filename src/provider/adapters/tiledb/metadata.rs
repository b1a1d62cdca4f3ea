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
                Some(match Scalar::from_bytes(datatype, bytes)? {
                    Scalar::Unsigned(value) if datatype == Bool => (value != 0).to_string(),
                    Scalar::Signed(value) => value.to_string(),
                    Scalar::Unsigned(value) => value.to_string(),
                    Scalar::Float(value) => value.to_string(),
                    Scalar::Bytes(_) => return None,
                })
            });
            texts.collect::<Vec<_>>().join(", ")
        }
    }
}
