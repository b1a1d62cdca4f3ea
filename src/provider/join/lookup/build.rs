//! The collected build side of a lookup join.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64, AtomicUsize};

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::{concat, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use datafusion::common::{Result, ScalarValue, internal_err, resources_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, in_list, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use futures::TryStreamExt;

use crate::provider::join::lookup::boxes::Boxes;
use crate::provider::join::lookup::conditions::Conditions;
use crate::provider::join::lookup::dense::DenseRows;
use crate::provider::join::lookup::grouped::BuildGroups;
use crate::provider::join::lookup::keys::{NO_KEY, ProbeKeys};
use crate::provider::join::lookup::run_matches::{Line, RunMatches};
use crate::provider::join::lookup::runs::Runs;
use crate::provider::planning::axis_bounds::fold;
use crate::provider::planning::value_set::is_float_zero;

/// The number of key indices up to which the rows are always in a table over all key indices.
const DENSE: usize = 1 << 20;
/// Above [`DENSE`], the maximum number of key indices per row for such a table. For more, rows are
/// found by binary search.
const SPARSE: usize = 16;
/// The maximum number of values of a key that a predicate lists.
const MAX_LISTED: usize = 1000;
/// The maximum number of pairs of key indices and rows in a table made of runs.
const MAX_LISTED_PAIRS: u64 = 1 << 24;
/// The row number of a key index without a row.
const NO_ROW: u32 = u32::MAX;

/// The rows of the build side, with the row numbers of each key index.
#[derive(Debug)]
pub(super) struct BuildSide {
    /// The rows.
    pub rows: RecordBatch,
    /// The number of rows of the input.
    pub collected: usize,
    matches: Matches,
    /// One bit per row, set once a row of the probe side matches; empty if the join does not track
    /// matches.
    matched: Vec<AtomicU64>,
    /// The number of partitions of the probe side that are not finished.
    unfinished: AtomicUsize,
    /// The bounds of the keys of all rows; `None` if there are no rows, or if the input has key
    /// indices instead of keys.
    pub bounds: Option<KeyBounds>,
    /// Boxes that cover the matches of conditions.
    boxes: Option<Boxes>,
    /// The groups of the rows, if they were numbered.
    pub groups: Option<Arc<BuildGroups>>,
    /// Accounts for the memory of the rows, their numbers and their groups.
    memory: MemoryReservation,
}

/// Finds the matches of the build side's rows.
#[derive(Debug)]
pub(super) enum Matching {
    /// By join keys of both sides.
    Keys(ProbeKeys, BuildKeys),
    /// By conditions over the dimensions of the probe side and the columns of the build side.
    Conditions(Conditions),
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
pub(super) enum BuildKeys {
    /// Expressions over the columns of the build side.
    Expressions(Vec<Arc<dyn PhysicalExpr>>),
    /// The column with the key indices, if the build side is an array whose scan computes them.
    KeyIndex(usize),
    /// As before, but no two cells have the same key index, and few key indices have no cell. The
    /// column is the last one.
    DistinctKeyIndex(usize),
}

/// The row numbers of each key index.
#[derive(Debug)]
enum Matches {
    /// At most one row per key index. Key indices without a row have [`NO_ROW`].
    One(Vec<u32>),
    /// The rows of key index `k` are `rows[offsets[k]..offsets[k + 1]]`.
    Many { offsets: Vec<u32>, rows: Vec<u32> },
    /// Few rows for many key indices: the key indices of the rows, ascending, and the row numbers
    /// in the same order.
    Sparse { keys: Vec<u32>, rows: Vec<u32> },
    /// Runs of key indices for each row.
    Runs(RunMatches),
    /// The row number of a key index is the key index itself, if its bit is set.
    Cells(BooleanBuffer),
}

impl BuildSide {
    /// Collects the rows of a stream, and finds the key indices that match each row. If `needs_rows`
    /// is `true`, [`Self::rows`] are only rows of the stream.
    ///
    /// # Errors
    /// Returns an error if the stream, a key or a condition fails, if the memory pool has no space,
    /// or if there are 2^32 - 1 or more rows.
    pub async fn collect(
        mut input: SendableRecordBatchStream,
        matching: &Matching,
        tracks_matches: bool,
        needs_rows: bool,
        partitions: usize,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let schema = input.schema();
        if let Matching::Keys(probe, BuildKeys::DistinctKeyIndex(column)) = matching
            && !needs_rows
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
        while let Some(batch) = input.try_next().await? {
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
        if let Matching::Keys(probe, keys) = matching {
            // A key index and a row number per row, and up to two tables over all key indices.
            let most = size_of::<u32>() * (2 * rows + 2 * probe.count + 2);
            memory.try_grow(most)?;
            let mut keyed = KeyedRows::default();
            keyed.indices.reserve_exact(rows);
            for batch in &batches {
                keyed.add(batch, probe, keys)?;
                tokio::task::yield_now().await;
            }
            let matches = Matches::new(&keyed.indices, probe.count);
            memory.shrink(most.saturating_sub(matches.bytes()));
            (known, bounds) = (Some(matches), keyed.bounds);
        }
        // The batches and their concatenation exist at the same time.
        memory.try_grow(bytes)?;
        let all = concat_batches(&schema, &batches)?;
        drop(batches);
        memory.shrink(bytes);
        if let Matching::Conditions(conditions) = matching {
            let sets = conditions.sets.iter();
            let solved = sets.map(|_| Runs::new(rows, &memory));
            let mut solved = solved.collect::<Result<Vec<_>>>()?;
            let step = conditions.rows_at_a_time();
            for start in (0..rows).step_by(step) {
                conditions.solve(&all.slice(start, step.min(rows - start)), &mut solved)?;
                tokio::task::yield_now().await;
            }
            boxes = Some(Boxes::new(conditions, &solved));
            let runs = RunMatches::try_new(conditions, solved, rows, partitions, &memory)?;
            known = Some(Matches::of_runs(runs, conditions.count, &memory));
        }
        let Some(matches) = known else {
            return internal_err!("a lookup join has neither keys nor conditions");
        };
        let words = if tracks_matches { rows.div_ceil(64) } else { 0 };
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

    /// Returns the row number of each of `keys`, which are key indices, and `true` if all of them
    /// have a row. Key indices without a row have [`NO_ROW`]. Returns `None` if [`Self::rows_of`]
    /// has to be used instead: key indices may have several rows, or there is no table.
    pub fn only_rows(&self, keys: &UInt32Array) -> Option<(Vec<u32>, bool)> {
        let rows = match &self.matches {
            Matches::One(rows) => rows,
            Matches::Cells(present) => {
                let mut have_all = true;
                let keys = keys.values().iter();
                let rows = keys.map(|key| match present.value(*key as usize) {
                    true => *key,
                    false => {
                        have_all = false;
                        NO_ROW
                    }
                });
                return Some((rows.collect(), have_all));
            }
            _ => return None,
        };
        let found: Vec<u32> = keys
            .values()
            .iter()
            .map(|key| rows[*key as usize])
            .collect();
        let have_all = !found.contains(&NO_ROW);
        Some((found, have_all))
    }

    /// Returns the row numbers of a key index. `line` holds what is known from previous calls by the
    /// same reader.
    pub fn rows_of<'a>(&'a self, key: u32, line: &'a mut Line) -> &'a [u32] {
        match &self.matches {
            Matches::Runs(runs) => runs.rows_of(key, line),
            Matches::Cells(present) => {
                line.cell = key;
                let row = std::slice::from_ref(&line.cell);
                if present.value(key as usize) {
                    row
                } else {
                    &[]
                }
            }
            Matches::One(rows) => {
                let row = &rows[key as usize..=key as usize];
                if row[0] == NO_ROW { &[] } else { row }
            }
            Matches::Many { offsets, rows } => {
                &rows[offsets[key as usize] as usize..offsets[key as usize + 1] as usize]
            }
            Matches::Sparse { keys, rows } => {
                let start = keys.partition_point(|other| *other < key);
                let count = keys[start..].partition_point(|other| *other == key);
                &rows[start..start + count]
            }
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

/// Returns one bit per row number, which is set unless the row number is [`NO_ROW`].
pub(super) fn is_row(rows: &[u32]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(rows.len(), |row| rows[row] != NO_ROW)
}

impl Matches {
    fn bytes(&self) -> usize {
        let (some, others) = match self {
            Self::One(rows) => (rows.len(), 0),
            Self::Many { offsets, rows } => (offsets.len(), rows.len()),
            Self::Sparse { keys, rows } => (keys.len(), rows.len()),
            // Runs account for their memory themselves.
            Self::Runs(_) | Self::Cells(_) => (0, 0),
        };
        (some + others) * size_of::<u32>()
    }

    /// Returns the matches in a table over all key indices if there are few, else the runs.
    fn of_runs(runs: RunMatches, count: u32, memory: &MemoryReservation) -> Self {
        let pairs = runs.pairs();
        let bytes = (u64::from(count) + 1 + pairs) as usize * size_of::<u32>();
        if count as usize > DENSE || pairs > MAX_LISTED_PAIRS || memory.try_grow(bytes).is_err() {
            return Self::Runs(runs);
        }
        let mut offsets = Vec::with_capacity(count as usize + 1);
        offsets.push(0);
        let mut rows = Vec::with_capacity(pairs as usize);
        let mut line = Line::default();
        for key in 0..count {
            rows.extend_from_slice(runs.rows_of(key, &mut line));
            offsets.push(rows.len() as u32);
        }
        if offsets.windows(2).any(|ends| ends[1] - ends[0] > 1) {
            return Self::Many { offsets, rows };
        }
        let one = offsets.windows(2);
        let one = one.map(|ends| rows[ends[0] as usize..ends[1] as usize].first());
        Self::One(one.map(|row| row.copied().unwrap_or(NO_ROW)).collect())
    }

    /// Groups row numbers by key index. `indices` has the key index of each row, and `count` is the
    /// number of key indices.
    fn new(indices: &[u32], count: usize) -> Self {
        if count > DENSE && count / SPARSE > indices.len() {
            let rows = 0..indices.len() as u32;
            let mut rows: Vec<u32> = rows
                .filter(|row| indices[*row as usize] != NO_KEY)
                .collect();
            rows.sort_by_key(|row| indices[*row as usize]);
            let keys = rows.iter().map(|row| indices[*row as usize]).collect();
            return Self::Sparse { keys, rows };
        }
        let mut rows = vec![NO_ROW; count];
        let mut is_unique = true;
        for (row, index) in indices.iter().enumerate() {
            if *index == NO_KEY {
                continue;
            }
            let known = &mut rows[*index as usize];
            if *known != NO_ROW {
                is_unique = false;
                break;
            }
            *known = row as u32;
        }
        if is_unique {
            return Self::One(rows);
        }
        drop(rows);
        let mut offsets = vec![0; count + 1];
        for index in indices.iter().filter(|index| **index != NO_KEY) {
            offsets[*index as usize + 1] += 1;
        }
        for key in 0..count {
            offsets[key + 1] += offsets[key];
        }
        let mut next = offsets.clone();
        let mut rows = vec![0; offsets[count] as usize];
        for (row, index) in indices.iter().enumerate() {
            if *index != NO_KEY {
                let place = &mut next[*index as usize];
                rows[*place as usize] = row as u32;
                *place += 1;
            }
        }
        Self::Many { offsets, rows }
    }
}

/// The key indices of rows.
#[derive(Default)]
struct KeyedRows {
    indices: Vec<u32>,
    bounds: Option<KeyBounds>,
}

impl KeyedRows {
    /// Finds the key index of each row of a batch.
    fn add(&mut self, batch: &RecordBatch, probe: &ProbeKeys, keys: &BuildKeys) -> Result<()> {
        match keys {
            BuildKeys::KeyIndex(column) | BuildKeys::DistinctKeyIndex(column) => {
                let column = batch.column(*column).as_primitive::<UInt32Type>();
                self.indices.extend_from_slice(column.values());
            }
            BuildKeys::Expressions(keys) => {
                let values = keys.iter();
                let values = values.map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
                let values = values.collect::<Result<Vec<ArrayRef>>>()?;
                self.indices
                    .extend(probe.indices(&values, batch.num_rows())?);
                let bounds = &mut self.bounds;
                let bounds = bounds.get_or_insert_with(|| KeyBounds::new(&values));
                bounds.update(&values)?;
            }
        }
        Ok(())
    }
}

/// Bounds of the join keys: the min and max of each key, and its values if there are few.
#[derive(Debug)]
pub(super) struct KeyBounds {
    /// For each key, its min and max; `None` if its type has no order.
    extremes: Vec<Option<(ScalarValue, ScalarValue)>>,
    /// For each key, its values; `None` once there are too many.
    values: Option<Vec<HashSet<ScalarValue>>>,
}

impl KeyBounds {
    /// Creates the bounds of zero rows. `keys` only give the types of the keys.
    pub fn new(keys: &[ArrayRef]) -> Self {
        let extremes = keys.iter().map(|key| {
            let data_type = key.data_type();
            let null = ScalarValue::try_from(data_type)
                .ok()
                .filter(|_| is_ordered(data_type))?;
            Some((null.clone(), null))
        });
        Self {
            extremes: extremes.collect(),
            values: Some(vec![HashSet::new(); keys.len()]),
        }
    }

    /// Adds values of the keys: one array per key, which may be of different lengths.
    pub fn update(&mut self, keys: &[ArrayRef]) -> Result<()> {
        for (extremes, values) in self.extremes.iter_mut().zip(keys) {
            if let Some((min, max)) = extremes {
                *min = extreme(min, values, false)?;
                *max = extreme(max, values, true)?;
            }
        }
        if keys.iter().any(|values| values.len() > MAX_LISTED) {
            self.values = None;
        }
        let Some(known) = &mut self.values else {
            return Ok(());
        };
        for (known, values) in known.iter_mut().zip(keys) {
            for row in 0..values.len() {
                known.insert(ScalarValue::try_from_array(values, row)?);
            }
        }
        if known.iter().any(|values| values.len() > MAX_LISTED) {
            self.values = None;
        }
        Ok(())
    }

    /// Returns a predicate that holds for all keys that are not null. `columns` are the expressions
    /// that it compares with the bounds, one per key, over the columns of `schema`.
    pub fn predicate(
        &self,
        columns: &[Arc<dyn PhysicalExpr>],
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let mut all: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for (key, column) in columns.iter().enumerate() {
            let values = self.values.as_ref().map(|values| &values[key]);
            // `IN` distinguishes -0.0 from 0.0, which are equal as join keys.
            if let Some(values) = values.filter(|values| !values.iter().any(is_float_zero)) {
                let values = values.iter().filter(|value| !value.is_null());
                let mut values: Vec<_> = values.cloned().collect();
                values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
                let values = values.into_iter().map(lit).collect();
                all.push(in_list(Arc::clone(column), values, &false, schema)?);
            } else if let Some((min, max)) = &self.extremes[key] {
                let (min, max) = (lit(with_zeros(min, -0.0)), lit(with_zeros(max, 0.0)));
                all.push(binary(Arc::clone(column), Operator::GtEq, min, schema)?);
                all.push(binary(Arc::clone(column), Operator::LtEq, max, schema)?);
            }
        }
        Ok(conjunction(all))
    }
}

/// Returns `true` if predicates can compare values of a type with its min and max.
pub(super) fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal() || data_type.is_string()
}

/// Returns `bound`, or `zero` if the bound is a floating-point zero of either sign.
pub(super) fn with_zeros(bound: &ScalarValue, zero: f32) -> ScalarValue {
    match bound {
        ScalarValue::Float32(Some(0.0)) => ScalarValue::Float32(Some(zero)),
        ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(zero.into())),
        bound => bound.clone(),
    }
}

/// Returns the min or max of a value and an array. Nulls are ignored.
fn extreme(known: &ScalarValue, values: &ArrayRef, is_max: bool) -> Result<ScalarValue> {
    let known = known.to_array()?;
    fold(
        &concat(&[known.as_ref(), fold(values, is_max)?.to_array()?.as_ref()])?,
        is_max,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_key_index() {
        let one = Matches::new(&[2, NO_KEY, 0], 4);
        assert!(matches!(&one, Matches::One(rows) if rows == &[2, NO_ROW, 0, NO_ROW]));
        let many = Matches::new(&[2, 0, NO_KEY, 2], 4);
        assert!(
            matches!(&many, Matches::Many { offsets, rows } if offsets == &[0, 1, 1, 3, 3] && rows == &[1, 0, 3])
        );
    }
}
