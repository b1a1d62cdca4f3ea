//! Checks that every tile of an array can be decoded, and that stored statistics are true.

use std::collections::HashSet;

use crate::error::{ErrorLocation, Result};
use crate::format::io::storage::Access;
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::dense::{Grid, IndexBox};
use crate::format::tiledb::fault::Fault;
use crate::format::tiledb::fragment::{Field, FieldKind, Fragment, TileSummary};
use crate::format::tiledb::reader::TileReader;
use crate::format::tiledb::schema::Scalar;

/// The maximum number of problems that are listed.
const MAX_PROBLEMS: usize = 100;

/// The result of checking an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The number of fragments.
    pub fragments: u64,
    /// The number of tiles, each counted once per field, with those of labels.
    pub tiles: u64,
    /// The number of stored bytes that were decoded.
    pub bytes: u64,
    /// The first problems found, each with its place.
    pub problems: Vec<String>,
    /// The number of problems.
    pub problem_count: u64,
}

impl Verification {
    fn add(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Adds the tiles and the problems of a label's array.
    fn include(&mut self, label: Self) {
        self.tiles += label.tiles;
        self.bytes += label.bytes;
        self.problem_count += label.problem_count;
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        self.problems.extend(label.problems.into_iter().take(room));
    }
}

/// Checks the metadata of all fragments, and the arrays of dimension labels. With `is_deep`, also decodes
/// every tile of every field, and compares the values with the stored statistics that are used. Calls
/// `progress` with the number of fragments that are done, and the number of all.
pub fn verify(array: &TileDbArray, is_deep: bool, progress: &dyn Fn(u64, u64)) -> Verification {
    let mut found = verify_alone(array, is_deep, progress);
    let mut paths = HashSet::new();
    for label in &array.schema().labels {
        if !paths.insert(array.label_path(label)) {
            continue;
        }
        match array.open_label(label, Access::Pread) {
            Ok(label) => found.include(verify_alone(&label, is_deep, &|_, _| {})),
            Err(error) => found.add(error.to_string()),
        }
    }
    found
}

/// Checks an array without the arrays of its labels.
fn verify_alone(array: &TileDbArray, is_deep: bool, progress: &dyn Fn(u64, u64)) -> Verification {
    let mut found = Verification::default();
    let all = array.fragments().len() as u64;
    for fragment in array.fragments() {
        if let Err(error) = check_fragment(fragment, is_deep, &mut found) {
            found.add(error.to_string());
        }
        found.fragments += 1;
        progress(found.fragments, all);
    }
    for attribute in 0..array.schema().attributes.len() {
        if let Err(error) = array.enumeration(attribute) {
            found.add(error.to_string());
        }
    }
    if let Err(error) = array.metadata() {
        found.add(error.to_string());
    }
    found
}

fn check_fragment(fragment: &Fragment, is_deep: bool, found: &mut Verification) -> Result<()> {
    let schema = fragment.schema();
    let mut kinds: Vec<FieldKind> = (0..schema.attributes.len())
        .map(FieldKind::Attribute)
        .collect();
    if schema.is_sparse {
        kinds.extend((0..schema.dimensions.len()).map(FieldKind::Dimension));
        fragment.bounds()?;
    }
    if fragment.has_timestamps() {
        kinds.push(FieldKind::Timestamps);
    }
    if fragment.has_deletes() {
        kinds.push(FieldKind::DeleteTimes);
    }
    fragment.processed_deletes()?;
    for kind in kinds {
        let checked = fragment
            .field(kind)
            .and_then(|field| check_field(fragment, &field, is_deep, found));
        if let Err(error) = checked {
            found.add(error.to_string());
        }
    }
    Ok(())
}

fn check_field(
    fragment: &Fragment,
    field: &Field,
    is_deep: bool,
    found: &mut Verification,
) -> Result<()> {
    let summaries = summaries(fragment, field)?;
    if !is_deep {
        found.tiles += fragment.tiles();
        return Ok(());
    }
    let mut reader = TileReader::default();
    let mut buffers = TileBuffers::default();
    let mut written = WrittenCells::of(fragment)?;
    for tile in 0..fragment.tiles() {
        if tile > 0
            && let Some(written) = &mut written
        {
            written.advance();
        }
        found.tiles += 1;
        if let Err(error) = reader.read(fragment, field, tile, &mut buffers) {
            found.add(error.to_string());
            continue;
        }
        let Some(summary) = summaries.get(tile as usize) else {
            continue;
        };
        let cells = (0..buffers.cells).filter(|cell| {
            written
                .as_ref()
                .is_none_or(|written| written.contains(*cell))
        });
        for problem in check_summary(field, &buffers, cells, summary) {
            let path = fragment.directory().display();
            let name = &field.name;
            found.add(format!("{path}: field {name:?}, tile {tile}: {problem}"));
        }
    }
    found.bytes += reader.bytes_read();
    Ok(())
}

/// Returns the statistics of a field in each tile, as far as they are certain.
fn summaries(fragment: &Fragment, field: &Field) -> Result<Vec<TileSummary>> {
    match field.kind {
        FieldKind::Dimension(dimension) => {
            let bounds = fragment.bounds()?;
            let sides = bounds.low.get(dimension).zip(bounds.high.get(dimension));
            let tiles = 0..bounds.tiles();
            Ok(sides.map_or_else(Vec::new, |(low, high)| {
                let of_tile = |tile| TileSummary {
                    minimum: low.get(tile),
                    maximum: high.get(tile),
                    ..TileSummary::default()
                };
                tiles.map(of_tile).collect()
            }))
        }
        FieldKind::Attribute(attribute) => Ok(fragment.summaries(attribute)?.unwrap_or_default()),
        FieldKind::Timestamps | FieldKind::DeleteTimes => Ok(Vec::new()),
    }
}

/// Compares the statistics of a tile with its cells. Returns the differences.
fn check_summary(
    field: &Field,
    buffers: &TileBuffers,
    cells: impl Iterator<Item = usize>,
    summary: &TileSummary,
) -> Vec<String> {
    let (low, high) = (summary.minimum.as_ref(), summary.maximum.as_ref());
    let size = field.datatype.size();
    let (mut nulls, mut sum, mut outside) = (0u64, Some(0i128), None);
    for cell in cells {
        if buffers.is_null(cell) {
            nulls += 1;
            continue;
        }
        let bytes = buffers.cell(cell, field.cell_values, size);
        let Some(value) = Scalar::from_cell(field.datatype, field.cell_values, bytes) else {
            sum = None;
            continue;
        };
        let is_below = low.is_some_and(|low| value.compare(low).is_none_or(|order| order.is_lt()));
        let is_above =
            high.is_some_and(|high| value.compare(high).is_none_or(|order| order.is_gt()));
        sum = sum.zip(value.integer()).map(|(sum, value)| sum + value);
        if is_below || is_above {
            outside.get_or_insert(value);
        }
    }
    let mut problems = Vec::new();
    if let Some(value) = outside {
        problems.push(format!("{value} is outside of the stored bounds"));
    }
    if let Some(stored) = summary.null_count.filter(|stored| *stored != nulls) {
        problems.push(format!(
            "{nulls} cells are null, but the stored null count is {stored}"
        ));
    }
    let stored = summary.sum.as_ref().and_then(Scalar::integer);
    if let Some((stored, sum)) = stored.zip(sum).filter(|(stored, sum)| stored != sum) {
        problems.push(format!("the sum is {sum}, but the stored sum is {stored}"));
    }
    problems
}

/// The cells of a dense tile that the fragment wrote. The other cells are padding, which statistics do
/// not count.
struct WrittenCells {
    grid: Grid,
    written: IndexBox,
    tiles: IndexBox,
    /// The index of the current tile along each dimension.
    tile: Vec<u64>,
    strides: Vec<usize>,
}

impl WrittenCells {
    /// Returns the written cells of the first tile of a fragment; `None` if the fragment is sparse or has
    /// no cells.
    fn of(fragment: &Fragment) -> Result<Option<Self>> {
        let at = |fault: Fault| fault.at(ErrorLocation::file(fragment.directory()));
        let Some(domain) = fragment.domain().filter(|_| !fragment.schema().is_sparse) else {
            return Ok(None);
        };
        let grid = Grid::new(fragment.schema()).map_err(at)?;
        let written = grid.index_box(domain).map_err(at)?;
        let tiles = grid.tile_box(&written);
        Ok(Some(Self {
            tile: tiles.ranges.iter().map(|range| range.start).collect(),
            strides: grid.strides(),
            grid,
            written,
            tiles,
        }))
    }

    /// Goes to the next tile.
    fn advance(&mut self) {
        self.grid.advance(&mut self.tile, &self.tiles);
    }

    /// Returns `true` if the fragment wrote a cell of the tile, given the ordinal of the cell in the
    /// tile.
    fn contains(&self, cell: usize) -> bool {
        let axes = self.tile.iter().zip(self.grid.extents());
        let axes = axes.zip(&self.strides).zip(&self.written.ranges);
        let mut are_inside = axes.map(|(((tile, extent), stride), range)| {
            let index = tile * extent + (cell / stride) as u64 % extent;
            range.contains(&index)
        });
        are_inside.all(|is_inside| is_inside)
    }
}
