//! The rows of `tatami_terms`.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, UInt64Array};
use datafusion::common::{Result, internal_err};

use crate::format::tatami::search::Terms;
use crate::provider::adapters::tatami::table::DocumentTable;
use crate::provider::introspection::scan::{Batches, Request, RowSource, batch};

/// The terms of several files, file by file, in bytewise order within each file.
#[derive(Debug)]
pub(super) struct TermRows {
    label: String,
    documents: Vec<Arc<DocumentTable>>,
}

impl TermRows {
    pub fn new(label: String, documents: Vec<Arc<DocumentTable>>) -> Self {
        Self { label, documents }
    }
}

impl RowSource for TermRows {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn count(&self) -> Option<u64> {
        let counts = self.documents.iter().map(|table| {
            let inverted = table.file().footer().inverted.as_ref();
            inverted.map(|inverted| inverted.terms)
        });
        counts.sum()
    }

    fn read(self: Arc<Self>, request: Request) -> Batches {
        let mut reading = Reading {
            left: request.fetch,
            request,
            documents: self.documents.clone(),
            next: 0,
            terms: None,
        };
        Box::new(std::iter::from_fn(move || reading.batch().transpose()))
    }
}

struct Reading {
    request: Request,
    documents: Vec<Arc<DocumentTable>>,
    /// The index of the next file.
    next: usize,
    terms: Option<(String, Terms)>,
    left: u64,
}

impl Reading {
    fn batch(&mut self) -> Result<Option<arrow::array::RecordBatch>> {
        let size = self.left.min(self.request.batch_size as u64) as usize;
        let (mut paths, mut names, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        while names.len() < size {
            let Some((path, terms)) = &mut self.terms else {
                let Some(table) = self.documents.get(self.next) else {
                    break;
                };
                self.next += 1;
                if let Some(segment) = table.segment()? {
                    let path = table.file().path().display().to_string();
                    self.terms = Some((path, segment.terms_from(b"", b"")));
                }
                continue;
            };
            match terms.next()? {
                Some((term, entry)) => {
                    paths.push(path.clone());
                    names.push(String::from_utf8_lossy(term).into_owned());
                    counts.push(entry.document_frequency);
                }
                None => self.terms = None,
            }
        }
        let rows = names.len();
        if rows == 0 {
            return Ok(None);
        }
        self.left -= rows as u64;
        let columns: [ArrayRef; 3] = [
            Arc::new(StringArray::from(paths)),
            Arc::new(StringArray::from(names)),
            Arc::new(UInt64Array::from(counts)),
        ];
        let chosen = self
            .request
            .columns
            .iter()
            .map(|column| match columns.get(*column) {
                Some(array) => Ok(Arc::clone(array)),
                None => internal_err!("tatami_terms has no column {column}"),
            });
        batch(&self.request.schema, chosen.collect::<Result<_>>()?, rows).map(Some)
    }
}
