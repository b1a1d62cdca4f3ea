//! Random axes with coordinates of every kind, and their encoding in a file.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::Date32Type;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use super::array::{Number, bytes, column};
use super::random::Random;

const HOUR: i64 = 3_600_000_000;

/// The encoding of an axis's coordinates in the file.
#[derive(Debug, Clone)]
enum AxisEncoding {
    /// Not stored: the coordinates are the indices.
    Counted,
    Labels(Vec<String>),
    /// In a dataset with the dimension's name.
    Sibling {
        dtype: Dtype,
        numbers: Vec<Number>,
        attributes: Vec<(&'static str, String)>,
        chunk: u64,
    },
}

#[derive(Debug, Clone)]
pub struct TestAxis {
    pub name: String,
    stored: AxisEncoding,
    /// The coordinates as a column, one per index.
    pub coordinates: ArrayRef,
}

impl TestAxis {
    pub fn generate(random: &mut Random, number: usize, extent: usize) -> Self {
        // Ascending, descending, or unsorted with repeats.
        let order = random.below(3);
        let steps: Vec<i64> = (0..extent as i64)
            .map(|position| match order {
                0 => position * 2 - 3,
                1 => 9 - position * 3,
                _ => random.below(4) as i64,
            })
            .collect();
        let labels = |text: &dyn Fn(i64) -> String| {
            AxisEncoding::Labels(steps.iter().map(|step| text(*step)).collect())
        };
        let (stored, coordinates): (_, ArrayRef) = match random.below(10) {
            0 => (AxisEncoding::Counted, counted(extent)),
            1 => (
                labels(&|step| step.to_string()),
                Arc::new(Int64Array::from(steps.clone())),
            ),
            2 => (
                labels(&|step| (step as f64 + 0.25).to_string()),
                Arc::new(Float64Array::from_iter_values(
                    steps.iter().map(|step| *step as f64 + 0.25),
                )),
            ),
            3 => {
                let text = |step| format!("label {step}");
                let texts = steps.iter().copied().map(text);
                (
                    labels(&text),
                    Arc::new(StringArray::from_iter_values(texts)),
                )
            }
            4 => {
                // Days counted from January 1, 1970.
                let days =
                    Date32Array::from_iter_values(steps.iter().map(|step| *step as i32 + 10));
                let text = |day| day_as_text(day).unwrap();
                let labels = days.values().iter().copied().map(text).collect();
                (AxisEncoding::Labels(labels), Arc::new(days))
            }
            5 => times(random, &steps),
            6 | 7 => floats(random, &steps),
            _ => integers(random, &steps),
        };
        Self {
            name: format!("d{number}"),
            stored,
            coordinates,
        }
    }

    /// Generates an axis of any length. It has no labels, whose number is limited.
    pub fn long(random: &mut Random, number: usize, extent: usize) -> Self {
        let order = random.below(4);
        let steps: Vec<i64> = (0..extent as i64)
            .map(|position| match order {
                0 | 1 => position - 3,
                2 => 9 - position,
                _ => random.below(extent.div_ceil(3)) as i64,
            })
            .collect();
        let (stored, coordinates) = match random.below(3) {
            0 => (AxisEncoding::Counted, counted(extent)),
            1 => {
                let dtype = *random.pick(&[Dtype::I16, Dtype::I32, Dtype::I64]);
                integers_of(random, &steps, dtype, 0)
            }
            _ => floats(random, &steps),
        };
        Self {
            name: format!("d{number}"),
            stored,
            coordinates,
        }
    }

    /// Splits the axis over files. Returns the axis of all files together and the axis of each
    /// file.
    pub fn cut(&self, parts: &[Range<usize>]) -> (Self, Vec<Self>) {
        let parts: Vec<Self> = parts.iter().map(|part| self.part(part)).collect();
        let coordinates: Vec<_> = parts.iter().map(|part| part.coordinates.as_ref()).collect();
        let whole = Self {
            coordinates: concat(&coordinates).unwrap(),
            ..self.clone()
        };
        (whole, parts)
    }

    fn part(&self, range: &Range<usize>) -> Self {
        let mut part = self.clone();
        part.coordinates = self.coordinates.slice(range.start, range.len());
        match &mut part.stored {
            // In every file the indices start at zero.
            AxisEncoding::Counted => part.coordinates = counted(range.len()),
            AxisEncoding::Labels(labels) => *labels = labels[range.clone()].to_vec(),
            AxisEncoding::Sibling { numbers, .. } => *numbers = numbers[range.clone()].to_vec(),
        }
        part
    }

    /// Adds the labels, if any, to a dataset on this axis.
    pub fn label(&self, spec: DatasetSpec) -> DatasetSpec {
        match &self.stored {
            AxisEncoding::Labels(labels) => spec.with_labels(&self.name, labels.clone()),
            _ => spec,
        }
    }

    /// Returns the dataset that holds the coordinates, and its cells.
    pub fn sibling(&self) -> Option<(DatasetSpec, Vec<u8>)> {
        let AxisEncoding::Sibling {
            dtype,
            numbers,
            attributes,
            chunk,
        } = &self.stored
        else {
            return None;
        };
        let shape = [numbers.len() as u64];
        let spec = DatasetSpec::new(&self.name, *dtype, &shape, &[*chunk])
            .with_dim_names([self.name.clone()]);
        let spec = attributes
            .iter()
            .fold(spec, |spec, (key, text)| spec.with_attribute(key, text));
        let cells = numbers.iter().flat_map(|number| bytes(*dtype, *number));
        Some((spec, cells.collect()))
    }
}

fn day_as_text(day: i32) -> Option<String> {
    Some(Date32Type::to_naive_date_opt(day)?.to_string())
}

fn counted(extent: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..extent as i64))
}

fn sibling(random: &mut Random, dtype: Dtype, numbers: Vec<Number>) -> AxisEncoding {
    AxisEncoding::Sibling {
        dtype,
        numbers,
        attributes: Vec::new(),
        chunk: 1 + random.below(7) as u64,
    }
}

fn times(random: &mut Random, steps: &[i64]) -> (AxisEncoding, ArrayRef) {
    let times = steps.iter().map(|step| Some((*step * 6 + 30) * HOUR));
    let coordinates = Arc::new(times.collect::<TimestampMicrosecondArray>());
    let hours = steps.iter().map(|step| step * 6 + 30);
    let (dtype, numbers): (_, Vec<_>) = if random.chance(50) {
        let numbers = hours.map(|hour| Number::Integer(hour.into())).collect();
        (*random.pick(&[Dtype::I32, Dtype::I64, Dtype::I16]), numbers)
    } else {
        let numbers = hours.map(|hour| Number::Float(hour as f64)).collect();
        (*random.pick(&[Dtype::F32, Dtype::F64]), numbers)
    };
    let stored = AxisEncoding::Sibling {
        dtype,
        numbers,
        attributes: vec![("units", "hours since 1970-01-01".to_string())],
        chunk: 1 + random.below(7) as u64,
    };
    (stored, coordinates)
}

/// Generates multiples of a tenth, which no binary float represents exactly: as coordinates they
/// are the decimals as written. A zero coordinate has no sign.
fn floats(random: &mut Random, steps: &[i64]) -> (AxisEncoding, ArrayRef) {
    let special = random.chance(20);
    let mut decimals = Vec::new();
    for step in steps {
        decimals.push(match random.below(8) {
            0 if special => f64::NAN,
            1 if special => -0.0,
            2 if special => f64::INFINITY,
            _ => *step as f64 * 1.1,
        });
    }
    // Round to the digits that are written.
    let decimals: Vec<f64> = decimals
        .into_iter()
        .map(|decimal| match decimal.is_finite() {
            true => format!("{decimal:.1}").parse().unwrap(),
            false => decimal,
        })
        .collect();
    // Up to 32, an f16 distinguishes all tenths.
    let fit_in_half = decimals
        .iter()
        .all(|decimal| decimal.abs() <= 32.0 || !decimal.is_finite());
    let dtype = match random.chance(33) && fit_in_half {
        true => Dtype::F16,
        false => *random.pick(&[Dtype::F32, Dtype::F64]),
    };
    let numbers = decimals.iter().copied().map(Number::Float).collect();
    let coordinates = decimals.iter().map(|decimal| decimal + 0.0);
    (
        sibling(random, dtype, numbers),
        Arc::new(Float64Array::from_iter_values(coordinates)),
    )
}

fn integers(random: &mut Random, steps: &[i64]) -> (AxisEncoding, ArrayRef) {
    let dtype = *random.pick(&[
        Dtype::I16,
        Dtype::I32,
        Dtype::I64,
        Dtype::U8,
        Dtype::U16,
        Dtype::U32,
        Dtype::U64,
    ]);
    // Beyond the exact range of a double, or of an i64.
    let base = match dtype {
        Dtype::U64 if random.chance(30) => i128::from(u64::MAX) - 40,
        Dtype::I64 if random.chance(30) => (1 << 53) + 1,
        _ => 20,
    };
    integers_of(random, steps, dtype, base)
}

fn integers_of(
    random: &mut Random,
    steps: &[i64],
    dtype: Dtype,
    base: i128,
) -> (AxisEncoding, ArrayRef) {
    let numbers: Vec<_> = steps
        .iter()
        .map(|step| Number::Integer(base + i128::from(*step)))
        .collect();
    let coordinates = column(dtype, numbers.iter().copied().map(Some));
    (sibling(random, dtype, numbers), coordinates)
}
