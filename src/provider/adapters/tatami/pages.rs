//! The table function `tatami_pages('t')`: the pages of a table of `.tatami` files.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, internal_err};

use crate::error::Error;
use crate::format::tatami::Page;
use crate::provider::adapters::tatami::files::table_files;
use crate::provider::adapters::tatami::row_table::RowTable;
use crate::provider::adapters::tatami::table::DocumentTable;
use crate::provider::introspection::lookup;
use crate::provider::introspection::scan::{Batches, Request, RowSource, batch};

/// `tatami_pages('t')`: where each page of each column is stored, and how.
#[derive(Debug)]
pub(super) struct Pages;

impl Pages {
    /// The name of the function.
    pub const NAME: &'static str = "tatami_pages";
}

/// The columns.
const COLUMNS: [(&str, DataType); 12] = [
    ("path", DataType::Utf8),
    ("row_group", DataType::UInt64),
    ("column_name", DataType::Utf8),
    ("page", DataType::UInt64),
    ("first_row", DataType::UInt64),
    ("rows", DataType::UInt64),
    ("nulls", DataType::UInt64),
    ("encoding", DataType::Utf8),
    ("codec", DataType::Utf8),
    ("page_offset", DataType::UInt64),
    ("stored_bytes", DataType::UInt64),
    ("raw_bytes", DataType::UInt64),
];

impl TableFunctionImpl for Pages {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let table = lookup::table_name(Self::NAME, args.exprs())?.to_string();
        let fields = COLUMNS.map(|(name, data_type)| Field::new(name, data_type, false));
        let rows = PageRows {
            label: format!("{}({table})", Self::NAME),
            documents: table_files(Self::NAME, &args, &table)?.documents,
        };
        let schema = Schema::new(fields.to_vec());
        Ok(Arc::new(RowTable::new(Arc::new(rows), schema)))
    }
}

/// The pages, file by file, then by row group, column and row.
#[derive(Debug)]
struct PageRows {
    label: String,
    documents: Vec<Arc<DocumentTable>>,
}

impl RowSource for PageRows {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn count(&self) -> Option<u64> {
        let groups = self
            .documents
            .iter()
            .flat_map(|table| table.file().row_groups());
        Some(
            groups
                .flat_map(|group| &group.chunks)
                .map(|chunk| chunk.pages)
                .sum(),
        )
    }

    fn read(self: Arc<Self>, request: Request) -> Batches {
        let mut reading = Reading {
            left: request.fetch,
            rows: self,
            request,
            next: Position::default(),
        };
        Box::new(std::iter::from_fn(move || reading.batch().transpose()))
    }
}

/// The place of a page: indices of its file, row group and column, and the index of the page among the pages
/// of this column in this row group.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    file: usize,
    group: usize,
    column: usize,
    page: usize,
}

impl Position {
    /// Returns this page, or else the next one, and moves on behind it.
    fn take(&mut self, documents: &[Arc<DocumentTable>]) -> Result<Option<(Self, Page)>, Error> {
        while let Some(table) = documents.get(self.file) {
            let file = table.file();
            if self.group == file.row_groups().len() {
                (self.file, self.group) = (self.file + 1, 0);
            } else if self.column == file.schema().fields.len() {
                (self.group, self.column) = (self.group + 1, 0);
            } else if let Some(page) = file.pages(self.group, self.column)?.get(self.page) {
                let here = *self;
                self.page += 1;
                return Ok(Some((here, *page)));
            } else {
                (self.column, self.page) = (self.column + 1, 0);
            }
        }
        Ok(None)
    }
}

struct Reading {
    request: Request,
    rows: Arc<PageRows>,
    next: Position,
    left: u64,
}

impl Reading {
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let size = self.left.min(self.request.batch_size as u64) as usize;
        let mut pages = Vec::with_capacity(size);
        while pages.len() < size
            && let Some(page) = self.next.take(&self.rows.documents)?
        {
            pages.push(page);
        }
        if pages.is_empty() {
            return Ok(None);
        }
        self.left -= pages.len() as u64;
        let columns = self.request.columns.iter();
        let columns = columns.map(|column| self.column(*column, &pages));
        let columns = columns.collect::<Result<_>>()?;
        batch(&self.request.schema, columns, pages.len()).map(Some)
    }

    fn column(&self, column: usize, pages: &[(Position, Page)]) -> Result<ArrayRef> {
        let file = |at: &Position| self.rows.documents[at.file].file();
        let texts = |text: &dyn Fn(&Position, &Page) -> String| -> ArrayRef {
            let texts = pages.iter().map(|(at, page)| text(at, page));
            Arc::new(StringArray::from_iter_values(texts))
        };
        let numbers = |number: &dyn Fn(&Position, &Page) -> u64| -> ArrayRef {
            let numbers = pages.iter().map(|(at, page)| number(at, page));
            Arc::new(UInt64Array::from_iter_values(numbers))
        };
        Ok(match COLUMNS.get(column).map(|(name, _)| *name) {
            Some("path") => texts(&|at, _| file(at).path().display().to_string()),
            Some("row_group") => numbers(&|at, _| at.group as u64),
            Some("column_name") => texts(&|at, _| file(at).schema().fields[at.column].name.clone()),
            Some("page") => numbers(&|at, _| at.page as u64),
            Some("first_row") => {
                numbers(&|at, page| file(at).row_groups()[at.group].first_row + page.first_row)
            }
            Some("rows") => numbers(&|_, page| page.header.values.into()),
            Some("nulls") => numbers(&|_, page| page.header.nulls.into()),
            Some("encoding") => texts(&|_, page| page.header.encoding_name()),
            Some("codec") => texts(&|_, page| page.header.codec_name()),
            Some("page_offset") => numbers(&|_, page| page.offset),
            Some("stored_bytes") => numbers(&|_, page| page.header.stored_size.into()),
            Some("raw_bytes") => numbers(&|_, page| page.header.raw_size.into()),
            _ => return internal_err!("{} has no column {column}", Pages::NAME),
        })
    }
}
