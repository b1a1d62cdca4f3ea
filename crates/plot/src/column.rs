//! Reads a column of a result as numbers along an axis.

use super::clock::{Clock, Form};
use super::text;
use arrow::array::RecordBatch;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, TimeUnit};
use std::collections::HashMap;

/// Values of a larger magnitude count as infinite, because the difference of two of them may
/// overflow.
const LARGEST: f64 = 1e300;
/// The metadata key of fields that are dimensions of an array.
const DIMENSION: &str = "tet:dimension";
/// The text shown for null among texts.
const NULL: &str = "NULL";

/// The type of the values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnKind {
    /// Numbers. An axis of integers has no ticks between integers.
    Number { is_integer: bool },
    /// Booleans as 0 and 1. On an axis, they become texts.
    Boolean,
    /// Times in seconds since 1970, or since midnight.
    Time(Clock),
    /// Texts, each represented by its index in `Column::texts`.
    Text,
    /// Lists, structs and other types that cannot be drawn.
    Other,
}

impl ColumnKind {
    /// Returns the kind of an Arrow type. An unknown time zone is ignored, so that its times are
    /// shown in UTC.
    pub fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Null => Self::Number { is_integer: false },
            DataType::Dictionary(_, values) => Self::of(values),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Date32 | DataType::Date64 => Self::Time(Clock::new(Form::Date, None)),
            DataType::Time32(_) | DataType::Time64(_) => Self::Time(Clock::new(Form::Time, None)),
            DataType::Timestamp(_, zone) => {
                let zone = zone.as_ref().and_then(|zone| {
                    let known: Option<Tz> = zone.parse().ok();
                    known.map(|known| (known, zone.to_string()))
                });
                Self::Time(Clock::new(Form::Timestamp, zone))
            }
            DataType::Duration(_) => Self::Number { is_integer: false },
            number if number.is_integer() => Self::Number { is_integer: true },
            number if number.is_numeric() => Self::Number { is_integer: false },
            _ => Self::Other,
        }
    }

    /// Returns `true` for times and texts, which can be an axis but not a quantity.
    pub fn is_label(&self) -> bool {
        matches!(self, Self::Time(_) | Self::Text)
    }

    /// Returns `true` if the values lie along an axis as texts do.
    pub fn is_categorical(&self) -> bool {
        matches!(self, Self::Text | Self::Boolean)
    }
}

/// A column of a result, as numbers.
#[derive(Debug, Clone)]
pub struct Column {
    /// The name from the result, without control characters.
    pub name: String,
    /// The unit of the values.
    pub unit: Option<String>,
    /// The `long_name` attribute.
    pub long_name: Option<String>,
    /// The type of the values.
    pub kind: ColumnKind,
    /// `true` for a dimension of an array.
    pub is_dimension: bool,
    /// `true` if the field is nullable.
    pub is_nullable: bool,
    /// One number per row. NaN stands for null or for a value left out.
    pub values: Vec<f64>,
    /// The distinct texts. For a column of texts, `values` holds indices into this list.
    pub texts: Vec<String>,
    /// The number of values left out because they are infinite or larger than [`LARGEST`].
    pub infinite: usize,
}

impl Column {
    /// Reads the column with index `number` from all batches. The unit and the long name are
    /// metadata of the field.
    pub fn read(field: &Field, number: usize, batches: &[RecordBatch]) -> Result<Self, String> {
        let attribute = |name: &str| field.metadata().get(name).map(|text| text::clean(text));
        let kind = ColumnKind::of(field.data_type());
        let unit = attribute("units");
        let unit = match (&kind, field.data_type()) {
            // The `units` of a time describe its stored encoding, not the decoded values.
            (ColumnKind::Time(_), _) => None,
            (_, DataType::Duration(_)) => Some("s".to_owned()),
            _ => unit.filter(|unit| !unit.is_empty() && unit != "1"),
        };
        let mut column = Self {
            name: text::clean(field.name()),
            unit,
            long_name: attribute("long_name").filter(|name| !name.is_empty()),
            kind,
            is_dimension: field.metadata().contains_key(DIMENSION),
            is_nullable: field.is_nullable(),
            values: Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum()),
            texts: Vec::new(),
            infinite: 0,
        };
        let mut numbers = HashMap::new();
        for batch in batches {
            let read = column.append(batch.column(number), &mut numbers);
            read.map_err(|error| format!("column {}: {error}", column.name))?;
        }
        Ok(column)
    }

    fn append(
        &mut self,
        array: &ArrayRef,
        numbers: &mut HashMap<String, usize>,
    ) -> Result<(), arrow::error::ArrowError> {
        if let DataType::Dictionary(_, values) = array.data_type() {
            return self.append(&cast(array, values)?, numbers);
        }
        if self.kind == ColumnKind::Text {
            let array = cast(array, &DataType::Utf8)?;
            for value in array.as_string::<i32>() {
                let value = value.unwrap_or(NULL);
                let number = match numbers.get(value) {
                    Some(number) => *number,
                    None => {
                        self.texts.push(text::clean(value));
                        numbers.insert(value.to_owned(), numbers.len());
                        numbers.len() - 1
                    }
                };
                self.values.push(number as f64);
            }
            return Ok(());
        }
        let (array, factor) = plain(array)?;
        let array = cast(&array, &DataType::Float64)?;
        for value in array.as_primitive::<Float64Type>() {
            let value = value.unwrap_or(f64::NAN) * factor;
            self.infinite += usize::from(value.abs() > LARGEST);
            self.values.push(match value.abs() <= LARGEST {
                true => value,
                false => f64::NAN,
            });
        }
        Ok(())
    }

    /// Turns booleans into texts, for use as an axis.
    pub fn make_categories(&mut self) {
        if self.kind != ColumnKind::Boolean {
            return;
        }
        self.kind = ColumnKind::Text;
        let names = ["false", "true", NULL];
        let mut places: [Option<usize>; 3] = [None; 3];
        for value in &mut self.values {
            let which = if value.is_nan() { 2 } else { *value as usize };
            let place = places[which].get_or_insert_with(|| {
                self.texts.push(names[which].to_owned());
                self.texts.len() - 1
            });
            *value = *place as f64;
        }
    }

    /// Turns values of any kind into texts, in order of appearance.
    pub fn make_texts(&mut self) {
        self.make_categories();
        if self.kind == ColumnKind::Text {
            return;
        }
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        let mut texts = Vec::new();
        let mut places = Vec::with_capacity(self.values.len());
        for value in &self.values {
            let number = *numbers.entry((value + 0.0).to_bits()).or_insert_with(|| {
                texts.push(match value.is_nan() {
                    true => NULL.to_owned(),
                    false => self.text(*value),
                });
                texts.len() - 1
            });
            places.push(number as f64);
        }
        self.texts = texts;
        self.values = places;
        self.kind = ColumnKind::Text;
    }

    /// Keeps the rows of the first `most` texts, sets the values of all others to NaN, and adds a
    /// note.
    pub fn keep_texts(&mut self, most: usize, notes: &mut Vec<String>) {
        if self.texts.len() <= most {
            return;
        }
        notes.push(format!(
            "the first {most} of {} values of {} are drawn",
            self.texts.len(),
            self.name
        ));
        self.texts.truncate(most);
        for value in &mut self.values {
            if *value >= most as f64 {
                *value = f64::NAN;
            }
        }
    }

    /// Returns `true` if the values descend, as along an axis stored from its max to its min. Times
    /// always count as ascending.
    pub fn is_descending(&self) -> bool {
        if !matches!(self.kind, ColumnKind::Number { .. }) {
            return false;
        }
        let values: Vec<f64> = self
            .values
            .iter()
            .copied()
            .filter(|value| !value.is_nan())
            .collect();
        let (mut up, mut down) = (0usize, 0usize);
        for pair in values.windows(2) {
            up += usize::from(pair[1] > pair[0]);
            down += usize::from(pair[1] < pair[0]);
        }
        // The inner axis of a grid repeats once per outer coordinate: a descending one ascends only
        // where it starts again.
        down > 0 && (up == 0 || (self.is_dimension && down > 3 * up))
    }

    /// Returns the name, followed by the unit in brackets.
    pub fn title(&self) -> String {
        text::title(&self.name, self.unit.as_deref())
    }

    /// Returns `true` if all values except NaN are equal.
    pub fn is_constant(&self) -> bool {
        let mut values = self.values.iter().filter(|value| !value.is_nan());
        match values.next() {
            Some(first) => values.all(|value| value == first),
            None => true,
        }
    }

    /// Returns the min and max of the values, if there are any.
    pub fn range(&self) -> Option<(f64, f64)> {
        range(self.values.iter().copied())
    }

    /// Formats a value of this column.
    pub fn text(&self, value: f64) -> String {
        match &self.kind {
            ColumnKind::Text => self.texts.get(value as usize).cloned().unwrap_or_default(),
            ColumnKind::Time(clock) => clock.text(value),
            ColumnKind::Boolean => (value != 0.0).to_string(),
            ColumnKind::Number { .. } | ColumnKind::Other => text::number(value),
        }
    }
}

/// Returns the min and max of the numbers except NaN, if there are any.
pub fn range(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let numbers = numbers.filter(|number| !number.is_nan());
    numbers.fold(None, |range, number| match range {
        None => Some((number, number)),
        Some((low, high)) => Some((number.min(low), number.max(high))),
    })
}

/// Returns an array that casts to `f64`, and the factor that turns times and durations into
/// seconds.
fn plain(array: &ArrayRef) -> Result<(ArrayRef, f64), arrow::error::ArrowError> {
    let per_second = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1.0,
        TimeUnit::Millisecond => 1e-3,
        TimeUnit::Microsecond => 1e-6,
        TimeUnit::Nanosecond => 1e-9,
    };
    let (stored, factor) = match array.data_type() {
        DataType::Date32 => (DataType::Int32, 86_400.0),
        DataType::Date64 => (DataType::Int64, 1e-3),
        DataType::Time32(unit) => (DataType::Int32, per_second(unit)),
        DataType::Time64(unit) | DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            (DataType::Int64, per_second(unit))
        }
        DataType::Boolean => (DataType::UInt8, 1.0),
        other => (other.clone(), 1.0),
    };
    Ok((cast(array, &stored)?, factor))
}
