//! Converts columns of a query to cells of a TileDB array.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Date32Type, Field, Int64Type, TimeUnit};
use chrono::{Datelike, NaiveDate};
use datafusion::common::{Result, exec_err, internal_err, plan_err};

use crate::format::tiledb::{CellValues, Datatype, TileBuffers};
use crate::provider::copy::tiledb::fills::put_fill;
use crate::provider::copy::tiledb::ordinals::Ordinals;

/// A dimension or an attribute of an array, and the column with its values.
#[derive(Debug, Clone)]
pub(super) struct StoredColumn {
    pub name: String,
    /// The index of the column in the rows.
    pub index: usize,
    pub datatype: Datatype,
    pub cell_values: CellValues,
    pub is_nullable: bool,
    pub is_dimension: bool,
    /// The cell that is stored for nulls, if the attribute is not nullable.
    pub fill: Option<Vec<u8>>,
    /// The ordinals of the values of an enumeration, which are stored instead of the values.
    pub enumeration: Option<Arc<Ordinals>>,
}

/// Returns the datatype and the number of values in which a column of a new array is stored.
pub(super) fn stored_type(field: &Field, is_dimension: bool) -> Result<(Datatype, CellValues)> {
    let unsupported = |reason: &str| {
        plan_err!(
            "column {:?} has the type {}, which {reason}",
            field.name(),
            field.data_type()
        )
    };
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    let stored = match data_type {
        data_type if data_type.is_string() && is_dimension => {
            (Datatype::StringAscii, CellValues::Variable)
        }
        data_type if data_type.is_string() => (Datatype::StringUtf8, CellValues::Variable),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            (Datatype::Blob, CellValues::Variable)
        }
        DataType::FixedSizeBinary(length @ 1..) => {
            (Datatype::Blob, CellValues::Fixed(*length as u32))
        }
        DataType::FixedSizeList(item, length @ 1..) => match single(item.data_type()) {
            Some(datatype) => (datatype, CellValues::Fixed(*length as u32)),
            None => return unsupported("TileDB arrays cannot store"),
        },
        DataType::List(item) | DataType::LargeList(item) => match single(item.data_type()) {
            Some(datatype) => (datatype, CellValues::Variable),
            None => return unsupported("TileDB arrays cannot store"),
        },
        other => match single(other) {
            Some(datatype) => (datatype, CellValues::Fixed(1)),
            None => {
                return unsupported(
                    "TileDB arrays cannot store; cast it to a number, a text or a timestamp",
                );
            }
        },
    };
    let is_coordinate = match stored {
        (Datatype::StringAscii, CellValues::Variable) => true,
        (datatype, CellValues::Fixed(1)) => datatype != Datatype::Bool,
        _ => false,
    };
    match is_dimension && !is_coordinate {
        true => {
            unsupported("is no type of coordinates; cast it to a number, a text or a timestamp")
        }
        false => Ok(stored),
    }
}

/// Returns the datatype of single values.
fn single(data_type: &DataType) -> Option<Datatype> {
    Some(match data_type {
        DataType::Boolean => Datatype::Bool,
        DataType::Int8 => Datatype::Int8,
        DataType::Int16 => Datatype::Int16,
        DataType::Int32 => Datatype::Int32,
        DataType::Int64 => Datatype::Int64,
        DataType::UInt8 => Datatype::Uint8,
        DataType::UInt16 => Datatype::Uint16,
        DataType::UInt32 => Datatype::Uint32,
        DataType::UInt64 => Datatype::Uint64,
        DataType::Float16 | DataType::Float32 => Datatype::Float32,
        DataType::Float64 => Datatype::Float64,
        DataType::Date32 => Datatype::DatetimeDay,
        DataType::Date64 => Datatype::DatetimeMillisecond,
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => Datatype::DatetimeSecond,
            TimeUnit::Millisecond => Datatype::DatetimeMillisecond,
            TimeUnit::Microsecond => Datatype::DatetimeMicrosecond,
            TimeUnit::Nanosecond => Datatype::DatetimeNanosecond,
        },
        DataType::Duration(unit) | DataType::Time32(unit) | DataType::Time64(unit) => match unit {
            TimeUnit::Second => Datatype::TimeSecond,
            TimeUnit::Millisecond => Datatype::TimeMillisecond,
            TimeUnit::Microsecond => Datatype::TimeMicrosecond,
            TimeUnit::Nanosecond => Datatype::TimeNanosecond,
        },
        _ => return None,
    })
}

impl StoredColumn {
    /// Returns the cells of a column.
    ///
    /// # Errors
    /// Fails if a value cannot be stored, or is null although the cells are not nullable.
    pub fn cells(&self, array: &ArrayRef) -> Result<TileBuffers> {
        let is_fillable = self.is_nullable || self.fill.is_some();
        if !is_fillable && array.logical_null_count() > 0 {
            return match self.is_dimension {
                true => exec_err!(
                    "dimension {:?} has a null, which is no coordinate",
                    self.name
                ),
                false => exec_err!("attribute {:?} has a null, but is not nullable", self.name),
            };
        }
        // Dictionaries are replaced by their values.
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => cast(array, values)?,
            _ => Arc::clone(array),
        };
        let mut cells = TileBuffers {
            cells: array.len(),
            ..TileBuffers::default()
        };
        if self.is_nullable {
            cells.validity = match array.logical_nulls() {
                Some(nulls) => nulls.iter().map(u8::from).collect(),
                None => vec![1; array.len()],
            };
        }
        if let Some(ordinals) = &self.enumeration {
            ordinals.put(&array, self.datatype.size(), &mut cells)?;
        } else if self.is_bytes() {
            self.put_bytes(&array, &mut cells)?;
        } else {
            match array.data_type() {
                DataType::FixedSizeList(_, length) => {
                    let values = array.as_fixed_size_list().values();
                    let length = *length as usize;
                    self.check_items(&array, values, |row| row * length..(row + 1) * length)?;
                    self.put_values(values, &mut cells.values)?;
                }
                DataType::List(_) | DataType::LargeList(_) => {
                    let lists = match array.data_type() {
                        DataType::List(item) => {
                            cast(&array, &DataType::LargeList(Arc::clone(item)))?
                        }
                        _ => Arc::clone(&array),
                    };
                    let lists = lists.as_list::<i64>();
                    let size = self.datatype.size() as u64;
                    let first = lists.value_offsets().first().copied().unwrap_or(0);
                    let last = lists.value_offsets().last().copied().unwrap_or(0);
                    let offsets = lists.value_offsets().iter();
                    cells.offsets = offsets
                        .map(|offset| (offset - first) as u64 * size)
                        .collect();
                    let starts = lists.value_offsets();
                    self.check_items(&array, lists.values(), |row| {
                        starts[row] as usize..starts[row + 1] as usize
                    })?;
                    let values = lists
                        .values()
                        .slice(first as usize, (last - first) as usize);
                    self.put_values(&values, &mut cells.values)?;
                }
                _ => self.put_values(&array, &mut cells.values)?,
            }
        }
        let expected = match self.cell_values {
            CellValues::Fixed(values) => Some(array.len() * values as usize * self.datatype.size()),
            CellValues::Variable => None,
        };
        if expected.is_some_and(|expected| cells.values.len() != expected)
            || expected.is_none() != (cells.offsets.len() == array.len() + 1)
        {
            return exec_err!(
                "attribute {:?} stores {:?} values of {} per cell, which are not those of {}",
                self.name,
                self.cell_values,
                self.datatype,
                array.data_type()
            );
        }
        if let Some(fill) = &self.fill {
            put_fill(&array, fill, &mut cells);
        }
        Ok(cells)
    }

    /// Returns `true` for texts and binary values.
    fn is_bytes(&self) -> bool {
        use Datatype::*;
        matches!(
            self.datatype,
            Char | Blob | Any | GeometryWkb | GeometryWkt | StringAscii | StringUtf8
        )
    }

    fn put_bytes(&self, array: &ArrayRef, cells: &mut TileBuffers) -> Result<()> {
        let is_ascii = self.datatype == Datatype::StringAscii;
        let array = cast(array, &DataType::LargeBinary)?;
        let array = array.as_binary::<i64>();
        if let CellValues::Fixed(length) = self.cell_values {
            for value in array.iter() {
                let value = value.unwrap_or_default();
                if value.len() > length as usize {
                    return exec_err!(
                        "attribute {:?} stores {length} bytes per cell, found {}",
                        self.name,
                        value.len()
                    );
                }
                let start = cells.values.len();
                cells.values.extend_from_slice(value);
                cells.values.resize(start + length as usize, 0);
            }
            return Ok(());
        }
        cells.offsets.reserve(array.len() + 1);
        cells.offsets.push(0);
        for value in array.iter() {
            let value = value.unwrap_or_default();
            if is_ascii && !value.is_ascii() {
                return exec_err!(
                    "{:?} has the text {:?}, expected ASCII",
                    self.name,
                    String::from_utf8_lossy(value)
                );
            }
            cells.values.extend_from_slice(value);
            cells.offsets.push(cells.values.len() as u64);
        }
        Ok(())
    }

    /// Checks that no list has a null item. `items` returns the items of a row.
    fn check_items(
        &self,
        lists: &ArrayRef,
        values: &ArrayRef,
        items: impl Fn(usize) -> Range<usize>,
    ) -> Result<()> {
        if values.null_count() == 0 {
            return Ok(());
        }
        let mut rows = (0..lists.len()).filter(|row| lists.is_valid(*row));
        match rows.any(|row| items(row).any(|item| values.is_null(item))) {
            true => exec_err!("attribute {:?} has a null within a list", self.name),
            false => Ok(()),
        }
    }

    /// Appends values of fixed size.
    fn put_values(&self, values: &ArrayRef, bytes: &mut Vec<u8>) -> Result<()> {
        use Datatype::*;
        let timestamp = |unit| DataType::Timestamp(unit, None);
        let data_type = match self.datatype {
            Bool => {
                let values = cast(values, &DataType::Boolean)?;
                let values = values.as_boolean().values();
                bytes.extend(values.iter().map(u8::from));
                return Ok(());
            }
            Int8 => DataType::Int8,
            Int16 => DataType::Int16,
            Int32 => DataType::Int32,
            Uint8 => DataType::UInt8,
            Uint16 => DataType::UInt16,
            Uint32 => DataType::UInt32,
            Uint64 => DataType::UInt64,
            Float32 => DataType::Float32,
            Float64 => DataType::Float64,
            DatetimeYear | DatetimeMonth | DatetimeWeek | DatetimeDay => {
                return self.put_dates(values, bytes);
            }
            DatetimeHour | DatetimeMinute | TimeHour | TimeMinute => {
                return self.put_ticks(values, bytes);
            }
            DatetimeSecond => timestamp(TimeUnit::Second),
            DatetimeMillisecond => timestamp(TimeUnit::Millisecond),
            DatetimeMicrosecond => timestamp(TimeUnit::Microsecond),
            DatetimeNanosecond => timestamp(TimeUnit::Nanosecond),
            TimeSecond => DataType::Duration(TimeUnit::Second),
            TimeMillisecond => DataType::Duration(TimeUnit::Millisecond),
            TimeMicrosecond => DataType::Duration(TimeUnit::Microsecond),
            TimeNanosecond => DataType::Duration(TimeUnit::Nanosecond),
            _ => DataType::Int64,
        };
        // Times of the day have the ticks of durations.
        let values = match values.data_type() {
            DataType::Time32(_) => cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?,
            DataType::Time64(_) => cast(values, &DataType::Int64)?,
            _ => cast(values, &data_type)?,
        };
        put_buffer(&values, self.datatype.size(), bytes)
    }

    /// Appends dates in years, months, weeks or days.
    fn put_dates(&self, values: &ArrayRef, bytes: &mut Vec<u8>) -> Result<()> {
        let dates = cast(values, &DataType::Date32)?;
        for days in dates.as_primitive::<Date32Type>().iter() {
            let days = i64::from(days.unwrap_or(0));
            let date = i32::try_from(days + DAYS_BEFORE_1970).ok();
            let date = date.and_then(NaiveDate::from_num_days_from_ce_opt);
            let ticks = match (self.datatype, date) {
                (Datatype::DatetimeWeek, _) => Some(days / 7).filter(|_| days % 7 == 0),
                (Datatype::DatetimeMonth, Some(date)) if date.day0() == 0 => {
                    Some(12 * (i64::from(date.year()) - 1970) + i64::from(date.month0()))
                }
                (Datatype::DatetimeYear, Some(date)) if date.ordinal0() == 0 => {
                    Some(i64::from(date.year()) - 1970)
                }
                (Datatype::DatetimeDay, _) => Some(days),
                _ => None,
            };
            self.put_tick(ticks, days, "days", bytes)?;
        }
        Ok(())
    }

    /// Appends times in hours or minutes.
    fn put_ticks(&self, values: &ArrayRef, bytes: &mut Vec<u8>) -> Result<()> {
        let seconds = match self.datatype.is_datetime() {
            true => cast(values, &DataType::Timestamp(TimeUnit::Second, None))?,
            false => cast(values, &DataType::Duration(TimeUnit::Second))?,
        };
        let unit = match self.datatype {
            Datatype::DatetimeHour | Datatype::TimeHour => 3600,
            _ => 60,
        };
        let seconds = cast(&seconds, &DataType::Int64)?;
        for seconds in seconds.as_primitive::<Int64Type>().iter() {
            let seconds = seconds.unwrap_or(0);
            let ticks = Some(seconds / unit).filter(|_| seconds % unit == 0);
            self.put_tick(ticks, seconds, "seconds", bytes)?;
        }
        Ok(())
    }

    fn put_tick(
        &self,
        ticks: Option<i64>,
        found: i64,
        unit: &str,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        match ticks {
            Some(ticks) => bytes.extend_from_slice(&ticks.to_le_bytes()),
            None => {
                return exec_err!(
                    "{:?} has a time of {found} {unit} since 1970, which is no whole {}",
                    self.name,
                    self.datatype
                );
            }
        }
        Ok(())
    }
}

/// Days from the day before year 1 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_163;

/// Appends the bytes of an array of numbers.
fn put_buffer(values: &ArrayRef, size: usize, bytes: &mut Vec<u8>) -> Result<()> {
    let data = values.to_data();
    let (start, length) = (data.offset() * size, data.len() * size);
    let Some(stored) = data.buffers().first() else {
        return internal_err!("{} has no values", values.data_type());
    };
    match stored.as_slice().get(start..start + length) {
        Some(stored) => bytes.extend_from_slice(stored),
        None => return internal_err!("{} has too few values", values.data_type()),
    }
    Ok(())
}

/// Casts an array. Fails if a value is out of range.
fn cast(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    Ok(cast_with_options(array, data_type, &options)?)
}
