//! Columns of tables over TileDB arrays, and the conversion of decoded cells to Arrow arrays.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryArray, BooleanArray, DictionaryArray,
    FixedSizeListArray, GenericByteArray, Int32Array, ListArray, StringArray, StringBuilder,
    make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{ByteArrayType, DataType, Field, Int32Type};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::tiledb::{
    Attribute, CellValues, Datatype, Dimension, Enumeration, Representation, Scalar, TileBuffers,
};
use crate::provider::adapters::tiledb::types::{Element, converted, item, unit};

/// The name of the column of an attribute without a name.
const ANONYMOUS: &str = "__attr";
/// The field metadata key of the unit of numbers.
const UNITS: &str = "units";

/// The column of a dimension or an attribute.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// The path of the array, for errors.
    path: PathBuf,
    name: String,
    datatype: Datatype,
    cell_values: CellValues,
    data_type: DataType,
    /// The stored cell that stands for a missing value, if there is one.
    fill: Option<Vec<u8>>,
    is_nullable: bool,
    /// The values that cells index.
    enumeration: Option<ArrayRef>,
}

/// The values that are null, beside those that are stored as null.
#[derive(Debug, Clone, Copy)]
pub(super) struct NullValues {
    /// `true` if NaN is null.
    pub nan: bool,
    /// `true` if the fill value is null.
    pub fill: bool,
}

impl NullValues {
    /// No value is null.
    pub const NONE: Self = Self {
        nan: false,
        fill: false,
    };
}

impl Column {
    /// Creates the column of a dimension, the coordinates of which are never null.
    pub fn of_dimension(path: &Path, index: usize, dimension: &Dimension) -> Self {
        let name = match dimension.name.as_str() {
            "" => format!("__dim_{index}"),
            name => name.to_string(),
        };
        Self::new(path, name, dimension.datatype, dimension.cell_values)
    }

    /// Creates the column of an attribute. Fill values are null in dense arrays, where they stand
    /// for cells that were never written.
    pub fn of_attribute(
        path: &Path,
        attribute: &Attribute,
        enumeration: Option<&Enumeration>,
        is_sparse: bool,
    ) -> Result<Self> {
        let name = match attribute.name.as_str() {
            "" => ANONYMOUS.to_string(),
            name => name.to_string(),
        };
        let mut column = Self::new(path, name, attribute.datatype, attribute.cell_values);
        column.is_nullable = attribute.is_nullable;
        let is_index = attribute.cell_values == CellValues::Fixed(1);
        if let Some(enumeration) = enumeration.filter(|_| is_index) {
            let values = Self::new(
                path,
                format!("enumeration {}", enumeration.name),
                enumeration.datatype,
                enumeration.cell_values,
            );
            let buffers = TileBuffers {
                cells: enumeration.len(),
                values: enumeration.data().to_vec(),
                offsets: match enumeration.cell_values {
                    CellValues::Variable => enumeration.offsets().to_vec(),
                    CellValues::Fixed(_) => Vec::new(),
                },
                validity: Vec::new(),
            };
            let values = values.array(buffers, NullValues::NONE)?;
            column.data_type = match values.data_type() {
                bytes @ (DataType::Utf8 | DataType::Binary) => {
                    DataType::Dictionary(Box::new(DataType::Int32), Box::new(bytes.clone()))
                }
                other => other.clone(),
            };
            column.enumeration = Some(values);
        } else if !is_sparse && !attribute.is_nullable && attribute.datatype != Datatype::Bool {
            column.fill = Some(attribute.fill.clone());
        }
        Ok(column)
    }

    fn new(path: &Path, name: String, datatype: Datatype, cell_values: CellValues) -> Self {
        Self {
            path: path.to_path_buf(),
            name,
            datatype,
            cell_values,
            data_type: Element::of(datatype).cell_type(cell_values),
            fill: None,
            is_nullable: false,
            enumeration: None,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The stored datatype.
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// The SQL type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The stored cell that stands for a missing value, if there is one.
    pub fn fill(&self) -> Option<&[u8]> {
        self.fill.as_deref()
    }

    /// The values that cells index, if the attribute has an enumeration.
    pub fn enumeration(&self) -> Option<&ArrayRef> {
        self.enumeration.as_ref()
    }

    /// Returns `true` if cells are single numbers whose stored bytes are those of the column.
    pub fn is_plain_number(&self) -> bool {
        let is_number = self.data_type.is_numeric() && self.cell_values == CellValues::Fixed(1);
        is_number && !self.is_nullable && self.enumeration.is_none()
    }

    /// Returns `true` if the column may have nulls.
    pub fn may_have_nulls(&self, nulls: NullValues) -> bool {
        self.is_nullable
            || self.enumeration.is_some()
            || self.has_not_a_time()
            || (nulls.nan && self.data_type.is_floating())
            || (nulls.fill && self.fill.is_some())
    }

    /// Returns `true` if one number stands for a missing date, time or duration.
    pub fn has_not_a_time(&self) -> bool {
        self.datatype.is_datetime() || self.datatype.is_time()
    }

    /// The average size of a decoded cell in bytes, roughly.
    pub fn cell_bytes(&self) -> u64 {
        let values = match self.cell_values {
            CellValues::Fixed(values) => u64::from(values),
            CellValues::Variable => 16,
        };
        values * self.datatype.size() as u64
    }

    /// The stored type as introspection shows it: `INT32`, `FLOAT32[2]`, `STRING_UTF8[]`.
    pub fn stored_type(&self) -> String {
        match self.cell_values {
            CellValues::Fixed(1) => self.datatype.to_string(),
            CellValues::Fixed(values) => format!("{}[{values}]", self.datatype),
            CellValues::Variable => format!("{}[]", self.datatype),
        }
    }

    /// Returns the field of the column.
    pub fn field(&self, is_nullable: bool) -> Field {
        let unit = unit(self.datatype).filter(|_| self.enumeration.is_none());
        let unit = unit.map(|unit| (UNITS.to_string(), unit.to_string()));
        Field::new(&self.name, self.data_type.clone(), is_nullable)
            .with_metadata(unit.into_iter().collect())
    }

    /// Converts decoded cells to an array.
    ///
    /// # Errors
    /// Returns an error if a text is not valid, or if a date does not fit into its SQL type.
    pub fn array(&self, mut buffers: TileBuffers, nulls: NullValues) -> Result<ArrayRef> {
        let has_nan_values = !nulls.nan;
        let nulls = self.nulls(&buffers, nulls);
        if has_nan_values {
            self.unify_nan(&mut buffers.values);
        }
        if let Some(values) = &self.enumeration {
            return self.enumerated(&buffers, nulls, values);
        }
        let element = Element::of(self.datatype);
        let TileBuffers {
            cells,
            values,
            offsets,
            ..
        } = buffers;
        if matches!(element, Element::Text | Element::Byte) {
            let offsets = match self.cell_values {
                CellValues::Fixed(count) => {
                    let bytes = u64::from(count) * self.datatype.size() as u64;
                    (0..=cells as u64).map(|cell| cell * bytes).collect()
                }
                CellValues::Variable => offsets,
            };
            return self.bytes(values, &offsets, nulls);
        }
        match self.cell_values {
            CellValues::Fixed(1) => self.elements(values, cells, nulls),
            CellValues::Fixed(count) => {
                let items = self.elements(values, cells * count as usize, None)?;
                let count = i32::try_from(count).unwrap_or(i32::MAX);
                let field = item(items.data_type().clone());
                let list = FixedSizeListArray::try_new(field, count, items, nulls);
                Ok(Arc::new(
                    list.map_err(|error| self.malformed("cells", error))?,
                ))
            }
            CellValues::Variable => {
                let size = self.datatype.size();
                if offsets
                    .iter()
                    .any(|offset| !offset.is_multiple_of(size as u64))
                {
                    let found = "not a multiple of the size of a value";
                    return Err(self.malformed("cell offsets", found));
                }
                let offsets = self.offsets(offsets.iter().map(|offset| offset / size as u64))?;
                let length = values.len() / size;
                let items = self.elements(values, length, None)?;
                let field = item(items.data_type().clone());
                let list = ListArray::try_new(field, offsets, items, nulls);
                Ok(Arc::new(
                    list.map_err(|error| self.malformed("cells", error))?,
                ))
            }
        }
    }

    /// Returns the cells that are not null; `None` if no cell is null.
    fn nulls(&self, buffers: &TileBuffers, nulls: NullValues) -> Option<NullBuffer> {
        let mut valid: Option<BooleanBuffer> = None;
        let mut restrict = |more: BooleanBuffer| {
            valid = Some(match &valid {
                Some(valid) => valid & &more,
                None => more,
            });
        };
        if !buffers.validity.is_empty() {
            restrict(buffers.validity.iter().map(|byte| *byte != 0).collect());
        }
        if nulls.nan && self.cell_values == CellValues::Fixed(1) && self.enumeration.is_none() {
            match self.datatype {
                Datatype::Float32 => {
                    let (cells, _) = buffers.values.as_chunks::<4>();
                    let is_number = |cell: &[u8; 4]| !f32::from_le_bytes(*cell).is_nan();
                    restrict(cells.iter().map(is_number).collect());
                }
                Datatype::Float64 => {
                    let (cells, _) = buffers.values.as_chunks::<8>();
                    let is_number = |cell: &[u8; 8]| !f64::from_le_bytes(*cell).is_nan();
                    restrict(cells.iter().map(is_number).collect());
                }
                _ => {}
            }
        }
        if let Some(fill) = self.fill.as_deref().filter(|_| nulls.fill) {
            restrict(differ_from(fill, buffers));
        }
        valid
            .map(NullBuffer::new)
            .filter(|nulls| nulls.null_count() > 0)
    }

    /// Replaces every NaN by the same: Arrow's total order puts a NaN with a negative sign below all
    /// numbers.
    fn unify_nan(&self, values: &mut [u8]) {
        match self.datatype {
            Datatype::Float32 => {
                let (values, _) = values.as_chunks_mut::<4>();
                let is_nan = |value: &[u8; 4]| f32::from_le_bytes(*value).is_nan();
                let nan = values.iter_mut().filter(|value| is_nan(value));
                nan.for_each(|value| *value = f32::NAN.to_le_bytes());
            }
            Datatype::Float64 => {
                let (values, _) = values.as_chunks_mut::<8>();
                let is_nan = |value: &[u8; 8]| f64::from_le_bytes(*value).is_nan();
                let nan = values.iter_mut().filter(|value| is_nan(value));
                nan.for_each(|value| *value = f64::NAN.to_le_bytes());
            }
            _ => {}
        }
    }

    /// Converts numbers, dates, durations and booleans.
    fn elements(
        &self,
        values: Vec<u8>,
        count: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let (data_type, is_converted) = match Element::of(self.datatype) {
            Element::Plain(data_type) => (data_type, false),
            Element::Converted(data_type) => (data_type, true),
            _ => {
                let bits = values.iter().map(|byte| *byte != 0).collect();
                return Ok(Arc::new(BooleanArray::new(bits, nulls)));
            }
        };
        let mut nulls = nulls;
        if self.has_not_a_time() {
            let (ticks, _) = values.as_chunks::<8>();
            let is_time = ticks
                .iter()
                .map(|tick| i64::from_le_bytes(*tick) != i64::MIN);
            let times = NullBuffer::new(is_time.collect());
            nulls = NullBuffer::union(nulls.as_ref(), Some(&times));
            nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        }
        let values = match is_converted {
            false => Buffer::from_vec(values),
            true => self.converted(&values, &data_type, nulls.as_ref())?,
        };
        let data = ArrayData::builder(data_type)
            .len(count)
            .add_buffer(values)
            .nulls(nulls)
            .align_buffers(true)
            .build();
        Ok(make_array(
            data.map_err(|error| self.malformed("cells", error))?,
        ))
    }

    /// Converts ticks to the numbers that the SQL type stores.
    fn converted(
        &self,
        values: &[u8],
        data_type: &DataType,
        nulls: Option<&NullBuffer>,
    ) -> Result<Buffer> {
        let (ticks, _) = values.as_chunks::<8>();
        let convert = |(cell, tick): (usize, &[u8; 8])| {
            let ticks = i64::from_le_bytes(*tick);
            if nulls.is_some_and(|nulls| nulls.is_null(cell)) {
                return Ok(0);
            }
            converted(self.datatype, ticks).ok_or_else(|| {
                self.malformed("value", format!("{ticks}, which no {data_type} holds"))
            })
        };
        let numbers = ticks.iter().enumerate().map(convert);
        Ok(match data_type {
            // `converted` has checked that days fit.
            DataType::Date32 => {
                let days = numbers.map(|days| days.map(|days| days as i32));
                Buffer::from_vec(days.collect::<Result<Vec<i32>>>()?)
            }
            _ => Buffer::from_vec(numbers.collect::<Result<Vec<i64>>>()?),
        })
    }

    /// Converts texts and bytes, given the start of each cell and the end of the last.
    fn bytes(
        &self,
        values: Vec<u8>,
        offsets: &[u64],
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let starts = self.offsets(offsets.iter().copied())?;
        if Element::of(self.datatype) == Element::Byte {
            return self.byte_array::<arrow::datatypes::BinaryType>(starts, values, nulls);
        }
        let is_padded = matches!(self.cell_values, CellValues::Fixed(_));
        if self.datatype.size() == 1 && !is_padded {
            let has_nulls = nulls.is_some();
            if !has_nulls || std::str::from_utf8(&values).is_ok() {
                return self.byte_array::<arrow::datatypes::Utf8Type>(starts, values, nulls);
            }
        }
        // Null cells hold arbitrary bytes.
        let mut texts = StringBuilder::with_capacity(starts.len() - 1, values.len());
        for (cell, two) in starts.windows(2).enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(cell)) {
                texts.append_null();
                continue;
            }
            let bytes = values
                .get(two[0] as usize..two[1] as usize)
                .unwrap_or_default();
            let text =
                decode_text(self.datatype.size(), bytes).ok_or_else(|| self.invalid_text())?;
            texts.append_value(match is_padded {
                true => text.trim_end_matches('\0'),
                false => &text,
            });
        }
        Ok(Arc::new(texts.finish()))
    }

    fn byte_array<T: ByteArrayType<Offset = i32>>(
        &self,
        offsets: OffsetBuffer<i32>,
        values: Vec<u8>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let array = GenericByteArray::<T>::try_new(offsets, Buffer::from_vec(values), nulls);
        Ok(Arc::new(array.map_err(|_| self.invalid_text())?))
    }

    /// Converts offsets, which increase.
    fn offsets(&self, offsets: impl ExactSizeIterator<Item = u64>) -> Result<OffsetBuffer<i32>> {
        let narrow = offsets.map(|offset| {
            let found = || self.malformed("tile", "more than 2^31 bytes or values");
            i32::try_from(offset).map_err(|_| found())
        });
        let narrow = narrow.collect::<Result<Vec<i32>>>()?;
        match narrow.first() == Some(&0) && narrow.is_sorted() {
            true => Ok(OffsetBuffer::new(ScalarBuffer::from(narrow))),
            false => Err(self.malformed("cell offsets", "out of order")),
        }
    }

    /// Replaces indices by the values of the enumeration. Other numbers are null.
    fn enumerated(
        &self,
        buffers: &TileBuffers,
        nulls: Option<NullBuffer>,
        values: &ArrayRef,
    ) -> Result<ArrayRef> {
        let size = self.datatype.size();
        let index = |(cell, bytes): (usize, &[u8])| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(cell));
            let index = match Scalar::from_bytes(self.datatype, bytes)? {
                Scalar::Signed(index) => i32::try_from(index).ok(),
                Scalar::Unsigned(index) => i32::try_from(index).ok(),
                _ => None,
            };
            index.filter(|index| !is_null && (0..values.len() as i64).contains(&i64::from(*index)))
        };
        let cells = buffers.values.chunks_exact(size).enumerate();
        let keys: Int32Array = cells.map(index).collect();
        let broken = |error| self.malformed("cells", error);
        Ok(match &self.data_type {
            DataType::Dictionary(..) => {
                let array = DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(values));
                Arc::new(array.map_err(broken)?)
            }
            _ => take(values, &keys, None).map_err(broken)?,
        })
    }

    /// Converts scalars of the datatype, for example bounds, to values of the SQL type. A scalar that
    /// the type cannot hold becomes null.
    pub fn scalars<'a>(
        &self,
        scalars: impl Iterator<Item = Option<&'a Scalar>>,
    ) -> Result<ArrayRef> {
        let is_bytes = matches!(Element::of(self.datatype), Element::Text | Element::Byte);
        if is_bytes || self.enumeration.is_some() || self.cell_values != CellValues::Fixed(1) {
            let texts = scalars.map(|scalar| match scalar {
                Some(Scalar::Bytes(bytes)) => Some(bytes.as_slice()),
                _ => None,
            });
            return match self.data_type {
                DataType::Binary => Ok(Arc::new(texts.collect::<BinaryArray>())),
                DataType::Utf8 => {
                    let texts = texts.map(|text| std::str::from_utf8(text?).ok());
                    Ok(Arc::new(texts.collect::<StringArray>()))
                }
                _ => Ok(arrow::array::new_null_array(&self.data_type, texts.count())),
            };
        }
        let size = self.datatype.size();
        let mut buffers = TileBuffers::default();
        for scalar in scalars {
            let word = match scalar {
                Some(Scalar::Signed(value)) if self.has_not_a_time() => {
                    converted(self.datatype, *value).map(|_| value.to_le_bytes())
                }
                Some(Scalar::Signed(value)) => Some(value.to_le_bytes()),
                Some(Scalar::Unsigned(value)) => Some(value.to_le_bytes()),
                Some(Scalar::Float(value)) if size == 4 => {
                    let bits = u64::from((*value as f32).to_bits());
                    Some(bits.to_le_bytes())
                }
                Some(Scalar::Float(value)) => Some(value.to_le_bytes()),
                Some(Scalar::Bytes(_)) | None => None,
            };
            buffers.cells += 1;
            buffers.validity.push(u8::from(word.is_some()));
            buffers.values.extend(&word.unwrap_or_default()[..size]);
        }
        self.array(buffers, NullValues::NONE)
    }

    /// Returns the indices of enumeration values that equal one of these values, in ascending order;
    /// `None` if the values cannot be compared.
    pub fn indices_of(&self, wanted: &ArrayRef) -> Option<Vec<i64>> {
        let values = self.enumeration.as_ref()?;
        let wanted = cast(wanted, values.data_type()).ok()?;
        let (values, wanted) = (
            values.as_string_opt::<i32>()?,
            wanted.as_string_opt::<i32>()?,
        );
        let is_wanted = |value: Option<&str>| wanted.iter().any(|one| one == value);
        let indices = values
            .iter()
            .enumerate()
            .filter(|(_, value)| is_wanted(*value));
        Some(indices.map(|(index, _)| index as i64).collect())
    }

    /// Returns the text of the fill value, if it is a single value.
    pub fn fill_text(&self) -> Option<String> {
        let fill = self.fill.as_deref()?;
        let is_single = self.cell_values == CellValues::Fixed(1);
        let is_number = matches!(Element::of(self.datatype), Element::Plain(_));
        match Scalar::from_bytes(self.datatype, fill).filter(|_| is_single && is_number)? {
            Scalar::Signed(value) => Some(value.to_string()),
            Scalar::Unsigned(value) => Some(value.to_string()),
            Scalar::Float(value) => Some(value.to_string()),
            Scalar::Bytes(_) => None,
        }
    }

    /// Returns the fill value, if it is a single number.
    pub fn fill_scalar(&self) -> Option<Scalar> {
        let fill = self.fill.as_deref()?;
        let is_single = self.cell_values == CellValues::Fixed(1);
        Scalar::from_bytes(self.datatype, fill).filter(|_| is_single)
    }

    /// Returns `true` if values are floating-point numbers.
    pub fn is_float(&self) -> bool {
        self.datatype.representation() == Representation::Float
    }

    fn invalid_text(&self) -> Error {
        self.malformed("text", "not valid UTF-8 or UTF-16")
    }

    fn malformed(&self, field: &'static str, found: impl ToString) -> Error {
        let place = ErrorLocation::part(&self.path, format!("column {:?}", self.name));
        Error::malformed(place, field, found.to_string(), self.stored_type())
    }
}

/// Returns `true` for each cell whose bytes differ from the fill value.
fn differ_from(fill: &[u8], buffers: &TileBuffers) -> BooleanBuffer {
    fn words<const SIZE: usize>(fill: &[u8], values: &[u8]) -> BooleanBuffer {
        let (cells, _) = values.as_chunks::<SIZE>();
        cells.iter().map(|cell| cell.as_slice() != fill).collect()
    }
    if !buffers.offsets.is_empty() {
        let cells = buffers.offsets.windows(2);
        let cells = cells.map(|two| buffers.values.get(two[0] as usize..two[1] as usize));
        return cells.map(|cell| cell != Some(fill)).collect();
    }
    match fill.len() {
        1 => words::<1>(fill, &buffers.values),
        2 => words::<2>(fill, &buffers.values),
        4 => words::<4>(fill, &buffers.values),
        8 => words::<8>(fill, &buffers.values),
        size => {
            let cells = buffers.values.chunks_exact(size.max(1));
            cells.map(|cell| cell != fill).collect()
        }
    }
}

/// Decodes a text of characters of 1, 2 or 4 bytes; `None` if it is not valid.
fn decode_text(size: usize, bytes: &[u8]) -> Option<String> {
    match size {
        1 => Some(std::str::from_utf8(bytes).ok()?.to_string()),
        2 => {
            let (units, _) = bytes.as_chunks::<2>();
            let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
            String::from_utf16(&units).ok()
        }
        _ => {
            let (characters, _) = bytes.as_chunks::<4>();
            let mut characters = characters.iter();
            characters.try_fold(String::new(), |mut text, character| {
                text.push(char::from_u32(u32::from_le_bytes(*character))?);
                Some(text)
            })
        }
    }
}
