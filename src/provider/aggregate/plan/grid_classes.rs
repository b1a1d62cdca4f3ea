//! Finds the grids of a table that have the same coordinates along a column.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue, internal_err};

use crate::grid::{Coordinates, IndexSet};
use crate::provider::source::GridSelection;

/// The selected coordinates of a grid along one column. The file column is treated as an axis of
/// length 1.
#[derive(Debug, Clone)]
pub(crate) struct SelectedCoordinates<'a> {
    /// The name of the column.
    pub name: &'a str,
    coordinates: Coordinates,
    selected: IndexSet,
}

impl<'a> SelectedCoordinates<'a> {
    /// Returns the selected coordinates of a grid along a column. Reads the coordinates of the
    /// axis.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn of(part: &'a GridSelection, column: usize) -> Result<Self> {
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
            (None, None) => {
                return internal_err!("column {column} is neither a dimension nor the file column");
            }
        })
    }

    /// Returns the number of selected indices.
    pub fn count(&self) -> u64 {
        self.selected.count()
    }

    /// Returns the coordinates of the selected indices with these ranks.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be gathered.
    pub fn coordinates(&self, ranks: Range<u64>) -> Result<ArrayRef> {
        if let Some(all) = self.selected.as_range() {
            let range = all.start + ranks.start..all.start + ranks.end;
            return Ok(self.coordinates.slice(range));
        }
        let positions = self.selected.ranges_of_ranks(ranks).flatten();
        Ok(self.coordinates.at(positions)?)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.selected == other.selected && self.coordinates.is_same(&other.coordinates)
    }

    /// Returns the number of selected indices and the coordinates of the first and the last one.
    /// Equal coordinates have equal ends.
    fn ends(&self) -> Result<(u64, ScalarValue, ScalarValue)> {
        let end = |rank: u64| {
            let coordinate = self.coordinates(rank..rank + 1)?;
            ScalarValue::try_from_array(&coordinate, 0)
        };
        let count = self.count();
        Ok((count, end(0)?, end(count.saturating_sub(1))?))
    }
}

/// The classes of grids along one column. Grids of the same class have equal coordinates and the
/// same selected indices.
#[derive(Debug, Clone)]
pub(crate) struct GridClasses {
    /// The class of each grid; `None` for grids without selected cells.
    pub of_part: Vec<Option<usize>>,
    /// For each class, the index of its first grid.
    pub firsts: Vec<usize>,
}

impl GridClasses {
    /// Finds the classes of these grids along a column. Reads the coordinates if there are several
    /// grids.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn of(column: usize, parts: &[&GridSelection]) -> Result<Self> {
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
        // For each pair of ends, the class seen last. Splitting a class in two costs time, but the
        // results stay correct.
        let mut by_ends: HashMap<_, (usize, SelectedCoordinates)> = HashMap::new();
        for (number, part) in parts.iter().enumerate() {
            if part.selection.is_empty() {
                same.of_part.push(None);
                continue;
            }
            let along = SelectedCoordinates::of(part, column)?;
            let ends = along.ends()?;
            let found = match by_ends.get(&ends) {
                Some((found, other)) if other.is_same(&along) => *found,
                _ => {
                    same.firsts.push(number);
                    let next = same.firsts.len() - 1;
                    by_ends.insert(ends, (next, along));
                    next
                }
            };
            same.of_part.push(Some(found));
        }
        Ok(same)
    }
}
