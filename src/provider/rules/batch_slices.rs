//! Bounded batches below operators whose rows repeat long values.
//!
//! DataFusion's [`UnnestExec`] makes the rows of one list at once, and repeats the other columns of
//! the row for each of them: `SELECT repeat('x', 1000000), unnest(range(1000000))` would take a
//! terabyte. Therefore rows with long lists are split before they are unnested:
//!
//! ```text
//! text  list                   text  list               text  list
//! x     [1, 2, 3, 4, 5]   =>   x     [1, 2]        =>   x     1
//!                              x     [3, 4]             x     2
//!                              x     [5]                x     3
//!                                                       ...
//! ```
//!
//! Lists of lists, and lists of a fixed size, are not split: a row that would repeat more than
//! `tet.max_value_bytes` is an error.
//!
//! In the same way, an operator repeats a long constant, as in `SELECT 'a long text', value`, for each
//! row of a batch. Its input is cut into batches of few rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::{ListUnnest, UnnestExec};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::provider::catalog::settings::config::ArraySettings;
#[cfg(feature = "proto")]
use crate::provider::codec::Operator;
use crate::provider::rules::operators::ReplaceOperators;
use crate::provider::rules::pass_through::{PassThrough, PassThroughExec};

/// The bytes of repeated values in a batch. A single row may have more.
const BATCH_BYTES: usize = 16 << 20;

/// The size of a constant from which the constants of an operator are counted.
const LONG_BYTES: usize = 1 << 10;

/// Slices batches below each `unnest`, and below operators with long constants.
pub(crate) const SLICE_BATCHES: ReplaceOperators = ReplaceOperators {
    name: "SliceBatches",
    replacement: with_slices,
};

fn with_slices(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let children = plan.children();
    let [input] = children[..] else {
        return Ok(None);
    };
    let slicing = match plan.downcast_ref::<UnnestExec>() {
        Some(unnest) => Slicing {
            lists: unnest.list_column_indices().iter().map(List::of).collect(),
            constant_bytes: 0,
        },
        None => Slicing {
            lists: Vec::new(),
            constant_bytes: constant_bytes(plan.as_ref())?,
        },
    };
    let is_needed = !slicing.lists.is_empty() || slicing.constant_bytes > 2 * LONG_BYTES;
    if !is_needed || input.is::<PassThroughExec<Slicing>>() {
        return Ok(None);
    }
    let sliced = batch_slices(Arc::clone(input), slicing);
    replace_children_if_necessary(Arc::clone(plan), vec![sliced]).map(Some)
}

/// Returns the size of the long constants in the expressions of an operator.
fn constant_bytes(plan: &dyn ExecutionPlan) -> Result<usize> {
    let mut sum = 0usize;
    plan.apply_expressions(&mut |expr| {
        expr.apply(|node| {
            let literal = node.downcast_ref::<Literal>();
            let bytes = literal.map_or(0, |literal| literal.value().size());
            if bytes > LONG_BYTES {
                sum = sum.saturating_add(bytes);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(sum)
}

/// Cuts batches into smaller ones, and rows with long lists into several rows with shorter lists.
pub(in crate::provider) fn batch_slices(
    input: Arc<dyn ExecutionPlan>,
    slicing: Slicing,
) -> Arc<dyn ExecutionPlan> {
    PassThroughExec::over(input, slicing)
}

/// The values that the operator above repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::provider) struct Slicing {
    /// The lists that are unnested. The other columns are repeated for each of their elements.
    lists: Vec<List>,
    /// The size of the constants that are repeated for each row.
    constant_bytes: usize,
}

/// A column of lists that are unnested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct List {
    column: usize,
    /// The number of levels of lists in lists that are unnested, at least 1.
    depth: usize,
}

impl List {
    fn of(unnest: &ListUnnest) -> Self {
        Self {
            column: unnest.index_in_input_schema,
            depth: unnest.depth,
        }
    }
}

impl PassThrough for Slicing {
    const NAME: &'static str = "BatchSlicesExec";

    fn fresh(&self) -> Self {
        self.clone()
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = context.session_config().batch_size().max(1);
        let options = context.session_config().options();
        let max_bytes = ArraySettings::limits_of(options).value_bytes;
        let slicing = self.clone();
        let input = input.execute(partition, context)?;
        let schema = input.schema();
        let slices = input.map(move |batch| -> Result<_> {
            let slices = Slices::of(batch?, &slicing, rows, max_bytes)?;
            Ok(futures::stream::iter(slices))
        });
        let slices = slices.try_flatten();
        // Many slices follow without waiting for the input.
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
            schema, slices,
        ))))
    }

    #[cfg(feature = "proto")]
    fn encoded(&self) -> Operator {
        Operator::BatchSlices(self.clone())
    }
}

/// The slices of a batch, each of which the operator above processes at once.
struct Slices {
    batch: RecordBatch,
    /// The columns of lists that are split. Empty if rows stay whole.
    lists: Vec<usize>,
    /// The number of rows that the operator above makes of each row.
    lengths: Vec<usize>,
    /// The bytes of each row that are repeated for each of these rows; `None` if they are few.
    repeated: Option<Vec<usize>>,
    /// The maximum number of rows that are made of a slice of a row.
    rows: usize,
    /// The next row, and the number of its elements that earlier slices have.
    next: (usize, usize),
}

impl Slices {
    fn of(batch: RecordBatch, slicing: &Slicing, rows: usize, max_bytes: usize) -> Result<Self> {
        let depth = slicing.lists.iter().map(|list| list.depth).max();
        let lengths = match slicing.lists.is_empty() {
            true => vec![1; batch.num_rows()],
            false => lengths(&batch, &slicing.lists)?,
        };
        // Lists that are unnested at a later level are repeated at this one.
        let is_repeated = |column: &usize| {
            let mut lists = slicing.lists.iter();
            !lists.any(|list| list.column == *column && Some(list.depth) == depth)
        };
        let repeated: Vec<_> = match slicing.lists.is_empty() {
            true => Vec::new(),
            false => (0..batch.num_columns())
                .filter(is_repeated)
                .map(|column| batch.column(column))
                .collect(),
        };
        let sizes = |rows: Range<usize>| {
            let slices = repeated
                .iter()
                .map(|column| bytes(&column.slice(rows.start, rows.len())));
            let sum = slices.sum::<Result<usize>>()?;
            Ok(sum.saturating_add(slicing.constant_bytes.saturating_mul(rows.len())))
        };
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let is_large = sizes(0..batch.num_rows())?.saturating_mul(longest) > BATCH_BYTES;
        let repeated = is_large.then(|| (0..batch.num_rows()).map(|row| sizes(row..row + 1)));
        let repeated: Option<Vec<usize>> =
            repeated.map(Iterator::collect::<Result<_>>).transpose()?;
        // A slice of nested lists may still be long, and lists of a fixed size cannot be split.
        let can_split = slicing.lists.iter().all(|list| {
            let data_type = batch.column(list.column).data_type();
            list.depth == 1 && matches!(data_type, DataType::List(_) | DataType::LargeList(_))
        });
        if let (false, Some(repeated)) = (can_split, &repeated) {
            let sizes = repeated.iter().zip(&lengths);
            let largest = sizes.map(|(bytes, rows)| bytes.saturating_mul(*rows)).max();
            if let Some(largest) = largest.filter(|largest| *largest > max_bytes) {
                return exec_err!(
                    "unnest would repeat the columns beside nested lists in {largest} bytes, more than \
                     {max_bytes}; select fewer columns, or raise tet.max_value_bytes"
                );
            }
        }
        let lists = slicing.lists.iter().filter(|_| can_split);
        Ok(Self {
            lists: lists.map(|list| list.column).collect(),
            repeated,
            lengths,
            rows,
            next: (0, 0),
            batch,
        })
    }

    /// Returns the maximum number of elements of a row that are unnested at once.
    fn max_elements(&self, row: usize) -> usize {
        match &self.repeated {
            None => self.rows,
            Some(repeated) => (BATCH_BYTES / repeated[row].max(1)).clamp(1, self.rows),
        }
    }

    /// Returns the number of whole rows from `start` on that are unnested at once.
    fn whole_rows(&self, start: usize) -> usize {
        let Some(repeated) = &self.repeated else {
            let fits = |row: &usize| self.lengths[*row] <= self.rows;
            return (start..self.lengths.len()).take_while(fits).count();
        };
        let mut bytes = 0usize;
        let fits = |row: &usize| {
            bytes = bytes.saturating_add(repeated[*row].saturating_mul(self.lengths[*row]));
            self.lengths[*row] <= self.max_elements(*row) && bytes <= BATCH_BYTES
        };
        (start..self.lengths.len()).take_while(fits).count()
    }

    /// Returns one row of the batch with the elements of a range.
    fn slice_of_row(&self, row: usize, elements: Range<usize>) -> Result<RecordBatch> {
        let one = self.batch.slice(row, 1);
        let mut columns = one.columns().to_vec();
        for list in &self.lists {
            columns[*list] = match columns[*list].data_type() {
                DataType::LargeList(_) => sliced(columns[*list].as_list::<i64>(), &elements),
                _ => sliced(columns[*list].as_list::<i32>(), &elements),
            };
        }
        Ok(RecordBatch::try_new(self.batch.schema(), columns)?)
    }
}

impl Iterator for Slices {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let (row, start) = self.next;
        let length = *self.lengths.get(row)?;
        let whole = if start == 0 { self.whole_rows(row) } else { 0 };
        if whole > 0 {
            self.next = (row + whole, 0);
            return Some(Ok(self.batch.slice(row, whole)));
        }
        if self.lists.is_empty() {
            self.next = (row + 1, 0);
            return Some(Ok(self.batch.slice(row, 1)));
        }
        let end = length.min(start + self.max_elements(row));
        self.next = if end < length {
            (row, end)
        } else {
            (row + 1, 0)
        };
        Some(self.slice_of_row(row, start..end))
    }
}

/// Returns a single list with the elements of a range, as far as the list has them.
fn sliced<O: OffsetSizeTrait>(list: &GenericListArray<O>, elements: &Range<usize>) -> ArrayRef {
    let offsets = list.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[1].as_usize());
    let (start, end) = (elements.start + first, elements.end + first);
    let values = list
        .values()
        .slice(start.min(last), end.min(last) - start.min(last));
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        unreachable!("lists have the type of lists");
    };
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    let nulls = list.nulls().cloned();
    Arc::new(GenericListArray::<O>::new(
        Arc::clone(field),
        offsets,
        values,
        nulls,
    ))
}

/// Returns the size of an array's values in bytes.
fn bytes(array: &ArrayRef) -> Result<usize> {
    // The elements of a sliced array of lists are those of the whole array.
    fn elements<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> ArrayRef {
        let offsets = list.value_offsets();
        let (first, last) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
        list.values().slice(first, last - first)
    }
    match array.data_type() {
        DataType::List(_) => bytes(&elements(array.as_list::<i32>())),
        DataType::LargeList(_) => bytes(&elements(array.as_list::<i64>())),
        _ => Ok(array.to_data().get_slice_memory_size()?),
    }
}

/// Returns the number of rows that `unnest` makes of each row; an upper bound if lists of several depths
/// are unnested.
fn lengths(batch: &RecordBatch, lists: &[List]) -> Result<Vec<usize>> {
    let depths = lists.iter().map(|list| list.depth);
    let are_simple = depths.clone().all(|depth| depth == 1);
    let mut rows = vec![0usize; batch.num_rows()];
    for list in lists {
        let mut counts = elements(batch.column(list.column), list.depth)?;
        // The elements of this list are repeated for those of the levels above it in deeper lists.
        for deeper in lists.iter().filter(|deeper| deeper.depth > list.depth) {
            let above = elements(batch.column(deeper.column), deeper.depth - list.depth)?;
            for (count, above) in counts.iter_mut().zip(above) {
                *count = count.saturating_mul(above);
            }
        }
        for (rows, count) in rows.iter_mut().zip(counts) {
            *rows = match are_simple {
                true => count.max(*rows),
                false => rows.saturating_add(count),
            };
        }
    }
    Ok(rows)
}

/// Returns the number of elements of each list. Those of lists in lists are counted, down to a depth.
fn elements(array: &ArrayRef, depth: usize) -> Result<Vec<usize>> {
    let own = cast(&length(array)?, &DataType::Int64)?;
    let own = own.as_primitive::<Int64Type>().iter();
    let own = own.map(|count| usize::try_from(count.unwrap_or(0)).unwrap_or(0));
    if depth <= 1 {
        return Ok(own.collect());
    }
    let (values, starts): (&ArrayRef, Vec<usize>) = match array.data_type() {
        DataType::List(_) => starts(array.as_list::<i32>()),
        DataType::LargeList(_) => starts(array.as_list::<i64>()),
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            let starts = (0..=array.len()).map(|row| row * size);
            (array.as_fixed_size_list().values(), starts.collect())
        }
        // Other lists have no kernels of their own in DataFusion, and are not unnested.
        _ => return Ok(own.collect()),
    };
    let inner = elements(values, depth - 1)?;
    let ranges = starts.into_iter().zip(own);
    Ok(ranges
        .map(|(start, count)| {
            let inner = inner.get(start..start + count).unwrap_or_default();
            inner
                .iter()
                .fold(0, |sum: usize, count| sum.saturating_add(*count))
        })
        .collect())
}

/// Returns the elements of all lists, and the index of the first element of each.
fn starts<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> (&ArrayRef, Vec<usize>) {
    let starts = list.value_offsets().iter().map(|offset| offset.as_usize());
    (list.values(), starts.collect())
}
