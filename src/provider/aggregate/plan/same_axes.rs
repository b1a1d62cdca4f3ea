//! Which parts of a table have the same along a column.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue, internal_err};

use crate::grid::{Coordinates, IndexSet};
use crate::provider::source::GridPart;

/// What a part of a table has along one of its columns: the selected positions of an axis, or its file, which counts as an
/// axis of one position.
#[derive(Debug, Clone)]
pub(crate) struct Along<'a> {
    /// The column's name.
    pub name: &'a str,
    coordinates: Coordinates,
    selected: IndexSet,
}

impl<'a> Along<'a> {
    /// What a part has along the column of this number. Reads the coordinates.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn of(part: &'a GridPart, column: usize) -> Result<Self> {
        Ok(match (part.grid.axes().get(column), &part.file) {
            (Some(axis), _) => Self {
                name: axis.name(),
                coordinates: axis.coordinates()?.clone(),
                selected: part.selection.axes()[column].clone(),
            },
            (None, Some(file)) => Self {
                name: "file",
                coordinates: Coordinates::Values(Arc::clone(file)),
                selected: IndexSet::all(1),
            },
            (None, None) => return internal_err!("column {column} is not along an axis"),
        })
    }

    /// How many positions are selected.
    pub fn count(&self) -> u64 {
        self.selected.count()
    }

    /// The coordinates of the selected positions of these ranks.
    ///
    /// # Errors
    /// If the engine cannot take them out of the others.
    pub fn coordinates(&self, ranks: Range<u64>) -> Result<ArrayRef> {
        if let Some(all) = self.selected.as_range() {
            let range = all.start + ranks.start..all.start + ranks.end;
            return Ok(self.coordinates.slice(range));
        }
        let positions = self.selected.ranges_of_ranks(ranks).flatten();
        Ok(self.coordinates.at(positions)?)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.selected == other.selected
            && match (&self.coordinates, &other.coordinates) {
                (Coordinates::Index { origin: one }, Coordinates::Index { origin: other }) => {
                    one == other
                }
                (Coordinates::Values(one), Coordinates::Values(other)) => {
                    Arc::ptr_eq(one, other) || one == other
                }
                _ => false,
            }
    }

    /// How many positions there are and the coordinates of the first and the last: what differs there differs.
    fn ends(&self) -> Result<(u64, ScalarValue, ScalarValue)> {
        let end = |rank: u64| {
            let coordinate = self.coordinates(rank..rank + 1)?;
            ScalarValue::try_from_array(&coordinate, 0)
        };
        let count = self.count();
        Ok((count, end(0)?, end(count.saturating_sub(1))?))
    }
}

/// Which parts of a table have the same coordinates at the same selected positions along a column.
#[derive(Debug, Clone)]
pub(crate) struct SameAxes {
    /// For each part the number of what it has; `None` for those without selected cells.
    pub of_part: Vec<Option<usize>>,
    /// For each number the first part that has it.
    pub firsts: Vec<usize>,
}

impl SameAxes {
    /// Compares what these parts have along a column. Reads the coordinates if there are several of them.
    ///
    /// # Errors
    /// If the coordinates cannot be read.
    pub fn of(column: usize, parts: &[&GridPart]) -> Result<Self> {
        let mut same = Self {
            of_part: Vec::with_capacity(parts.len()),
            firsts: Vec::new(),
        };
        if let [part] = parts {
            let has_cells = !part.selection.is_empty();
            same.of_part.push(has_cells.then_some(0));
            same.firsts.extend(has_cells.then_some(0));
            return Ok(same);
        }
        let mut last: Option<(usize, Along)> = None;
        // Of those that agree at their ends, the one seen last: to take the same for different would do no harm.
        let mut by_ends: HashMap<_, (usize, Along)> = HashMap::new();
        for (number, part) in parts.iter().enumerate() {
            if part.selection.is_empty() {
                same.of_part.push(None);
                continue;
            }
            let along = Along::of(part, column)?;
            // Neighbours most often have the same, which is seen at once.
            if let Some((found, other)) = &last
                && other.is_same(&along)
            {
                same.of_part.push(Some(*found));
                continue;
            }
            let ends = along.ends()?;
            let found = match by_ends.get(&ends) {
                Some((found, other)) if other.is_same(&along) => *found,
                _ => {
                    same.firsts.push(number);
                    same.firsts.len() - 1
                }
            };
            by_ends.insert(ends, (found, along.clone()));
            last = Some((found, along));
            same.of_part.push(Some(found));
        }
        Ok(same)
    }
}
