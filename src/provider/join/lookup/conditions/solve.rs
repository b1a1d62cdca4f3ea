//! Evaluates the conditions of a join on the rows of its build side.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, DynComparator, RecordBatch, RecordBatchOptions, UInt32Array,
    make_comparator,
};
use arrow::compute::{SortOptions, and, take};
use arrow::datatypes::Schema;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use futures::{StreamExt, TryStreamExt};

use crate::provider::join::lookup::conditions::axis::{Comparison, ConditionAxis};
#[cfg(feature = "geo")]
use crate::provider::join::lookup::conditions::geometry::PointsInPolygons;
use crate::provider::join::lookup::conditions::runs::Runs;
use crate::provider::join::lookup::conditions::{AxisSet, Condition, Conditions};
use crate::provider::planning::mask::mask;
use crate::provider::plans::below::replace_columns;
use crate::provider::plans::tasks::result_of;

/// The maximum number of rows of the build side that a task solves.
const MAX_ROWS: usize = 8192;
/// The number of tasks per worker, unless there are fewer rows: some rows have many more candidates than
/// others.
const TASKS_PER_WORKER: usize = 4;
/// The maximum number of pairs evaluated at a time.
const MAX_PAIRS: usize = 32 << 10;
/// The maximum number of pairs evaluated before other tasks can run, unless a single row has more.
const MAX_WORK: u64 = 1 << 20;
/// The number of candidates of a row from which its values become literals of the condition.
/// Evaluating the condition for rows with fewer candidates together is faster.
const MANY_CANDIDATES: u64 = 2048;

impl Conditions {
    /// Returns, for each [`AxisSet`], the numbers that match each row of the build side. A row
    /// matches the cells whose numbers match it in all sets. At most `workers` tasks run at a time.
    /// Memory is reserved from the pool of `memory`.
    ///
    /// # Errors
    /// Returns an error if a condition fails, if the memory pool has no space, or if a task panics.
    pub async fn solve_all(
        self: &Arc<Self>,
        rows: &RecordBatch,
        workers: usize,
        memory: &MemoryReservation,
    ) -> Result<Vec<Runs>> {
        let (count, workers) = (rows.num_rows(), workers.max(1));
        let length = count.div_ceil(workers * TASKS_PER_WORKER);
        let length = length.clamp(1, MAX_ROWS);
        let tasks = (0..count).step_by(length).map(|start| {
            let some = rows.slice(start, length.min(count - start));
            let (this, memory) = (Arc::clone(self), memory.new_empty());
            async move { result_of(SpawnedTask::spawn(this.solve(some, memory))).await }
        });
        let mut solved = futures::stream::iter(tasks).buffered(workers);
        let sets = self.sets.iter();
        let mut all = sets
            .map(|_| Runs::new(count, memory))
            .collect::<Result<Vec<_>>>()?;
        while let Some(of_task) = solved.try_next().await? {
            for (all, runs) in all.iter_mut().zip(&of_task) {
                all.append(runs)?;
            }
        }
        Ok(all)
    }

    /// Returns the numbers that match each of some rows, as [`Self::solve_all`] does for all.
    async fn solve(
        self: Arc<Self>,
        rows: RecordBatch,
        memory: MemoryReservation,
    ) -> Result<Vec<Runs>> {
        let mut candidates = BooleanArray::from(vec![true; rows.num_rows()]);
        for condition in &self.of_rows {
            candidates = and(&candidates, &mask(condition, &rows)?)?;
        }
        let mut solved = Vec::with_capacity(self.sets.len());
        for set in &self.sets {
            let runs = set.solve(&rows, &candidates, &memory).await?;
            let matches = (0..runs.rows()).map(|row| !runs.of(row).is_empty());
            candidates = BooleanArray::from(matches.collect::<Vec<_>>());
            solved.push(runs);
        }
        Ok(solved)
    }
}

impl AxisSet {
    async fn solve(
        &self,
        rows: &RecordBatch,
        candidates: &BooleanArray,
        memory: &MemoryReservation,
    ) -> Result<Runs> {
        let compared = self.axes.iter();
        let compared = compared.map(|axis| axis.compare(rows, candidates, memory));
        let mut compared = compared.collect::<Result<Vec<_>>>()?;
        let has_others = self.axes.iter().any(|axis| !axis.others.is_empty());
        if self.axes.len() == 1 && !has_others {
            return Ok(compared.remove(0));
        }
        let mut solved = Runs::new(rows.num_rows(), memory)?;
        let (mut start, mut pairs) = (0, 0u64);
        for row in 0..rows.num_rows() {
            let counts = compared.iter().map(|runs| runs.count(row));
            let of_row = counts.fold(1, u64::saturating_mul);
            if row > start && pairs.saturating_add(of_row) > MAX_WORK {
                solved.append(&self.filter(rows, &compared, start..row)?)?;
                tokio::task::yield_now().await;
                (start, pairs) = (row, 0);
            }
            pairs = pairs.saturating_add(of_row);
        }
        solved.append(&self.filter(rows, &compared, start..rows.num_rows())?)?;
        Ok(solved)
    }

    /// Returns the combinations of numbers that satisfy all conditions, for a range of rows. `compared` are the
    /// numbers of each axis that satisfy the comparisons.
    fn filter(&self, rows: &RecordBatch, compared: &[Runs], range: Range<usize>) -> Result<Runs> {
        let rows = rows.slice(range.start, range.len());
        let mut of_axes = Vec::with_capacity(self.axes.len());
        for (axis, runs) in self.axes.iter().zip(compared) {
            let mut runs = runs.slice(range.clone())?;
            for condition in &axis.others {
                let pairs = Pairs::new(condition, std::slice::from_ref(axis), &rows)?;
                runs = pairs.filter(&runs)?;
            }
            of_axes.push(runs);
        }
        let mut runs = match of_axes.len() {
            1 => of_axes.remove(0),
            _ => self.product(&of_axes, rows.num_rows())?,
        };
        for condition in &self.joint {
            let pairs = Pairs::new(condition, &self.axes, &rows)?;
            runs = pairs.filter(&runs)?;
        }
        Ok(runs)
    }

    /// Returns the combinations of the numbers of each axis.
    fn product(&self, of_axes: &[Runs], rows: usize) -> Result<Runs> {
        let (Some(inner), Some(last)) = (of_axes.last(), self.axes.last()) else {
            return internal_err!("conditions have a set without axes");
        };
        let mut product = inner.another(rows)?;
        let length = last.indices.len() as u32;
        let outer = &of_axes[..of_axes.len() - 1];
        for row in 0..rows {
            if of_axes.iter().all(|runs| !runs.of(row).is_empty()) {
                // The numbers of the outer axes, in row-major order.
                let mut bases = vec![0u32];
                for (axis, runs) in self.axes.iter().zip(outer) {
                    let numbers = || runs.of(row).iter().flat_map(|run| run.start..run.end);
                    let count = axis.indices.len() as u32;
                    let next = bases
                        .iter()
                        .flat_map(|base| numbers().map(move |number| base * count + number));
                    bases = next.collect();
                }
                for base in bases {
                    for run in inner.of(row) {
                        product.push(base * length + run.start..base * length + run.end)?;
                    }
                }
            }
            product.end_row();
        }
        Ok(product)
    }
}

impl ConditionAxis {
    /// Returns the numbers that satisfy all comparisons. Rows that are not candidates have none.
    fn compare(
        &self,
        rows: &RecordBatch,
        candidates: &BooleanArray,
        memory: &MemoryReservation,
    ) -> Result<Runs> {
        let bounds = self.comparisons.iter();
        let bounds = bounds.map(|comparison| Bound::new(comparison, rows));
        let bounds = bounds.collect::<Result<Vec<_>>>()?;
        let all = 0..self.indices.len() as u32;
        let mut runs = Runs::new(rows.num_rows(), memory)?;
        for row in 0..rows.num_rows() {
            if candidates.value(row) {
                let run = bounds.iter().fold(all.clone(), |run, bound| {
                    let other = bound.range(row);
                    run.start.max(other.start)..run.end.min(other.end)
                });
                runs.push(run)?;
            }
            runs.end_row();
        }
        Ok(runs)
    }
}

/// A comparison with the values of its right operand.
struct Bound<'a> {
    comparison: &'a Comparison,
    values: ArrayRef,
    /// Compares a number's value with a row's.
    compare: DynComparator,
}

impl<'a> Bound<'a> {
    fn new(comparison: &'a Comparison, rows: &RecordBatch) -> Result<Self> {
        let values = comparison.bound.evaluate(rows)?;
        let values = normalize_float_zero(&values.into_array(rows.num_rows())?);
        Ok(Self {
            comparison,
            compare: make_comparator(&comparison.values, &values, SortOptions::default())?,
            values,
        })
    }

    /// Returns the numbers that satisfy the comparison with a row.
    fn range(&self, row: usize) -> Range<u32> {
        if self.values.is_null(row) {
            return 0..0;
        }
        let count = self.comparison.values.len();
        let is_descending = self.comparison.is_descending;
        // Returns the first number, in ascending order of the values, for which `is_before` is false.
        let first = |is_before: &dyn Fn(Ordering) -> bool| {
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = low + (high - low) / 2;
                let number = if is_descending {
                    count - 1 - middle
                } else {
                    middle
                };
                match is_before((self.compare)(number, row)) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            low
        };
        let equal = || first(&Ordering::is_lt);
        let greater = || first(&Ordering::is_le);
        let (start, end) = match self.comparison.operator {
            Operator::Lt => (0, equal()),
            Operator::LtEq => (0, greater()),
            Operator::Gt => (greater(), count),
            Operator::GtEq => (equal(), count),
            _ => (equal(), greater()),
        };
        match is_descending {
            true => (count - end) as u32..(count - start) as u32,
            false => start as u32..end as u32,
        }
    }
}

/// Evaluates a condition on pairs of numbers and rows of the build side.
struct Pairs<'a> {
    condition: &'a Condition,
    /// The axes of the set. Numbers are combinations of their numbers, in row-major order.
    axes: &'a [ConditionAxis],
    rows: &'a RecordBatch,
    /// The schema of the columns of the condition.
    schema: Arc<Schema>,
    /// `true` if the values of all columns of the build side have the same small size.
    has_small_values: bool,
    /// The points and polygons, if the condition tests points against polygons.
    #[cfg(feature = "geo")]
    points: Option<PointsInPolygons>,
}

impl<'a> Pairs<'a> {
    fn new(
        condition: &'a Condition,
        axes: &'a [ConditionAxis],
        rows: &'a RecordBatch,
    ) -> Result<Self> {
        let of_axes = condition.axes.iter().map(|axis| axes[*axis].field.clone());
        let schema = rows.schema_ref();
        let of_rows = condition.columns.iter().map(|column| schema.field(*column));
        Ok(Self {
            #[cfg(feature = "geo")]
            points: PointsInPolygons::of(condition, axes, rows)?,
            condition,
            axes,
            rows,
            has_small_values: of_rows
                .clone()
                .all(|field| field.data_type().is_primitive()),
            schema: Arc::new(Schema::new(
                of_axes.chain(of_rows.cloned()).collect::<Vec<_>>(),
            )),
        })
    }

    /// Returns the numbers of each row that satisfy the condition.
    fn filter(&self, runs: &Runs) -> Result<Runs> {
        let mut kept = runs.another(runs.rows())?;
        // The pairs to be evaluated next, and the first row that has no pair among them.
        let (mut numbers, mut rows) = (Vec::new(), Vec::new());
        let mut next = 0;
        for row in 0..runs.rows() {
            let count = runs.count(row);
            if count == 0 {
                continue;
            }
            let all = runs.of(row).iter().flat_map(|run| run.start..run.end);
            if self.has_small_values && count < MANY_CANDIDATES {
                all.for_each(|number| {
                    numbers.push(number);
                    rows.push(row as u32);
                });
                if numbers.len() >= MAX_PAIRS {
                    self.flush(&mut numbers, &mut rows, &mut next, &mut kept)?;
                }
                continue;
            }
            self.flush(&mut numbers, &mut rows, &mut next, &mut kept)?;
            fill(&mut kept, &mut next, row);
            #[cfg(feature = "geo")]
            if let Some(points) = &self.points
                && let Some(inside) = points.inside(row, runs.of(row))
            {
                inside.into_iter().try_for_each(|run| kept.push(run))?;
                continue;
            }
            let of_row = self.with_literals(row)?;
            let mut all = all.peekable();
            while all.peek().is_some() {
                numbers.extend(all.by_ref().take(MAX_PAIRS));
                let holds = self.evaluate(&of_row, &numbers, None)?;
                push(&mut kept, &numbers, &holds, 0..numbers.len())?;
                numbers.clear();
            }
        }
        self.flush(&mut numbers, &mut rows, &mut next, &mut kept)?;
        fill(&mut kept, &mut next, runs.rows());
        Ok(kept)
    }

    /// Evaluates the condition on the waiting pairs, and adds those that satisfy it to `kept`.
    fn flush(
        &self,
        numbers: &mut Vec<u32>,
        rows: &mut Vec<u32>,
        next: &mut usize,
        kept: &mut Runs,
    ) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let holds = self.evaluate(&self.condition.expr, numbers, Some(rows))?;
        let mut start = 0;
        for pairs in rows.chunk_by(|one, other| one == other) {
            fill(kept, next, pairs[0] as usize);
            push(kept, numbers, &holds, start..start + pairs.len())?;
            start += pairs.len();
        }
        numbers.clear();
        rows.clear();
        Ok(())
    }

    /// Evaluates an expression on pairs. Without `rows`, it has no columns of the build side.
    fn evaluate(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        numbers: &[u32],
        rows: Option<&Vec<u32>>,
    ) -> Result<BooleanArray> {
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for axis in &self.condition.axes {
            let behind = self.axes[axis + 1..].iter();
            let behind: u32 = behind.map(|axis| axis.indices.len() as u32).product();
            let axis = &self.axes[*axis];
            let count = axis.indices.len() as u32;
            let of_axis = numbers.iter().map(|number| number / behind % count);
            let of_axis = UInt32Array::from_iter_values(of_axis);
            columns.push(take(&axis.coordinates, &of_axis, None)?);
        }
        let mut fields = self.schema.fields().iter().cloned().collect::<Vec<_>>();
        match rows {
            Some(rows) => {
                let rows = UInt32Array::from_iter_values(rows.iter().copied());
                for column in &self.condition.columns {
                    columns.push(take(self.rows.column(*column), &rows, None)?);
                }
            }
            None => fields.truncate(columns.len()),
        }
        let options = RecordBatchOptions::new().with_row_count(Some(numbers.len()));
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        mask(expr, &batch)
    }

    /// Returns the condition with the values of a row as literals.
    fn with_literals(&self, row: usize) -> Result<Arc<dyn PhysicalExpr>> {
        let axes = self.condition.axes.len();
        let mut values: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for index in 0..axes {
            values.push(Arc::new(Column::new(
                self.schema.field(index).name(),
                index,
            )));
        }
        for (index, column) in self.condition.columns.iter().enumerate() {
            let value = ScalarValue::try_from_array(self.rows.column(*column), row)?;
            let field = self.schema.field(axes + index);
            let metadata = Some(FieldMetadata::from(field));
            values.push(Arc::new(Literal::new_with_metadata(value, metadata)));
        }
        replace_columns(&self.condition.expr, &|index| values.get(index).cloned())
    }
}

/// Ends rows without numbers, so that `row` is the next.
fn fill(kept: &mut Runs, next: &mut usize, row: usize) {
    while *next < row {
        kept.end_row();
        *next += 1;
    }
}

/// Adds the numbers of the pairs in `range` that satisfy the condition to the next row.
fn push(kept: &mut Runs, numbers: &[u32], holds: &BooleanArray, range: Range<usize>) -> Result<()> {
    for pair in range.filter(|pair| holds.value(*pair)) {
        kept.push(numbers[pair]..numbers[pair] + 1)?;
    }
    Ok(())
}
