//! The collected build side of a lookup join.

mod dense;
pub(in crate::provider::join) mod key_bounds;
pub(super) mod matches;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64, AtomicUsize};

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, NullArray, RecordBatch, RecordBatchOptions,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::{Result, internal_err, resources_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;
use futures::TryStreamExt;

use crate::provider::join::lookup::build::dense::DenseRows;
pub(in crate::provider::join::lookup) use crate::provider::join::lookup::build::key_bounds::{
    KeyBounds, is_ordered, with_zeros,
};
use crate::provider::join::lookup::build::matches::{Matches, NO_ROW};
use crate::provider::join::lookup::conditions::Conditions;
use crate::provider::join::lookup::conditions::boxes::Boxes;
use crate::provider::join::lookup::conditions::run_matches::RunMatches;
use crate::provider::join::lookup::grouped::BuildGroups;
use crate::provider::join::lookup::keys::{KeyedRows, ProbeKeys};

/// The rows of the build side, with the row numbers of each key index.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct BuildSide {
    /// The rows.
    pub rows: RecordBatch,
    /// The number of rows of the input.
    pub collected: usize,
    pub matches: Matches,
    /// One bit per row, set once a row of the probe side matches; empty if the join does not track
    /// matches.
    matched: Vec<AtomicU64>,
    /// The number of partitions of the probe side that are not finished.
    unfinished: AtomicUsize,
    /// The bounds of the keys that rows have in common with cells; `None` if there are none, or if the
    /// input has key indices instead of keys.
    pub bounds: Option<KeyBounds>,
    /// Boxes that cover the matches of conditions.
    boxes: Option<Boxes>,
    /// The groups of the rows, if they were numbered.
    pub groups: Option<Arc<BuildGroups>>,
    /// Accounts for the memory of the rows, their numbers and their groups.
    memory: MemoryReservation,
}

/// The way in which key indices are matched with rows of the build side.
#[derive(Debug)]
pub(in crate::provider::join::lookup) enum Matching {
    /// By join keys of both sides.
    Keys(ProbeKeys, BuildKeys),
    /// By conditions over the dimensions of the probe side and the columns of the build side.
    Conditions(Arc<Conditions>),
}

impl Matching {
    /// Returns the number of key indices.
    pub fn key_indices(&self) -> usize {
        match self {
            Self::Keys(keys, _) => keys.count,
            Self::Conditions(conditions) => conditions.count as usize,
        }
    }
}

/// The source of the build side's keys.
#[derive(Debug, Clone)]
pub(in crate::provider::join::lookup) enum BuildKeys {
    /// Expressions over the columns of the build side.
    Expressions(Vec<Arc<dyn PhysicalExpr>>),
    /// The column with the key indices, if the build side is an array whose scan computes them.
    KeyIndex(usize),
    /// Like [`Self::KeyIndex`], but no two cells have the same key index, and few key indices have no cell. The
    /// column is the last one.
    DistinctKeyIndex(usize),
}

/// The parts of its build side that a join reads.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct BuildNeeds {
    /// For each column, `true` if it is needed for more than the keys. The others become null.
    pub columns: Vec<bool>,
    /// `true` if rows are marked that have a match.
    pub tracks_matches: bool,
    /// If `false`, [`BuildSide::rows`] may contain rows that no key index matches.
    pub exact_rows: bool,
    /// `true` if the matches of conditions are runs.
    pub keeps_runs: bool,
}

impl BuildNeeds {
    /// Returns the schema of the needed columns.
    fn schema(&self, input: &Schema) -> SchemaRef {
        let fields = input.fields().iter().zip(&self.columns);
        let fields = fields.map(|(field, is_needed)| match is_needed {
            true => Arc::clone(field),
            false => Arc::new(Field::new(field.name(), DataType::Null, true)),
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Returns a batch with the needed columns. `schema` is that of [`Self::schema`].
    fn of(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = batch.columns().iter().zip(&self.columns);
        let columns = columns.map(|(column, is_needed)| match is_needed {
            true => Arc::clone(column),
            false => Arc::new(NullArray::new(rows)),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(schema);
        Ok(RecordBatch::try_new_with_options(
            schema,
            columns.collect(),
            &options,
        )?)
    }
}

impl BuildSide {
    /// Collects the rows of a stream, and finds the key indices that match each row.
    ///
    /// # Errors
    /// Returns an error if the stream, a key or a condition fails, if the memory pool has no space,
    /// or if there are 2^32 - 1 or more rows.
    pub async fn collect(
        mut input: SendableRecordBatchStream,
        matching: &Matching,
        needs: &BuildNeeds,
        partitions: usize,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let schema = input.schema();
        if let Matching::Keys(probe, BuildKeys::DistinctKeyIndex(column)) = matching
            && !needs.exact_rows
        {
            let columns: Vec<usize> = (0..*column).collect();
            let columns = schema.project(&columns)?;
            if let Some(mut dense) = DenseRows::try_new(&columns, probe.count, &memory)? {
                let mut collected = 0;
                while let Some(batch) = input.try_next().await? {
                    dense.add(&batch);
                    collected += batch.num_rows();
                }
                let (rows, present) = dense.finish()?;
                return Ok(Self {
                    rows,
                    collected,
                    matches: Matches::Cells(present),
                    matched: Vec::new(),
                    unfinished: AtomicUsize::new(partitions),
                    bounds: None,
                    boxes: None,
                    groups: None,
                    memory,
                });
            }
        }
        let (mut batches, mut bytes, mut seen) = (Vec::new(), 0, HashSet::new());
        let mut keyed = KeyedRows::default();
        let schema = needs.schema(&schema);
        while let Some(batch) = input.try_next().await? {
            if let Matching::Keys(probe, keys) = matching {
                let before = keyed.indices.capacity();
                keyed.indices.reserve(batch.num_rows());
                memory.try_grow((keyed.indices.capacity() - before) * size_of::<u32>())?;
                add_keys(&mut keyed, &batch, probe, keys)?;
                tokio::task::yield_now().await;
            }
            let batch = needs.of(&batch, &schema)?;
            let columns = batch.columns().iter();
            let new = columns.map(|column| new_bytes(&column.to_data(), &mut seen));
            let new = new.sum();
            memory.try_grow(new)?;
            bytes += new;
            batches.push(batch);
        }
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows >= NO_ROW as usize {
            return Err(resources_datafusion_err!(
                "the build side of a join has {rows} rows; at most {} are possible",
                NO_ROW - 1
            ));
        }
        let (mut known, mut bounds, mut boxes) = (None, None, None);
        if let Matching::Keys(probe, _) = matching {
            // Beside the key index, a row number per row, and up to two tables over all key indices.
            let most = size_of::<u32>() * (rows + 2 * probe.count + 2);
            memory.try_grow(most)?;
            let of_indices = keyed.indices.capacity() * size_of::<u32>();
            bounds = probe.bounds(&keyed)?;
            let matches = Matches::new(&std::mem::take(&mut keyed.indices), probe.count);
            memory.shrink((most + of_indices).saturating_sub(matches.bytes()));
            known = Some(matches);
        }
        // The batches and their concatenation exist at the same time.
        memory.try_grow(bytes)?;
        let all = concat_batches(&schema, &batches)?;
        drop(batches);
        memory.shrink(bytes);
        if let Matching::Conditions(conditions) = matching {
            let solved = conditions.solve_all(&all, partitions, &memory).await?;
            boxes = Some(Boxes::new(conditions, &solved));
            let runs = RunMatches::try_new(conditions, solved, rows, partitions, &memory)?;
            known = Some(match needs.keeps_runs {
                true => Matches::Runs(runs.with_index()),
                false => Matches::of_runs(runs, conditions.count, &memory),
            });
        }
        let Some(matches) = known else {
            return internal_err!("a lookup join has neither keys nor conditions");
        };
        let words = if needs.tracks_matches {
            rows.div_ceil(64)
        } else {
            0
        };
        memory.try_grow(words * size_of::<u64>())?;
        Ok(Self {
            matches,
            collected: rows,
            rows: all,
            matched: (0..words).map(|_| AtomicU64::new(0)).collect(),
            unfinished: AtomicUsize::new(partitions),
            bounds,
            boxes,
            groups: None,
            memory,
        })
    }

    /// Numbers the groups of the rows, and adds the group number of each row as one more column.
    ///
    /// # Errors
    /// Returns an error if an expression fails, or if the memory pool has no space.
    pub fn number_groups(&mut self, expressions: &[Arc<dyn PhysicalExpr>]) -> Result<()> {
        let (groups, numbers) = BuildGroups::of(expressions, &self.rows)?;
        let values = groups.values.iter();
        let bytes: usize = values.map(|values| values.get_array_memory_size()).sum();
        let numbers: ArrayRef = Arc::new(numbers);
        self.memory
            .try_grow(bytes + numbers.get_array_memory_size())?;
        let mut fields = self.rows.schema().fields().to_vec();
        fields.push(Arc::new(Field::new("", DataType::UInt32, false)));
        let mut columns = self.rows.columns().to_vec();
        columns.push(numbers);
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.num_rows()));
        let schema = Arc::new(Schema::new(fields));
        self.rows = RecordBatch::try_new_with_options(schema, columns, &options)?;
        self.groups = Some(Arc::new(groups));
        Ok(())
    }

    /// Returns a predicate that holds for the cells of the probe side that may have a match.
    /// `columns` are the keys or, for conditions, the coordinates of their axes, over `schema`.
    pub fn predicate(
        &self,
        matching: &Matching,
        columns: &[Arc<dyn PhysicalExpr>],
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match (matching, &self.boxes, &self.bounds) {
            (Matching::Conditions(conditions), Some(boxes), _) => {
                boxes.predicate(conditions, columns, schema)
            }
            (_, _, Some(bounds)) => bounds.predicate(columns, schema),
            _ => Ok(lit(false)),
        }
    }

    /// Records that a row has a match.
    pub fn set_matched(&self, row: u32) {
        let (word, bit) = (&self.matched[row as usize / 64], 1 << (row % 64));
        // Most rows match many cells, and a load is cheaper than a write that other threads see.
        if word.load(atomic::Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, atomic::Ordering::Relaxed);
        }
    }

    /// Records that a partition of the probe side is finished. Returns `true` for the last one,
    /// after which [`Self::matched`] is complete.
    pub fn finish_partition(&self) -> bool {
        self.unfinished.fetch_sub(1, atomic::Ordering::AcqRel) == 1
    }

    /// Returns a mask of the rows with a match. The mask is complete once all partitions of the
    /// probe side are finished.
    pub fn matched(&self) -> BooleanArray {
        let is_set = |row: usize| {
            let word = self.matched.get(row / 64);
            word.is_some_and(|word| word.load(atomic::Ordering::Relaxed) >> (row % 64) & 1 == 1)
        };
        BooleanArray::new(
            BooleanBuffer::collect_bool(self.rows.num_rows(), is_set),
            None,
        )
    }
}

/// Returns the size of the buffers of an array that are not in `seen` yet. Batches are often slices of
/// the same buffers.
fn new_bytes(array: &ArrayData, seen: &mut HashSet<usize>) -> usize {
    let nulls = array.nulls().map(NullBuffer::buffer);
    let buffers = array.buffers().iter().chain(nulls);
    let buffers = buffers.filter(|buffer| seen.insert(buffer.data_ptr().as_ptr() as usize));
    let mut bytes: usize = buffers.map(Buffer::capacity).sum();
    for child in array.child_data() {
        bytes += new_bytes(child, seen);
    }
    bytes
}

/// Adds the key index of each row of a batch.
fn add_keys(
    keyed: &mut KeyedRows,
    batch: &RecordBatch,
    probe: &ProbeKeys,
    keys: &BuildKeys,
) -> Result<()> {
    match keys {
        BuildKeys::KeyIndex(column) | BuildKeys::DistinctKeyIndex(column) => {
            let column = batch.column(*column).as_primitive::<UInt32Type>();
            keyed.indices.extend_from_slice(column.values());
            Ok(())
        }
        BuildKeys::Expressions(keys) => {
            let values = keys.iter();
            let values = values.map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
            let values = values.collect::<Result<Vec<ArrayRef>>>()?;
            probe.add_rows(&values, batch.num_rows(), keyed)
        }
    }
}
