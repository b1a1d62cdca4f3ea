//! Limits the size of values from functions that turn short arguments into large values.
//!
//! `repeat('x', 2000000000)` allocates 2 GB without a reservation. The functions in this module
//! wrap DataFusion's functions under their own names and check sizes first: no value may exceed
//! `tet.max_value_bytes`, and the values of a large batch are reserved in the session's memory while
//! they are computed.

mod arguments;
mod concatenation;
mod sizes;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, StructFieldMapping,
};

use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::functions::bounded::arguments::Argument;
use crate::provider::functions::bounded::concatenation::Concatenation;
use crate::provider::functions::bounded::sizes::Sizes;
use crate::provider::functions::forwarding::forward_to_inner;
use crate::provider::functions::memory::SessionMemory;

pub(crate) use crate::provider::functions::bounded::sizes::is_text_or_binary;

/// The size of a batch up to which values are not reserved, as those of other functions.
const UNRESERVED_BYTES: usize = 1 << 20;

/// The names of the bounded functions.
const BOUNDED: [(&str, Growth); 23] = [
    ("repeat", Growth::Repeat),
    ("lpad", Growth::Pad),
    ("rpad", Growth::Pad),
    ("replace", Growth::Replace),
    ("concat", Growth::Concat),
    ("concat_ws", Growth::ConcatSeparated),
    ("overlay", Growth::Concat),
    ("encode", Growth::Encode),
    ("regexp_match", Growth::Captures),
    ("regexp_replace", Growth::RegularExpression),
    ("string_to_array", Growth::Split),
    ("to_char", Growth::TimeText),
    ("array_to_string", Growth::ListText),
    ("make_array", Growth::ListOf),
    ("array_append", Growth::ListOf),
    ("array_prepend", Growth::ListOf),
    ("array_concat", Growth::ListOf),
    ("array_union", Growth::ListOf),
    ("array_replace_all", Growth::ListReplace),
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
    /// `concat(text, ...)`, `text || text`, `binary || binary`, `overlay(text PLACING text FROM start)`.
    Concat,
    /// `encode(value, encoding)`.
    Encode,
    /// `concat_ws(separator, text, ...)`.
    ConcatSeparated,
    /// `regexp_replace(text, pattern, replacement, flags)`.
    RegularExpression,
    /// `regexp_match(text, pattern, flags)`, a list with the text of each group.
    Captures,
    /// `string_to_array(text, delimiter)`.
    Split,
    /// `to_char(time, format)`.
    TimeText,
    /// `array_to_string(list, separator, null text)`.
    ListText,
    /// A list with the elements of the arguments: `make_array(element, ...)`, `array_concat(list, ...)`.
    ListOf,
    /// `array_replace_all(list, from, to)`.
    ListReplace,
    /// `array_repeat(element, count)`.
    ListRepeat,
    /// `array_resize(list, length, element)`.
    ListResize,
    /// `range(stop)`, `range(start, stop, step)`.
    Series,
}

impl Growth {
    /// Returns `true` if an exact size needs a search of the text.
    fn searches(self) -> bool {
        matches!(self, Self::RegularExpression | Self::Captures | Self::Split)
    }
}

/// Returns the bounded version of a function that needs a bound and has none yet.
pub fn bounded(function: &Arc<ScalarUDF>, memory: &SessionMemory) -> Option<ScalarUDF> {
    let (_, growth) = BOUNDED.iter().find(|(name, _)| *name == function.name())?;
    (!function.inner().is::<Bounded>()).then(|| {
        ScalarUDF::from(Bounded {
            inner: Arc::clone(function),
            growth: *growth,
            memory: memory.clone(),
        })
    })
}

/// Returns the operator `||` of texts and binary values as a bounded function.
pub fn concatenation(memory: &SessionMemory) -> ScalarUDF {
    ScalarUDF::from(Bounded {
        inner: Arc::new(Concatenation::new().into()),
        growth: Growth::Concat,
        memory: memory.clone(),
    })
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
    fn sizes(&self, args: &ScalarFunctionArgs, limit: u64) -> Result<(u64, u64)> {
        let arguments = args.args.iter().map(Argument::of);
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let are_scalars = arguments.iter().all(|argument| argument.is_scalar);
        let rows = if are_scalars { 1 } else { args.number_rows };
        let sizes = Sizes::of(self.growth, &arguments)?;
        let measure = |limit| {
            let (mut largest, mut total) = (0u64, 0u64);
            for row in 0..rows {
                let size = sizes.of_row(row, limit).unwrap_or(0);
                largest = largest.max(size);
                total = total.saturating_add(size);
            }
            (largest, total)
        };
        Ok(match measure(limit) {
            // Too much to reserve for upper bounds.
            (_, total) if total > limit && self.growth.searches() => measure(0),
            sizes => sizes,
        })
    }
}

impl ScalarUDFImpl for Bounded {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let limit = ArraySettings::limits_of(&args.config_options).value_bytes as u64;
        let (largest, total) = self.sizes(&args, limit)?;
        if largest > limit {
            return exec_err!(
                "{} would make a value of {largest} bytes, more than {limit}; make it shorter, or raise \
                 tet.max_value_bytes",
                self.name()
            );
        }
        let bytes = usize::try_from(total).unwrap_or(usize::MAX);
        let _reserved = match bytes > UNRESERVED_BYTES {
            true => self.memory.reserve(self.name(), bytes)?,
            false => None,
        };
        self.inner.invoke_with_args(args)
    }

    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
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
            && let Some(bounded) = bounded(&call.func, &self.memory)
        {
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

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }
}
