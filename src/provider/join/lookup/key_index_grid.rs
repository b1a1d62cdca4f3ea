//! The key indices of a grid's cells, as an attribute.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};

use crate::grid::{Axis, ChunkGrid, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::join::aligned::AlignedGrids;
use crate::provider::join::lookup::keys::KeyTerms;
use crate::provider::join::lookup::term_lines::TermLines;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    BlockSource, FetchedBlock, GridSelection, GridSource, ReadCounts, WindowReader,
};

/// The name of the attribute that holds the key indices.
pub(crate) const KEY_INDEX: &str = "key_index";

/// A grid with one attribute, the key index of each cell. The attribute is not stored: a key index
/// is computed as the sum of one term per set of axes.
#[derive(Debug)]
pub(crate) struct KeyIndexGrid {
    /// The grid that provides the axes and the chunks.
    grid: Arc<dyn GridSource>,
    terms: Arc<[KeyTerms]>,
    attributes: [FieldRef; 1],
}

impl KeyIndexGrid {
    /// Creates the grid. Each of `terms` covers the full length of its axes.
    pub fn new(grid: &Arc<dyn GridSource>, terms: Vec<KeyTerms>) -> Self {
        Self {
            grid: Arc::clone(grid),
            terms: terms.into(),
            attributes: [Arc::new(Field::new(KEY_INDEX, DataType::UInt32, false))],
        }
    }
}

/// Returns a table with one more attribute, the last column: the sum of the terms of each cell.
/// `parts` are the grids of the table with a selected cell, and `terms` the terms of each. The column
/// is named `name`, with underscores if the table has such a column. Returns `None` if the table
/// cannot be extended.
pub(super) fn table_with_terms(
    table: &Arc<dyn BlockSource>,
    parts: &[GridSelection],
    name: &str,
    terms: Vec<Vec<KeyTerms>>,
) -> Result<Option<Arc<dyn BlockSource>>> {
    let mut name = name.to_string();
    while table.schema().index_of(&name).is_ok() {
        name.push('_');
    }
    let named = |grid: &Arc<dyn GridSource>| (grid.path().to_path_buf(), grid.name().to_string());
    let parts = parts.iter().zip(&terms);
    let parts: HashMap<_, _> = parts.map(|part| (named(&part.0.grid), part)).collect();
    if parts.len() < terms.len() {
        return Ok(None);
    }
    let extended = Cell::new(0);
    let table = table.with_grids(&|grid| match parts.get(&named(grid)) {
        Some((part, terms)) => {
            extended.set(extended.get() + 1);
            grid_with_terms(&part.grid, &name, terms.to_vec())
        }
        // No cell of the grid is selected.
        None => grid_with_terms(grid, &name, Vec::new()),
    })?;
    Ok(table.filter(|_| extended.get() == parts.len()))
}

/// Returns a grid with one more attribute, the last.
fn grid_with_terms(
    grid: &Arc<dyn GridSource>,
    name: &str,
    terms: Vec<KeyTerms>,
) -> Arc<dyn GridSource> {
    let terms: Arc<dyn GridSource> = Arc::new(KeyIndexGrid::new(grid, terms));
    let mut attributes = grid.attributes().to_vec();
    let field = terms.attributes()[0].as_ref().clone();
    attributes.push(Arc::new(field.with_name(name)));
    let grids = [Arc::clone(grid), terms];
    Arc::new(AlignedGrids::new(
        grid.name().to_string(),
        &grids,
        attributes,
    ))
}

impl GridSource for KeyIndexGrid {
    fn format(&self) -> &'static str {
        self.grid.format()
    }

    fn name(&self) -> &str {
        self.grid.name()
    }

    fn path(&self) -> &Path {
        self.grid.path()
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        Vec::new()
    }

    fn axes(&self) -> &[Axis] {
        self.grid.axes()
    }

    fn attributes(&self) -> &[FieldRef] {
        &self.attributes
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        self.grid.chunk_grid()
    }

    fn stored_bytes(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<u64> {
        Ok(0)
    }

    fn may_have_nulls(&self, _attribute: usize, _options: &ReadOptions) -> bool {
        false
    }

    fn is_stored(&self, _attribute: usize) -> bool {
        false
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        _options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        let axes = self.grid.axes().iter().map(Axis::length);
        Ok(Box::new(KeyIndexReader {
            copies: attributes.len(),
            terms: Arc::clone(&self.terms),
            shape: axes.collect(),
            lines: TermLines::default(),
        }))
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        let terms = self.terms.iter();
        let terms = terms.map(|terms| (terms.axes.clone(), terms.terms.to_vec()));
        Ok(self.grid.recipe()?.map(|grid| Recipe::KeyIndex {
            grid: Box::new(grid),
            terms: terms.collect(),
        }))
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        Vec::new()
    }

    fn describe_chunk(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<ChunkDescription> {
        internal_err!("key indices are not stored")
    }

    fn describe(&self) -> Result<TableDescription> {
        self.grid.describe()
    }
}

struct KeyIndexReader {
    /// The number of columns to return, which are all equal.
    copies: usize,
    terms: Arc<[KeyTerms]>,
    /// The shape of the whole grid.
    shape: Vec<u64>,
    lines: TermLines,
}

impl WindowReader for KeyIndexReader {
    fn open(&mut self, window: &Window, _fetched: Option<FetchedBlock>) -> Result<()> {
        self.lines = TermLines::new(self.shape.clone(), window.ranges().to_vec());
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn cells(&mut self, _attribute: usize, _range: Range<u64>) -> Result<&[u8]> {
        internal_err!("key indices are not stored")
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let count: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let mut indices = Vec::with_capacity(count as usize);
        for run in runs {
            let lines = &mut self.lines;
            lines.visit(&self.terms, run.clone(), |line| match line.along {
                Some(along) => {
                    let terms = along.iter().map(|term| term.saturating_add(line.base));
                    indices.extend(terms);
                }
                None => indices.extend(std::iter::repeat_n(line.base, line.count)),
            });
        }
        let indices: ArrayRef = Arc::new(UInt32Array::from(indices));
        Ok(vec![indices; self.copies])
    }

    fn counts(&self) -> ReadCounts {
        ReadCounts::default()
    }
}
