//! From what workers have found to the rows of the answer.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array,
};
use arrow::compute::{cast, nullif, take};
use arrow::datatypes::{DataType, Int64Type, SchemaRef, UInt64Type};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::grid::reduce::Results;
use crate::provider::aggregate::engine::Accumulated;
use crate::provider::aggregate::job::Job;
use crate::provider::aggregate::program::{Output, Presence, Reduced};
use crate::provider::aggregate::worker::Found;

/// Which stage of the engine's aggregation is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// States that the engine will put together with others.
    Partial,
    /// The values of all groups.
    Whole,
}

/// The rows of the answer, as one batch.
pub(super) fn rows(
    job: &Job,
    found: Found,
    stage: Stage,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let count = job.groups.count();
    if count == 0 {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let cells = job.groups.cells(&job.grid_parts());
    let reductions = found.reductions.into_iter();
    let results: Vec<Results> = reductions
        .map(|reduction| reduction.results(&cells))
        .collect();
    let rows = match (job.program.presence, found.rows) {
        (Presence::Selected, _) => cells,
        (Presence::Counted(index), _) => results[index].counts.clone(),
        (Presence::Rows, Some(rows)) => rows,
        (Presence::Rows, None) => return internal_err!("rows were not counted"),
    };
    let is_grouped = !job.aggregation.groups.is_empty();
    let present: Vec<usize> = if is_grouped {
        (0..count).filter(|group| rows[*group] > 0).collect()
    } else {
        vec![0]
    };
    let mut columns = job.groups.values(&present)?;
    let all = present.len() == count;
    let chosen = UInt64Array::from_iter_values(present.iter().map(|group| *group as u64));
    let mut engine = found.engine.into_iter();
    for (output, aggregate) in job.program.outputs.iter().zip(&job.aggregation.aggregates) {
        let function = &aggregate.function;
        let arrays = match output {
            Output::Rows => vec![counts(&rows)],
            Output::Reduced(index, reduced) => {
                let states = states(&results[*index], *reduced, function)?;
                match (stage, reduced) {
                    (Stage::Partial, _) => states,
                    (_, Reduced::Average | Reduced::Deviation) => {
                        let mut accumulated = Accumulated::new(function, is_grouped)?;
                        accumulated.merge(&states, count)?;
                        vec![accumulated.evaluate()?]
                    }
                    _ => states,
                }
            }
            Output::Engine => {
                let Some(mut accumulated) = engine.next() else {
                    return internal_err!("an aggregate was not computed");
                };
                match stage {
                    Stage::Partial => accumulated.state()?,
                    Stage::Whole => vec![accumulated.evaluate()?],
                }
            }
        };
        for array in arrays {
            columns.push(if all {
                array
            } else {
                take(&array, &chosen, None)?
            });
        }
    }
    let columns = columns.into_iter().zip(schema.fields());
    let columns = columns
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(column)
            } else {
                // The same in another encoding, as far as the engine's types go.
                cast(&column, field.data_type())
            }
        })
        .collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(present.len()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

fn counts(counts: &[u64]) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(
        counts.iter().map(|count| *count as i64),
    ))
}

/// What a reduction found, as the state that the engine's accumulators of a function exchange.
fn states(
    results: &Results,
    reduced: Reduced,
    function: &AggregateFunctionExpr,
) -> Result<Vec<ArrayRef>> {
    let missing = || internal_err!("a reduction lacks what {} needs", function.name());
    Ok(match reduced {
        Reduced::Count => vec![counts(&results.counts)],
        Reduced::Sum | Reduced::Average => {
            let Some(sums) = &results.sums else {
                return missing();
            };
            // Without a cell that counts there is no sum.
            let is_none: BooleanArray = results
                .counts
                .iter()
                .map(|count| Some(*count == 0))
                .collect();
            let sums = if function.field().data_type() == &DataType::UInt64 {
                let bits = sums.as_primitive::<Int64Type>();
                Arc::new(bits.unary::<_, UInt64Type>(|sum| sum as u64)) as ArrayRef
            } else {
                Arc::clone(sums)
            };
            let sums = nullif(&sums, &is_none)?;
            if reduced == Reduced::Sum {
                vec![sums]
            } else {
                let counts: ArrayRef = Arc::new(UInt64Array::from(results.counts.clone()));
                vec![nullif(&counts, &is_none)?, sums]
            }
        }
        Reduced::Least | Reduced::Greatest => {
            let found = match reduced {
                Reduced::Least => &results.least,
                _ => &results.greatest,
            };
            let Some(found) = found else {
                return missing();
            };
            vec![cast(found, function.field().data_type())?]
        }
        Reduced::Deviation => match &results.deviations {
            Some(deviations) => deviations.to_vec(),
            None => return missing(),
        },
    })
}
