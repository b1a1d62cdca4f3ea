//! Converts decoded cells to Arrow arrays.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray,
    GenericByteArray, Int32Array, ListArray, StringBuilder, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{BinaryType, ByteArrayType, DataType, Int32Type, Utf8Type};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::tiledb::{CellValues, Datatype, Scalar, TileBuffers};
use crate::provider::adapters::tiledb::columns::types::{Element, converted, item};
use crate::provider::adapters::tiledb::columns::{Column, NullValues};

impl Column {
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
            return self.byte_array::<BinaryType>(starts, values, nulls);
        }
        let is_padded = matches!(self.cell_values, CellValues::Fixed(_));
        if self.datatype.size() == 1 && !is_padded {
            let has_nulls = nulls.is_some();
            if !has_nulls || std::str::from_utf8(&values).is_ok() {
                return self.byte_array::<Utf8Type>(starts, values, nulls);
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
            let index = Scalar::from_bytes(self.datatype, bytes)?.integer();
            let index = index.and_then(|index| i32::try_from(index).ok());
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

    fn invalid_text(&self) -> Error {
        self.malformed("text", "not valid UTF-8 or UTF-16")
    }

    fn malformed(&self, field: &'static str, found: impl ToString) -> Error {
        let location = ErrorLocation::part(&self.path, format!("column {:?}", self.name));
        Error::malformed(location, field, found.to_string(), self.stored_type())
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
