//! Join keys, evaluated on the axes of the grids of a table.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{filter, take};
use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::grid::{Cells, Selection, Window};
use crate::provider::join::lookup::build::KeyBounds;
use crate::provider::join::lookup::distinct_keys::{DistinctKeys, nulls};
use crate::provider::source::GridSelection;

/// The maximum number of combinations of indices along the axes of one [`KeyPart`].
const MAX_COMBINATIONS: u64 = 1 << 20;
/// The maximum number of key indices. The table of their rows is kept in memory.
const MAX_KEY_INDICES: u64 = 1 << 26;
/// A number of key indices that is always accepted. Otherwise, there are at most two per cell.
const MANY_KEY_INDICES: u64 = 1 << 16;
/// The key index of a row of the build side that matches no cell of the probe side.
pub(in crate::provider::join) const NO_KEY: u32 = u32::MAX;

/// The maximum number of combinations of indices that one [`KeyPart`] evaluates for all grids of a
/// table. Consecutive grids with the same coordinates are evaluated once.
const MAX_COMBINATIONS_OF_TABLE: u64 = 1 << 22;

/// The join keys of the probe side, evaluated on the axes of its grids.
#[derive(Debug)]
pub(in crate::provider) struct ProbeKeys {
    parts: Vec<KeyPart>,
    /// The number of key indices.
    pub count: usize,
}

/// Keys that share dimensions, directly or through other keys of the same part.
#[derive(Debug)]
struct KeyPart {
    /// The axes of the dimensions, ascending.
    axes: Vec<usize>,
    /// The indices of the keys in the list of all keys.
    keys: Vec<usize>,
    /// For each grid, the term of the key index, for every combination of indices along the axes in
    /// row-major order.
    terms: Vec<Arc<[u32]>>,
    /// The term of the combination of key values with the number `n` is `n * stride`.
    stride: u32,
    distinct: DistinctKeys,
    /// `true` if a key is null on a selected coordinate.
    has_nulls: bool,
    /// The values of each key, one per distinct combination, once they are needed.
    values: OnceLock<Vec<ArrayRef>>,
}

/// Terms of key indices along some axes: one for every combination of indices, in row-major order.
/// The sum of terms saturates, so that one term [`NO_KEY`] makes the key index [`NO_KEY`].
#[derive(Debug, Clone)]
pub(crate) struct KeyTerms {
    /// The axes, ascending.
    pub axes: Vec<usize>,
    /// The terms.
    pub terms: Arc<[u32]>,
}

/// The keys of a build side that is an array.
pub(in crate::provider) struct KeyedCells {
    /// The terms that add up to the key indices of its cells.
    pub terms: Vec<KeyTerms>,
    /// The values of each key, along the axes that it uses.
    pub values: Vec<ArrayRef>,
    /// `true` if no two selected cells have the same key index.
    pub is_distinct: bool,
}

impl ProbeKeys {
    /// Evaluates keys, which are expressions over the columns of a table, on the selected coordinates
    /// of its grids. Returns `None` if a key uses no column or one that is not a dimension, fails on
    /// a coordinate, or has a type without a row format, or if there are too many combinations of
    /// indices or too many key indices.
    pub fn try_new(
        keys: &[Arc<dyn PhysicalExpr>],
        grids: &[GridSelection],
    ) -> Result<Option<Self>> {
        let dimensions = grids.first().map_or(0, |part| part.grid.axes().len());
        let mut sets: Vec<(BTreeSet<usize>, Vec<usize>)> = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let columns = collect_columns(key);
            let mut axes: BTreeSet<usize> = columns.iter().map(Column::index).collect();
            if axes.is_empty() || axes.iter().any(|axis| *axis >= dimensions) {
                return Ok(None);
            }
            let mut together = vec![number];
            sets.retain(|(others, numbers)| {
                let is_apart = others.is_disjoint(&axes);
                if !is_apart {
                    axes.extend(others);
                    together.extend(numbers);
                }
                is_apart
            });
            together.sort_unstable();
            sets.push((axes, together));
        }
        // The last axis varies fastest, so its keys do, too.
        sets.sort();
        let mut parts = Vec::with_capacity(sets.len());
        let mut count = 1u64;
        for (axes, numbers) in sets.into_iter().rev() {
            let exprs: Vec<_> = numbers.iter().map(|number| &keys[*number]).collect();
            let axes = axes.into_iter().collect();
            let Some(key) = KeyPart::try_new(axes, numbers.clone(), &exprs, grids, count as u32)?
            else {
                return Ok(None);
            };
            // One more number stands for unselected indices and for null keys.
            count = match count.checked_mul(key.distinct.count() as u64 + 1) {
                Some(count) if count <= MAX_KEY_INDICES => count,
                _ => return Ok(None),
            };
            parts.push(key);
        }
        Ok(Some(Self {
            parts,
            count: count as usize,
        }))
    }

    /// Evaluates keys as [`Self::try_new`] does. Also returns `None` if there are many key indices
    /// per cell.
    pub fn of_cells(
        keys: &[Arc<dyn PhysicalExpr>],
        grids: &[GridSelection],
    ) -> Result<Option<Self>> {
        let keys = Self::try_new(keys, grids)?;
        let Some(cells) = GridSelection::cells(grids) else {
            return Ok(keys);
        };
        let most = cells.saturating_mul(2).max(MANY_KEY_INDICES);
        Ok(keys.filter(|keys| keys.count as u64 <= most))
    }

    /// Evaluates the keys of a build side that is an array on the axes of its grid. Returns the
    /// terms that add up to the key indices of its cells, the values of each key, and `true` if no
    /// two selected cells have the same key index. Returns `None` if keys of different [`KeyPart`]s share dimensions of the build side, or for the same
    /// reasons as [`Self::try_new`].
    pub fn terms_of(
        &self,
        keys: &[Arc<dyn PhysicalExpr>],
        part: &GridSelection,
    ) -> Result<Option<KeyedCells>> {
        let mut all = vec![None; keys.len()];
        let mut taken = BTreeSet::new();
        let mut terms = Vec::with_capacity(self.parts.len());
        let mut is_distinct = true;
        for own in &self.parts {
            let exprs: Vec<_> = own.keys.iter().map(|number| &keys[*number]).collect();
            let columns = exprs.iter().flat_map(|expr| collect_columns(expr));
            let axes: BTreeSet<usize> = columns.map(|column| column.index()).collect();
            let is_apart = axes.iter().all(|axis| taken.insert(*axis));
            let are_dimensions = axes.iter().all(|axis| *axis < part.grid.axes().len());
            if !is_apart || !are_dimensions || axes.is_empty() {
                return Ok(None);
            }
            let axes: Vec<usize> = axes.into_iter().collect();
            let Some(evaluated) = evaluate(&axes, &exprs, part)? else {
                return Ok(None);
            };
            let numbers = own.distinct.find(&evaluated.values)?;
            let mut seen = vec![false; own.distinct.count()];
            let mut known = numbers.iter().flatten();
            is_distinct &=
                known.all(|number| !std::mem::replace(&mut seen[*number as usize], true));
            terms.push(KeyTerms {
                terms: evaluated.terms(numbers, NO_KEY, own.stride),
                axes,
            });
            for (number, values) in own.keys.iter().zip(evaluated.values) {
                all[*number] = Some(values);
            }
        }
        // Every key belongs to a part.
        let values = all.into_iter().flatten().collect();
        let others = 0..part.grid.axes().len();
        let mut others = others.filter(|axis| !taken.contains(axis));
        is_distinct &= others.all(|axis| part.selection.axes()[axis].count() <= 1);
        Ok(Some(KeyedCells {
            terms,
            values,
            is_distinct,
        }))
    }

    /// Returns, for each grid, the terms that add up to the key index of a cell.
    pub fn terms(&self) -> Vec<Vec<KeyTerms>> {
        let grids = 0..self.parts.first().map_or(0, |part| part.terms.len());
        let of_grid = |grid: usize| {
            let terms = self.parts.iter().map(|part| KeyTerms {
                axes: part.axes.clone(),
                terms: Arc::clone(&part.terms[grid]),
            });
            terms.collect()
        };
        grids.map(of_grid).collect()
    }

    /// Returns `true` if a key is null on a selected coordinate.
    pub fn has_nulls(&self) -> bool {
        self.parts.iter().any(|part| part.has_nulls)
    }

    /// Returns the values of each key for some key indices of selected cells without null keys.
    pub fn values(&self, indices: &[u32]) -> Result<Vec<ArrayRef>> {
        let keys = self.parts.iter().map(|part| part.keys.len()).sum();
        let mut all = vec![None; keys];
        for part in &self.parts {
            let count = part.distinct.count() as u32 + 1;
            let numbers = indices.iter().map(|index| index / part.stride % count);
            let numbers = UInt32Array::from_iter_values(numbers);
            for (number, values) in part.keys.iter().zip(part.values()?) {
                all[*number] = Some(take(values, &numbers, None)?);
            }
        }
        // Every key belongs to a part.
        Ok(all.into_iter().flatten().collect())
    }

    /// Appends the key index of each row, given the values of its keys. The key index is [`NO_KEY`] if a key is null or if no
    /// cell has the keys of the row.
    pub(super) fn add_rows(
        &self,
        keys: &[ArrayRef],
        rows: usize,
        keyed: &mut KeyedRows,
    ) -> Result<()> {
        let start = keyed.indices.len();
        keyed.indices.resize(start + rows, 0);
        keyed.is_found.resize_with(self.parts.len(), Vec::new);
        for (part, is_found) in self.parts.iter().zip(&mut keyed.is_found) {
            is_found.resize(part.distinct.count(), false);
            let columns = part.keys.iter().map(|number| Arc::clone(&keys[*number]));
            let columns: Vec<_> = columns.collect();
            part.add_terms(&columns, &mut keyed.indices[start..], is_found)?;
        }
        Ok(())
    }

    /// Returns the bounds of the keys that rows have in common with cells; `None` if there are none.
    pub(super) fn bounds(&self, keyed: &KeyedRows) -> Result<Option<KeyBounds>> {
        let keys = self.parts.iter().map(|part| part.keys.len()).sum();
        let mut all = vec![None; keys];
        for (part, is_found) in self.parts.iter().zip(&keyed.is_found) {
            let has_others = is_found.contains(&false);
            let is_found = BooleanArray::from(is_found.clone());
            for (number, values) in part.keys.iter().zip(part.values()?) {
                all[*number] = Some((filter(values, &is_found)?, has_others));
            }
        }
        // Nothing was added, or every key belongs to a part.
        let all: Option<Vec<_>> = all.into_iter().collect();
        let all = all.filter(|all| all.iter().all(|(values, _)| !values.is_empty()));
        all.map(KeyBounds::new).transpose()
    }
}

/// The key indices of rows.
#[derive(Default)]
pub(in crate::provider::join::lookup) struct KeyedRows {
    /// One key index per row.
    pub indices: Vec<u32>,
    /// For each [`KeyPart`], `true` for the combinations of key values that rows have.
    is_found: Vec<Vec<bool>>,
}

/// Keys on the selected coordinates along some axes.
pub(super) struct EvaluatedKeys {
    cells: Cells,
    /// The number of combinations of indices along the axes.
    combinations: u64,
    /// The values of each key, for every selected combination.
    pub values: Vec<ArrayRef>,
}

/// Evaluates keys over the dimensions of these axes on the selected coordinates. Returns `None` if
/// a key fails on a coordinate, or if there are too many combinations.
pub(super) fn evaluate(
    axes: &[usize],
    exprs: &[&Arc<dyn PhysicalExpr>],
    part: &GridSelection,
) -> Result<Option<EvaluatedKeys>> {
    let all = part.grid.axes();
    let lengths: Vec<u64> = axes.iter().map(|axis| all[*axis].length()).collect();
    let combinations = lengths.iter().try_fold(1u64, |product, length| {
        let product = product.checked_mul(*length);
        product.filter(|product| *product <= MAX_COMBINATIONS)
    });
    let Some(combinations) = combinations else {
        return Ok(None);
    };
    let window = Window::new(lengths.iter().map(|length| 0..*length).collect());
    let selected = axes.iter().map(|axis| part.selection.axes()[*axis].clone());
    let cells = Cells::new(&window, &Selection::new(selected.collect()));
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (dimension, axis) in axes.iter().enumerate() {
        let axis = &all[*axis];
        fields.push(Field::new(axis.name(), axis.data_type(), false));
        columns.push(cells.coordinates(dimension, axis.coordinates()?, 0..cells.rows())?);
    }
    let rows = cells.rows() as usize;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
    let mut values = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let expr = reassign_expr_columns(Arc::clone(expr), batch.schema_ref())?;
        // The hash join stays. It reports the error if it evaluates the key on such a row.
        let Ok(value) = expr.evaluate(&batch) else {
            return Ok(None);
        };
        values.push(value.into_array(rows)?);
    }
    Ok(Some(EvaluatedKeys {
        cells,
        combinations,
        values,
    }))
}

/// Returns `true` if two grids have the same coordinates along some axes, and select the same indices of them.
fn have_same_axes(axes: &[usize], one: &GridSelection, other: &GridSelection) -> Result<bool> {
    for axis in axes {
        let is_same = one.selection.axes()[*axis] == other.selection.axes()[*axis]
            && one.grid.axes()[*axis].has_same_coordinates(&other.grid.axes()[*axis])?;
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

impl EvaluatedKeys {
    /// Returns the term of each combination of indices. `numbers` has the number of each selected
    /// combination. Combinations without a number get the term `none`.
    pub fn terms(&self, numbers: Vec<Option<u32>>, none: u32, stride: u32) -> Arc<[u32]> {
        let mut terms = vec![none; self.combinations as usize];
        let mut runs = Vec::new();
        self.cells.runs(0..self.cells.rows(), &mut runs);
        for (cell, number) in runs.into_iter().flatten().zip(numbers) {
            if let Some(number) = number {
                terms[cell as usize] = number * stride;
            }
        }
        terms.into()
    }
}

impl KeyPart {
    fn try_new(
        axes: Vec<usize>,
        keys: Vec<usize>,
        exprs: &[&Arc<dyn PhysicalExpr>],
        grids: &[GridSelection],
        stride: u32,
    ) -> Result<Option<Self>> {
        let mut distinct = None;
        let mut has_nulls = false;
        let mut combinations = 0;
        // For each grid, the evaluated keys and their numbers; `None` if they are those of the grid
        // before.
        let mut numbered: Vec<Option<(EvaluatedKeys, Vec<Option<u32>>)>> = Vec::new();
        for (number, part) in grids.iter().enumerate() {
            if number > 0 && have_same_axes(&axes, &grids[number - 1], part)? {
                numbered.push(None);
                continue;
            }
            let Some(evaluated) = evaluate(&axes, exprs, part)? else {
                return Ok(None);
            };
            combinations += evaluated.combinations;
            if combinations > MAX_COMBINATIONS_OF_TABLE {
                return Ok(None);
            }
            if distinct.is_none() {
                let types = evaluated.values.iter();
                let types = types.map(|values| values.data_type().clone());
                distinct = DistinctKeys::try_new(types)?;
            }
            let Some(distinct) = &mut distinct else {
                return Ok(None);
            };
            let numbers = distinct.insert(&evaluated.values)?;
            has_nulls |= nulls(&evaluated.values).is_some_and(|nulls| nulls.null_count() > 0);
            numbered.push(Some((evaluated, numbers)));
        }
        let Some(distinct) = distinct else {
            return Ok(None);
        };
        let none = distinct.count() as u32;
        if u64::from(none) * u64::from(stride) > MAX_KEY_INDICES {
            return Ok(None);
        }
        let mut terms: Vec<Arc<[u32]>> = Vec::with_capacity(grids.len());
        for of_grid in numbered {
            let of_grid = match (of_grid, terms.last()) {
                (Some((evaluated, numbers)), _) => evaluated.terms(numbers, none * stride, stride),
                (None, Some(before)) => Arc::clone(before),
                (None, None) => return Ok(None),
            };
            terms.push(of_grid);
        }
        Ok(Some(Self {
            axes,
            keys,
            terms,
            stride,
            distinct,
            has_nulls,
            values: OnceLock::new(),
        }))
    }

    /// Returns the values of each key, one per distinct combination.
    fn values(&self) -> Result<&Vec<ArrayRef>> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let values = self.distinct.values()?;
        Ok(self.values.get_or_init(|| values))
    }

    /// Adds the terms of rows to their key indices, and sets `is_found` for their combinations.
    fn add_terms(
        &self,
        keys: &[ArrayRef],
        indices: &mut [u32],
        is_found: &mut [bool],
    ) -> Result<()> {
        self.distinct.find_each(keys, |row, number| {
            let index = &mut indices[row];
            *index = match number {
                Some(number) if *index != NO_KEY => {
                    is_found[number as usize] = true;
                    *index + number * self.stride
                }
                _ => NO_KEY,
            };
        })
    }
}
