//! Bounded batches of `unnest`.
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

use std::fmt::{self, Formatter};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, Int64Array, OffsetSizeTrait, RecordBatch,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use futures::{StreamExt, TryStreamExt};
#[cfg(feature = "proto")]
use {
    datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

#[cfg(feature = "proto")]
use crate::provider::codec::Operator;
use crate::provider::rules::operators::ReplaceOperators;

/// The bytes of repeated columns in a batch of unnested rows. A single row may have more.
const BATCH_BYTES: usize = 16 << 20;

/// Puts a [`ListSlicesExec`] below each `unnest`.
pub(crate) const SLICE_LISTS: ReplaceOperators = ReplaceOperators {
    name: "SliceLists",
    replacement: with_slices,
};

fn with_slices(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(unnest) = plan.downcast_ref::<UnnestExec>() else {
        return Ok(None);
    };
    let input = unnest.input();
    let schema = input.schema();
    let lists = unnest.list_column_indices();
    // A slice of nested lists may still be long, and lists of a fixed size cannot be split.
    let can_split = lists.iter().all(|list| {
        let data_type = schema.field(list.index_in_input_schema).data_type();
        list.depth == 1 && matches!(data_type, DataType::List(_) | DataType::LargeList(_))
    });
    if lists.is_empty() || !can_split || input.is::<ListSlicesExec>() {
        return Ok(None);
    }
    let lists = lists.iter().map(|list| list.index_in_input_schema);
    let sliced = list_slices(Arc::clone(input), lists.collect());
    replace_children_if_necessary(Arc::clone(plan), vec![sliced]).map(Some)
}

/// Returns a [`ListSlicesExec`] over rows whose lists are the columns with these indices.
pub(crate) fn list_slices(
    input: Arc<dyn ExecutionPlan>,
    lists: Vec<usize>,
) -> Arc<dyn ExecutionPlan> {
    Arc::new(ListSlicesExec { input, lists })
}

/// Splits rows with long lists into several rows with shorter lists.
#[derive(Debug)]
struct ListSlicesExec {
    input: Arc<dyn ExecutionPlan>,
    /// The indices of the columns that will be unnested.
    lists: Vec<usize>,
}

impl DisplayAs for ListSlicesExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("ListSlicesExec")
    }
}

impl ExecutionPlan for ListSlicesExec {
    fn name(&self) -> &'static str {
        "ListSlicesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(list_slices(input, self.lists.clone())),
            _ => internal_err!("ListSlicesExec has one child"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = context.session_config().batch_size().max(1);
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let lists = self.lists.clone();
        let slices = input.map(move |batch| -> Result<_> {
            let slices = Slices::of(batch?, &lists, rows)?;
            Ok(futures::stream::iter(slices))
        });
        let slices = slices.try_flatten();
        // Many slices follow without waiting for the input.
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
            schema, slices,
        ))))
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        let lists = self.lists.clone();
        let input = context.encode_child(&self.input)?;
        Operator::ListSlices { lists }.encode(vec![input]).map(Some)
    }
}

/// The slices of a batch, each of which is unnested at once.
struct Slices {
    batch: RecordBatch,
    lists: Vec<usize>,
    /// The number of elements of the longest list in each row.
    lengths: Vec<usize>,
    /// The bytes of each row that are repeated for each element; `None` if they are few.
    repeated: Option<Vec<usize>>,
    /// The maximum number of elements of a list in a slice.
    rows: usize,
    /// The next row, and the number of its elements that earlier slices have.
    next: (usize, usize),
}

impl Slices {
    fn of(batch: RecordBatch, lists: &[usize], rows: usize) -> Result<Self> {
        let mut lengths = vec![0; batch.num_rows()];
        for list in lists {
            let of_list = cast(&length(batch.column(*list))?, &DataType::Int64)?;
            for (longest, length) in lengths.iter_mut().zip(integers(&of_list)) {
                *longest = length.max(*longest);
            }
        }
        let repeated = (0..batch.num_columns()).filter(|column| !lists.contains(column));
        let repeated: Vec<_> = repeated.map(|column| batch.column(column)).collect();
        let sizes = |rows: Range<usize>| {
            let slices = repeated
                .iter()
                .map(|column| bytes(&column.slice(rows.start, rows.len())));
            slices.sum::<Result<usize>>()
        };
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let is_large = sizes(0..batch.num_rows())?.saturating_mul(longest) > BATCH_BYTES;
        let repeated = is_large.then(|| (0..batch.num_rows()).map(|row| sizes(row..row + 1)));
        Ok(Self {
            repeated: repeated
                .map(Iterator::collect::<Result<_, _>>)
                .transpose()?,
            lists: lists.to_vec(),
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

/// Returns integers that are not negative, with 0 for null.
fn integers(array: &ArrayRef) -> impl Iterator<Item = usize> + '_ {
    let integers: &Int64Array = array.as_primitive::<Int64Type>();
    let integers = integers.iter().map(Option::unwrap_or_default);
    integers.map(|integer| usize::try_from(integer).unwrap_or(0))
}
