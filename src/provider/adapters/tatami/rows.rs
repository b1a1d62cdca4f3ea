//! Reads single documents by their row numbers.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::Result;

use crate::format::tatami::{PageReader, TatamiFile};
use crate::provider::adapters::tatami::table::TextOptions;
use crate::provider::adapters::tatami::values::to_array;

/// Reads single documents of a file. Only the pages and blob runs that hold these documents are read.
#[derive(Debug)]
pub(super) struct RowReader {
    file: Arc<TatamiFile>,
    pages: PageReader,
    text: TextOptions,
}

impl RowReader {
    pub fn new(file: &Arc<TatamiFile>, text: TextOptions) -> Self {
        Self {
            pages: PageReader::new(file),
            file: Arc::clone(file),
            text,
        }
    }

    /// The stored bytes of all pages and blob runs that were read.
    pub fn bytes_read(&self) -> u64 {
        self.pages.bytes_read()
    }

    /// Returns the values of a column, given by its index in the file. `documents` are row numbers in
    /// ascending order.
    pub fn read(&mut self, column: usize, documents: &[u64]) -> Result<ArrayRef> {
        let mut values = self.pages.buffers(column)?;
        let mut left = documents;
        for (group, row_group) in self.file.row_groups().iter().enumerate() {
            let end = row_group.first_row + row_group.rows;
            let (of_group, others) = left.split_at(left.partition_point(|row| *row < end));
            left = others;
            if of_group.is_empty() {
                continue;
            }
            let mut of_group = of_group;
            for (number, page) in self.file.pages(group, column)?.iter().enumerate() {
                let rows = page.rows();
                let (start, end) = (
                    row_group.first_row + rows.start,
                    row_group.first_row + rows.end,
                );
                let (here, others) = of_group.split_at(of_group.partition_point(|row| *row < end));
                of_group = others;
                if here.is_empty() {
                    continue;
                }
                let selected: Vec<u32> = here.iter().map(|row| (row - start) as u32).collect();
                self.pages
                    .read(group, column, number, Some(&selected), &mut values)?;
            }
        }
        to_array(&mut values, &self.text, &self.file, column)
    }
}
