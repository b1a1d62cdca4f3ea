//! Attributes of groups and datasets.

use hdf5_reader::btree_v2::BTreeV2Record;
use hdf5_reader::datatype_api::{StringPadding, StringSize};
use hdf5_reader::error::ByteOrder;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::attribute::{self, AttributeMessage};
use hdf5_reader::messages::dataspace::DataspaceType;
use hdf5_reader::messages::datatype::{Datatype, VarLenKind};
use hdf5_reader::messages::{HdfMessage, MSG_ATTRIBUTE, MSG_ATTRIBUTE_INFO};
use hdf5_reader::reference::resolve_object_reference;

use crate::format::hdf5::metadata::header::{Message, NOT_SUPPORTED, SHARED};
use crate::format::hdf5::metadata::heaps::Heaps;
use crate::format::hdf5::metadata::links::{each_object, records};
use crate::format::hdf5::source::{Found, Source};

/// Maximum number of attributes of an object.
const MAX_ATTRIBUTES: usize = 1 << 12;
/// Maximum size of the value of an attribute in bytes.
const MAX_VALUE_BYTES: usize = 1 << 20;
/// Maximum size of a text in an attribute in bytes.
const MAX_TEXT_BYTES: usize = 1 << 16;

/// A number in an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::format::hdf5) enum Number {
    Integer(i128),
    Single(f32),
    Double(f64),
}

impl Number {
    /// Returns the number as text. A float has as many digits as tell it from its neighbours.
    pub fn text(self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Single(number) => format!("{number:?}"),
            Self::Double(number) => format!("{number:?}"),
        }
    }

    /// Returns the number if it is an integer, or a float without a fraction.
    pub fn integer(self) -> Option<i128> {
        let number = match self {
            Self::Integer(number) => return Some(number),
            Self::Single(number) => f64::from(number),
            Self::Double(number) => number,
        };
        (number.fract() == 0.0 && number.abs() < 2e19).then_some(number as i128)
    }

    /// Returns `true` for NaN.
    pub fn is_nan(self) -> bool {
        match self {
            Self::Integer(_) => false,
            Self::Single(number) => number.is_nan(),
            Self::Double(number) => number.is_nan(),
        }
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::format::hdf5) enum Value {
    Texts(Vec<String>),
    Numbers(Vec<Number>),
    /// The addresses of objects, one list for each element.
    References(Vec<Vec<u64>>),
}

impl Value {
    /// Returns the value as text: a text or a number as it is, a list of several as JSON. Returns
    /// `None` for references and for empty lists.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Texts(texts) => match texts.as_slice() {
                [] => None,
                [text] => Some(text.clone()),
                several => serde_json::to_string(several).ok(),
            },
            Self::Numbers(numbers) => {
                let texts: Vec<String> = numbers.iter().map(|number| number.text()).collect();
                match texts.as_slice() {
                    [] => None,
                    [text] => Some(text.clone()),
                    several => Some(format!("[{}]", several.join(","))),
                }
            }
            Self::References(_) => None,
        }
    }

    /// Returns the only text of the value.
    pub fn only_text(&self) -> Option<&str> {
        match self {
            Self::Texts(texts) if texts.len() == 1 => texts.first().map(String::as_str),
            _ => None,
        }
    }

    /// Returns the numbers of the value; none for texts and references.
    pub fn numbers(&self) -> &[Number] {
        match self {
            Self::Numbers(numbers) => numbers,
            Self::Texts(_) | Self::References(_) => &[],
        }
    }
}

/// An attribute.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::format::hdf5) struct Attribute {
    pub name: String,
    pub value: Value,
}

/// The attributes of an object, and those that cannot be read.
#[derive(Debug, Default)]
pub(in crate::format::hdf5) struct Attributes {
    pub list: Vec<Attribute>,
    /// The reasons why attributes are left out, each with `true` if the file is damaged.
    pub unreadable: Vec<(String, bool)>,
}

impl Attributes {
    /// Reads the attributes of the object with these messages. `budget` is the number of bytes that
    /// the attributes of the file may still take, so that a small file cannot repeat a large
    /// attribute in each of its objects.
    pub fn read(
        source: &Source,
        messages: &[Message],
        heaps: &mut Heaps,
        budget: &mut usize,
    ) -> Self {
        let mut attributes = Self::default();
        for message in messages {
            match message.kind {
                MSG_ATTRIBUTE => attributes.push(source, &message.body, heaps, budget),
                MSG_ATTRIBUTE_INFO => {
                    if let Err(found) = attributes.read_heap(source, message, heaps, budget) {
                        let is_damaged = !found.ends_with(NOT_SUPPORTED);
                        attributes.unreadable.push((found, is_damaged));
                    }
                }
                _ => {}
            }
        }
        attributes
    }

    /// Returns the value of an attribute.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.list.iter().find(|attribute| attribute.name == name);
        found.map(|attribute| &attribute.value)
    }

    /// Returns the text of an attribute that has a single one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.only_text()
    }

    fn read_heap(
        &mut self,
        source: &Source,
        message: &Message,
        heaps: &mut Heaps,
        budget: &mut usize,
    ) -> Found<()> {
        let HdfMessage::AttributeInfo(info) = message.parse(source)? else {
            return Ok(());
        };
        if source.is_undefined(info.fractal_heap_address) {
            return Ok(());
        }
        let by_order = info.btree_creation_order_address;
        let by_order = by_order.filter(|address| !source.is_undefined(*address));
        let ordered = records(source, by_order.unwrap_or(info.btree_name_index_address))?;
        let read = each_object(source, info.fractal_heap_address, &ordered, |bytes| {
            self.push(source, bytes, heaps, budget);
            self.list.len() + self.unreadable.len() < MAX_ATTRIBUTES
        });
        let is_shared = |record: &BTreeV2Record| match record {
            BTreeV2Record::AttributeNameHash { flags, .. } => flags & SHARED != 0,
            _ => false,
        };
        // Only the index of names tells, which is not needed otherwise.
        if read.is_err()
            && records(source, info.btree_name_index_address)?
                .iter()
                .any(is_shared)
        {
            return Err(format!(
                "attributes in the shared message heap, {NOT_SUPPORTED}"
            ));
        }
        read
    }

    /// Adds the attribute with this message body.
    fn push(&mut self, source: &Source, body: &[u8], heaps: &mut Heaps, budget: &mut usize) {
        if self.list.len() + self.unreadable.len() >= MAX_ATTRIBUTES {
            return;
        }
        let parsed = attribute::parse(
            &mut Cursor::new(body),
            source.offset_size,
            source.length_size,
            body.len(),
        );
        let value = parsed
            .map_err(|error| error.to_string())
            .and_then(|message| {
                let value = value(source, &message, heaps, budget);
                let value =
                    value.map_err(|found| format!("attribute {:?}: {found}", message.name))?;
                Ok((message.name, value))
            });
        match value {
            Ok((name, Some(value))) => self.list.push(Attribute { name, value }),
            // Values of other types, such as compounds, have no text.
            Ok((_, None)) => {}
            Err(found) => {
                let is_damaged = std::mem::take(&mut heaps.is_damaged);
                self.unreadable.push((found, is_damaged));
            }
        }
    }
}

/// Returns the value of an attribute; `None` if its type is none of numbers, texts and references.
fn value(
    source: &Source,
    message: &AttributeMessage,
    heaps: &mut Heaps,
    budget: &mut usize,
) -> Found<Option<Value>> {
    let raw = &message.raw_data;
    let count = match message.dataspace.dataspace_type {
        DataspaceType::Null => 0,
        DataspaceType::Scalar => 1,
        DataspaceType::Simple => message
            .dataspace
            .num_elements()
            .map_err(|error| error.to_string())?,
    };
    let count = usize::try_from(count)
        .ok()
        .filter(|count| *count <= MAX_VALUE_BYTES);
    let count = count.ok_or("more elements than an attribute can have")?;
    if raw.len() > MAX_VALUE_BYTES {
        return Err(format!(
            "a value of {} bytes, more than {MAX_VALUE_BYTES}",
            raw.len()
        ));
    }
    let mut spend = |bytes: usize| -> Found<()> {
        *budget = budget
            .checked_sub(bytes)
            .ok_or("more attributes than the file can have")?;
        Ok(())
    };
    spend(raw.len() + message.name.len() + 64)?;
    let datatype = match &message.datatype {
        Datatype::Enum { base, .. } => base.as_ref(),
        other => other,
    };
    let items = |size: usize| match count
        .checked_mul(size)
        .is_some_and(|bytes| bytes <= raw.len())
    {
        true => Ok(raw.chunks_exact(size.max(1)).take(count)),
        false => Err(format!(
            "{} bytes, expected {count} elements of {size} bytes",
            raw.len()
        )),
    };
    Ok(match datatype {
        Datatype::FixedPoint { size, .. }
        | Datatype::FloatingPoint { size, .. }
        | Datatype::Bitfield { size, .. } => {
            let numbers = items(usize::from(*size))?.map(|bytes| number(datatype, bytes));
            let numbers: Option<Vec<Number>> = numbers.collect();
            numbers.map(Value::Numbers)
        }
        Datatype::String {
            size: StringSize::Fixed(size),
            padding,
            ..
        } => Some(Value::Texts(
            items(*size as usize)?
                .map(|bytes| fixed_text(bytes, *padding))
                .collect(),
        )),
        Datatype::String {
            size: StringSize::Variable,
            ..
        }
        | Datatype::VarLen {
            kind: VarLenKind::String,
            ..
        } => {
            let mut texts = Vec::new();
            for reference in items(Heaps::reference_size(source))? {
                let text = heaps.value(source, reference, 1, MAX_TEXT_BYTES)?;
                spend(text.len() + 24)?;
                texts.push(fixed_text(&text, StringPadding::NullTerminate));
            }
            Some(Value::Texts(texts))
        }
        Datatype::Reference { .. } => {
            let size = usize::from(source.offset_size);
            let references = items(size)?.map(|bytes| vec![reference(source, bytes)]);
            Some(Value::References(references.collect()))
        }
        Datatype::VarLen { base, .. } if matches!(**base, Datatype::Reference { .. }) => {
            let size = usize::from(source.offset_size);
            let mut lists = Vec::new();
            for stored in items(Heaps::reference_size(source))? {
                let list = heaps.value(source, stored, size, MAX_TEXT_BYTES)?;
                spend(list.len() + 24)?;
                let list = list.chunks_exact(size);
                lists.push(list.map(|bytes| reference(source, bytes)).collect());
            }
            Some(Value::References(lists))
        }
        _ => None,
    })
}

fn reference(source: &Source, bytes: &[u8]) -> u64 {
    // The address 0 is the superblock, which no reference names.
    resolve_object_reference(bytes, source.offset_size).unwrap_or(0)
}

/// Decodes a number; `None` for types of other sizes, such as the 80-bit floats of x86.
pub(in crate::format::hdf5) fn number(datatype: &Datatype, bytes: &[u8]) -> Option<Number> {
    let is_big_endian = match datatype {
        Datatype::FixedPoint { byte_order, .. }
        | Datatype::FloatingPoint { byte_order, .. }
        | Datatype::Bitfield { byte_order, .. } => *byte_order == ByteOrder::BigEndian,
        _ => return None,
    };
    let mut little = [0; 8];
    let size = bytes.len();
    let target = little.get_mut(..size)?;
    target.copy_from_slice(bytes);
    if is_big_endian {
        target.reverse();
    }
    let bits = u64::from_le_bytes(little);
    match datatype {
        Datatype::FloatingPoint { .. } => match size {
            2 => Some(Number::Single(half::f16::from_bits(bits as u16).to_f32())),
            4 => Some(Number::Single(f32::from_bits(bits as u32))),
            8 => Some(Number::Double(f64::from_bits(bits))),
            _ => None,
        },
        Datatype::FixedPoint { signed: true, .. } if size > 0 => {
            // Shifting up and down again repeats the sign.
            let unused = 64 - 8 * size as u32;
            Some(Number::Integer(
                (((bits << unused) as i64) >> unused).into(),
            ))
        }
        _ => Some(Number::Integer(bits.into())),
    }
}

/// Returns a text without its padding. Bytes that are not UTF-8 are replaced.
pub(in crate::format::hdf5) fn fixed_text(bytes: &[u8], padding: StringPadding) -> String {
    // Many writers pad with zeros whatever the type says.
    let end = match padding {
        StringPadding::NullTerminate => bytes.iter().position(|byte| *byte == 0),
        StringPadding::NullPad => Some(unpadded(bytes, b"\0")),
        StringPadding::SpacePad => Some(unpadded(bytes, b" \0")),
    };
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// Returns the length of a text without these bytes at its end.
fn unpadded(bytes: &[u8], padding: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| !padding.contains(byte));
    last.map_or(0, |last| last + 1)
}
