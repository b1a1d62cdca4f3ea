//! Reads the blocks of a `.tatami` file.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef};
use arrow::compute::filter;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

use crate::format::tatami::{ColumnType, ColumnValues, PageReader, TatamiFile};
use crate::grid::KeptRows;
use crate::provider::adapters::tatami::blocks::{DocumentBlocks, PageBlock};
#[cfg(feature = "remote")]
use crate::provider::adapters::tatami::fetching::FetchedPages;
use crate::provider::adapters::tatami::search;
use crate::provider::adapters::tatami::table::TextOptions;
use crate::provider::adapters::tatami::values::{compact, to_array};
use crate::provider::source::{BlockReader, EvaluatedRows, FetchedBlock, ReadCounts};

/// Reads blocks of a `.tatami` file. Pages are decoded once per block.
pub(super) struct DocumentReader {
    file: Arc<TatamiFile>,
    pages: PageReader,
    blocks: DocumentBlocks,
    columns: Vec<Column>,
    text: TextOptions,
    max_rows: u64,
    block: PageBlock,
    counts: ReadCounts,
}

/// A column that is read.
struct Column {
    /// The index of the column in the file.
    stored: usize,
    column_type: ColumnType,
    values: ColumnValues,
    /// The values of the current block. `None` until they are decoded, and always for blobs.
    decoded: Option<ArrayRef>,
}

impl DocumentReader {
    pub fn try_new(
        file: &Arc<TatamiFile>,
        columns: Vec<usize>,
        blocks: DocumentBlocks,
        text: TextOptions,
        max_rows: usize,
    ) -> Result<Self> {
        let pages = PageReader::new(file);
        let columns = columns.into_iter().map(|stored| {
            let values = pages.buffers(stored)?;
            Ok(Column {
                stored,
                column_type: values.column_type(),
                values,
                decoded: None,
            })
        });
        Ok(Self {
            columns: columns.collect::<Result<_>>()?,
            file: Arc::clone(file),
            pages,
            blocks,
            text,
            max_rows: max_rows.max(1) as u64,
            block: PageBlock {
                group: 0,
                page: 0,
                rows: 0..0,
            },
            counts: ReadCounts::default(),
        })
    }

    /// Decodes the values of a column as an array: the `rows`, counted from the start of the row group,
    /// for which `kept` is `true`.
    fn decode(
        &mut self,
        column: usize,
        rows: &Range<u64>,
        kept: Option<&KeptRows>,
    ) -> Result<ArrayRef> {
        let start = Instant::now();
        let Self {
            file,
            pages,
            columns,
            block,
            text,
            counts,
            ..
        } = self;
        let column = &mut columns[column];
        column.values.clear();
        for (number, page) in file.pages(block.group, column.stored)?.iter().enumerate() {
            let of_page = page.rows();
            let wanted = of_page.start.max(rows.start)..of_page.end.min(rows.end);
            if wanted.is_empty() {
                continue;
            }
            let first = (wanted.start - of_page.start) as u32;
            let count = (wanted.end - wanted.start) as usize;
            let selected: Option<Vec<u32>> = match kept {
                Some(kept) => {
                    let kept = kept.mask().values();
                    let kept = kept.slice((wanted.start - rows.start) as usize, count);
                    let indices = kept.set_indices();
                    Some(indices.map(|index| first + index as u32).collect())
                }
                None if wanted != of_page => Some((first..first + count as u32).collect()),
                None => None,
            };
            if selected.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            pages.read(
                block.group,
                column.stored,
                number,
                selected.as_deref(),
                &mut column.values,
            )?;
        }
        let array = to_array(&mut column.values, text, file, column.stored);
        counts.decode_time += start.elapsed();
        array
    }
}

impl BlockReader for DocumentReader {
    fn open(&mut self, block: u64, fetched: Option<FetchedBlock>) -> Result<()> {
        self.block = self.blocks.block(block)?;
        #[cfg(feature = "remote")]
        {
            let fetched = FetchedPages::of(fetched)?;
            self.counts.requests += fetched.requests;
            self.counts.bytes_fetched += fetched.bytes_fetched;
            self.pages.set_fetched(fetched.payloads);
        }
        #[cfg(not(feature = "remote"))]
        let _ = fetched;
        for column in &mut self.columns {
            column.decoded = None;
        }
        self.counts.chunks += u64::from(!self.columns.is_empty());
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        // Blobs, and blocks that are read as one batch, are decoded only for the selected rows.
        let is_one_batch = self.rows() <= self.max_rows;
        let is_left = |column: &Column| {
            column.decoded.is_none() && column.column_type != ColumnType::BlobRef && !is_one_batch
        };
        if let Some(next) = self.columns.iter().position(is_left) {
            let rows = self.block.rows.clone();
            self.columns[next].decoded = Some(self.decode(next, &rows, None)?);
        }
        Ok(!self.columns.iter().any(is_left))
    }

    fn rows(&self) -> u64 {
        self.block.rows.end - self.block.rows.start
    }

    fn batch(&self, first: u64) -> Range<u64> {
        first..self.rows().min(first.saturating_add(self.max_rows))
    }

    fn evaluate(
        &mut self,
        rows: Range<u64>,
        predicate: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<EvaluatedRows>> {
        let start = self.file.row_groups()[self.block.group].first_row + self.block.rows.start;
        let in_file = start + rows.start..start + rows.end;
        let stored = |column: usize| self.columns.get(column).map(|column| column.stored);
        let searched = self.blocks.searched();
        let evaluated = search::evaluate(predicate, searched, stored, in_file);
        Ok(evaluated.map(|(mask, rest)| EvaluatedRows {
            kept: KeptRows::new(rows, mask),
            rest,
        }))
    }

    fn read(&mut self, rows: Range<u64>, kept: Option<&KeptRows>) -> Result<Vec<ArrayRef>> {
        let start = self.block.rows.start;
        let in_group = start + rows.start..start + rows.end;
        let (first, count) = (rows.start as usize, (rows.end - rows.start) as usize);
        let columns = 0..self.columns.len();
        let columns = columns.map(|column| {
            let Some(decoded) = &self.columns[column].decoded else {
                return self.decode(column, &in_group, kept);
            };
            let slice = decoded.slice(first, count);
            Ok(compact(match kept {
                Some(kept) => filter(&slice, kept.mask())?,
                None => slice,
            }))
        });
        columns.collect()
    }

    fn counts(&self) -> ReadCounts {
        ReadCounts {
            bytes: self.pages.bytes_read(),
            ..self.counts
        }
    }
}
