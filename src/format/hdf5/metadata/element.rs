//! Element types: how the bytes of a stored element become a cell.

use hdf5_reader::datatype_api::{EnumMember, StringPadding, StringSize};
use hdf5_reader::error::ByteOrder;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::datatype::{Datatype, VarLenKind};

use crate::format::array::Dtype;
use crate::format::hdf5::metadata::header::Message;
use crate::format::hdf5::metadata::heaps::Heaps;
use crate::format::hdf5::source::{Found, Source};

/// Maximum length of a fixed-length string in bytes.
const MAX_LENGTH: u32 = 1 << 16;

/// The element type of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::format::hdf5) struct Element {
    /// The type of the cells.
    pub dtype: Dtype,
    pub kind: ElementKind,
    /// The number of bytes of a stored element.
    pub size: u64,
    /// The names of an enumeration and their values.
    pub names: Vec<(String, i128)>,
}

/// The conversion of a stored element to a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::format::hdf5) enum ElementKind {
    /// The bytes of an element are those of a cell.
    Plain,
    /// The bytes of an element are those of a cell in the other order.
    Swapped,
    /// An integer in some of the bits of an element.
    Bits {
        /// The number of bits below the integer.
        offset: u32,
        /// The number of bits of the integer.
        precision: u32,
        is_signed: bool,
        is_big_endian: bool,
    },
    /// A string of the element's size.
    FixedText(StringPadding),
    /// A reference to a string of variable length.
    VariableText,
}

impl ElementKind {
    /// Returns `true` for strings.
    pub fn is_text(self) -> bool {
        matches!(self, Self::FixedText(_) | Self::VariableText)
    }
}

impl Element {
    /// Returns the element type that a datatype message describes.
    ///
    /// # Errors
    /// Returns a message that names the type, if its elements cannot become cells.
    pub fn of(source: &Source, message: &Message) -> Found<Self> {
        let parsed = message.parse(source).map_err(|found| {
            // Not an error in the file: complex numbers and types of later versions.
            format!("elements of an unsupported type ({found})")
        })?;
        let HdfMessage::Datatype(datatype) = parsed else {
            return Err("no datatype".to_string());
        };
        Self::of_type(source, &datatype.datatype, &message.body)
    }

    /// `raw` are the bytes that describe the type.
    fn of_type(source: &Source, datatype: &Datatype, raw: &[u8]) -> Found<Self> {
        let unsupported = |what: &str| Err(format!("elements of {what}"));
        match datatype {
            Datatype::FixedPoint {
                size,
                signed,
                byte_order,
            } => Self::integer(*size, *signed, *byte_order, raw),
            Datatype::Bitfield { size, byte_order } => {
                Self::integer(*size, false, *byte_order, raw)
            }
            Datatype::FloatingPoint { size, byte_order } => Self::float(*size, *byte_order, raw),
            Datatype::String {
                size: StringSize::Fixed(size),
                padding,
                ..
            } if *size <= MAX_LENGTH => Ok(Self::text(
                ElementKind::FixedText(*padding),
                u64::from(*size),
            )),
            Datatype::String {
                size: StringSize::Fixed(size),
                ..
            } => Err(format!("strings of {size} bytes, more than {MAX_LENGTH}")),
            Datatype::String { .. }
            | Datatype::VarLen {
                kind: VarLenKind::String,
                ..
            } => {
                let size = Heaps::reference_size(source) as u64;
                Ok(Self::text(ElementKind::VariableText, size))
            }
            Datatype::Enum { base, members } => {
                // The description of the base type follows the first eight bytes.
                let mut element = Self::of_type(source, base, raw.get(8..).unwrap_or_default())?;
                if is_boolean(members) && element.dtype == Dtype::I8 {
                    (element.dtype, element.kind) = (Dtype::U8, ElementKind::Plain);
                    return Ok(element);
                }
                for member in members {
                    let value = super::attributes::number(base, &member.value);
                    if let Some(value) = value.and_then(super::attributes::Number::integer) {
                        element.names.push((member.name.clone(), value));
                    }
                }
                Ok(element)
            }
            Datatype::Compound { .. } => unsupported("a compound type"),
            Datatype::Array { .. } => unsupported("an array type"),
            Datatype::VarLen { .. } => unsupported("variable length"),
            Datatype::Opaque { tag, .. } => Err(format!("elements of an opaque type ({tag:?})")),
            Datatype::Reference { .. } => unsupported("a reference type"),
        }
    }

    fn text(kind: ElementKind, size: u64) -> Self {
        Self {
            dtype: Dtype::I64,
            kind,
            size,
            names: Vec::new(),
        }
    }

    fn number(dtype: Dtype, kind: ElementKind, size: u8) -> Self {
        Self {
            dtype,
            kind,
            size: u64::from(size),
            names: Vec::new(),
        }
    }

    fn integer(size: u8, is_signed: bool, order: ByteOrder, raw: &[u8]) -> Found<Self> {
        let dtype = match (size, is_signed) {
            (1, true) => Dtype::I8,
            (1, false) => Dtype::U8,
            (2, true) => Dtype::I16,
            (2, false) => Dtype::U16,
            (3 | 4, true) => Dtype::I32,
            (3 | 4, false) => Dtype::U32,
            (5..=8, true) => Dtype::I64,
            (5..=8, false) => Dtype::U64,
            _ => return Err(format!("integers of {size} bytes, more than 8")),
        };
        let is_big_endian = order == ByteOrder::BigEndian;
        let bits = u32::from(size) * 8;
        let at = |start: usize| match raw.get(start..start + 2) {
            Some(bytes) => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            None => 0,
        };
        let (offset, precision) = (at(8), at(10));
        let is_whole = offset == 0 && precision == bits;
        let kind = match size {
            1 | 2 | 4 | 8 if is_whole && (size == 1 || !is_big_endian) => ElementKind::Plain,
            2 | 4 | 8 if is_whole => ElementKind::Swapped,
            _ if precision == 0 || offset + precision > bits => {
                return Err(format!(
                    "integers of {precision} bits from bit {offset} on, in {bits} bits"
                ));
            }
            _ => ElementKind::Bits {
                offset,
                precision,
                is_signed,
                is_big_endian,
            },
        };
        Ok(Self::number(dtype, kind, size))
    }

    fn float(size: u8, order: ByteOrder, raw: &[u8]) -> Found<Self> {
        // Offset and precision in bits, then the positions and sizes of exponent and mantissa.
        let layout: Option<[u8; 8]> = raw.get(8..16).and_then(|bytes| bytes.try_into().ok());
        let is_vax = raw.get(1).is_some_and(|flags| flags & 0x40 != 0);
        let dtype = match (size, layout) {
            (2, Some([0, 0, 16, 0, 10, 5, 0, 10])) => Dtype::F16,
            (4, Some([0, 0, 32, 0, 23, 8, 0, 23])) => Dtype::F32,
            (8, Some([0, 0, 64, 0, 52, 11, 0, 52])) => Dtype::F64,
            _ => {
                return Err(format!(
                    "floats of {size} bytes that are not IEEE 754 binary16, binary32 or binary64"
                ));
            }
        };
        let kind = match order {
            _ if is_vax => return Err("floats in the byte order of the VAX".to_string()),
            ByteOrder::LittleEndian => ElementKind::Plain,
            ByteOrder::BigEndian => ElementKind::Swapped,
        };
        Ok(Self::number(dtype, kind, size))
    }

    /// Applies the attribute `_Unsigned` of the NetCDF conventions: the bits of an integer are read as
    /// unsigned, or as signed.
    pub fn with_unsigned(mut self, is_unsigned: bool) -> Self {
        let is_number = matches!(self.kind, ElementKind::Plain | ElementKind::Swapped);
        let (dtype, kind) = match (is_unsigned, self.kind, self.dtype) {
            (true, kind, Dtype::I8) if is_number => (Dtype::U8, kind),
            (true, kind, Dtype::I16) if is_number => (Dtype::U16, kind),
            (true, kind, Dtype::I32) if is_number => (Dtype::U32, kind),
            (true, kind, Dtype::I64) if is_number => (Dtype::U64, kind),
            (false, kind, Dtype::U8) if is_number => (Dtype::I8, kind),
            (false, kind, Dtype::U16) if is_number => (Dtype::I16, kind),
            (false, kind, Dtype::U32) if is_number => (Dtype::I32, kind),
            (false, kind, Dtype::U64) if is_number => (Dtype::I64, kind),
            _ => return self,
        };
        (self.dtype, self.kind) = (dtype, kind);
        self
    }

    /// Returns the min and the max of a cell, if cells are integers.
    pub fn integers(&self) -> Option<(i128, i128)> {
        if self.kind.is_text() || self.dtype.is_float() {
            return None;
        }
        let bits = match self.kind {
            ElementKind::Bits { precision, .. } => u64::from(precision),
            _ => self.size * 8,
        };
        let is_signed = matches!(self.dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
        Some(match is_signed {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        })
    }

    /// Converts stored elements to little-endian cells. `spare` is a scratch buffer.
    pub fn convert(&self, cells: &mut Vec<u8>, spare: &mut Vec<u8>) {
        match self.kind {
            ElementKind::Plain | ElementKind::FixedText(_) | ElementKind::VariableText => {}
            ElementKind::Swapped => match self.size {
                2 => swap::<2>(cells),
                4 => swap::<4>(cells),
                _ => swap::<8>(cells),
            },
            ElementKind::Bits {
                offset,
                precision,
                is_signed,
                is_big_endian,
            } => {
                spare.clear();
                let size = self.dtype.size() as usize;
                for element in cells.chunks_exact(self.size as usize) {
                    let mut bytes = [0; 8];
                    bytes[..element.len()].copy_from_slice(element);
                    if is_big_endian {
                        bytes[..element.len()].reverse();
                    }
                    let unused = 64 - precision;
                    let high = (u64::from_le_bytes(bytes) >> offset) << unused;
                    let value = match is_signed {
                        true => ((high as i64) >> unused) as u64,
                        false => high >> unused,
                    };
                    spare.extend_from_slice(&value.to_le_bytes()[..size]);
                }
                std::mem::swap(cells, spare);
            }
        }
    }
}

fn swap<const SIZE: usize>(cells: &mut [u8]) {
    for cell in cells.as_chunks_mut::<SIZE>().0 {
        cell.reverse();
    }
}

/// Returns `true` for the enumeration as which h5py stores booleans.
fn is_boolean(members: &[EnumMember]) -> bool {
    let mut named = members
        .iter()
        .map(|member| (member.name.as_str(), member.value.as_slice()));
    let mut has =
        |name, value: &[u8]| named.any(|(other, stored)| other == name && stored == value);
    members.len() == 2 && has("FALSE", &[0]) && has("TRUE", &[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(
        size: u8,
        is_signed: bool,
        is_big_endian: bool,
        offset: u8,
        precision: u8,
    ) -> Found<Element> {
        let order = match is_big_endian {
            true => ByteOrder::BigEndian,
            false => ByteOrder::LittleEndian,
        };
        let raw = [0x10, 0, 0, 0, size, 0, 0, 0, offset, 0, precision, 0];
        Element::integer(size, is_signed, order, &raw)
    }

    fn converted(element: &Element, bytes: &[u8]) -> Vec<u8> {
        let mut cells = bytes.to_vec();
        element.convert(&mut cells, &mut Vec::new());
        cells
    }

    #[test]
    fn integers_of_every_size_and_order() {
        let element = integer(1, true, false, 0, 8).unwrap();
        assert_eq!(
            (element.dtype, element.kind),
            (Dtype::I8, ElementKind::Plain)
        );
        let element = integer(2, false, true, 0, 16).unwrap();
        assert_eq!(
            (element.dtype, element.kind),
            (Dtype::U16, ElementKind::Swapped)
        );
        assert_eq!(converted(&element, &[1, 2, 3, 4]), [2, 1, 4, 3]);
        assert_eq!(
            integer(8, true, false, 0, 64).unwrap().kind,
            ElementKind::Plain
        );
        // Twelve bits from bit 4 on, with a sign.
        let element = integer(2, true, false, 4, 12).unwrap();
        assert_eq!(converted(&element, &[0xf0, 0xff]), [0xff, 0xff]);
        assert_eq!(converted(&element, &[0x1f, 0x00]), [1, 0]);
        let element = integer(3, false, true, 0, 24).unwrap();
        assert_eq!(converted(&element, &[1, 2, 3]), [3, 2, 1, 0]);
        integer(2, true, false, 8, 12).unwrap_err();
        integer(2, true, false, 0, 0).unwrap_err();
        integer(16, true, false, 0, 128).unwrap_err();
    }

    #[test]
    fn the_attribute_unsigned_changes_how_bits_are_read() {
        let element = integer(1, true, false, 0, 8).unwrap().with_unsigned(true);
        assert_eq!(
            (element.dtype, element.integers()),
            (Dtype::U8, Some((0, 255)))
        );
        let element = integer(4, false, true, 0, 32).unwrap().with_unsigned(false);
        assert_eq!(
            (element.dtype, element.kind),
            (Dtype::I32, ElementKind::Swapped)
        );
        let element = integer(2, false, false, 0, 16).unwrap().with_unsigned(true);
        assert_eq!(element.dtype, Dtype::U16);
    }
}
