//! Several grids on the same axes as one grid, which has the attributes of all of them.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue, internal_err};

use crate::grid::{Axis, ChunkGrid, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::join::aligned_reader::{AlignedReader, FetchedAttributes};
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    Availability, CellFormat, ColumnBounds, Fetch, GridSource, WindowReader, Windows,
};

/// The maximum number of bytes of the windows of all attributes together, unless the chunks
/// themselves take more.
const MAX_WINDOW_BYTES: u64 = 32 << 20;

/// Grids with the same axes as one grid, which has the attributes of all of them.
///
/// A window is as large as the largest chunk along each axis, if memory allows. So every chunk is
/// decoded once where the chunk extents of the grids divide each other:
///
/// ```text
/// chunks of grid 1   |-----|-----|-----|-----|
/// chunks of grid 2   |-----------|-----------|
/// windows            |-----------|-----------|
/// ```
#[derive(Debug, Clone)]
pub struct AlignedGrids {
    name: String,
    /// For each attribute, its grid and its index among the attributes of that grid.
    sources: Vec<(Arc<dyn GridSource>, usize)>,
    attributes: Vec<FieldRef>,
    /// The indices of the attributes that will be read, as far as known.
    read: Vec<usize>,
    /// The windows by which the attributes are read.
    grid: ChunkGrid,
    /// The grids, before any is replaced by one that suits reading only some attributes.
    originals: Arc<[Arc<dyn GridSource>]>,
}

impl AlignedGrids {
    /// Combines all attributes of `grids` under the names in `attributes`. There must be at least
    /// one grid.
    pub(crate) fn new(
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
            read: (0..attributes.len()).collect(),
            attributes,
            originals: grids.into(),
        }
    }

    fn grids(&self) -> impl Iterator<Item = &Arc<dyn GridSource>> {
        let first = self.sources.iter().filter(|(_, number)| *number == 0);
        first.map(|(grid, _)| grid)
    }

    /// Returns the grids of the attributes that will be read.
    fn grids_read(&self) -> Vec<Arc<dyn GridSource>> {
        let read = self.read.iter().map(|attribute| &self.sources[*attribute]);
        let mut grids: Vec<_> = read.map(|(grid, _)| Arc::clone(grid)).collect();
        grids.dedup_by(|one, other| Arc::ptr_eq(one, other));
        grids
    }

    /// Adds up `bytes_of` over the chunks of all grids that a chunk of the common grid touches.
    fn sum_over_chunks(
        &self,
        chunk: &[u64],
        bytes_of: impl Fn(&dyn GridSource, &[u64]) -> Result<u64>,
    ) -> Result<u64> {
        let window = self.grid.window(chunk);
        let mut bytes = 0u64;
        for grid in self.grids_read() {
            let of_grid = |chunk: &[u64]| bytes_of(grid.as_ref(), chunk);
            bytes = bytes.saturating_add(sum_over_chunks(grid.as_ref(), &window, &of_grid)?);
        }
        Ok(bytes)
    }
}

/// Adds up `bytes_of` over the chunks of a grid that a window touches. Assumes that all of them are as large as the
/// first, because there may be too many to look up.
pub(super) fn sum_over_chunks(
    grid: &dyn GridSource,
    window: &Window,
    bytes_of: &dyn Fn(&[u64]) -> Result<u64>,
) -> Result<u64> {
    let touched = grid.chunk_grid().chunks_in(window);
    let first: Vec<u64> = touched.iter().map(|range| range.start).collect();
    let count = touched.iter().map(|range| range.end - range.start);
    let of_first = bytes_of(&first)?;
    Ok(of_first.saturating_mul(count.product()))
}

/// Returns the windows by which all grids can be read with as little repeated decoding as memory
/// allows.
fn common_grid(grids: &[Arc<dyn GridSource>]) -> ChunkGrid {
    let mut extents = largest(grids);
    let shape = grids[0].chunk_grid().shape();
    let chunks = grids.iter().map(|grid| {
        let extents = grid.chunk_grid().chunk_shape();
        let extents = extents
            .iter()
            .zip(shape)
            .map(|(extent, all)| extent.min(all));
        extents.fold(cell_bytes(grid.as_ref()), |bytes, extent| {
            bytes.saturating_mul(*extent)
        })
    });
    // Readers hold one chunk of each grid anyway, so windows may take as much memory.
    let most = chunks.fold(0, u64::saturating_add).max(MAX_WINDOW_BYTES);
    while window_bytes(grids, &extents).is_none_or(|bytes| bytes > most) {
        let smaller = (0..extents.len()).filter(|axis| extents[*axis] > 1);
        let smaller = smaller.map(|axis| {
            let mut smaller = extents.clone();
            smaller[axis] = half(grids, axis, extents[axis]);
            smaller
        });
        let min = smaller
            .min_by(|one, other| decoded_bytes(grids, one).total_cmp(&decoded_bytes(grids, other)));
        match min {
            Some(min) => extents = min,
            None => break,
        }
    }
    with_phase_of_largest(grids, ChunkGrid::new(shape.to_vec(), extents))
}

/// Aligns the windows with the largest chunks along each axis, so that as few chunks as possible
/// are split between windows.
fn with_phase_of_largest(grids: &[Arc<dyn GridSource>], windows: ChunkGrid) -> ChunkGrid {
    let phase = windows.shape().iter().zip(windows.chunk_shape());
    let phase = phase.enumerate().map(|(axis, (length, extent))| {
        let chunks = grids.iter().map(|grid| grid.chunk_grid());
        let largest = chunks.max_by_key(|chunks| chunks.chunk_shape()[axis]);
        let first = largest.map_or(0, |chunks| chunks.axis(axis).range(0).end);
        // A single chunk has no boundary to keep to.
        match first < *length {
            true => (extent - first % extent) % extent,
            false => 0,
        }
    });
    let phase = phase.collect();
    windows.with_phase(phase)
}

/// Returns the windows that are as large as the largest chunk along each axis; `None` if they are
/// too large. Any other windows decode chunks many times.
pub(crate) fn grid_of_largest(grids: &[Arc<dyn GridSource>]) -> Option<ChunkGrid> {
    let extents = largest(grids);
    let bytes = window_bytes(grids, &extents)?;
    let shape = grids[0].chunk_grid().shape().to_vec();
    (bytes <= MAX_WINDOW_BYTES)
        .then(|| with_phase_of_largest(grids, ChunkGrid::new(shape, extents)))
}

/// Returns the extent of the largest chunk along each axis.
fn largest(grids: &[Arc<dyn GridSource>]) -> Vec<u64> {
    let shape = grids[0].chunk_grid().shape().iter().enumerate();
    let extents = shape.map(|(axis, length)| {
        let extents = grids.iter().map(|grid| {
            let extent = grid.chunk_grid().chunk_shape()[axis];
            extent.min((*length).max(1))
        });
        extents.max().unwrap_or(1)
    });
    extents.collect()
}

/// Returns half of an extent, rounded up to whole chunks of the grid with the smallest chunks
/// unless that gives the extent itself.
fn half(grids: &[Arc<dyn GridSource>], axis: usize, extent: u64) -> u64 {
    let half = extent.div_ceil(2);
    let smallest = grids
        .iter()
        .map(|grid| grid.chunk_grid().chunk_shape()[axis]);
    let in_chunks = smallest
        .min()
        .and_then(|chunk| half.checked_next_multiple_of(chunk));
    in_chunks.filter(|whole| *whole < extent).unwrap_or(half)
}

/// Returns the number of bytes of a window in all grids; `None` if it exceeds `u64::MAX`.
fn window_bytes(grids: &[Arc<dyn GridSource>], extents: &[u64]) -> Option<u64> {
    let cell_bytes: u64 = grids.iter().map(|grid| cell_bytes(grid.as_ref())).sum();
    let mut extents = extents.iter();
    extents.try_fold(cell_bytes, |bytes, extent| bytes.checked_mul(*extent))
}

/// Returns the approximate number of decoded bytes if all grids are read by windows of these
/// extents. A chunk is decoded once per window that it overlaps.
fn decoded_bytes(grids: &[Arc<dyn GridSource>], extents: &[u64]) -> f64 {
    let of_grid = |grid: &Arc<dyn GridSource>| {
        let chunks = grid.chunk_grid();
        let axes = chunks.shape().iter().zip(chunks.chunk_shape()).zip(extents);
        axes.fold(
            cell_bytes(grid.as_ref()) as f64,
            |bytes, ((length, chunk), window)| {
                let [length, chunk, window] = [*length, *chunk, *window].map(u128::from);
                // Windows and chunks overlap once per boundary of either, less the boundaries that
                // they share.
                let shared = length.div_ceil(window / gcd(window, chunk) * chunk);
                let pairs = length.div_ceil(window) + length.div_ceil(chunk) - shared;
                bytes * chunk.min(length) as f64 * pairs as f64
            },
        )
    };
    grids.iter().map(of_grid).sum()
}

/// Returns the greatest common divisor of two positive numbers.
fn gcd(one: u128, other: u128) -> u128 {
    if other == 0 {
        one
    } else {
        gcd(other, one % other)
    }
}

/// Returns the number of bytes of a cell, over all attributes.
fn cell_bytes(grid: &dyn GridSource) -> u64 {
    let attributes = grid.attributes().iter().enumerate();
    let bytes = attributes.map(|(number, field)| {
        let stored = grid.cell_format(number, &ReadOptions::default());
        let stored = stored.map(|format| format.cell_type.size());
        // Strings are stored as codes.
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

    fn stored_windows(
        &self,
        attribute: usize,
        windows: &Windows,
    ) -> Result<Option<(Arc<dyn GridSource>, Windows)>> {
        let (grid, attribute) = &self.sources[attribute];
        grid.stored_windows(*attribute, windows)
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

    fn for_attributes(&self, attributes: &[usize]) -> Option<Arc<dyn GridSource>> {
        if attributes.is_empty() || attributes == self.read {
            return None;
        }
        let mut chosen = self.clone();
        chosen.read = attributes.to_vec();
        for attribute in attributes {
            let (grid, number) = &mut chosen.sources[*attribute];
            if let Some(own) = grid.for_attributes(&[*number]) {
                *grid = own;
            }
        }
        chosen.grid = common_grid(&chosen.grids_read());
        Some(Arc::new(chosen))
    }

    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        self.sum_over_chunks(chunk, |grid, chunk| grid.stored_bytes(chunk, options))
    }

    fn chunk_cost(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        self.sum_over_chunks(chunk, |grid, chunk| grid.chunk_cost(chunk, options))
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        let (grid, attribute) = &self.sources[attribute];
        grid.may_have_nulls(*attribute, options)
    }

    fn is_stored(&self, attribute: usize) -> bool {
        let (grid, attribute) = &self.sources[attribute];
        grid.is_stored(*attribute)
    }

    fn cell_format(&self, attribute: usize, options: &ReadOptions) -> Option<CellFormat> {
        let (grid, attribute) = &self.sources[attribute];
        grid.cell_format(*attribute, options)
    }

    fn availability(&self, attribute: usize, options: &ReadOptions) -> Availability {
        let (grid, attribute) = &self.sources[attribute];
        grid.availability(*attribute, options)
    }

    fn window_statistics(
        &self,
        attribute: usize,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<Option<ColumnBounds>> {
        let (grid, attribute) = &self.sources[attribute];
        grid.window_statistics(*attribute, windows, options)
    }

    fn chunk_statistics(
        &self,
        attribute: usize,
        options: &ReadOptions,
    ) -> Result<Option<Arc<ColumnBounds>>> {
        let (grid, attribute) = &self.sources[attribute];
        if !grid.chunk_grid().has_same_chunks(self.chunk_grid()) {
            return Ok(None);
        }
        grid.chunk_statistics(*attribute, options)
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

    fn fetch(&self, window: &Window, attributes: &[usize], options: &ReadOptions) -> Option<Fetch> {
        let fetches = attributes.iter().map(|attribute| {
            let (grid, attribute) = &self.sources[*attribute];
            grid.fetch(window, &[*attribute], options)
        });
        let fetches: Vec<Option<Fetch>> = fetches.collect();
        if fetches.iter().all(Option::is_none) {
            return None;
        }
        let bytes = fetches.iter().flatten().map(|fetch| fetch.bytes).sum();
        let fetched = fetches.into_iter().map(|fetch| async {
            match fetch {
                Some(fetch) => fetch.fetched.await.map(Some),
                None => Ok(None),
            }
        });
        let fetched = futures::future::try_join_all(fetched);
        Some(Fetch {
            bytes,
            fetched: Box::pin(async { Ok(Box::new(FetchedAttributes(fetched.await?)) as _) }),
        })
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
        Ok(Box::new(AlignedReader::new(readers)))
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        let grids = self.originals.iter().map(|grid| grid.recipe());
        let grids = grids.collect::<Result<Option<Vec<_>>>>()?;
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|field| (field.name().clone(), field.is_nullable()));
        Ok(grids.map(|grids| Recipe::Aligned {
            name: self.name.clone(),
            grids,
            attributes: attributes.collect(),
            read: self.read.clone(),
        }))
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
        internal_err!(
            "{} has no stored chunks of its own: describe the chunks of its parts",
            self.name
        )
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
