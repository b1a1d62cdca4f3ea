//! Statistics of tiles that can be relied upon.

use std::cmp::Ordering;

use crate::error::{ErrorLocation, Result};
use crate::format::tiledb::dense::{Grid, IndexBox};
use crate::format::tiledb::fragment::{Fragment, TileValues};
use crate::format::tiledb::schema::{CellValues, Datatype, Scalar};

/// First format version with statistics of whole fragments.
const MIN_FRAGMENT_STATISTICS_VERSION: u32 = 12;
/// First format version with the statistics of tiles.
const MIN_STATISTICS_VERSION: u32 = 11;

/// The certain part of the stored statistics of an attribute, for the cells of a tile or fragment.
///
/// Stored statistics are wrong in several cases, in which the fields are `None`: the minimum and
/// maximum of floating-point numbers with NaN, of tiles without values, and of texts that are
/// nullable, dense or consolidated; null counts of texts and lists; sums of integers that may have saturated. In dense fragments, only the
/// cells within the fragment's domain are counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TileSummary {
    /// A lower bound of all values. For texts, compared byte by byte.
    pub minimum: Option<Scalar>,
    /// An upper bound of all values. For texts, compared byte by byte.
    pub maximum: Option<Scalar>,
    /// The number of nulls.
    pub null_count: Option<u64>,
    /// The sum of all values that are not null.
    pub sum: Option<Scalar>,
    /// `true` if the bounds are values of cells, and not only bounds.
    pub is_exact: bool,
}

impl Fragment {
    /// Returns the certain statistics of an attribute in each tile, or `None` if there are none.
    ///
    /// The statistics count every cell of the tile. They do not know which cells other fragments
    /// overwrite, or which cells are deleted.
    pub fn summaries(&self, attribute: usize) -> Result<Option<Vec<TileSummary>>> {
        let Some(description) = self.schema.attributes.get(attribute) else {
            return Ok(None);
        };
        let is_number =
            description.cell_values == CellValues::Fixed(1) && description.datatype.is_number();
        // Dense writers store the texts of the last tile for the first one, and nothing for others.
        let is_text = description.datatype == Datatype::StringAscii
            && description.cell_values.is_variable()
            && !description.is_nullable
            && self.schema.is_sparse
            && self.stamp.first == self.stamp.last;
        if self.version() < MIN_STATISTICS_VERSION || !is_number && !is_text {
            return Ok(None);
        }
        let (minimums, maximums) = (self.minimums(attribute)?, self.maximums(attribute)?);
        let (Some(minimums), Some(maximums)) = (minimums, maximums) else {
            return Ok(None);
        };
        let tiles = usize::try_from(self.tiles).unwrap_or(usize::MAX);
        if minimums.tiles() != tiles || maximums.tiles() != tiles {
            // Writers may leave statistics out.
            return Ok(None);
        }
        if is_text {
            let summary = |tile| text_summary(&minimums, &maximums, tile);
            return Ok(Some((0..tiles).map(summary).collect()));
        }
        let sums = self.sums(attribute)?;
        let null_counts = match description.is_nullable {
            true => self.null_counts(attribute)?,
            false => vec![0; tiles],
        };
        let written = self.written_cells()?;
        let is_padded = self.is_padded();
        let summaries = (0..tiles).map(|tile| {
            let mut summary = TileSummary::default();
            let cells = written.get(tile).copied().unwrap_or(0);
            let Some(nulls) = null_counts
                .get(tile)
                .copied()
                .filter(|nulls| *nulls <= cells)
            else {
                return summary;
            };
            if !is_padded {
                summary.null_count = Some(nulls);
            }
            if nulls == cells && !is_padded {
                return summary;
            }
            let value =
                |values: &TileValues| Scalar::from_bytes(description.datatype, values.get(tile)?);
            let (Some(minimum), Some(maximum)) = (value(&minimums), value(&maximums)) else {
                return summary;
            };
            let sum = sums.get(tile).copied();
            // A padded tile may hold nothing but nulls and padding.
            if is_padded && description.is_nullable {
                return summary;
            }
            summary.set_bounds(minimum, maximum, sum, cells);
            if is_padded {
                summary.is_exact = false;
                summary.sum = None;
            }
            summary
        });
        Ok(Some(summaries.collect()))
    }

    /// Returns the certain statistics of an attribute in the whole fragment, or `None` if there are
    /// none.
    ///
    /// Takes the same time whatever the number of tiles, except for nullable attributes.
    pub fn summary(&self, attribute: usize) -> Result<Option<TileSummary>> {
        let Some(description) = self.schema.attributes.get(attribute) else {
            return Ok(None);
        };
        let is_stored = self.version() >= MIN_FRAGMENT_STATISTICS_VERSION
            && description.cell_values == CellValues::Fixed(1)
            && description.datatype.is_number()
            // Tiles of nulls only count as zeros in the bounds of fragments.
            && !description.is_nullable
            && !self.is_padded();
        if !is_stored || self.tiles == 0 {
            let Some(summaries) = self.summaries(attribute)? else {
                return Ok(None);
            };
            let written = self.written_cells()?;
            return Ok(Some(combine(summaries.into_iter().zip(written))));
        }
        let statistics = self.statistics()?;
        let Some(statistics) = statistics.as_ref().and_then(|all| all.get(attribute)) else {
            return Ok(None);
        };
        let value = |bytes: &[u8]| Scalar::from_bytes(description.datatype, bytes);
        let (Some(minimum), Some(maximum)) =
            (value(&statistics.minimum), value(&statistics.maximum))
        else {
            return Ok(None);
        };
        let cells = match self.schema.is_sparse {
            true => self.sparse_cells(),
            false => self
                .written_box()?
                .and_then(|(_, cells)| cells.cells())
                .unwrap_or(u64::MAX),
        };
        let sum = Some(u64::from_le_bytes(statistics.sum));
        let mut summary = TileSummary {
            null_count: Some(0),
            ..TileSummary::default()
        };
        summary.set_bounds(minimum, maximum, sum, cells);
        Ok(Some(summary))
    }

    /// Returns `true` for consolidated dense fragments, whose statistics count their padding.
    fn is_padded(&self) -> bool {
        !self.schema.is_sparse && self.stamp.first < self.stamp.last
    }

    /// Returns the number of cells of each tile that were written, without padding.
    fn written_cells(&self) -> Result<Vec<u64>> {
        if self.schema.is_sparse {
            return Ok((0..self.tiles).map(|tile| self.cells(tile)).collect());
        }
        let mut written = Vec::new();
        if let Some((grid, cells)) = self.written_box()? {
            grid.for_each_tile_cells(&cells, |cells| written.push(cells));
        }
        Ok(written)
    }

    /// Returns the cells of a dense fragment, unless it has none.
    fn written_box(&self) -> Result<Option<(Grid, IndexBox)>> {
        let Some(domain) = self.domain() else {
            return Ok(None);
        };
        let cells = Grid::new(&self.schema).and_then(|grid| {
            let cells = grid.index_box(domain)?;
            Ok((grid, cells))
        });
        let location = || ErrorLocation::part(self.metadata.path(), "footer");
        cells.map(Some).map_err(|fault| fault.at(location()))
    }
}

impl TileSummary {
    /// Sets the bounds and the sum of some number of cells, as far as they are certain.
    fn set_bounds(&mut self, minimum: Scalar, maximum: Scalar, sum: Option<u64>, cells: u64) {
        let is_ordered = minimum.compare(&maximum).is_some_and(Ordering::is_le);
        // NaN resets minimum and maximum, and makes the sum NaN.
        let has_nan = matches!(minimum, Scalar::Float(_))
            && sum.is_none_or(|sum| f64::from_bits(sum).is_nan());
        if is_ordered && !has_nan {
            self.sum = sum.and_then(|sum| exact_sum(sum, cells, &minimum, &maximum));
            self.is_exact = true;
            (self.minimum, self.maximum) = (Some(minimum), Some(maximum));
        }
    }
}

/// Combines the summaries of tiles, each with its number of cells.
fn combine(tiles: impl Iterator<Item = (TileSummary, u64)>) -> TileSummary {
    let mut all = TileSummary {
        null_count: Some(0),
        is_exact: true,
        ..TileSummary::default()
    };
    let (mut is_bounded, mut is_summed, mut integers, mut floats) = (true, true, 0i128, 0.0);
    for (tile, cells) in tiles {
        let nulls = all.null_count.zip(tile.null_count);
        all.null_count = nulls.and_then(|(a, b)| a.checked_add(b));
        if tile.null_count == Some(cells) {
            continue;
        }
        all.is_exact &= tile.is_exact;
        is_bounded &= tile.minimum.is_some() && tile.maximum.is_some();
        is_summed &= tile.sum.is_some();
        match &tile.sum {
            Some(Scalar::Signed(sum)) => integers += i128::from(*sum),
            Some(Scalar::Unsigned(sum)) => integers += i128::from(*sum),
            Some(Scalar::Float(sum)) => floats += sum,
            _ => {}
        }
        let is_further = |new: &Option<Scalar>, old: &Option<Scalar>, side| match (new, old) {
            (Some(new), Some(old)) => new.compare(old) == Some(side),
            (new, old) => new.is_some() && old.is_none(),
        };
        if is_further(&tile.minimum, &all.minimum, Ordering::Less) {
            all.minimum = tile.minimum;
        }
        if is_further(&tile.maximum, &all.maximum, Ordering::Greater) {
            all.maximum = tile.maximum;
        }
        all.sum = tile.sum;
    }
    all.sum = match all.sum.filter(|_| is_summed) {
        Some(Scalar::Signed(_)) => i64::try_from(integers).ok().map(Scalar::Signed),
        Some(Scalar::Unsigned(_)) => u64::try_from(integers).ok().map(Scalar::Unsigned),
        Some(Scalar::Float(_)) => Some(Scalar::Float(floats)),
        _ => None,
    };
    if !is_bounded {
        (all.minimum, all.maximum) = (None, None);
    }
    all.is_exact &= all.minimum.is_some();
    all
}

/// Returns the bounds of texts, whose writers compare them up to the first NUL.
fn text_summary(minimums: &TileValues, maximums: &TileValues, tile: usize) -> TileSummary {
    let (Some(minimum), Some(maximum)) = (minimums.get(tile), maximums.get(tile)) else {
        return TileSummary::default();
    };
    let until_nul = |text: &[u8]| {
        let end = text.iter().position(|byte| *byte == 0);
        text[..end.unwrap_or(text.len())].to_vec()
    };
    let mut maximum = until_nul(maximum);
    // Greater than all texts that go on with NUL.
    maximum.push(1);
    TileSummary {
        minimum: Some(Scalar::Bytes(until_nul(minimum))),
        maximum: Some(Scalar::Bytes(maximum)),
        null_count: Some(0),
        ..TileSummary::default()
    }
}

/// Returns a stored sum, unless the sum of integers may have saturated on the way.
fn exact_sum(bits: u64, cells: u64, minimum: &Scalar, maximum: &Scalar) -> Option<Scalar> {
    let magnitude = |value: &Scalar| match value {
        Scalar::Signed(value) => Some(value.unsigned_abs()),
        Scalar::Unsigned(value) => Some(*value),
        _ => None,
    };
    if let Scalar::Float(_) = minimum {
        return Some(Scalar::Float(f64::from_bits(bits)));
    }
    let largest = magnitude(minimum)?.max(magnitude(maximum)?);
    largest.checked_mul(cells).filter(|sum| *sum < 1 << 63)?;
    Some(match minimum {
        Scalar::Signed(_) => Scalar::Signed(bits as i64),
        _ => Scalar::Unsigned(bits),
    })
}
