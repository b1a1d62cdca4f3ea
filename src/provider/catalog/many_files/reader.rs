//! Reads the rows of many files.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;

use crate::grid::KeptRows;
use crate::provider::catalog::many_files::blocks::ManyFileBlocks;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{BlockReader, EvaluatedRows, FetchedBlock, ReadCounts, SharedChunks};

/// Reads the blocks of one file after another.
pub(super) struct FileReader {
    blocks: ManyFileBlocks,
    /// The columns that are read from the files.
    in_file: Vec<usize>,
    /// The index of the file column among the columns read.
    file_index: Option<usize>,
    max_rows: usize,
    options: ReadOptions,
    /// The index into `parts` of the current file, and its reader.
    open: Option<(usize, Box<dyn BlockReader>)>,
    /// The path of the current file, repeated for the longest batch so far.
    file: Option<ArrayRef>,
    /// Everything that the readers of previous files have read.
    counts: ReadCounts,
    /// The decoded chunks that other operators of the plan read as well.
    shared: Option<Arc<SharedChunks>>,
}

impl FileReader {
    /// Creates a reader of the columns `in_file` of the files. `file_index` is the index of the file
    /// column among all columns.
    pub fn new(
        blocks: ManyFileBlocks,
        in_file: Vec<usize>,
        file_index: Option<usize>,
        max_rows: usize,
        options: ReadOptions,
    ) -> Self {
        Self {
            blocks,
            in_file,
            file_index,
            max_rows,
            options,
            open: None,
            file: None,
            counts: ReadCounts::default(),
            shared: None,
        }
    }

    fn reader(&mut self) -> Result<&mut dyn BlockReader> {
        match &mut self.open {
            Some((_, reader)) => Ok(reader.as_mut()),
            None => internal_err!("no block is open"),
        }
    }
}

impl BlockReader for FileReader {
    fn share_decoded(&mut self, chunks: &Arc<SharedChunks>) -> Result<()> {
        self.shared = Some(Arc::clone(chunks));
        Ok(())
    }

    fn open(&mut self, block: u64, fetched: Option<FetchedBlock>) -> Result<()> {
        let (part, block) = self.blocks.locate(block)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != part) {
            self.counts = self.counts();
            self.open = None;
            self.file = None;
            let blocks = &self.blocks.parts[part].blocks;
            let mut reader = blocks.reader(&self.in_file, self.max_rows, &self.options)?;
            if let Some(shared) = &self.shared {
                reader.share_decoded(shared)?;
            }
            self.open = Some((part, reader));
        }
        self.reader()?.open(block, fetched)
    }

    fn advance(&mut self) -> Result<bool> {
        self.reader()?.advance()
    }

    fn rows(&self) -> u64 {
        self.open.as_ref().map_or(0, |(_, reader)| reader.rows())
    }

    fn batch(&self, first: u64) -> Range<u64> {
        match &self.open {
            Some((_, reader)) => reader.batch(first),
            None => first..first,
        }
    }

    fn evaluate(
        &mut self,
        rows: Range<u64>,
        predicate: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<EvaluatedRows>> {
        match self.file_index {
            // The readers of the files have other column indices.
            Some(_) => Ok(None),
            None => self.reader()?.evaluate(rows, predicate),
        }
    }

    fn read(&mut self, rows: Range<u64>, kept: Option<&KeptRows>) -> Result<Vec<ArrayRef>> {
        let mut columns = self.reader()?.read(rows.clone(), kept)?;
        if let (Some(index), Some((part, _))) = (self.file_index, &self.open) {
            let rows = match kept {
                Some(kept) => kept.count(),
                None => (rows.end - rows.start) as usize,
            };
            let file = match &self.file {
                Some(file) if file.len() >= rows => file.slice(0, rows),
                _ => {
                    let part = &self.blocks.parts[*part];
                    Arc::clone(self.file.insert(self.blocks.repeated_file(part, rows)?))
                }
            };
            columns.insert(index, file);
        }
        Ok(columns)
    }

    fn counts(&self) -> ReadCounts {
        let now = match &self.open {
            Some((_, reader)) => reader.counts(),
            None => ReadCounts::default(),
        };
        self.counts + now
    }
}
