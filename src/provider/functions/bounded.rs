//! Limits the size of values from functions that turn short arguments into large values.
//!
//! `repeat('x', 2000000000)` allocates 2 GB without a reservation. The functions in this module
//! wrap DataFusion's functions under their own names and check sizes first: no value may exceed
//! `tet.max_value_bytes`, and the values of a batch are reserved in the session's memory while they
//! are computed.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::kernels::length::length;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::types::NativeType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, StructFieldMapping,
};

use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::functions::memory::SessionMemory;
use crate::provider::sql::budget::Limits;

/// Nanoseconds per day.
const DAY: i128 = 86_400_000_000_000;

/// The names of the bounded functions.
const BOUNDED: [(&str, Growth); 10] = [
    ("repeat", Growth::Repeat),
    ("lpad", Growth::Pad),
    ("rpad", Growth::Pad),
    ("replace", Growth::Replace),
    ("concat", Growth::Concat),
    ("concat_ws", Growth::ConcatSeparated),
    ("array_repeat", Growth::ListRepeat),
    ("array_resize", Growth::ListResize),
    ("range", Growth::Series),
    ("generate_series", Growth::Series),
];

/// The rule that determines the size of a value from the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// `repeat(text, count)`.
    Repeat,
    /// `lpad(text, length, fill)`.
    Pad,
    /// `replace(text, from, to)`.
    Replace,
    /// `concat(text, ...)`.
    Concat,
    /// `concat_ws(separator, text, ...)`.
    ConcatSeparated,
    /// `array_repeat(element, count)`.
    ListRepeat,
    /// `array_resize(list, length, element)`.
    ListResize,
    /// `range(stop)`, `range(start, stop, step)`.
    Series,
}

/// Returns bounded versions of the session's functions that need a bound and have none yet.
pub fn bounded(
    functions: &HashMap<String, Arc<ScalarUDF>>,
    memory: &SessionMemory,
) -> Vec<ScalarUDF> {
    let found = BOUNDED.iter().filter_map(|(name, growth)| {
        let inner = Arc::clone(functions.get(*name)?);
        let is_bounded = inner.inner().is::<Bounded>();
        (!is_bounded).then(|| {
            ScalarUDF::from(Bounded {
                inner,
                growth: *growth,
                memory: memory.clone(),
            })
        })
    });
    found.collect()
}

/// A function with bounded values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
    memory: SessionMemory,
}

impl Bounded {
    /// Returns the estimated size of the largest value and of all values of the batch, in bytes. A
    /// null result counts as zero.
    fn sizes(&self, args: &ScalarFunctionArgs) -> Result<(u64, u64)> {
        let arguments = args.args.iter().map(Argument::of);
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let are_scalars = arguments.iter().all(|argument| argument.is_scalar);
        let rows = if are_scalars { 1 } else { args.number_rows };
        let sizes = Sizes::of(self.growth, &arguments)?;
        let (mut largest, mut total) = (0u64, 0u64);
        for row in 0..rows {
            let size = sizes.of_row(row).unwrap_or(0);
            largest = largest.max(size);
            total = total.saturating_add(size);
        }
        Ok((largest, total))
    }
}

/// An argument as an array. A scalar is an array of one value that applies to all rows.
struct Argument {
    array: ArrayRef,
    is_scalar: bool,
}

impl Argument {
    fn of(value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self {
                array: Arc::clone(array),
                is_scalar: false,
            },
            ColumnarValue::Scalar(scalar) => Self {
                array: scalar.to_array()?,
                is_scalar: true,
            },
        })
    }

    /// Returns integers, one per value of this argument, as [`Numbers`].
    fn with(&self, numbers: Int64Array) -> Numbers {
        Numbers {
            numbers,
            is_scalar: self.is_scalar,
        }
    }

    fn numbers(&self) -> Result<Numbers> {
        Ok(self.with(integers(&self.array)?))
    }

    /// Returns the length of each text in bytes, or of each list in elements.
    fn lengths(&self) -> Result<Numbers> {
        Ok(self.with(integers(&length(&self.array)?)?))
    }

    /// Returns the text in a row, or `None` if it is null.
    fn text(&self, row: usize) -> Option<&str> {
        let row = if self.is_scalar { 0 } else { row };
        if self.array.is_null(row) {
            return None;
        }
        match self.array.data_type() {
            DataType::Utf8 => Some(self.array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(self.array.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(self.array.as_string_view().value(row)),
            _ => None,
        }
    }

    /// Returns the size of each value in bytes, as an element of a list.
    fn element_bytes(&self) -> Result<Numbers> {
        if let Some(width) = self.array.data_type().primitive_width() {
            return Ok(Numbers::all(width as i64));
        }
        match NativeType::from(self.array.data_type().clone()) {
            // A text in a list takes up to 16 bytes for its offset or view.
            NativeType::String | NativeType::Binary => {
                let lengths = integers(&length(&self.array)?)?;
                Ok(self.with(lengths.unary(|length: i64| length.saturating_add(16))))
            }
            _ => {
                let rows = 0..self.array.len();
                let bytes = rows.map(|row| {
                    let value = self.array.slice(row, 1).to_data();
                    Ok(i64::try_from(value.get_slice_memory_size()?).unwrap_or(i64::MAX))
                });
                Ok(self.with(bytes.collect::<Result<Vec<i64>>>()?.into()))
            }
        }
    }

    /// Returns each value as an integer, and the factor that converts times to nanoseconds. Other
    /// types have the factor 1.
    fn instants(&self) -> Result<(Numbers, i128)> {
        let unit = match self.array.data_type() {
            DataType::Date32 => DAY,
            DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            _ => 1,
        };
        let array = integers(&self.array)?;
        Ok((self.with(array), unit))
    }
}

/// One integer per row, or one for all rows.
struct Numbers {
    numbers: Int64Array,
    is_scalar: bool,
}

impl Numbers {
    /// Returns the same integer for all rows.
    fn all(number: i64) -> Self {
        Self {
            numbers: vec![number].into(),
            is_scalar: true,
        }
    }

    fn get(&self, row: usize) -> Option<i64> {
        let row = if self.is_scalar { 0 } else { row };
        self.numbers.is_valid(row).then(|| self.numbers.value(row))
    }
}

fn integers(array: &ArrayRef) -> Result<Int64Array> {
    let options = CastOptions::default();
    let array = cast_with_options(array, &DataType::Int64, &options)?;
    Ok(array.as_primitive::<Int64Type>().clone())
}

/// The arguments that determine the size of each value.
enum Sizes<'a> {
    /// `count` units of `bytes` bytes each.
    Units { count: Numbers, bytes: Numbers },
    /// A text, the substring to replace, and its replacement.
    Replaced([&'a Argument; 3]),
    /// The lengths of the texts that are joined, and the number of times that each occurs.
    Joined(Vec<(Numbers, u64)>),
    /// A series from `start` to `stop` by `step`. `start` and `stop` have the factor that
    /// [`Argument::instants`] returns.
    Series {
        start: (Numbers, i128),
        stop: (Numbers, i128),
        step: Step<'a>,
    },
    /// Arguments that the function itself rejects.
    Unknown,
}

enum Step<'a> {
    Number(Numbers),
    Interval(&'a Argument),
}

impl<'a> Sizes<'a> {
    fn of(growth: Growth, arguments: &'a [Argument]) -> Result<Self> {
        Ok(match (growth, arguments) {
            (Growth::Repeat, [text, count]) => Self::Units {
                count: count.numbers()?,
                bytes: text.lengths()?,
            },
            (Growth::Pad, [_, length, ..]) => Self::Units {
                count: length.numbers()?,
                // UTF-8 characters take up to four bytes, but the fill is usually ASCII.
                bytes: Numbers::all(match arguments.get(2).is_some_and(|fill| !is_ascii(fill)) {
                    true => 4,
                    false => 1,
                }),
            },
            (Growth::Replace, [text, from, to]) => Self::Replaced([text, from, to]),
            (Growth::Concat, texts) => Self::Joined(joined(texts)?),
            (Growth::ConcatSeparated, [separator, texts @ ..]) => {
                let mut joined = joined(texts)?;
                joined.push((separator.lengths()?, texts.len().saturating_sub(1) as u64));
                Self::Joined(joined)
            }
            (Growth::ListRepeat, [element, count]) => Self::Units {
                count: count.numbers()?,
                bytes: element.element_bytes()?,
            },
            (Growth::ListResize, [list, length, ..]) => Self::Units {
                count: length.numbers()?,
                bytes: match arguments.get(2) {
                    Some(element) => element.element_bytes()?,
                    None => Numbers::all(match list.array.data_type() {
                        DataType::List(field) | DataType::LargeList(field) => {
                            field.data_type().primitive_width().unwrap_or(16) as i64
                        }
                        _ => 16,
                    }),
                },
            },
            (Growth::Series, [stop]) => Self::Series {
                start: (Numbers::all(0), 1),
                stop: (stop.numbers()?, 1),
                step: Step::Number(Numbers::all(1)),
            },
            (Growth::Series, [start, stop, rest @ ..]) => Self::Series {
                start: start.instants()?,
                stop: stop.instants()?,
                step: match rest {
                    [step] if matches!(step.array.data_type(), DataType::Interval(_)) => {
                        Step::Interval(step)
                    }
                    [step] => Step::Number(step.numbers()?),
                    _ => Step::Number(Numbers::all(1)),
                },
            },
            _ => Self::Unknown,
        })
    }

    /// Returns the size of a row's value in bytes, or `None` if the value is null.
    fn of_row(&self, row: usize) -> Option<u64> {
        match self {
            Self::Units { count, bytes } => {
                let count = u64::try_from(count.get(row)?).unwrap_or(0);
                let bytes = u64::try_from(bytes.get(row).unwrap_or(16)).unwrap_or(0);
                Some(count.saturating_mul(bytes))
            }
            Self::Replaced([text, from, to]) => {
                let (text, from, to) = (text.text(row)?, from.text(row)?, to.text(row)?);
                let more = to.len().saturating_sub(from.len()) as u64;
                let count = match more {
                    0 => 0,
                    _ => text.matches(from).count() as u64,
                };
                Some((text.len() as u64).saturating_add(count.saturating_mul(more)))
            }
            Self::Joined(texts) => {
                let bytes = texts.iter().map(|(lengths, count)| {
                    let length = lengths
                        .get(row)
                        .and_then(|length| u64::try_from(length).ok());
                    length.unwrap_or(0).saturating_mul(*count)
                });
                Some(bytes.fold(0, u64::saturating_add))
            }
            Self::Series { start, stop, step } => {
                let at = |point: &(Numbers, i128)| Some(i128::from(point.0.get(row)?) * point.1);
                let span = (at(stop)? - at(start)?).unsigned_abs();
                let step = match step {
                    Step::Number(step) => i128::from(step.get(row)?),
                    Step::Interval(step) => {
                        let row = if step.is_scalar { 0 } else { row };
                        let array = step.array.as_primitive_opt::<IntervalMonthDayNanoType>()?;
                        let step = array.is_valid(row).then(|| array.value(row))?;
                        // Assume the shortest month, which gives an upper bound for the length of
                        // the series.
                        (i128::from(step.months) * 28 + i128::from(step.days)) * DAY
                            + i128::from(step.nanoseconds)
                    }
                };
                let count = span.checked_div(step.unsigned_abs())?;
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                Some(count.saturating_mul(size_of::<i64>() as u64))
            }
            Self::Unknown => None,
        }
    }
}

/// Returns the lengths of texts. Other types, which the function itself rejects or converts, count
/// as short.
fn joined(texts: &[Argument]) -> Result<Vec<(Numbers, u64)>> {
    let lengths = texts
        .iter()
        .map(|text| match text.array.data_type().is_string() {
            true => Ok((text.lengths()?, 1)),
            false => Ok((Numbers::all(0), 1)),
        });
    lengths.collect()
}

fn is_ascii(argument: &Argument) -> bool {
    (0..argument.array.len()).all(|row| argument.text(row).is_none_or(str::is_ascii))
}

impl ScalarUDFImpl for Bounded {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (largest, total) = self.sizes(&args)?;
        let config = args.config_options.extensions.get::<ArraySettings>();
        let limit = match config {
            Some(config) => config.limits.value_bytes,
            None => Limits::default().value_bytes,
        };
        if largest > limit as u64 {
            return exec_err!(
                "{} would make a value of {largest} bytes, more than {limit}; make it shorter, or raise \
                 tet.max_value_bytes",
                self.name()
            );
        }
        let bytes = usize::try_from(total).unwrap_or(usize::MAX);
        let _reserved = self.memory.reserve(self.name(), bytes)?;
        self.inner.invoke_with_args(args)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        Some(ScalarUDF::from(Self {
            inner: Arc::new(inner),
            growth: self.growth,
            memory: self.memory.clone(),
        }))
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let simplified = self.inner.simplify(args, info)?;
        // DataFusion may return a call of its own function, with fewer arguments.
        if let ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) = &simplified
            && let Some((_, growth)) = BOUNDED.iter().find(|(name, _)| *name == call.func.name())
            && !call.func.inner().is::<Self>()
        {
            let bounded = ScalarUDF::from(Self {
                inner: Arc::clone(&call.func),
                growth: *growth,
                memory: self.memory.clone(),
            });
            return Ok(ExprSimplifyResult::Simplified(
                bounded.call(call.args.clone()),
            ));
        }
        Ok(simplified)
    }

    fn preimage(
        &self,
        args: &[Expr],
        literal: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        self.inner.inner().preimage(args, literal, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn struct_field_mapping(&self, args: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.inner.inner().struct_field_mapping(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }
}
