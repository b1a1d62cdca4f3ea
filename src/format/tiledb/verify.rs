//! Checks that every tile of an array can be decoded, and that stored bounds are true.

use crate::error::Result;
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::fragment::{Field, FieldKind, Fragment};
use crate::format::tiledb::reader::TileReader;
use crate::format::tiledb::schema::Scalar;

/// The maximum number of problems that are listed.
const MAX_PROBLEMS: usize = 100;

/// The result of checking an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The number of fragments.
    pub fragments: u64,
    /// The number of tiles, each counted once per field.
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
}

/// Checks the metadata of all fragments. With `is_deep`, also decodes every tile of every field, and
/// compares the values with the stored bounds. Calls `progress` with the number of fragments that are
/// done, and the number of all.
pub fn verify(array: &TileDbArray, is_deep: bool, progress: &dyn Fn(u64, u64)) -> Verification {
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
    let bounds = bounds(fragment, field)?;
    if !is_deep {
        found.tiles += fragment.tiles();
        return Ok(());
    }
    let mut reader = TileReader::default();
    let mut buffers = TileBuffers::default();
    for tile in 0..fragment.tiles() {
        found.tiles += 1;
        if let Err(error) = reader.read(fragment, field, tile, &mut buffers) {
            found.add(error.to_string());
            continue;
        }
        let outside = bounds.get(tile as usize).and_then(|(low, high)| {
            // Dense tiles hold padding, to which bounds do not apply.
            let is_padded = !fragment.schema().is_sparse;
            first_outside(field, &buffers, low.as_ref(), high.as_ref()).filter(|_| !is_padded)
        });
        if let Some(value) = outside {
            let place = fragment.directory().display();
            let name = &field.name;
            found.add(format!(
                "{place}: field {name:?}, tile {tile}: {value:?} is outside of the stored bounds"
            ));
        }
    }
    found.bytes += reader.bytes_read();
    Ok(())
}

/// The bounds of the values of a tile, as far as there are some.
type Bounds = (Option<Scalar>, Option<Scalar>);

/// Returns the bounds of a field in each tile.
fn bounds(fragment: &Fragment, field: &Field) -> Result<Vec<Bounds>> {
    match field.kind {
        FieldKind::Dimension(dimension) => {
            let bounds = fragment.bounds()?;
            let sides = bounds.low.get(dimension).zip(bounds.high.get(dimension));
            let tiles = 0..bounds.tiles();
            Ok(sides.map_or_else(Vec::new, |(low, high)| {
                tiles.map(|tile| (low.get(tile), high.get(tile))).collect()
            }))
        }
        FieldKind::Attribute(attribute) => {
            let summaries = fragment.summaries(attribute)?.unwrap_or_default();
            let bounds = summaries
                .into_iter()
                .map(|tile| (tile.minimum, tile.maximum));
            Ok(bounds.collect())
        }
        FieldKind::Timestamps | FieldKind::DeleteTimes => Ok(Vec::new()),
    }
}

/// Returns the first value outside of the bounds.
fn first_outside(
    field: &Field,
    buffers: &TileBuffers,
    low: Option<&Scalar>,
    high: Option<&Scalar>,
) -> Option<Scalar> {
    if low.is_none() && high.is_none() {
        return None;
    }
    let size = field.datatype.size();
    let cells = (0..buffers.cells).filter(|cell| !buffers.is_null(*cell));
    let mut values = cells.filter_map(|cell| {
        let bytes = buffers.cell(cell, field.cell_values, size);
        Scalar::from_cell(field.datatype, field.cell_values, bytes)
    });
    values.find(|value| {
        let is_below = low.is_some_and(|low| value.compare(low).is_none_or(|order| order.is_lt()));
        let is_above =
            high.is_some_and(|high| value.compare(high).is_none_or(|order| order.is_gt()));
        is_below || is_above
    })
}
