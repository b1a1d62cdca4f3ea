//! Aggregates whose expressions depend on a single axis. They are computed from coordinates, not
//! from cells.
//!
//! If every selected cell is a row, a group contains each coordinate along the axis once per cell
//! there. Counts and sums are multiplied accordingly. If the result does not depend on repetition
//! (MIN, MAX, DISTINCT), DataFusion's accumulator sees each coordinate once, and only once for all
//! groups that cover the same indices.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;

use crate::grid::reduce::{Counts, Results};
use crate::provider::aggregate::exec::accumulators::Accumulated;
use crate::provider::aggregate::exec::job::Job;
use crate::provider::aggregate::plan::aggregation::{Aggregate, Stage};
use crate::provider::aggregate::plan::covered_indices::CoveredIndices;
use crate::provider::aggregate::plan::grid_classes::{GridClasses, SelectedCoordinates};
use crate::provider::aggregate::plan::group_axis::GroupAxis;
use crate::provider::aggregate::plan::products::{AxisValues, Number, PerGroup, Run, add_up, sums};
use crate::provider::aggregate::plan::program::Reduced;
use crate::provider::aggregate::plan::terms::Terms;
use crate::provider::planning::mask::mask;
use crate::provider::source::GridSelection;

/// The number of coordinates that are evaluated at a time.
const SEGMENT: u64 = 64 << 10;

/// The axis, or the file column, from which aggregates are computed.
pub(crate) struct AlongAxis<'a> {
    job: &'a Job,
    parts: Vec<&'a GridSelection>,
    /// The index of the table's column.
    column: usize,
    /// The classes of grids with the same selected coordinates along the axis.
    same: GridClasses,
    /// The groups along the axis, if the query groups by it.
    grouped: Option<&'a GroupAxis>,
    /// The cells as products over the grouped axes and this axis.
    terms: Terms,
    /// The ordinal of this axis among the axes of `terms`.
    place: usize,
}

/// The rows of an aggregate at some indices of the axis.
struct AxisRows {
    /// The arguments of the aggregate.
    arguments: Vec<ArrayRef>,
    /// The group ordinal of each row along the axis.
    groups: Vec<usize>,
}

impl<'a> AlongAxis<'a> {
    /// Returns the axis of a table column. Reads the coordinates if the table has several grids.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn try_new(job: &'a Job, column: usize) -> Result<Self> {
        let parts: Vec<&GridSelection> = job.grid_selections().map(|part| &part.part).collect();
        let axes = job.groups.axes();
        let place = axes.iter().position(|axis| axis.column == column);
        let grouped = place.map(|place| &axes[place]);
        let same = match grouped {
            Some(axis) => axis.same.clone(),
            None => GridClasses::of(column, &parts)?,
        };
        let mut along: Vec<_> = axes.iter().map(|axis| (axis.column, &axis.same)).collect();
        if place.is_none() {
            along.push((column, &same));
        }
        Ok(Self {
            terms: Terms::of(&parts, &along),
            place: place.unwrap_or(axes.len()),
            job,
            parts,
            column,
            same,
            grouped,
        })
    }

    /// Returns the counts of an aggregate's argument in all groups, and the sums if `reduced` needs
    /// them.
    ///
    /// # Errors
    /// Fails if the argument or the filter cannot be evaluated.
    pub async fn reduce(&self, aggregate: &Aggregate, reduced: Reduced) -> Result<Results> {
        let sum_type = match reduced {
            Reduced::Sum | Reduced::Average => Some(aggregate.function.field().data_type().clone()),
            _ => None,
        };
        let mut counts = Vec::with_capacity(self.same.firsts.len());
        let (mut floats, mut integers) = (Vec::new(), Vec::new());
        for number in 0..self.same.firsts.len() {
            let along = self.along(number)?;
            let mut of_counts = Vec::new();
            let (mut of_floats, mut of_integers) = (Vec::new(), Vec::new());
            for ranks in segments(along.count()) {
                let positions = self.positions(aggregate, number, &along, ranks)?;
                let arguments = positions.arguments.iter();
                let nulls = arguments.fold(None, |nulls, argument| {
                    NullBuffer::union(nulls.as_ref(), argument.logical_nulls().as_ref())
                });
                let groups = &positions.groups;
                of_counts.extend(runs(groups, nulls.as_ref(), |_| 1u64));
                if let (Some(sum_type), [argument]) = (&sum_type, positions.arguments.as_slice()) {
                    let argument = cast(argument, sum_type)?;
                    match sum_type {
                        DataType::Float64 => {
                            let numbers = argument.as_primitive::<Float64Type>().values();
                            of_floats.extend(runs(groups, nulls.as_ref(), |row| numbers[row]));
                        }
                        DataType::Int64 => {
                            let numbers = argument.as_primitive::<Int64Type>().values();
                            of_integers.extend(runs(groups, nulls.as_ref(), |row| numbers[row]));
                        }
                        DataType::UInt64 => {
                            let numbers = argument.as_primitive::<UInt64Type>().values();
                            let number = |row: usize| numbers[row] as i64;
                            of_integers.extend(runs(groups, nulls.as_ref(), number));
                        }
                        other => return internal_err!("sums of type {other} are not supported"),
                    }
                }
                tokio::task::yield_now().await;
            }
            counts.push(add_up(of_counts.into_iter()));
            floats.push(add_up(of_floats.into_iter()));
            integers.push(add_up(of_integers.into_iter()));
        }
        let sums = match sum_type {
            None => None,
            Some(DataType::Float64) => Some(self.array::<Float64Type>(floats).await),
            Some(_) => Some(self.array::<Int64Type>(integers).await),
        };
        Ok(Results {
            counts: match self.sums(counts).await {
                PerGroup::Same(count) => Counts::Same(count),
                PerGroup::Each(counts) => Counts::Each(counts),
            },
            sums,
            min: None,
            max: None,
            deviations: None,
        })
    }

    /// Computes an aggregate whose result does not depend on repetition, with DataFusion's
    /// accumulators.
    ///
    /// # Errors
    /// Fails if the arguments or the filter cannot be evaluated, or there is not enough memory.
    pub async fn once(
        &self,
        aggregate: &Aggregate,
        stage: Stage,
        memory: MemoryReservation,
    ) -> Result<SharedResults> {
        let axes = self.axes(self.positions_of_groups());
        let groups = self.job.groups.count();
        let sets = CoveredIndices::new(&self.terms, self.place, &axes, groups, &memory).await?;
        let is_grouped = self.job.program.is_grouped();
        let schema = &self.job.schema;
        let mut accumulated = Accumulated::for_rows(aggregate, is_grouped, schema, sets.results())?;
        let mut results = Vec::new();
        for number in 0..self.same.firsts.len() {
            let along = self.along(number)?;
            for ranks in segments(along.count()) {
                let positions = self.positions(aggregate, number, &along, ranks)?;
                if positions.groups.is_empty() {
                    continue;
                }
                for set in sets.with(number) {
                    results.clear();
                    for group in &positions.groups {
                        results.push(sets.result(*set, *group)?);
                    }
                    accumulated.update(&positions.arguments, &results, None, sets.results())?;
                    memory.try_resize(sets.size() + accumulated.size())?;
                    tokio::task::yield_now().await;
                }
            }
        }
        let values = match stage {
            Stage::Partial => accumulated.state()?,
            Stage::Whole => vec![accumulated.evaluate()?],
        };
        let bytes = values.iter().map(|values| values.get_array_memory_size());
        memory.try_resize(sets.size() + bytes.sum::<usize>())?;
        Ok(SharedResults {
            values,
            sets,
            axis: self.grouped.map(|axis| (axis.stride, axis.count)),
            _memory: memory,
        })
    }

    /// Returns the coordinates that all grids of a class share.
    fn along(&self, number: usize) -> Result<SelectedCoordinates<'_>> {
        SelectedCoordinates::of(self.parts[self.same.firsts[number]], self.column)
    }

    /// Evaluates the filter and the arguments of an aggregate on the coordinates with these ranks.
    fn positions(
        &self,
        aggregate: &Aggregate,
        number: usize,
        along: &SelectedCoordinates,
        ranks: Range<u64>,
    ) -> Result<AxisRows> {
        let coordinates = along.coordinates(ranks.clone())?;
        let field = Field::new(along.name, coordinates.data_type().clone(), false);
        let schema = Arc::new(Schema::new(vec![field]));
        let mut batch = RecordBatch::try_new(Arc::clone(&schema), vec![coordinates])?;
        let bind = |expr: &Arc<dyn PhysicalExpr>| reassign_expr_columns(Arc::clone(expr), &schema);
        let mut kept: Option<BooleanArray> = None;
        if let Some(filter) = &aggregate.filter {
            let mask = mask(&bind(filter)?, &batch)?;
            // Filter first, since the arguments may fail on rows that the filter rejects.
            batch = filter_record_batch(&batch, &mask)?;
            kept = Some(mask);
        }
        let rows = batch.num_rows();
        let arguments = aggregate.arguments.iter();
        let arguments =
            arguments.map(|argument| bind(argument)?.evaluate(&batch)?.into_array(rows));
        let is_kept = |position: &usize| kept.as_ref().is_none_or(|kept| kept.value(*position));
        let positions = (0..(ranks.end - ranks.start) as usize).filter(is_kept);
        Ok(AxisRows {
            arguments: arguments.collect::<Result<_>>()?,
            groups: match self.grouped.map(|axis| &axis.ordinals[number]) {
                Some(ordinals) => positions
                    .map(|position| ordinals.of(ranks.start as usize + position))
                    .collect(),
                None => vec![0; rows],
            },
        })
    }

    /// Returns the values along all axes: `different` along this axis, and along the other axes
    /// the number of indices in each group.
    fn axes<T: Number>(&self, different: Vec<Vec<Run<T>>>) -> Vec<AxisValues<T>> {
        let axes = self.job.groups.axes().iter();
        let mut axes: Vec<_> = axes.map(GroupAxis::positions).collect();
        match axes.get_mut(self.place) {
            Some(axis) => axis.different = different,
            None => axes.push(AxisValues {
                count: 1,
                stride: 0,
                different,
            }),
        }
        axes
    }

    /// Returns the number of indices in each group along the axis, for each class of grids.
    fn positions_of_groups(&self) -> Vec<Vec<Run<u64>>> {
        match self.grouped {
            Some(axis) => axis.positions().different,
            None => vec![vec![Run::one(0, 1)]; self.same.firsts.len()],
        }
    }

    async fn sums<T: Number>(&self, different: Vec<Vec<Run<T>>>) -> PerGroup<T> {
        sums(&self.terms, &self.axes(different), self.job.groups.count()).await
    }

    async fn array<T>(&self, different: Vec<Vec<Run<T::Native>>>) -> ArrayRef
    where
        T: ArrowPrimitiveType,
        T::Native: Number,
    {
        Arc::new(match self.sums(different).await {
            PerGroup::Same(sum) => PrimitiveArray::<T>::from_value(sum, self.job.groups.count()),
            PerGroup::Each(sums) => PrimitiveArray::<T>::new(sums.into(), None),
        })
    }
}

/// Cuts ranks into ranges that are evaluated one after another.
fn segments(count: u64) -> impl Iterator<Item = Range<u64>> {
    let starts = (0..count.div_ceil(SEGMENT)).map(|number| number * SEGMENT);
    starts.map(move |start| start..count.min(start + SEGMENT))
}

/// Adds up `number` per group, over the rows that are not null.
fn runs<T: Number>(
    groups: &[usize],
    nulls: Option<&NullBuffer>,
    number: impl Fn(usize) -> T,
) -> Vec<Run<T>> {
    let rows = groups.iter().enumerate();
    let rows = rows.filter(|(row, _)| nulls.is_none_or(|nulls| nulls.is_valid(*row)));
    add_up(rows.map(|(row, group)| Run::one(*group, number(row))))
}

/// The results of an aggregate, computed once for all groups that cover the same indices.
pub(crate) struct SharedResults {
    /// One array of final values, or one array per field of the partial state.
    values: Vec<ArrayRef>,
    sets: CoveredIndices,
    /// The stride and the number of groups along the axis, if the query groups by it.
    axis: Option<(usize, usize)>,
    _memory: MemoryReservation,
}

impl SharedResults {
    /// Returns the number of arrays.
    pub fn columns(&self) -> usize {
        self.values.len()
    }

    /// Returns one of the arrays, gathered for some groups.
    ///
    /// # Errors
    /// Fails if a group has no cells.
    pub fn of_groups(
        &self,
        column: usize,
        groups: impl Iterator<Item = usize>,
    ) -> Result<ArrayRef> {
        let result = |group: usize| {
            let along = self
                .axis
                .map_or(0, |(stride, count)| group / stride % count);
            Ok(self.sets.result(self.sets.of(group), along)? as u64)
        };
        let results = groups.map(result).collect::<Result<Vec<u64>>>()?;
        Ok(take(
            &self.values[column],
            &UInt64Array::from(results),
            None,
        )?)
    }
}
