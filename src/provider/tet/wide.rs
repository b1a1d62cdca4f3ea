//! Several datasets on the same axes as one grid: the coordinates once, then a column per dataset.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{Field, FieldRef};
use datafusion::common::{Result, ScalarValue};

use crate::grid::{Axis, ChunkGrid, Window};
use crate::provider::description::TableDescription;
use crate::provider::options::ReadOptions;
use crate::provider::source::{BlockStatistics, CellFormat, GridSource, ReadCounts, WindowReader};
use crate::provider::tet::coordinates::{base, group};
use crate::provider::tet::dataset::TetDataset;

/// Bytes of a row of windows, one per column, up to which windows are made large enough for the chunks of every column.
const MAX_WINDOW_BYTES: u64 = 32 << 20;

/// The most wide tables of a file, which a hostile one could have very many of.
const MAX_TABLES: usize = 1024;

/// The datasets of one group of a file that share all their axes, as one table.
///
/// Its windows are those of the largest chunks along each axis, so that where the extents of the datasets' chunks divide
/// each other, every chunk is decoded once.
#[derive(Debug)]
pub struct WideTable {
    name: String,
    datasets: Vec<Arc<TetDataset>>,
    attributes: Vec<FieldRef>,
    grid: ChunkGrid,
}

impl WideTable {
    /// The wide tables of a file's datasets: one for each two or more of a group that share all axes. Coordinate variables
    /// are not among their columns, and datasets that name no dimensions share none.
    ///
    /// A table is called after its group and dimensions, `ocean/time_lat_lon`; with underscores behind if a dataset is
    /// called that. There are at most 1024 of a file.
    pub(super) fn of(datasets: &[Arc<TetDataset>], is_taken: impl Fn(&str) -> bool) -> Vec<Self> {
        let mut families: Vec<Vec<Arc<TetDataset>>> = Vec::new();
        // Where the families with axes of the same names and lengths are.
        let mut alike: HashMap<AxesKey, Vec<usize>> = HashMap::new();
        for dataset in datasets {
            if !dataset.has_named_axes() || dataset.is_coordinate_variable() {
                continue;
            }
            let axes = dataset.axes().iter();
            let axes = axes.map(|axis| (axis.name().to_string(), axis.length()));
            let group = group(dataset.dataset().name()).to_string();
            let alike = alike.entry((group, axes.collect())).or_default();
            let family = alike
                .iter()
                .find(|number| have_same_axes(&families[**number][0], dataset));
            match family {
                Some(number) => families[*number].push(Arc::clone(dataset)),
                None => {
                    alike.push(families.len());
                    families.push(vec![Arc::clone(dataset)]);
                }
            }
        }
        let mut tables: Vec<Self> = Vec::new();
        // The last name that was given to axes of these names: others of the same names may still differ.
        let mut last: HashMap<String, String> = HashMap::new();
        let families = families.into_iter().filter(|family| family.len() > 1);
        for family in families.take(MAX_TABLES) {
            let names: Vec<_> = family[0].axes().iter().map(Axis::name).collect();
            let base = format!("{}{}", group(family[0].dataset().name()), names.join("_"));
            let mut name = match last.get(&base) {
                Some(last) => format!("{last}_"),
                None => base.clone(),
            };
            while is_taken(&name) || tables.iter().any(|other| other.name == name) {
                name.push('_');
            }
            last.insert(base, name.clone());
            tables.push(Self::new(name, family));
        }
        tables
    }

    fn new(name: String, datasets: Vec<Arc<TetDataset>>) -> Self {
        let mut taken: HashSet<String> = datasets[0]
            .axes()
            .iter()
            .map(|axis| axis.name().to_string())
            .collect();
        let attributes = datasets
            .iter()
            .map(|dataset| {
                let mut column = base(dataset.dataset().name()).to_string();
                while !taken.insert(column.clone()) {
                    column.push('_');
                }
                let value = dataset.attributes()[0].as_ref().clone();
                Arc::new(Field::with_name(value, column))
            })
            .collect();
        Self {
            grid: common_grid(&datasets),
            name,
            datasets,
            attributes,
        }
    }
}

/// A group, and the names and lengths of axes.
type AxesKey = (String, Vec<(String, u64)>);

fn have_same_axes(one: &TetDataset, other: &TetDataset) -> bool {
    let mut axes = one.axes().iter().zip(other.axes());
    axes.all(|(one, other)| one.is_same(other))
}

/// A grid by whose windows all of the datasets can be read.
fn common_grid(datasets: &[Arc<TetDataset>]) -> ChunkGrid {
    let first = datasets[0].chunk_grid();
    let shape = first.shape().to_vec();
    let extents: Vec<u64> = (0..shape.len())
        .map(|axis| {
            let extents = datasets.iter().map(|dataset| {
                let extent = dataset.chunk_grid().chunk_shape()[axis];
                extent.min(shape[axis].max(1))
            });
            extents.max().unwrap_or(1)
        })
        .collect();
    let cell_bytes: u64 = datasets
        .iter()
        .map(|dataset| dataset.array().dtype().size())
        .sum();
    let bytes = extents
        .iter()
        .try_fold(cell_bytes, |bytes, extent| bytes.checked_mul(*extent));
    if bytes.is_some_and(|bytes| bytes <= MAX_WINDOW_BYTES) {
        return ChunkGrid::new(shape, extents);
    }
    // Chunks that differ much along every axis: by those of the dataset that has the fewest.
    let fewest = datasets.iter().min_by_key(|dataset| {
        let chunks = dataset.chunk_grid().count();
        chunks.unwrap_or(u64::MAX)
    });
    fewest.map_or(first, |dataset| dataset.chunk_grid()).clone()
}

impl GridSource for WideTable {
    fn format(&self) -> &'static str {
        "tet"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn axes(&self) -> &[Axis] {
        self.datasets[0].axes()
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
        for dataset in &self.datasets {
            let touched = dataset.chunk_grid().chunks_of(&window);
            let first: Vec<u64> = touched.iter().map(|range| range.start).collect();
            // The first one stands for the others, which may be many.
            let count: u64 = touched
                .iter()
                .map(|range| range.end - range.start)
                .product();
            let stored = dataset.stored_bytes(&first, options)?;
            bytes = bytes.saturating_add(stored.saturating_mul(count));
        }
        Ok(bytes)
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        self.datasets[attribute].may_have_nulls(0, options)
    }

    fn cell_format(&self, attribute: usize, options: &ReadOptions) -> Option<CellFormat> {
        self.datasets[attribute].cell_format(0, options)
    }

    fn has_statistics(&self, attribute: usize, options: &ReadOptions) -> bool {
        self.datasets[attribute].has_statistics(0, options)
    }

    fn unusable_statistics(&self, options: &ReadOptions) -> Option<String> {
        self.datasets[0].unusable_statistics(options)
    }

    fn window_statistics(
        &self,
        attribute: usize,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<Option<BlockStatistics>> {
        self.datasets[attribute].window_statistics(0, windows, options)
    }

    fn contained(
        &self,
        attribute: usize,
        windows: &[Window],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        self.datasets[attribute].contained(0, windows, values, options)
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        let readers = attributes
            .iter()
            .map(|attribute| self.datasets[*attribute].window_reader(&[0], options))
            .collect::<Result<_>>()?;
        Ok(Box::new(WideReader { readers, ready: 0 }))
    }

    fn describe(&self) -> Result<TableDescription> {
        let mut description = self.datasets[0].describe()?;
        let mut codecs: BTreeSet<String> = description.codecs.drain(..).collect();
        for dataset in &self.datasets[1..] {
            let other = dataset.describe()?;
            description.attributes.extend(other.attributes);
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
        for (attribute, field) in description.attributes.iter_mut().zip(&self.attributes) {
            attribute.name.clone_from(field.name());
        }
        description.name.clone_from(&self.name);
        description.chunk_shape = self.grid.chunk_shape().to_vec();
        description.chunks = self.grid.count();
        description.codecs = codecs.into_iter().collect();
        Ok(description)
    }
}

/// Reads the same windows of several datasets.
struct WideReader {
    readers: Vec<Box<dyn WindowReader>>,
    /// How many of them have their window.
    ready: usize,
}

impl WindowReader for WideReader {
    fn open(&mut self, window: &Window) -> Result<()> {
        self.ready = 0;
        for reader in &mut self.readers {
            reader.open(window)?;
        }
        Ok(())
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
