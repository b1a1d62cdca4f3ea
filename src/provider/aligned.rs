//! Several grids on the same axes as one: the coordinates once, then the attributes of all of them.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue, internal_err};

use crate::grid::{Axis, ChunkGrid, Window};
use crate::provider::description::{AttributeDescription, ChunkDescription, TableDescription};
use crate::provider::options::ReadOptions;
use crate::provider::source::{BlockStatistics, CellFormat, GridSource, ReadCounts, WindowReader};

/// Bytes of a row of windows, one per attribute, up to which windows are made large enough for the chunks of every grid.
const MAX_WINDOW_BYTES: u64 = 32 << 20;

/// Grids whose axes are the same, with the attributes of all of them.
///
/// Its windows are those of the largest chunks along each axis, so that where the extents of the grids' chunks divide
/// each other, every chunk is decoded once.
#[derive(Debug)]
pub struct AlignedGrids {
    name: String,
    /// The attributes, each as the grid that has it and its number there.
    sources: Vec<(Arc<dyn GridSource>, usize)>,
    attributes: Vec<FieldRef>,
    grid: ChunkGrid,
}

impl AlignedGrids {
    /// All attributes of `grids`, of which there is at least one, under these names.
    pub(super) fn new(
        name: String,
        grids: &[Arc<dyn GridSource>],
        attributes: Vec<FieldRef>,
    ) -> Self {
        let sources = grids.iter().flat_map(|grid| {
            let numbers = 0..grid.attributes().len();
            numbers.map(move |number| (Arc::clone(grid), number))
        });
        Self {
            grid: common_grid(grids),
            name,
            sources: sources.collect(),
            attributes,
        }
    }

    fn grids(&self) -> impl Iterator<Item = &Arc<dyn GridSource>> {
        let first = self.sources.iter().filter(|(_, number)| *number == 0);
        first.map(|(grid, _)| grid)
    }
}

/// A grid by whose windows all of the grids can be read.
fn common_grid(grids: &[Arc<dyn GridSource>]) -> ChunkGrid {
    let first = grids[0].chunk_grid();
    if let Some(grid) = grid_of_largest(grids) {
        return grid;
    }
    // Chunks that differ much along every axis: by those of the grid that has the fewest.
    let fewest = grids.iter().min_by_key(|grid| {
        let chunks = grid.chunk_grid().count();
        chunks.unwrap_or(u64::MAX)
    });
    fewest.map_or(first, |grid| grid.chunk_grid()).clone()
}

/// The grid of windows that are as large as the largest chunk along each axis; `None` if they are too large. By any other
/// windows, chunks are decoded many times.
pub(super) fn grid_of_largest(grids: &[Arc<dyn GridSource>]) -> Option<ChunkGrid> {
    let first = grids[0].chunk_grid();
    let shape = first.shape().to_vec();
    let extents: Vec<u64> = (0..shape.len())
        .map(|axis| {
            let extents = grids.iter().map(|grid| {
                let extent = grid.chunk_grid().chunk_shape()[axis];
                extent.min(shape[axis].max(1))
            });
            extents.max().unwrap_or(1)
        })
        .collect();
    let cell_bytes: u64 = grids.iter().map(|grid| cell_bytes(grid.as_ref())).sum();
    let bytes = extents
        .iter()
        .try_fold(cell_bytes, |bytes, extent| bytes.checked_mul(*extent));
    let fits = bytes.is_some_and(|bytes| bytes <= MAX_WINDOW_BYTES);
    fits.then(|| ChunkGrid::new(shape, extents))
}

/// Bytes of a cell of every attribute.
fn cell_bytes(grid: &dyn GridSource) -> u64 {
    let attributes = grid.attributes().iter().enumerate();
    let bytes = attributes.map(|(number, field)| {
        let stored = grid.cell_format(number, &ReadOptions::default());
        let stored = stored.map(|format| format.cell_type.size());
        // Texts are stored as codes.
        let bytes = stored.or_else(|| field.data_type().primitive_width());
        bytes.unwrap_or(8) as u64
    });
    bytes.sum()
}

impl GridSource for AlignedGrids {
    fn format(&self) -> &'static str {
        self.sources[0].0.format()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &Path {
        self.sources[0].0.path()
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        self.grids().flat_map(|grid| grid.parts()).collect()
    }

    fn axes(&self) -> &[Axis] {
        self.sources[0].0.axes()
    }

    fn attributes(&self) -> &[FieldRef] {
        &self.attributes
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        &self.grid
    }

    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        let window = self.grid.window(chunk);
        let mut bytes = 0u64;
        for grid in self.grids() {
            let touched = grid.chunk_grid().chunks_of(&window);
            let first: Vec<u64> = touched.iter().map(|range| range.start).collect();
            // The first one stands for the others, which may be many.
            let count: u64 = touched
                .iter()
                .map(|range| range.end - range.start)
                .product();
            let stored = grid.stored_bytes(&first, options)?;
            bytes = bytes.saturating_add(stored.saturating_mul(count));
        }
        Ok(bytes)
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        let (grid, attribute) = &self.sources[attribute];
        grid.may_have_nulls(*attribute, options)
    }

    fn cell_format(&self, attribute: usize, options: &ReadOptions) -> Option<CellFormat> {
        let (grid, attribute) = &self.sources[attribute];
        grid.cell_format(*attribute, options)
    }

    fn has_statistics(&self, attribute: usize, options: &ReadOptions) -> bool {
        let (grid, attribute) = &self.sources[attribute];
        grid.has_statistics(*attribute, options)
    }

    fn unusable_statistics(&self, options: &ReadOptions) -> Option<String> {
        self.grids()
            .find_map(|grid| grid.unusable_statistics(options))
    }

    fn window_statistics(
        &self,
        attribute: usize,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<Option<BlockStatistics>> {
        let (grid, attribute) = &self.sources[attribute];
        grid.window_statistics(*attribute, windows, options)
    }

    fn contained(
        &self,
        attribute: usize,
        windows: &[Window],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        let (grid, attribute) = &self.sources[attribute];
        grid.contained(*attribute, windows, values, options)
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        let readers = attributes
            .iter()
            .map(|attribute| {
                let (grid, attribute) = &self.sources[*attribute];
                grid.window_reader(&[*attribute], options)
            })
            .collect::<Result<_>>()?;
        Ok(Box::new(AlignedReader { readers, ready: 0 }))
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        let described = self.grids().flat_map(|grid| grid.describe_attributes());
        let named = described.zip(&self.attributes);
        named
            .map(|(attribute, field)| AttributeDescription {
                name: field.name().clone(),
                ..attribute
            })
            .collect()
    }

    fn describe_chunk(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<ChunkDescription> {
        internal_err!("{} has no chunks but those of its parts", self.name)
    }

    fn describe(&self) -> Result<TableDescription> {
        let mut grids = self.grids();
        let first = grids.next().unwrap_or(&self.sources[0].0);
        let mut description = first.describe()?;
        let mut codecs: BTreeSet<String> = description.codecs.drain(..).collect();
        for grid in grids {
            let other = grid.describe()?;
            description.stored_bytes = description.stored_bytes.saturating_add(other.stored_bytes);
            description.raw_bytes = description
                .raw_bytes
                .zip(other.raw_bytes)
                .and_then(|(one, other)| one.checked_add(other));
            codecs.extend(other.codecs);
            for problem in other.problems {
                if !description.problems.contains(&problem) {
                    description.problems.push(problem);
                }
            }
        }
        description.attributes = self.describe_attributes();
        description.name.clone_from(&self.name);
        description.chunk_shape = self.grid.chunk_shape().to_vec();
        description.chunks = self.grid.count();
        description.codecs = codecs.into_iter().collect();
        Ok(description)
    }
}

/// Reads the same windows of several attributes, each by a reader of its own.
struct AlignedReader {
    readers: Vec<Box<dyn WindowReader>>,
    /// How many of them have their window.
    ready: usize,
}

impl WindowReader for AlignedReader {
    fn open(&mut self, window: &Window) -> Result<()> {
        self.ready = 0;
        for reader in &mut self.readers {
            reader.open(window)?;
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

    fn counts(&self) -> ReadCounts {
        self.readers.iter().map(|reader| reader.counts()).sum()
    }
}
