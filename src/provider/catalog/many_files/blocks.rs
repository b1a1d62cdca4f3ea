//! The blocks of many files, one file after another.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, internal_err};

use crate::grid::Axis;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{
    BlockList, BlockReader, BlockStatistics, GridSelection, Progress, ReadCounts,
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
    parts: Arc<[SingleFileBlocks]>,
    /// The ordinal after the last block of each file in `parts`.
    ends: Arc<[u64]>,
    total: Option<u64>,
    files: Axis,
    /// The number of columns that are dimensions of the files' arrays.
    dimensions: usize,
    /// The index of the column with each row's file.
    file_column: Option<usize>,
}

impl ManyFileBlocks {
    /// Concatenates the blocks of these files; `None` if there are 2^64 or more.
    pub fn new(
        parts: Vec<SingleFileBlocks>,
        total: Option<u64>,
        files: &Axis,
        dimensions: usize,
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
            dimensions,
            file_column,
        })
    }

    /// Returns the index into `parts` of the file that holds a block, and the block's ordinal
    /// within that file.
    fn locate(&self, position: u64) -> Result<(usize, u64)> {
        let part = self.ends.partition_point(|end| *end <= position);
        if part == self.parts.len() {
            return internal_err!("block {position} of {:?} was asked for", self.ends.last());
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

    fn file(&self, part: &SingleFileBlocks) -> Result<ArrayRef> {
        let number = part.number as u64;
        Ok(self.files.coordinates()?.slice(number..number + 1))
    }

    fn repeated_file(&self, part: &SingleFileBlocks, rows: usize) -> Result<ArrayRef> {
        ScalarValue::try_from_array(&self.file(part)?, 0)?.to_array_of_size(rows)
    }
}

impl BlockList for ManyFileBlocks {
    fn total(&self) -> Option<u64> {
        self.total
    }

    fn count(&self) -> Option<u64> {
        Some(self.ends.last().copied().unwrap_or(0))
    }

    fn rows(&self) -> Option<u64> {
        self.parts
            .iter()
            .try_fold(0u64, |rows, part| rows.checked_add(part.blocks.rows()?))
    }

    fn block_rows(&self, position: u64) -> Result<u64> {
        let (part, position) = self.locate(position)?;
        self.parts[part].blocks.block_rows(position)
    }

    fn block_sizes(&self, positions: &[u64]) -> Result<Option<UInt64Array>> {
        let mut sizes = Vec::with_capacity(positions.len());
        for (part, positions) in self.by_part(positions)? {
            match part.blocks.block_sizes(&positions)? {
                Some(of_part) => sizes.extend_from_slice(of_part.values()),
                None => return Ok(None),
            }
        }
        Ok(Some(sizes.into()))
    }

    fn block_bytes(&self, position: u64, options: &ReadOptions) -> Result<u64> {
        let (part, position) = self.locate(position)?;
        self.parts[part].blocks.block_bytes(position, options)
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
        let is_dimension = column < self.dimensions;
        if !is_dimension && self.parts.len() > MAX_FOLDED {
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

    fn unusable_statistics(&self, options: &ReadOptions) -> Option<String> {
        let mut parts = self.parts.iter();
        parts.find_map(|part| part.blocks.unusable_statistics(options))
    }

    fn has_statistics(&self, column: usize, options: &ReadOptions) -> bool {
        self.file_column == Some(column)
            || self
                .parts
                .iter()
                .any(|part| part.blocks.has_statistics(column, options))
    }

    fn block_statistics(
        &self,
        column: usize,
        positions: &[u64],
        options: &ReadOptions,
    ) -> Result<Option<BlockStatistics>> {
        let mut known = Vec::new();
        for (part, positions) in self.by_part(positions)? {
            let count = positions.len();
            known.push(if self.file_column == Some(column) {
                let file = self.repeated_file(part, count)?;
                let of_part = BlockStatistics {
                    min: Arc::clone(&file),
                    max: file,
                    nulls: vec![0; count].into(),
                    is_exact: true,
                };
                (count, Some(of_part))
            } else {
                let of_part = part.blocks.block_statistics(column, &positions, options)?;
                (count, of_part)
            });
        }
        let Some(data_type) = known
            .iter()
            .find_map(|(_, of_part)| Some(of_part.as_ref()?.min.data_type().clone()))
        else {
            return Ok(None);
        };
        // Some files may have zone maps and others none.
        let join = |pick: fn(&BlockStatistics) -> ArrayRef, data_type: &DataType| {
            let arrays: Vec<ArrayRef> = known
                .iter()
                .map(|(count, of_part)| match of_part {
                    Some(of_part) => pick(of_part),
                    None => new_null_array(data_type, *count),
                })
                .collect();
            concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>())
        };
        let nulls = join(|of_part| Arc::new(of_part.nulls.clone()), &DataType::UInt64)?;
        Ok(Some(BlockStatistics {
            min: join(|of_part| Arc::clone(&of_part.min), &data_type)?,
            max: join(|of_part| Arc::clone(&of_part.max), &data_type)?,
            nulls: nulls.as_primitive::<UInt64Type>().clone(),
            is_exact: known
                .iter()
                .all(|(_, of_part)| of_part.as_ref().is_some_and(|of_part| of_part.is_exact)),
        }))
    }

    fn contained(
        &self,
        column: usize,
        positions: &[u64],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        if self.file_column == Some(column) {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(positions.len());
        for (part, positions) in self.by_part(positions)? {
            match part.blocks.contained(column, &positions, values, options)? {
                Some(of_part) => all.extend(of_part.iter()),
                None => all.extend(std::iter::repeat_n(None, positions.len())),
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

    fn reader(&self, columns: &[usize], options: &ReadOptions) -> Result<Box<dyn BlockReader>> {
        Ok(Box::new(FileReader {
            in_file: columns
                .iter()
                .copied()
                .filter(|column| self.file_column != Some(*column))
                .collect(),
            file_position: columns
                .iter()
                .position(|column| self.file_column == Some(*column)),
            blocks: self.clone(),
            options: *options,
            open: None,
            file: None,
            counts: ReadCounts::default(),
        }))
    }
}

/// Reads the blocks of one file after another.
struct FileReader {
    blocks: ManyFileBlocks,
    /// The columns that are read from the files.
    in_file: Vec<usize>,
    /// The index of the file column among the columns read.
    file_position: Option<usize>,
    options: ReadOptions,
    /// The index into `parts` of the current file, and its reader.
    open: Option<(usize, Box<dyn BlockReader>)>,
    /// The path of the current file, repeated for the longest batch so far.
    file: Option<ArrayRef>,
    /// Everything that the readers of previous files have read.
    counts: ReadCounts,
}

impl BlockReader for FileReader {
    fn open(&mut self, position: u64) -> Result<()> {
        let (part, position) = self.blocks.locate(position)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != part) {
            self.counts = self.counts();
            self.open = None;
            self.file = None;
            let blocks = &self.blocks.parts[part].blocks;
            self.open = Some((part, blocks.reader(&self.in_file, &self.options)?));
        }
        match &mut self.open {
            Some((_, reader)) => reader.open(position),
            None => internal_err!("a file was not opened"),
        }
    }

    fn next(&mut self, max_rows: usize) -> Result<Progress> {
        let Some((part, reader)) = &mut self.open else {
            return Ok(Progress::Done);
        };
        let mut progress = reader.next(max_rows)?;
        if let (Progress::Rows { columns, rows }, Some(at)) = (&mut progress, self.file_position) {
            let file = match &self.file {
                Some(file) if file.len() >= *rows => file.slice(0, *rows),
                _ => {
                    let part = &self.blocks.parts[*part];
                    Arc::clone(self.file.insert(self.blocks.repeated_file(part, *rows)?))
                }
            };
            columns.insert(at, file);
        }
        Ok(progress)
    }

    fn counts(&self) -> ReadCounts {
        let now = match &self.open {
            Some((_, reader)) => reader.counts(),
            None => ReadCounts::default(),
        };
        self.counts + now
    }
}
