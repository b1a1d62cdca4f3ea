//! Reads the windows of several arrays on the same axes.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::Result;

use crate::grid::Window;
use crate::provider::source::{FetchedBlock, ReadCounts, SharedChunks, WindowReader};

/// The fetched bytes of a window, for each attribute that is not read in place.
pub(super) struct FetchedAttributes(pub Vec<Option<FetchedBlock>>);

/// Reads the same windows of several attributes, with one reader per attribute.
pub(super) struct AlignedReader {
    readers: Vec<Box<dyn WindowReader>>,
    /// The number of readers whose window is ready.
    ready: usize,
}

impl AlignedReader {
    /// Creates a reader of the attributes that these readers read, one each.
    pub fn new(readers: Vec<Box<dyn WindowReader>>) -> Self {
        Self { readers, ready: 0 }
    }
}

impl WindowReader for AlignedReader {
    fn share_decoded(&mut self, chunks: &Arc<SharedChunks>) -> Result<()> {
        let mut readers = self.readers.iter_mut();
        readers.try_for_each(|reader| reader.share_decoded(chunks))
    }

    fn open(&mut self, window: &Window, fetched: Option<FetchedBlock>) -> Result<()> {
        self.ready = 0;
        let fetched = fetched.and_then(|fetched| fetched.downcast::<FetchedAttributes>().ok());
        let fetched = fetched.into_iter().flat_map(|fetched| fetched.0);
        let fetched = fetched.chain(std::iter::repeat_with(|| None));
        for (reader, fetched) in self.readers.iter_mut().zip(fetched) {
            reader.open(window, fetched)?;
        }
        Ok(())
    }

    fn read_ahead(&mut self) {
        self.readers
            .iter_mut()
            .for_each(|reader| reader.read_ahead());
    }

    fn advance(&mut self) -> Result<bool> {
        if let Some(reader) = self.readers.get_mut(self.ready)
            && reader.advance()?
        {
            self.ready += 1;
        }
        Ok(self.ready == self.readers.len())
    }

    fn cells(&mut self, attribute: usize, range: Range<u64>) -> Result<&[u8]> {
        self.readers[attribute].cells(0, range)
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(self.readers.len());
        for reader in &mut self.readers {
            columns.extend(reader.read(runs)?);
        }
        Ok(columns)
    }

    fn gather(&mut self, cells: &[u64]) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(self.readers.len());
        for reader in &mut self.readers {
            columns.extend(reader.gather(cells)?);
        }
        Ok(columns)
    }

    fn counts(&self) -> ReadCounts {
        self.readers.iter().map(|reader| reader.counts()).sum()
    }
}
