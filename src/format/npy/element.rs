//! NumPy element types, and the dataset types that they are read as.

use crate::format::array::Dtype;

/// The time units of `datetime64` and `timedelta64`: NumPy's name and the CF name.
const TIME_UNITS: [(&str, &str); 8] = [
    ("W", "weeks"),
    ("D", "days"),
    ("h", "hours"),
    ("m", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("ns", "nanoseconds"),
];

/// The kind of a NumPy element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NpyKind {
    /// A number of a type that datasets have.
    Number(Dtype),
    /// A time since 1970 in a CF unit; `i64::MIN` is NaT.
    Instant(&'static str),
    /// A duration in a CF unit; `i64::MIN` is NaT.
    Duration(&'static str),
    /// A string of up to the given number of bytes, padded with zeros.
    Bytes(u64),
    /// A string of up to the given number of code points of four bytes each, padded with zeros.
    Characters(u64),
}

/// A NumPy element type with its byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub kind: NpyKind,
    pub is_big_endian: bool,
}

impl Element {
    /// Parses a `descr`. Returns `None` if the type is not supported.
    pub fn parse(descr: &str) -> Option<Self> {
        let (order, name) = match descr.chars().next()? {
            order @ ('<' | '>' | '|' | '=') => (order, &descr[1..]),
            _ => ('|', descr),
        };
        let kind = match name {
            "b1" | "?" | "u1" => NpyKind::Number(Dtype::U8),
            "i1" => NpyKind::Number(Dtype::I8),
            "i2" => NpyKind::Number(Dtype::I16),
            "i4" => NpyKind::Number(Dtype::I32),
            "i8" => NpyKind::Number(Dtype::I64),
            "u2" => NpyKind::Number(Dtype::U16),
            "u4" => NpyKind::Number(Dtype::U32),
            "u8" => NpyKind::Number(Dtype::U64),
            "f2" => NpyKind::Number(Dtype::F16),
            "f4" => NpyKind::Number(Dtype::F32),
            "f8" => NpyKind::Number(Dtype::F64),
            _ => match (name.get(..1)?, name.get(1..)?) {
                ("M", unit) => NpyKind::Instant(time_unit(unit)?),
                ("m", unit) => NpyKind::Duration(time_unit(unit)?),
                ("S" | "a", length) => NpyKind::Bytes(length.parse().ok()?),
                ("U", length) => NpyKind::Characters(length.parse().ok()?),
                _ => return None,
            },
        };
        Some(Self {
            kind,
            // Native order (`=`) counts as little-endian, like the cells of a dataset.
            is_big_endian: order == '>',
        })
    }

    /// Returns the dataset type that elements are read as.
    pub fn dtype(self) -> Dtype {
        match self.kind {
            NpyKind::Number(dtype) => dtype,
            // Strings are read as codes.
            NpyKind::Instant(_)
            | NpyKind::Duration(_)
            | NpyKind::Bytes(_)
            | NpyKind::Characters(_) => Dtype::I64,
        }
    }

    /// Returns the number of bytes per element in the file, or `None` on overflow.
    pub fn size(self) -> Option<u64> {
        match self.kind {
            NpyKind::Number(dtype) => Some(dtype.size()),
            NpyKind::Instant(_) | NpyKind::Duration(_) => Some(8),
            NpyKind::Bytes(length) => Some(length),
            NpyKind::Characters(length) => length.checked_mul(4),
        }
    }

    /// Returns `true` if elements are strings.
    pub fn is_text(self) -> bool {
        matches!(self.kind, NpyKind::Bytes(_) | NpyKind::Characters(_))
    }

    /// Returns `true` if the bytes of elements can be used as cells without conversion.
    pub fn is_stored_as_cells(self) -> bool {
        !self.is_text() && (!self.is_big_endian || self.size() == Some(1))
    }

    /// Appends one element to `cells`, converted to a cell.
    pub fn push_cell(self, element: &[u8], cells: &mut Vec<u8>) {
        match self.is_big_endian {
            true => cells.extend(element.iter().rev()),
            false => cells.extend(element),
        }
    }

    /// Returns the string of an element without padding, or `None` if the bytes are not valid text.
    pub fn text(self, element: &[u8]) -> Option<String> {
        let text = match self.kind {
            NpyKind::Bytes(_) => std::str::from_utf8(element).ok()?.to_string(),
            NpyKind::Characters(_) => {
                let characters = element.as_chunks::<4>().0.iter().map(|bytes| {
                    char::from_u32(match self.is_big_endian {
                        true => u32::from_be_bytes(*bytes),
                        false => u32::from_le_bytes(*bytes),
                    })
                });
                characters.collect::<Option<String>>()?
            }
            _ => return None,
        };
        Some(text.trim_end_matches('\0').to_string())
    }
}

fn time_unit(text: &str) -> Option<&'static str> {
    let name = text.strip_prefix("8[")?.strip_suffix(']')?;
    let mut units = TIME_UNITS.iter();
    units.find(|(numpy, _)| *numpy == name).map(|(_, cf)| *cf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_their_names() {
        for (descr, dtype, size, is_stored_as_cells) in [
            ("<f4", Dtype::F32, 4, true),
            (">f4", Dtype::F32, 4, false),
            ("|b1", Dtype::U8, 1, true),
            (">u1", Dtype::U8, 1, true),
            ("|i1", Dtype::I8, 1, true),
            ("<M8[ns]", Dtype::I64, 8, true),
            ("<U3", Dtype::I64, 12, false),
            ("|S5", Dtype::I64, 5, false),
        ] {
            let element = Element::parse(descr).unwrap();
            assert_eq!(element.dtype(), dtype, "{descr}");
            assert_eq!(element.size(), Some(size), "{descr}");
            assert_eq!(element.is_stored_as_cells(), is_stored_as_cells, "{descr}");
        }
        for descr in [
            "", "<", "<c8", "|O", "<V4", "<M8", "<M8[25s]", "<M8[Y]", "<f16", "é4",
        ] {
            assert_eq!(Element::parse(descr), None, "{descr}");
        }
    }

    #[test]
    fn elements_become_cells_and_texts() {
        let mut cells = Vec::new();
        Element::parse(">i2")
            .unwrap()
            .push_cell(&[1, 2], &mut cells);
        assert_eq!(cells, [2, 1]);
        let text = |descr: &str, bytes: &[u8]| Element::parse(descr).unwrap().text(bytes);
        assert_eq!(text("|S4", b"ab\0\0").as_deref(), Some("ab"));
        assert_eq!(
            text(">U2", &[0, 0, 0, b'a', 0, 0, 0, 0]).as_deref(),
            Some("a")
        );
        assert_eq!(text("<U1", &[0xff; 4]), None);
    }
}
