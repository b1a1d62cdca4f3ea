//! Turns the merged partial states of the workers into output rows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, PrimitiveArray, RecordBatch,
    RecordBatchOptions, UInt64Array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{cast, nullif, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float64Type, Int64Type, SchemaRef, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::grid::reduce::{Counts, Results};
use crate::provider::aggregate::exec::accumulators::Accumulated;
use crate::provider::aggregate::exec::along_axis::{AlongAxis, SharedResults};
use crate::provider::aggregate::exec::job::Job;
use crate::provider::aggregate::exec::partial_states::PartialState;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::plan::program::{AxisMethod, Output, Presence};
use crate::provider::aggregate::plan::reductions::Reduced;

/// The output rows of an aggregation, one per group that has rows.
pub(crate) struct AggregateRows {
    job: Arc<Job>,
    /// The indices of the groups that have rows; `None` if all groups have rows.
    present: Option<Vec<usize>>,
    /// The columns after the grouping columns.
    columns: Vec<AggregateColumn>,
    schema: SchemaRef,
}

/// An output column of an aggregate.
enum AggregateColumn {
    /// One value per output row.
    OfRows(ArrayRef),
    /// The same value for all output rows.
    Constant(ScalarValue),
    /// An array of shared results, gathered when a batch is built.
    OfGroups(Arc<SharedResults>, usize),
}

impl AggregateRows {
    /// Computes the aggregate columns of all groups that have rows, in up to `workers` tasks.
    pub async fn new(
        job: &Arc<Job>,
        workers: usize,
        found: PartialState,
        stage: Stage,
        schema: &SchemaRef,
        memory: &MemoryReservation,
    ) -> Result<Self> {
        let count = job.groups.count();
        if count == 0 {
            return Ok(Self {
                job: Arc::clone(job),
                present: None,
                columns: Vec::new(),
                schema: Arc::clone(schema),
            });
        }
        let cells = job.cells(None).await?;
        let mut restricted: Vec<Counts> = Vec::with_capacity(job.program.restrictions.len());
        for number in 0..job.program.restrictions.len() {
            restricted.push(job.cells(Some(number)).await?);
        }
        let plans = job.program.reductions.iter().zip(found.reductions);
        let results: Vec<Results> = plans
            .map(|(plan, reduction)| {
                let cells = plan
                    .restriction
                    .map_or(&cells, |number| &restricted[number]);
                reduction.results(cells)
            })
            .collect();
        let rows = match (job.program.presence, found.rows) {
            (Presence::Selected, _) => cells,
            (Presence::Counted(index), _) => results[index].counts.clone(),
            (Presence::Rows, Some(rows)) => Counts::Each(rows.into()),
            (Presence::Rows, None) => return internal_err!("rows were not counted"),
        };
        let is_grouped = job.program.is_grouped();
        let present = (is_grouped && rows.has_zero()).then(|| {
            (0..count)
                .filter(|group| rows.of(*group) > 0)
                .collect::<Vec<_>>()
        });
        let chosen = present.as_ref().map(|present| {
            UInt64Array::from_iter_values(present.iter().map(|group| *group as u64))
        });
        let mut columns = Vec::new();
        let mut accumulated_rows = found.accumulated.into_iter();
        let mut axes: HashMap<usize, AlongAxis> = HashMap::new();
        for (aggregate, output) in job.program.computed() {
            let function = &aggregate.function;
            if let Output::Axis(column, _) = output
                && !axes.contains_key(&column)
            {
                axes.insert(column, AlongAxis::try_new(job, column)?);
            }
            let found = match output {
                Output::Rows => vec![counts::<Int64Type>(&rows, count)],
                Output::Cells(restriction) => {
                    vec![counts::<Int64Type>(&restricted[restriction], count)]
                }
                Output::Reduced(index, reduced) => {
                    reduction(&results[index], reduced, stage, function, is_grouped, count)?
                }
                Output::Axis(column, AxisMethod::Reduced(reduced)) => {
                    let results = axes[&column].reduce(aggregate, reduced).await?;
                    reduction(&results, reduced, stage, function, is_grouped, count)?
                }
                Output::Axis(column, AxisMethod::Once) => {
                    let memory = memory.new_empty();
                    let once = Arc::new(axes[&column].once(aggregate, stage, memory).await?);
                    let of_groups = |number| AggregateColumn::OfGroups(Arc::clone(&once), number);
                    columns.extend((0..once.columns()).map(of_groups));
                    continue;
                }
                Output::RowByRow => {
                    let Some(mut accumulated) = accumulated_rows.next() else {
                        return internal_err!("the partial state of an aggregate is missing");
                    };
                    of_rows(match stage {
                        Stage::Partial => accumulated.state()?,
                        Stage::Whole => vec![accumulated.evaluate_in_tasks(workers).await?],
                    })
                }
            };
            for column in found {
                columns.push(match (column, &chosen) {
                    (AggregateColumn::OfRows(array), Some(chosen)) => {
                        AggregateColumn::OfRows(take(&array, chosen, None)?)
                    }
                    (column, _) => column,
                });
            }
        }
        Ok(Self {
            job: Arc::clone(job),
            present,
            columns,
            schema: Arc::clone(schema),
        })
    }

    /// Returns the number of output rows.
    pub fn rows(&self) -> usize {
        let all = self.job.groups.count();
        self.present.as_ref().map_or(all, Vec::len)
    }

    /// Builds the batch of a range of output rows.
    pub fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let present = self.present.as_ref().map(|all| &all[rows.clone()]);
        let mut columns = match present {
            None => self.job.groups.values_of_range(rows.clone())?,
            Some(present) => self.job.groups.values(present)?,
        };
        let length = rows.len();
        for column in &self.columns {
            columns.push(match (column, present) {
                (AggregateColumn::OfRows(array), _) => array.slice(rows.start, length),
                (AggregateColumn::Constant(value), _) => value.to_array_of_size(length)?,
                (AggregateColumn::OfGroups(once, number), None) => {
                    once.of_groups(*number, rows.clone())?
                }
                (AggregateColumn::OfGroups(once, number), Some(present)) => {
                    once.of_groups(*number, present.iter().copied())?
                }
            });
        }
        let columns = columns.into_iter().zip(self.schema.fields());
        let columns = columns
            .map(|(column, field)| {
                if column.data_type() == field.data_type() {
                    Ok(column)
                } else {
                    // The data types differ in encoding only.
                    cast(&column, field.data_type())
                }
            })
            .collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}

/// Returns the final value or the partial state of an aggregate that a reduction computed.
fn reduction(
    results: &Results,
    reduced: Reduced,
    stage: Stage,
    function: &Arc<AggregateFunctionExpr>,
    is_grouped: bool,
    count: usize,
) -> Result<Vec<AggregateColumn>> {
    Ok(match (stage, reduced) {
        (Stage::Whole, Reduced::Average) => vec![averages(results, function)?],
        (Stage::Whole, Reduced::Deviation) => {
            let mut accumulated = Accumulated::new(function, is_grouped)?;
            accumulated.merge_all(deviations(results, function)?, count)?;
            of_rows(vec![accumulated.evaluate()?])
        }
        _ => states(results, reduced, function, count)?,
    })
}

fn of_rows(arrays: Vec<ArrayRef>) -> Vec<AggregateColumn> {
    arrays.into_iter().map(AggregateColumn::OfRows).collect()
}

/// Returns the counts as values of Int64 or UInt64, without copying those of groups. They are at most 2^63 - 1, so
/// both types have the same bits.
fn counts<T: ArrowPrimitiveType>(counts: &Counts, groups: usize) -> AggregateColumn {
    match counts {
        Counts::Same(count) => AggregateColumn::Constant(match T::DATA_TYPE {
            DataType::UInt64 => ScalarValue::from(*count),
            _ => ScalarValue::from(*count as i64),
        }),
        Counts::Each(counts) => {
            let bits = counts.clone().into_inner();
            AggregateColumn::OfRows(Arc::new(PrimitiveArray::<T>::new(
                ScalarBuffer::new(bits, 0, groups),
                None,
            )))
        }
    }
}

/// Sets the values of groups without counted cells to null.
fn where_any(values: AggregateColumn, counts: &Counts) -> Result<AggregateColumn> {
    if !counts.has_zero() {
        return Ok(values);
    }
    Ok(match values {
        AggregateColumn::OfRows(values) => {
            let is_none = (0..values.len()).map(|group| Some(counts.of(group) == 0));
            AggregateColumn::OfRows(nullif(&values, &is_none.collect::<BooleanArray>())?)
        }
        // All groups have the same count, which is zero.
        AggregateColumn::Constant(value) => {
            AggregateColumn::Constant(ScalarValue::try_from(value.data_type())?)
        }
        values => values,
    })
}

fn averages(results: &Results, function: &AggregateFunctionExpr) -> Result<AggregateColumn> {
    let Some(sums) = &results.sums else {
        return missing(function);
    };
    let sums = sums.as_primitive::<Float64Type>();
    let averages: Float64Array = match &results.counts {
        Counts::Same(count) => sums.unary(|sum| sum / *count as f64),
        Counts::Each(counts) => {
            let sums = sums.values().iter().zip(counts.iter());
            Float64Array::from_iter_values(sums.map(|(sum, count)| sum / *count as f64))
        }
    };
    where_any(AggregateColumn::OfRows(Arc::new(averages)), &results.counts)
}

fn deviations<'a>(
    results: &'a Results,
    function: &AggregateFunctionExpr,
) -> Result<&'a [ArrayRef; 3]> {
    match &results.deviations {
        Some(deviations) => Ok(deviations),
        None => missing(function),
    }
}

fn missing<T>(function: &AggregateFunctionExpr) -> Result<T> {
    internal_err!("the reduction has no results for {}", function.name())
}

/// Returns the results of a reduction as the partial state of DataFusion's accumulators.
fn states(
    results: &Results,
    reduced: Reduced,
    function: &AggregateFunctionExpr,
    groups: usize,
) -> Result<Vec<AggregateColumn>> {
    Ok(match reduced {
        Reduced::Count => vec![counts::<Int64Type>(&results.counts, groups)],
        Reduced::Sum | Reduced::Average => {
            let Some(sums) = &results.sums else {
                return missing(function);
            };
            let sums = if function.field().data_type() == &DataType::UInt64 {
                let bits = sums.as_primitive::<Int64Type>();
                Arc::new(bits.unary::<_, UInt64Type>(|sum| sum as u64)) as ArrayRef
            } else {
                Arc::clone(sums)
            };
            let sums = where_any(AggregateColumn::OfRows(sums), &results.counts)?;
            if reduced == Reduced::Sum {
                vec![sums]
            } else {
                let counts = counts::<UInt64Type>(&results.counts, groups);
                vec![where_any(counts, &results.counts)?, sums]
            }
        }
        Reduced::Min | Reduced::Max => {
            let found = match reduced {
                Reduced::Min => &results.min,
                _ => &results.max,
            };
            let Some(found) = found else {
                return missing(function);
            };
            of_rows(vec![cast(found, function.field().data_type())?])
        }
        Reduced::Deviation => of_rows(deviations(results, function)?.to_vec()),
    })
}
