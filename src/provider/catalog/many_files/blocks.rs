//! The blocks of many files, one file after another.

use std::collections::HashSet;
use std::ops::Add;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, internal_err};

use crate::grid::{Axis, IndexSet, IndexSetBuilder};
use crate::provider::catalog::many_files::reader::FileReader;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{
    Availability, BlockGroups, BlockList, BlockReader, BlockStatistics, ColumnBounds, Fetch,
    GridSelection, PruningLabels, RowCount,
};

/// The maximum number of files whose zone maps are merged into statistics of the whole table.
const MAX_FOLDED: usize = 256;

/// The selected blocks of one file.
#[derive(Debug, Clone)]
pub(crate) struct SingleFileBlocks {
    /// The ordinal of the file.
    pub number: usize,
    pub blocks: Arc<dyn BlockList>,
}

/// The selected blocks of many files.
#[derive(Debug, Clone)]
pub(crate) struct ManyFileBlocks {
    pub(super) parts: Arc<[SingleFileBlocks]>,
    /// The ordinal after the last block of each file in `parts`.
    ends: Arc<[u64]>,
    total: Option<u64>,
    files: Axis,
    /// For each column, `true` if its values are known without reading.
    known: Arc<[bool]>,
    /// The index of the column with each row's file.
    file_column: Option<usize>,
}

impl ManyFileBlocks {
    /// Concatenates the blocks of these files; `None` if there are 2^64 or more.
    pub fn new(
        parts: Vec<SingleFileBlocks>,
        total: Option<u64>,
        files: &Axis,
        known: Vec<bool>,
        file_column: Option<usize>,
    ) -> Option<Self> {
        let mut end = 0u64;
        let mut ends = Vec::with_capacity(parts.len());
        for part in &parts {
            end = end.checked_add(part.blocks.count()?)?;
            ends.push(end);
        }
        Some(Self {
            parts: parts.into(),
            ends: ends.into(),
            total,
            files: files.clone(),
            known: known.into(),
            file_column,
        })
    }

    /// Combines the kept blocks of each file in `parts`. Returns `None` if all blocks are kept.
    pub fn kept(&self, kept: &[Option<IndexSet>]) -> Option<IndexSet> {
        kept.iter().flatten().next()?;
        let total = self.ends.last().copied().unwrap_or(0);
        let mut all = IndexSetBuilder::new(total);
        let mut start = 0;
        for (end, kept) in self.ends.iter().zip(kept) {
            match kept {
                Some(kept) => kept
                    .ranges()
                    .for_each(|range| all.push(start + range.start..start + range.end)),
                None => all.push(start..*end),
            }
            start = *end;
        }
        Some(all.finish())
    }

    /// Returns the index into `parts` of the file that holds a block, and the block's ordinal
    /// within that file.
    pub(super) fn locate(&self, position: u64) -> Result<(usize, u64)> {
        let part = self.ends.partition_point(|end| *end <= position);
        if part == self.parts.len() {
            return internal_err!(
                "block {position} is out of range: there are {:?} blocks",
                self.ends.last()
            );
        }
        let start = if part == 0 { 0 } else { self.ends[part - 1] };
        Ok((part, position - start))
    }

    /// Groups consecutive ordinals that belong to the same file, and makes them relative to that
    /// file. Keeps their order.
    fn by_part(&self, positions: &[u64]) -> Result<Vec<(&SingleFileBlocks, Vec<u64>)>> {
        let mut by_part: Vec<(usize, Vec<u64>)> = Vec::new();
        for position in positions {
            let (part, inner) = self.locate(*position)?;
            match by_part.last_mut() {
                Some((last, inners)) if *last == part => inners.push(inner),
                _ => by_part.push((part, vec![inner])),
            }
        }
        let by_part = by_part.into_iter();
        Ok(by_part
            .map(|(part, inners)| (&self.parts[part], inners))
            .collect())
    }

    /// Returns the columns that are stored in the files.
    fn in_files(&self, columns: &[usize]) -> impl Iterator<Item = usize> {
        let columns = columns.iter().copied();
        columns.filter(|column| self.file_column != Some(*column))
    }

    fn file(&self, part: &SingleFileBlocks) -> Result<ArrayRef> {
        let number = part.number as u64;
        Ok(self.files.coordinates()?.slice(number..number + 1))
    }

    pub(super) fn repeated_file(&self, part: &SingleFileBlocks, rows: usize) -> Result<ArrayRef> {
        ScalarValue::try_from_array(&self.file(part)?, 0)?.to_array_of_size(rows)
    }
}

impl BlockList for ManyFileBlocks {
    fn total(&self) -> Option<u64> {
        self.total
    }

    fn pruning_labels(&self) -> PruningLabels {
        let first = self.parts.first();
        first.map_or_else(PruningLabels::default, |part| part.blocks.pruning_labels())
    }

    fn groups(&self) -> Option<BlockGroups> {
        let groups = self.parts.iter().map(|part| part.blocks.groups());
        let groups: Vec<_> = groups.collect();
        if groups.iter().all(Option::is_none) {
            return None;
        }
        let (mut parts, mut ends) = (Vec::with_capacity(groups.len()), Vec::new());
        let mut start = 0;
        for ((part, groups), end) in self.parts.iter().zip(groups).zip(self.ends.iter()) {
            let mut part = part.clone();
            match groups {
                Some(groups) => {
                    ends.extend(groups.ends.iter().map(|end| start + end));
                    part.blocks = groups.blocks;
                }
                // Each block is a group of its own.
                None => ends.extend(start + 1..=*end),
            }
            parts.push(part);
            start = *end;
        }
        let (files, known) = (&self.files, self.known.to_vec());
        let blocks = Self::new(parts, None, files, known, self.file_column)?;
        Some(BlockGroups {
            blocks: Arc::new(blocks),
            ends: ends.into(),
        })
    }

    fn count(&self) -> Option<u64> {
        Some(self.ends.last().copied().unwrap_or(0))
    }

    fn rows(&self) -> RowCount {
        let parts = self.parts.iter().map(|part| part.blocks.rows());
        parts.fold(RowCount::Exact(0), RowCount::add)
    }

    fn rows_in(&self, blocks: &[u64]) -> Result<RowCount> {
        let mut rows = RowCount::Exact(0);
        for (part, blocks) in self.by_part(blocks)? {
            rows = rows + part.blocks.rows_in(&blocks)?;
        }
        Ok(rows)
    }

    fn is_read(&self, columns: &[usize]) -> bool {
        let columns: Vec<usize> = self.in_files(columns).collect();
        self.parts.iter().any(|part| part.blocks.is_read(&columns))
    }

    fn block_bytes(&self, position: u64, options: &ReadOptions) -> Result<u64> {
        let (part, position) = self.locate(position)?;
        self.parts[part].blocks.block_bytes(position, options)
    }

    fn block_cost(&self, position: u64, options: &ReadOptions) -> Result<u64> {
        let (part, position) = self.locate(position)?;
        self.parts[part].blocks.block_cost(position, options)
    }

    fn slice(&self) -> Option<String> {
        let all = self.files.length();
        Some(match self.parts.len() as u64 {
            count if count == all => format!("[file: all {all}]"),
            count => format!("[file: {count} of {all}]"),
        })
    }

    fn column_statistics(&self, column: usize, options: &ReadOptions) -> Result<ColumnStatistics> {
        if self.file_column == Some(column) {
            return Ok(ColumnStatistics {
                null_count: Precision::Exact(0),
                ..ColumnStatistics::new_unknown()
            });
        }
        if !self.known[column] && self.parts.len() > MAX_FOLDED {
            return Ok(ColumnStatistics::new_unknown());
        }
        let mut whole: Option<ColumnStatistics> = None;
        for part in self.parts.iter() {
            let other = part.blocks.column_statistics(column, options)?;
            whole = Some(match whole {
                None => other,
                Some(one) => ColumnStatistics {
                    null_count: one.null_count.add(&other.null_count),
                    min_value: one.min_value.min(&other.min_value),
                    max_value: one.max_value.max(&other.max_value),
                    ..ColumnStatistics::new_unknown()
                },
            });
        }
        Ok(whole.unwrap_or_default())
    }

    fn availability(&self, column: usize, options: &ReadOptions) -> Availability {
        let mut all = Availability {
            is_known: self.file_column == Some(column),
            unusable: None,
        };
        if all.is_known {
            return all;
        }
        for part in self.parts.iter() {
            let of_part = part.blocks.availability(column, options);
            all.is_known |= of_part.is_known;
            all.unusable = all.unusable.or(of_part.unusable);
        }
        all
    }

    fn statistics(
        &self,
        columns: &[usize],
        blocks: &[u64],
        options: &ReadOptions,
    ) -> Result<BlockStatistics> {
        let in_files: Vec<usize> = self.in_files(columns).collect();
        let mut parts = Vec::new();
        for (part, blocks) in self.by_part(blocks)? {
            let mut of_part = part.blocks.statistics(&in_files, &blocks, options)?;
            if let Some(index) = columns.iter().position(|c| self.file_column == Some(*c)) {
                let file = self.repeated_file(part, blocks.len())?;
                let bounds = ColumnBounds {
                    min: Arc::clone(&file),
                    max: file,
                    nulls: vec![0; blocks.len()].into(),
                    sums: None,
                    is_exact: true,
                };
                of_part.columns.insert(index, Some(bounds));
            }
            parts.push(of_part);
        }
        let rows: Vec<&dyn Array> = parts.iter().map(|part| &part.rows as &dyn Array).collect();
        let Some(rows) = (!rows.is_empty()).then(|| concat(&rows)).transpose()? else {
            return Ok(BlockStatistics::unknown(columns.len(), 0));
        };
        let columns = (0..columns.len()).map(|column| {
            let bounds = parts.iter().map(|part| (&part.rows, &part.columns[column]));
            joined(&bounds.collect::<Vec<_>>())
        });
        Ok(BlockStatistics {
            columns: columns.collect::<Result<_>>()?,
            rows: rows.as_primitive::<UInt64Type>().clone(),
        })
    }

    fn contained(
        &self,
        column: usize,
        blocks: &[u64],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        if self.file_column == Some(column) {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(blocks.len());
        for (part, blocks) in self.by_part(blocks)? {
            match part.blocks.contained(column, &blocks, values, options)? {
                Some(of_part) => all.extend(of_part.iter()),
                None => all.extend(std::iter::repeat_n(None, blocks.len())),
            }
        }
        Ok(Some(all.into()))
    }

    fn ordering(&self) -> Vec<(usize, bool)> {
        match &self.parts[..] {
            [only] => only.blocks.ordering(),
            _ => Vec::new(),
        }
    }

    fn grid_selections(&self) -> Option<Vec<GridSelection>> {
        let mut all = Vec::with_capacity(self.parts.len());
        for part in self.parts.iter() {
            let file = match self.file_column {
                Some(_) => Some(self.file(part).ok()?),
                None => None,
            };
            for grid in part.blocks.grid_selections()? {
                let file = file.as_ref().map(Arc::clone);
                all.push(GridSelection { file, ..grid });
            }
        }
        Some(all)
    }

    fn fetch(&self, block: u64, columns: &[usize], options: &ReadOptions) -> Option<Fetch> {
        let (part, block) = self.locate(block).ok()?;
        let columns: Vec<usize> = self.in_files(columns).collect();
        self.parts[part].blocks.fetch(block, &columns, options)
    }

    fn batch_rows(&self, columns: &[usize], rows: usize) -> usize {
        let inner: Vec<usize> = self.in_files(columns).collect();
        let parts = self.parts.iter();
        parts.fold(rows, |rows, part| part.blocks.batch_rows(&inner, rows))
    }

    fn reader(
        &self,
        columns: &[usize],
        max_rows: usize,
        options: &ReadOptions,
    ) -> Result<Box<dyn BlockReader>> {
        let file_index = columns
            .iter()
            .position(|column| self.file_column == Some(*column));
        let in_file = self.in_files(columns).collect();
        let reader = FileReader::new(self.clone(), in_file, file_index, max_rows, *options);
        Ok(Box::new(reader))
    }
}

/// Concatenates the statistics of a column in several files. Some files may have zone maps and
/// others none; each comes with the row counts of its blocks.
fn joined(bounds: &[(&UInt64Array, &Option<ColumnBounds>)]) -> Result<Option<ColumnBounds>> {
    let mut known = bounds.iter().filter_map(|(_, bounds)| bounds.as_ref());
    let Some(first) = known.next() else {
        return Ok(None);
    };
    let join = |pick: &dyn Fn(&ColumnBounds) -> Option<ArrayRef>, data_type: &DataType| {
        let arrays = bounds.iter().map(|(rows, bounds)| {
            let array = bounds.as_ref().and_then(pick);
            array.unwrap_or_else(|| new_null_array(data_type, rows.len()))
        });
        let arrays: Vec<ArrayRef> = arrays.collect();
        concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    };
    let mut sums = bounds
        .iter()
        .filter_map(|(_, bounds)| bounds.as_ref()?.sums.as_ref());
    let sums = sums.next().map(|sums| sums.data_type().clone());
    let data_type = first.min.data_type();
    let nulls = join(
        &|bounds| Some(Arc::new(bounds.nulls.clone())),
        &DataType::UInt64,
    )?;
    Ok(Some(ColumnBounds {
        min: join(&|bounds| Some(Arc::clone(&bounds.min)), data_type)?,
        max: join(&|bounds| Some(Arc::clone(&bounds.max)), data_type)?,
        nulls: nulls.as_primitive::<UInt64Type>().clone(),
        sums: match sums {
            Some(data_type) => Some(join(&|bounds| bounds.sums.clone(), &data_type)?),
            None => None,
        },
        is_exact: bounds
            .iter()
            .all(|(_, bounds)| bounds.as_ref().is_some_and(|bounds| bounds.is_exact)),
    }))
}
