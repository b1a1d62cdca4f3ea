//! The aggregate function `string_agg` with bounded texts.
//!
//! DataFusion's accumulators report the length of a text instead of its capacity, and nothing limits
//! the length.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeStringArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::nulls::apply_filter_as_nulls;

use crate::provider::functions::forwarding::forward_to_inner;
use crate::provider::functions::memory::SessionMemory;

/// `string_agg(text, delimiter)`, whose results have at most `tet.max_value_bytes` bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct StringAgg {
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
    memory: SessionMemory,
}

impl StringAgg {
    /// Creates the function for the session with this memory.
    pub fn new(memory: SessionMemory) -> Self {
        Self {
            inner: string_agg_udaf(),
            memory,
        }
    }

    fn texts(&self, delimiter: String) -> Texts {
        Texts {
            delimiter,
            limit: self.memory.value_limit(),
            texts: Vec::new(),
            capacity: 0,
        }
    }
}

impl AggregateUDFImpl for StringAgg {
    forward_to_inner!();

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let is_plain = !arguments.is_distinct && arguments.order_bys.is_empty();
        let Some(delimiter) = delimiter(&arguments) else {
            return self.inner.accumulator(arguments);
        };
        Ok(match is_plain {
            true => Box::new(self.texts(delimiter)),
            false => Box::new(CheckedList {
                delimiter_bytes: delimiter.len(),
                limit: self.memory.value_limit(),
                inner: self.inner.accumulator(arguments)?,
            }),
        })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match delimiter(&arguments) {
            Some(delimiter) => Ok(Box::new(self.texts(delimiter))),
            None => self.inner.create_groups_accumulator(arguments),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        // DataFusion's function demands a sorted input, so that all aggregates of a query have to have the same ORDER BY. Its
        // accumulator, that of `array_agg`, sorts the values in any case.
        AggregateOrderSensitivity::SoftRequirement
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Reversed(Arc::new(Self::new(self.memory.clone()).into()))
    }
}

/// Returns the delimiter, or `None` if DataFusion rejects the delimiter.
fn delimiter(arguments: &AccumulatorArgs) -> Option<String> {
    let literal = arguments.exprs.get(1)?.downcast_ref::<Literal>()?;
    if literal.value().is_null() {
        return Some(String::new());
    }
    let text = literal.value().try_as_str()?;
    Some(text.unwrap_or_default().to_owned())
}

fn check(bytes: usize, limit: usize) -> Result<()> {
    match bytes > limit {
        true => exec_err!(
            "string_agg would make a value of at least {bytes} bytes, more than {limit}; aggregate fewer rows, \
             or raise tet.max_value_bytes"
        ),
        false => Ok(()),
    }
}

/// The capacity from which a text grows by an eighth instead of doubling.
const LONG: usize = 4096;

/// The text of each group.
#[derive(Debug)]
struct Texts {
    delimiter: String,
    /// The maximum length of a text in bytes.
    limit: usize,
    /// The text of each group so far; `None` for groups without a value.
    texts: Vec<Option<String>>,
    /// The sum of the capacities of all texts.
    capacity: usize,
}

impl Texts {
    fn append(
        &mut self,
        column: &ArrayRef,
        groups: impl Iterator<Item = usize>,
        count: usize,
        wanted: Option<&BooleanArray>,
    ) -> Result<()> {
        self.texts.resize(count.max(self.texts.len()), None);
        let column = match column.data_type() {
            DataType::LargeUtf8 => Arc::clone(column),
            _ => cast(column, &DataType::LargeUtf8)?,
        };
        for (row, (value, group)) in column.as_string::<i64>().iter().zip(groups).enumerate() {
            let is_wanted = wanted.is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
            let Some(value) = value.filter(|_| is_wanted) else {
                continue;
            };
            let (text, delimiter) = match &mut self.texts[group] {
                Some(text) => (text, self.delimiter.as_str()),
                slot @ None => (slot.insert(String::new()), ""),
            };
            let length = text.len() + delimiter.len() + value.len();
            check(length, self.limit)?;
            let before = text.capacity();
            if length > before {
                let grown = match before < LONG {
                    true => 2 * before,
                    false => before + before / 8,
                };
                let grown = grown.min(self.limit).max(length);
                text.reserve_exact(grown - text.len());
                self.capacity += text.capacity() - before;
            }
            text.push_str(delimiter);
            text.push_str(value);
        }
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> ArrayRef {
        let taken = emit_to.take_needed(&mut self.texts);
        let capacities = self.texts.iter().flatten().map(String::capacity);
        self.capacity = capacities.sum();
        Arc::new(LargeStringArray::from(taken))
    }

    /// Returns the size of the texts and of the array that they are copied to.
    fn bytes(&self) -> usize {
        size_of_val(self)
            + self.delimiter.capacity()
            + self.texts.capacity() * size_of::<Option<String>>()
            + 2 * self.capacity
    }
}

impl GroupsAccumulator for Texts {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.append(&columns[0], groups.iter().copied(), count, wanted)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.take(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take(emit_to)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.append(&states[0], groups.iter().copied(), count, None)
    }

    fn convert_to_state(
        &self,
        columns: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let texts = cast(&columns[0], &DataType::LargeUtf8)?;
        Ok(vec![apply_filter_as_nulls(&texts, wanted)?])
    }

    fn size(&self) -> usize {
        self.bytes()
    }
}

impl Accumulator for Texts {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = columns[0].len();
        self.append(&columns[0], std::iter::repeat_n(0, rows), 1, None)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // The text stays, since a window function evaluates the accumulator again.
        let text = self.texts.first().cloned().flatten();
        Ok(ScalarValue::LargeUtf8(text))
    }

    fn size(&self) -> usize {
        self.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let text = self.texts.first_mut().and_then(Option::take);
        self.capacity = 0;
        Ok(vec![ScalarValue::LargeUtf8(text)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        Accumulator::update_batch(self, states)
    }
}

/// DataFusion's accumulator for DISTINCT and ORDER BY, which keeps a list of texts.
#[derive(Debug)]
struct CheckedList {
    inner: Box<dyn Accumulator>,
    delimiter_bytes: usize,
    limit: usize,
}

impl Accumulator for CheckedList {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(columns)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.inner.state()?;
        let Some(ScalarValue::List(list)) = state.first() else {
            return internal_err!("string_agg keeps a list of texts");
        };
        let lengths = cast(&length(list.values())?, &DataType::Int64)?;
        let lengths = lengths.as_primitive::<Int64Type>().iter().flatten();
        let bytes = lengths.map(|length| {
            let length = usize::try_from(length).unwrap_or(0);
            length.saturating_add(self.delimiter_bytes)
        });
        let bytes = bytes.fold(0, usize::saturating_add);
        check(bytes.saturating_sub(self.delimiter_bytes), self.limit)?;
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
}
