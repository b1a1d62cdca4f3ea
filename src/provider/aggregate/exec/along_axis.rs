//! Aggregates whose expressions depend on a single axis. They are computed from coordinates, not
//! from cells.
//!
//! If every selected cell is a row, a group contains each coordinate along the axis once per cell
//! at that coordinate. Counts and sums are multiplied accordingly. If the result does not depend on
//! repetition (MIN, MAX, DISTINCT), DataFusion's accumulator sees each coordinate once, and only
//! once for all groups that lie in the same grids.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_err, resources_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;

use crate::grid::reduce::{Counts, Results};
use crate::provider::aggregate::exec::accumulators::Accumulated;
use crate::provider::aggregate::exec::job::Job;
use crate::provider::aggregate::plan::aggregation::{Aggregate, Stage};
use crate::provider::aggregate::plan::grid_classes::{GridClasses, SelectedCoordinates};
use crate::provider::aggregate::plan::group_axis::GroupAxis;
use crate::provider::aggregate::plan::groups::GroupedGrids;
use crate::provider::aggregate::plan::reductions::Reduced;
use crate::provider::planning::mask::mask;
use crate::provider::source::GridSelection;

/// The number of coordinates that are evaluated at a time.
const SEGMENT: u64 = 64 << 10;
/// The approximate number of bytes that a set of grids takes.
const SET_BYTES: usize = 64;

/// The axis, or the file column, from which aggregates are computed.
pub(crate) struct AlongAxis<'a> {
    job: &'a Job,
    parts: Vec<&'a GridSelection>,
    /// The index of the table's column.
    column: usize,
    /// The classes of grids with the same selected coordinates along the axis.
    classes: GridClasses,
    /// The groups along the axis, if the query groups by it.
    group_axis: Option<&'a GroupAxis>,
    /// The grids, by their groups along all other axes.
    grids: Vec<GroupedGrids>,
}

/// The rows of an aggregate at some indices of the axis.
struct AxisRows {
    /// The arguments of the aggregate.
    arguments: Vec<ArrayRef>,
    /// The group ordinal of each row along the axis.
    groups: Vec<usize>,
}

/// The count and the sum of an argument in one group along the axis.
#[derive(Clone, Copy)]
struct Total {
    /// The ordinal of the group along the axis.
    group: usize,
    count: u64,
    float: f64,
    integer: i64,
}

impl Total {
    /// Adds another total of the same group. Integer sums wrap around, like DataFusion's.
    fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.float += other.float;
        self.integer = self.integer.wrapping_add(other.integer);
    }

    fn times(self, times: u64) -> Self {
        Self {
            group: self.group,
            count: self.count.saturating_mul(times),
            float: self.float * times as f64,
            integer: self.integer.wrapping_mul(times as i64),
        }
    }
}

/// Adds up the totals of each group.
fn add_up(totals: &mut Vec<Total>) {
    // A stable sort makes sums of floating-point numbers reproducible.
    totals.sort_by_key(|total| total.group);
    totals.dedup_by(|next, sum| {
        let is_same = next.group == sum.group;
        if is_same {
            sum.add(next);
        }
        is_same
    });
}

impl<'a> AlongAxis<'a> {
    /// Returns the axis of a table column. Reads the coordinates if the table has several grids.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn try_new(job: &'a Job, column: usize) -> Result<Self> {
        let parts: Vec<&GridSelection> = job.grid_selections().map(|part| &part.part).collect();
        let mut axes = job.groups.axes().iter();
        let group_axis = axes.find(|axis| axis.column == column);
        let classes = match group_axis {
            Some(axis) => axis.classes.clone(),
            None => GridClasses::of(column, &parts)?,
        };
        let selections = parts.iter().map(|part| (&part.selection, &part.selection));
        Ok(Self {
            grids: job.groups.grouped_grids(selections, Some(column)),
            job,
            parts,
            column,
            classes,
            group_axis,
        })
    }

    /// Returns the counts of an aggregate's argument in all groups, and the sums if `reduced` needs
    /// them.
    ///
    /// # Errors
    /// Fails if the argument or the filter cannot be evaluated.
    pub async fn reduce(&self, aggregate: &Aggregate, reduced: Reduced) -> Result<Results> {
        let field = aggregate.function.field();
        let sum_type = match reduced {
            Reduced::Sum | Reduced::Average => Some(field.data_type()),
            _ => None,
        };
        let mut totals = Vec::with_capacity(self.classes.firsts.len());
        for number in 0..self.classes.firsts.len() {
            let along = self.along(number)?;
            let mut of_class = Vec::new();
            for ranks in segments(along.count()) {
                let rows = self.rows(aggregate, number, &along, ranks)?;
                of_class.extend(rows.totals(sum_type)?);
                add_up(&mut of_class);
                tokio::task::yield_now().await;
            }
            totals.push(of_class);
        }
        let groups = self.job.groups.count();
        let stride = self.group_axis.map_or(0, |axis| axis.stride);
        let mut counts = vec![0u64; groups];
        let (mut floats, mut integers) = match sum_type {
            None => (Vec::new(), Vec::new()),
            Some(DataType::Float64) => (vec![0.0; groups], Vec::new()),
            Some(_) => (Vec::new(), vec![0i64; groups]),
        };
        for grids in &self.grids {
            let mut classes: BTreeMap<usize, u64> = BTreeMap::new();
            for (part, times) in &grids.parts {
                let of_class = self.classes.of_part[*part].map(|class| classes.entry(class));
                if let Some(entry) = of_class {
                    let sum = entry.or_default();
                    *sum = sum.saturating_add(*times);
                }
            }
            let all = classes.iter().flat_map(|(class, times)| {
                let totals = totals[*class].iter();
                totals.map(|total| total.times(*times))
            });
            let mut all: Vec<Total> = all.collect();
            add_up(&mut all);
            grids.counts.for_each(|group, cells| {
                for total in &all {
                    let group = group + total.group * stride;
                    let total = total.times(cells);
                    counts[group] = counts[group].saturating_add(total.count);
                    if let Some(sum) = floats.get_mut(group) {
                        *sum += total.float;
                    }
                    if let Some(sum) = integers.get_mut(group) {
                        *sum = sum.wrapping_add(total.integer);
                    }
                }
            });
            tokio::task::yield_now().await;
        }
        Ok(Results {
            counts: Counts::Each(counts.into()),
            sums: sum_type.map(|sum_type| match sum_type {
                DataType::Float64 => Arc::new(Float64Array::from(floats)) as ArrayRef,
                _ => Arc::new(Int64Array::from(integers)),
            }),
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
        let (sets, of_groups) = self.sets(&memory).await?;
        // For each class of grids, the sets that contain a grid of the class.
        let mut with: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.classes.firsts.len()];
        for (set, members) in sets.iter().enumerate() {
            let grids = members.iter().flat_map(|member| &self.grids[*member].parts);
            for class in grids.filter_map(|(part, _)| self.classes.of_part[*part]) {
                with[class].insert(set);
            }
        }
        let count = self.group_axis.map_or(1, |axis| axis.count);
        let all = sets.len() * count;
        let (is_grouped, schema) = (self.job.program.is_grouped(), &self.job.schema);
        let before = memory.size();
        memory.try_grow(Accumulated::initial_bytes(
            &aggregate.function,
            is_grouped,
            all,
        )?)?;
        let mut accumulated = Accumulated::for_rows(aggregate, is_grouped, schema, all)?;
        let mut results = Vec::new();
        for (number, sets) in with.iter().enumerate() {
            let along = self.along(number)?;
            for ranks in segments(along.count()) {
                let rows = self.rows(aggregate, number, &along, ranks)?;
                if rows.groups.is_empty() {
                    continue;
                }
                for set in sets {
                    results.clear();
                    results.extend(rows.groups.iter().map(|group| set * count + group));
                    accumulated.update(&rows.arguments, &results, None, all)?;
                    memory.try_resize(before + accumulated.size())?;
                    tokio::task::yield_now().await;
                }
            }
        }
        let values = match stage {
            Stage::Partial => accumulated.state()?,
            Stage::Whole => vec![accumulated.evaluate()?],
        };
        let bytes = values.iter().map(|values| values.get_array_memory_size());
        memory.try_resize(before + bytes.sum::<usize>())?;
        Ok(SharedResults {
            values,
            of_groups,
            axis: self.group_axis.map(|axis| (axis.stride, axis.count)),
            _memory: memory,
        })
    }

    /// Returns distinct sets of members of `grids`, and the set that covers each group. Groups
    /// along this axis are left out. `None` stands for a single set of all members.
    async fn sets(
        &self,
        memory: &MemoryReservation,
    ) -> Result<(Vec<Vec<usize>>, Option<Vec<u32>>)> {
        if self.grids.len() <= 1 {
            return Ok((vec![(0..self.grids.len()).collect()], None));
        }
        let axis = self.group_axis.map(|axis| (axis.stride, axis.count));
        let groups = self.job.groups.count() / axis.map_or(1, |(_, count)| count);
        // A set is another set with one more member. The first is the empty set.
        let mut nodes: Vec<(u32, usize)> = vec![(0, 0)];
        let mut of_groups = vec![0u32; groups];
        for (member, grids) in self.grids.iter().enumerate() {
            let mut extended: HashMap<u32, u32> = HashMap::new();
            grids.counts.for_each(|group, _| {
                let set = &mut of_groups[without_axis(group, axis)];
                let before = *set;
                *set = *extended.entry(before).or_insert_with(|| {
                    nodes.push((before, member));
                    nodes.len() as u32 - 1
                });
            });
            if u32::try_from(nodes.len() + groups).is_err() {
                return resources_err!("groups lie in more than 2^32 distinct sets of grids");
            }
            memory.try_resize(size_of_val(of_groups.as_slice()) + nodes.len() * SET_BYTES)?;
            tokio::task::yield_now().await;
        }
        // Keep only the sets of groups, not the intermediate ones.
        let mut sets = Vec::new();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for set in &mut of_groups {
            *set = *numbers.entry(*set).or_insert_with(|| {
                let mut members = Vec::new();
                let mut node = *set;
                while node != 0 {
                    let (before, member) = nodes[node as usize];
                    members.push(member);
                    node = before;
                }
                sets.push(members);
                sets.len() as u32 - 1
            });
        }
        Ok((sets, Some(of_groups)))
    }

    /// Returns the coordinates that all grids of a class share.
    fn along(&self, number: usize) -> Result<SelectedCoordinates<'_>> {
        SelectedCoordinates::of(self.parts[self.classes.firsts[number]], self.column)
    }

    /// Evaluates the filter and the arguments of an aggregate on the coordinates with these ranks.
    fn rows(
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
            groups: match self.group_axis.map(|axis| &axis.ordinals[number]) {
                Some(ordinals) => positions
                    .map(|position| ordinals.of(ranks.start as usize + position))
                    .collect(),
                None => vec![0; rows],
            },
        })
    }
}

impl AxisRows {
    /// Returns the rows without null arguments, with their sums in `sum_type`.
    fn totals(&self, sum_type: Option<&DataType>) -> Result<Vec<Total>> {
        let arguments = self.arguments.iter();
        let nulls = arguments.fold(None, |nulls, argument| {
            NullBuffer::union(nulls.as_ref(), argument.logical_nulls().as_ref())
        });
        let (mut floats, mut integers) = (None, None);
        if let (Some(sum_type), [argument]) = (sum_type, self.arguments.as_slice()) {
            let argument = cast(argument, sum_type)?;
            match sum_type {
                DataType::Float64 => {
                    floats = Some(argument.as_primitive::<Float64Type>().values().clone());
                }
                DataType::Int64 => {
                    integers = Some(argument.as_primitive::<Int64Type>().values().clone());
                }
                DataType::UInt64 => {
                    let bits = argument.as_primitive::<UInt64Type>();
                    let bits = bits.unary::<_, Int64Type>(|number| number as i64);
                    integers = Some(bits.values().clone());
                }
                other => return internal_err!("sums of type {other} are not supported"),
            }
        }
        let rows = self.groups.iter().enumerate();
        let rows = rows.filter(|(row, _)| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row)));
        let totals = rows.map(|(row, group)| Total {
            group: *group,
            count: 1,
            float: floats.as_ref().map_or(0.0, |numbers| numbers[row]),
            integer: integers.as_ref().map_or(0, |numbers| numbers[row]),
        });
        Ok(totals.collect())
    }
}

/// Cuts ranks into ranges that are evaluated one after another.
fn segments(count: u64) -> impl Iterator<Item = Range<u64>> {
    let starts = (0..count.div_ceil(SEGMENT)).map(|number| number * SEGMENT);
    starts.map(move |start| start..count.min(start + SEGMENT))
}

/// Returns the index of a group among the groups along all axes but one, which is given by its
/// stride and its number of groups.
fn without_axis(group: usize, axis: Option<(usize, usize)>) -> usize {
    axis.map_or(group, |(stride, count)| {
        group / (stride * count) * stride + group % stride
    })
}

/// The results of an aggregate, computed once for all groups that lie in the same grids.
pub(crate) struct SharedResults {
    /// One array of final values, or one array per field of the partial state. The results of a set
    /// are consecutive, one per group along the axis.
    values: Vec<ArrayRef>,
    /// The set of each group along the other axes; `None` if there is a single set.
    of_groups: Option<Vec<u32>>,
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
    /// Fails if a group does not exist.
    pub fn of_groups(
        &self,
        column: usize,
        groups: impl Iterator<Item = usize>,
    ) -> Result<ArrayRef> {
        let result = |group: usize| {
            let sets = self.of_groups.as_ref();
            let set = sets.map_or(0, |sets| sets[without_axis(group, self.axis)] as usize);
            let along = |(stride, count)| set * count + group / stride % count;
            self.axis.map_or(set, along) as u64
        };
        let results = UInt64Array::from_iter_values(groups.map(result));
        Ok(take(&self.values[column], &results, None)?)
    }
}
