//! Reads an array on the axes of another array.
//!
//! In `forecast JOIN truth ON init + lead = time AND forecast.lat = truth.lat`, every cell of the forecast has at most
//! one match, whose index along each axis of the truth depends on some axes of the forecast:
//!
//! ```text
//! forecast(init, lead, lat)   truth(time, lat)
//! cell [i, l, y]              cell [positions of time [i, l], positions of lat [y]]
//! ```
//!
//! [`ReindexedGrid`] has the axes of the forecast and the attributes of the truth, so that both arrays are read together,
//! window by window ([`ZipJoins`](super::zip::ZipJoins)), and no row of the truth is collected.

mod part;
mod reader;
pub(super) mod rule;

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::{Result, internal_err};

use crate::grid::{Axis, ChunkGrid, Window};
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::join::aligned::sum_over_chunks;
use crate::provider::join::lookup::keys::{KeyTerms, NO_KEY};
use crate::provider::join::reindexed::part::Part;
use crate::provider::join::reindexed::reader::ReindexedReader;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{CellFormat, Fetch, GridSource, WindowReader, Windows};

/// An array on the axes of another grid.
#[derive(Debug)]
pub(crate) struct ReindexedGrid {
    name: String,
    values: Arc<dyn GridSource>,
    grid: Arc<dyn GridSource>,
    positions: Arc<[KeyTerms]>,
}

impl ReindexedGrid {
    /// Puts `values` on the axes of `grid`. `positions` has, for each axis of the values, the indices along
    /// it: one for every combination of indices along some axes of the grid. Cells of combinations whose index
    /// is [`NO_KEY`] have unspecified values. Returns `None` if the positions do not match the axes.
    pub fn try_new(
        values: &Arc<dyn GridSource>,
        grid: &Arc<dyn GridSource>,
        positions: Vec<KeyTerms>,
    ) -> Option<Self> {
        let lengths = lengths(grid);
        let is_whole = |(length, KeyTerms { axes, terms }): (u64, &KeyTerms)| {
            let of_axes = axes.iter().map(|axis| lengths.get(*axis).copied());
            let combinations = of_axes.reduce(|one, other| one?.checked_mul(other?));
            combinations.flatten() == Some(terms.len() as u64)
                && terms
                    .iter()
                    .all(|index| *index == NO_KEY || u64::from(*index) < length)
        };
        let own = self::lengths(values);
        let are_whole = own.len() == positions.len()
            && !own.is_empty()
            && own.into_iter().zip(&positions).all(is_whole);
        are_whole.then(|| Self {
            name: format!("reindexed({})", values.name()),
            values: Arc::clone(values),
            grid: Arc::clone(grid),
            positions: positions.into(),
        })
    }

    /// Returns the part of the values that a window reads.
    fn part(&self, window: &Window) -> Result<Part> {
        Part::try_new(
            &self.positions,
            &lengths(&self.grid),
            window,
            &lengths(&self.values),
        )
    }
}

/// Returns the length of each axis.
fn lengths(grid: &Arc<dyn GridSource>) -> Vec<u64> {
    grid.axes().iter().map(Axis::length).collect()
}

impl GridSource for ReindexedGrid {
    fn format(&self) -> &'static str {
        self.values.format()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &Path {
        self.values.path()
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        Vec::new()
    }

    fn stored_windows(
        &self,
        attribute: usize,
        windows: &Windows,
    ) -> Result<Option<(Arc<dyn GridSource>, Windows)>> {
        let Some(windows) = windows.list() else {
            return Ok(None);
        };
        let windows = windows.iter().map(|window| Ok(self.part(window)?.window));
        let windows = Windows::List(windows.collect::<Result<_>>()?);
        self.values.stored_windows(attribute, &windows)
    }

    fn axes(&self) -> &[Axis] {
        self.grid.axes()
    }

    fn attributes(&self) -> &[FieldRef] {
        self.values.attributes()
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        self.grid.chunk_grid()
    }

    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        let part = self.part(&self.chunk_grid().window(chunk))?;
        sum_over_chunks(self.values.as_ref(), &part.window, &|chunk| {
            self.values.stored_bytes(chunk, options)
        })
    }

    fn chunk_cost(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        let part = self.part(&self.chunk_grid().window(chunk))?;
        sum_over_chunks(self.values.as_ref(), &part.window, &|chunk| {
            self.values.chunk_cost(chunk, options)
        })
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        self.values.may_have_nulls(attribute, options)
    }

    fn is_stored(&self, attribute: usize) -> bool {
        self.values.is_stored(attribute)
    }

    fn cell_format(&self, attribute: usize, options: &ReadOptions) -> Option<CellFormat> {
        self.values.cell_format(attribute, options)
    }

    fn fetch(&self, window: &Window, attributes: &[usize], options: &ReadOptions) -> Option<Fetch> {
        // Reading the window reports the error.
        let part = self.part(window).ok()?;
        self.values.fetch(&part.window, attributes, options)
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        Ok(Box::new(ReindexedReader::new(
            self.values.window_reader(attributes, options)?,
            Arc::clone(&self.positions),
            [&self.grid, &self.values].map(lengths),
        )))
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        let recipes = self.values.recipe()?.zip(self.grid.recipe()?);
        let positions = self.positions.iter();
        Ok(recipes.map(|(values, grid)| Recipe::Reindexed {
            values: Box::new(values),
            grid: Box::new(grid),
            positions: positions
                .map(|positions| (positions.axes.clone(), positions.terms.to_vec()))
                .collect(),
        }))
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        self.values.describe_attributes()
    }

    fn describe_chunk(&self, _chunk: &[u64], _options: &ReadOptions) -> Result<ChunkDescription> {
        internal_err!("{} has no stored chunks of its own", self.name)
    }

    fn describe(&self) -> Result<TableDescription> {
        self.values.describe()
    }
}
