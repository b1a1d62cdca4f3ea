//! The aggregate functions `arg_min(x, value)` and `arg_max(x, value)`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

/// `arg_min` or `arg_max`: returns `x` of the row with the min or max `value`.
///
/// Rows where `value` is null are ignored. If several rows have the extreme `value`, the result is
/// the min of their `x`, and null only if all of them are null. The result thus does not depend on
/// the order of rows.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ExtremeArgument {
    is_greatest: bool,
    aliases: Vec<String>,
    signature: Signature,
}

impl ExtremeArgument {
    /// Returns `arg_min`, also called `min_by`.
    pub fn arg_min() -> Self {
        Self {
            is_greatest: false,
            aliases: vec!["min_by".to_string()],
            signature: Signature::any(2, Volatility::Immutable),
        }
    }

    /// Returns `arg_max`, also called `max_by`.
    pub fn arg_max() -> Self {
        Self {
            is_greatest: true,
            aliases: vec!["max_by".to_string()],
            ..Self::arg_min()
        }
    }

    fn accumulator_of(&self, arguments: &AccumulatorArgs) -> Result<ExtremeArgumentAccumulator> {
        if arguments.is_distinct {
            return exec_err!("{} does not take DISTINCT", self.name());
        }
        let [argument, value] = arguments.expr_fields else {
            return internal_err!("{} takes two arguments", self.name());
        };
        let converter =
            |field: &FieldRef| RowConverter::new(vec![SortField::new(field.data_type().clone())]);
        Ok(ExtremeArgumentAccumulator {
            is_greatest: self.is_greatest,
            arguments: converter(argument)?,
            values: converter(value)?,
            found: Vec::new(),
            argument_type: argument.data_type().clone(),
            value_type: value.data_type().clone(),
        })
    }
}

impl AggregateUDFImpl for ExtremeArgument {
    fn name(&self) -> &str {
        if self.is_greatest {
            "arg_max"
        } else {
            "arg_min"
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [argument, _] => Ok(argument.clone()),
            _ => exec_err!("{} takes two arguments", self.name()),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(self.accumulator_of(&arguments)?))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let fields = arguments.input_fields.iter().zip(["x", "value"]);
        let fields = fields.map(|(field, part)| {
            let name = format!("{}[{part}]", arguments.name);
            Arc::new(Field::new(name, field.data_type().clone(), true))
        });
        Ok(fields.collect())
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.accumulator_of(&arguments)?))
    }
}

/// The best row of each group so far, in Arrow's row format, whose bytes sort like the values.
#[derive(Debug)]
struct ExtremeArgumentAccumulator {
    is_greatest: bool,
    arguments: RowConverter,
    values: RowConverter,
    found: Vec<Option<BestRow>>,
    argument_type: DataType,
    value_type: DataType,
}

#[derive(Debug)]
struct BestRow {
    argument: OwnedRow,
    value: OwnedRow,
    is_null: bool,
}

impl ExtremeArgumentAccumulator {
    fn change(
        &mut self,
        columns: &[ArrayRef],
        groups: impl Iterator<Item = usize>,
        count: usize,
        wanted: Option<&BooleanArray>,
    ) -> Result<()> {
        let [arguments, values] = columns else {
            return internal_err!("two columns are expected");
        };
        if self.found.len() < count {
            self.found.resize_with(count, || None);
        }
        // Rows are compared by bytes, and those of -0.0 and 0.0 differ.
        let values = &normalize_float_zero(values);
        let rows = self.values.convert_columns(std::slice::from_ref(values))?;
        // Few rows improve on the best row so far, so convert the arguments only if needed.
        let mut of_arguments = None;
        for (row, group) in groups.enumerate() {
            let counts = values.is_valid(row)
                && wanted.is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
            if !counts {
                continue;
            }
            let value = rows.row(row);
            let order = match &self.found[group] {
                None => Ordering::Less,
                Some(found) if self.is_greatest => found.value.row().cmp(&value),
                Some(found) => value.cmp(&found.value.row()),
            };
            if order == Ordering::Greater {
                continue;
            }
            let of_arguments = match &of_arguments {
                Some(known) => known,
                None => {
                    let arguments = std::slice::from_ref(arguments);
                    of_arguments.insert(self.arguments.convert_columns(arguments)?)
                }
            };
            let argument = of_arguments.row(row);
            let is_null = arguments.is_null(row);
            if order == Ordering::Equal
                && let Some(found) = &self.found[group]
                && (found.is_null, found.argument.row()) <= (is_null, argument)
            {
                continue;
            }
            self.found[group] = Some(BestRow {
                argument: argument.owned(),
                value: value.owned(),
                is_null,
            });
        }
        Ok(())
    }

    fn columns(&self, found: &[Option<BestRow>]) -> Result<[ArrayRef; 2]> {
        let column =
            |converter: &RowConverter, data_type: &DataType, pick: fn(&BestRow) -> &OwnedRow| {
                // The result of a group without rows is null.
                let null = ScalarValue::try_from(data_type)?.to_array()?;
                let null = converter.convert_columns(&[null])?;
                let rows = found.iter().map(|found| {
                    found
                        .as_ref()
                        .map_or(null.row(0), |found| pick(found).row())
                });
                let mut columns = converter.convert_rows(rows)?;
                match columns.pop() {
                    Some(column) => Ok(column),
                    None => internal_err!("no column came of rows"),
                }
            };
        Ok([
            column(&self.arguments, &self.argument_type, |found| {
                &found.argument
            })?,
            column(&self.values, &self.value_type, |found| &found.value)?,
        ])
    }
}

impl GroupsAccumulator for ExtremeArgumentAccumulator {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.change(columns, groups.iter().copied(), count, wanted)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let found = emit_to.take_needed(&mut self.found);
        let [argument, _] = self.columns(&found)?;
        Ok(argument)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let found = emit_to.take_needed(&mut self.found);
        Ok(self.columns(&found)?.into())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.change(states, groups.iter().copied(), count, None)
    }

    fn convert_to_state(
        &self,
        columns: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let Some(wanted) = wanted else {
            return Ok(columns.to_vec());
        };
        // Rows with a null value are ignored, so null stands in for the values that the filter rejects.
        let unwanted = (0..wanted.len()).map(|row| !(wanted.is_valid(row) && wanted.value(row)));
        let unwanted = BooleanArray::from(unwanted.collect::<Vec<bool>>());
        let columns = columns.iter();
        let columns = columns.map(|column| Ok(arrow::compute::nullif(column, &unwanted)?));
        columns.collect()
    }

    fn size(&self) -> usize {
        let found = self.found.iter().flatten();
        let rows: usize = found
            .map(|found| found.argument.as_ref().len() + found.value.as_ref().len())
            .sum();
        size_of_val(self) + self.found.capacity() * size_of::<Option<BestRow>>() + rows
    }
}

impl Accumulator for ExtremeArgumentAccumulator {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        self.change(columns, std::iter::repeat_n(0, rows), 1, None)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match Accumulator::state(self)?.into_iter().next() {
            Some(argument) => Ok(argument),
            None => internal_err!("there is no state"),
        }
    }

    fn size(&self) -> usize {
        GroupsAccumulator::size(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if self.found.is_empty() {
            self.found.push(None);
        }
        // A window function evaluates the accumulator again, so the row stays.
        let columns = self.columns(&self.found)?;
        let columns = columns.iter();
        columns
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        Accumulator::update_batch(self, states)
    }
}
