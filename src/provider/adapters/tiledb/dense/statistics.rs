//! Statistics of chunks of dense arrays, from those of the tiles that a chunk shows.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, UInt64Array};
use datafusion::common::{Result, ScalarValue};

use crate::error::Result as FormatResult;
use crate::format::tiledb::{
    CellValues, Datatype, IndexBox, Interval, Representation, Scalar, TileSummary, WindowRegion,
    WindowSource,
};
use crate::grid::{ChunkGrid, Window};
use crate::provider::adapters::tiledb::columns::NullValues;
use crate::provider::adapters::tiledb::dense::grid::DenseGrid;
use crate::provider::source::{ColumnBounds, GridSource};

/// The maximum number of chunks of an array whose statistics are kept.
const MAX_KEPT: u64 = 1 << 20;
/// The maximum number of chunks times the number of fragments for which statistics are kept: each
/// chunk is compared with each fragment.
const MAX_COMPARED: u64 = 1 << 26;

/// Statistics of some cells, as far as they are known.
#[derive(Debug, Clone, Default)]
struct CellSummary {
    bounds: Option<(Scalar, Scalar)>,
    /// `true` if some cells may have values outside of `bounds`.
    is_unbounded: bool,
    /// The number of nulls of the column.
    nulls: Option<u64>,
    /// The sum of integers.
    sum: Option<i128>,
    /// `true` if both bounds, where there are some, are values of cells.
    has_exact_bounds: bool,
}

impl CellSummary {
    fn include(&mut self, low: &Scalar, high: &Scalar) {
        let is = |one: &Scalar, other: &Scalar, side| one.compare(other) == Some(side);
        match &mut self.bounds {
            None => self.bounds = Some((low.clone(), high.clone())),
            Some((all_low, all_high)) => {
                if is(low, all_low, Ordering::Less) {
                    *all_low = low.clone();
                }
                if is(high, all_high, Ordering::Greater) {
                    *all_high = high.clone();
                }
            }
        }
    }

    /// Adds cells whose values are unknown.
    fn add_unknown(&mut self) {
        self.is_unbounded = true;
        self.has_exact_bounds = false;
        self.nulls = None;
    }

    fn add_nulls(&mut self, nulls: Option<u64>) {
        self.nulls = self.nulls.zip(nulls).and_then(|(a, b)| a.checked_add(b));
    }

    fn add_sum(&mut self, sum: Option<i128>) {
        self.sum = self.sum.zip(sum).map(|(a, b)| a.saturating_add(b));
    }

    /// Returns `true` if both bounds are values of cells, or if all cells are null.
    fn is_exact(&self) -> bool {
        self.has_exact_bounds && !self.is_unbounded
    }

    /// The bounds, if all cells that are not null lie between them.
    fn known_bounds(&self) -> Option<&(Scalar, Scalar)> {
        self.bounds.as_ref().filter(|_| !self.is_unbounded)
    }
}

/// The cells of a fragment's tile that a chunk shows.
struct ShownTile<'a> {
    /// The statistics of the cells that the fragment wrote.
    summary: &'a TileSummary,
    /// The cells that the fragment wrote.
    written: Option<IndexBox>,
    shown: &'a IndexBox,
    /// `true` if the fragment stores nulls.
    is_nullable: bool,
}

impl DenseGrid {
    /// Returns `true` if tiles may have statistics of an attribute that are certain.
    pub(super) fn has_statistics(&self, attribute: usize) -> bool {
        let array = self.stored.array();
        let description = array.schema().attributes.get(attribute);
        description.is_some_and(|description| {
            let datatype = description.datatype;
            let is_number = datatype.is_integer()
                || matches!(
                    datatype,
                    Datatype::Float32 | Datatype::Float64 | Datatype::Bool
                )
                || datatype.is_datetime()
                || datatype.is_time();
            is_number && description.cell_values == CellValues::Fixed(1)
        }) && !array.fragments().is_empty()
    }

    /// Returns `true` if these statistics are bounds of the column.
    pub(super) fn has_bounds(&self, attribute: usize) -> bool {
        let column = self.stored.attributes().get(attribute);
        self.has_statistics(attribute)
            && column.is_some_and(|column| column.enumeration().is_none())
    }

    /// Returns the statistics of an attribute in windows. With `is_exact_only`, nulls are counted only
    /// where the bounds are exact.
    pub(super) fn bounds<'a>(
        &self,
        attribute: usize,
        windows: impl Iterator<Item = &'a Window>,
        nulls: NullValues,
        is_exact_only: bool,
    ) -> FormatResult<ColumnBounds> {
        let summaries = windows.map(|window| self.summary(attribute, window, nulls));
        let summaries = summaries.collect::<FormatResult<Vec<_>>>()?;
        let column = &self.stored.attributes()[attribute];
        let bounds = |side: fn(&(Scalar, Scalar)) -> &Scalar| {
            column.scalars(
                summaries
                    .iter()
                    .map(|summary| summary.known_bounds().map(side)),
            )
        };
        let known = |summary: &CellSummary| summary.nulls.filter(|_| summary.is_exact());
        let nulls = summaries.iter().map(|summary| match is_exact_only {
            true => known(summary),
            false => summary.nulls,
        });
        Ok(ColumnBounds {
            min: bounds(|(low, _)| low)?,
            max: bounds(|(_, high)| high)?,
            nulls: nulls.collect(),
            sums: sums(column.datatype(), &summaries),
            is_exact: summaries.iter().all(|summary| known(summary).is_some()),
        })
    }

    /// Returns the statistics of an attribute in all chunks, if the chunks are not too many.
    pub(super) fn all_bounds(
        &self,
        attribute: usize,
        nulls: NullValues,
    ) -> FormatResult<Option<Arc<ColumnBounds>>> {
        let kept = &self.statistics[attribute];
        let kept = &kept[usize::from(nulls.nan) + 2 * usize::from(nulls.fill)];
        if let Some(known) = kept.get() {
            return Ok(known.clone());
        }
        let grid = self.chunk_grid();
        let mut known = None;
        if let Some(count) = self.count_of_few_chunks() {
            let chunks: Vec<_> = grid.axes().map(|axis| 0..axis.count()).collect();
            let windows: Vec<_> = (0..count)
                .map(|number| grid.window(&ChunkGrid::nth_of(&chunks, number)))
                .collect();
            let bounds = self.bounds(attribute, windows.iter(), nulls, true)?;
            known = Some(Arc::new(bounds));
        }
        Ok(kept.get_or_init(|| known).clone())
    }

    /// Returns the number of chunks, if each can be compared with every fragment.
    pub(super) fn count_of_few_chunks(&self) -> Option<u64> {
        let fragments = self.stored.array().fragments().len() as u64;
        let is_limited =
            |count: &u64| *count <= MAX_KEPT && count.saturating_mul(fragments) <= MAX_COMPARED;
        self.chunk_grid().count().filter(is_limited)
    }

    /// Compares an attribute with an enumeration in each window with values: `false` if no cell of
    /// the window can have any of the values, null if unknown.
    pub(super) fn contain_indices(
        &self,
        attribute: usize,
        windows: &[Window],
        values: &HashSet<ScalarValue>,
    ) -> Result<Option<BooleanArray>> {
        let Some(column) = self.stored.attributes().get(attribute) else {
            return Ok(None);
        };
        let bounds = windows.iter().map(|window| {
            let summary = self.summary(attribute, window, NullValues::NONE)?;
            Ok(summary.known_bounds().cloned())
        });
        column.contained(values, bounds)
    }

    /// Combines the statistics of the tiles that a window shows.
    fn summary(
        &self,
        attribute: usize,
        window: &Window,
        nulls: NullValues,
    ) -> FormatResult<CellSummary> {
        let array = self.stored.array();
        let cells = self.cells_of(window);
        let tiles = array.grid()?.tile_box(&cells);
        let unknown = CellSummary {
            is_unbounded: true,
            ..CellSummary::default()
        };
        if cells.is_empty() || tiles.cells() != Some(1) {
            return Ok(unknown);
        }
        let mut all = CellSummary {
            nulls: Some(0),
            sum: Some(0),
            has_exact_bounds: true,
            ..CellSummary::default()
        };
        let shown = array.window(cells)?;
        for region in shown.regions() {
            let source = region.source.map(|source| shown.sources()[source]);
            let field = match source {
                Some(source) => array.attribute_in(source.fragment, attribute)?,
                None => None,
            };
            let Some((source, field)) = source.zip(field) else {
                self.add_fill(attribute, region, nulls, &mut all);
                continue;
            };
            let tiles = self.stored.summaries(source.fragment, attribute)?;
            let tile = usize::try_from(source.tile).ok();
            let Some(tile) = tiles.zip(tile).and_then(|(tiles, tile)| tiles.get(tile)) else {
                return Ok(unknown);
            };
            let written = self.written_in_tile(source, &region.cells)?;
            let tile = ShownTile {
                summary: tile,
                written,
                shown: &region.cells,
                is_nullable: field.is_nullable,
            };
            self.add_tile(attribute, &tile, nulls, &mut all);
        }
        Ok(all)
    }

    /// Adds cells that were never written.
    fn add_fill(
        &self,
        attribute: usize,
        region: &WindowRegion,
        nulls: NullValues,
        all: &mut CellSummary,
    ) {
        let description = &self.stored.array().schema().attributes[attribute];
        let column = &self.stored.attributes()[attribute];
        let cells = region.cells.cells();
        let fill = Scalar::from_bytes(description.datatype, &description.fill);
        let is_nan = matches!(fill, Some(Scalar::Float(value)) if value.is_nan());
        let is_not_a_time = column.has_not_a_time() && fill == Some(Scalar::Signed(i64::MIN));
        let is_null = (description.is_nullable && !description.is_fill_valid)
            || (nulls.fill && (column.fill().is_some() || column.is_null_where_missing()))
            || (nulls.nan && is_nan)
            || is_not_a_time;
        match fill {
            _ if is_null => all.add_nulls(cells),
            Some(fill) if !is_nan => {
                all.include(&fill, &fill);
                all.add_nulls(Some(0));
                let times = |value: i128| cells.map(|cells| value.saturating_mul(cells.into()));
                all.add_sum(fill.integer().and_then(times));
            }
            _ => all.add_unknown(),
        }
    }

    /// Adds the shown cells of a tile.
    fn add_tile(
        &self,
        attribute: usize,
        shown: &ShownTile<'_>,
        nulls: NullValues,
        all: &mut CellSummary,
    ) {
        let column = &self.stored.attributes()[attribute];
        let tile = shown.summary;
        let cells = shown.shown.cells();
        let is_whole = shown.written.as_ref() == Some(shown.shown);
        let stored_nulls = match shown.is_nullable {
            true => tile.null_count.filter(|nulls| is_whole || *nulls == 0),
            false => Some(0),
        };
        let written = shown.written.as_ref().and_then(IndexBox::cells);
        if shown.is_nullable && written.is_some() && tile.null_count == written {
            all.add_nulls(cells);
            return;
        }
        let (Some(low), Some(high)) = (&tile.minimum, &tile.maximum) else {
            all.add_unknown();
            return;
        };
        all.include(low, high);
        // The fill value may be one of the values, and counts as null then.
        let has_fill = nulls.fill
            && column.fill_scalar().is_some_and(|fill| {
                let (low, high) = (low.clone(), high.clone());
                Interval { low, high }.contains(&fill)
            });
        let has_not_a_time = column.has_not_a_time() && *low == Scalar::Signed(i64::MIN);
        let is_clear = !has_fill && !has_not_a_time;
        all.add_nulls(stored_nulls.filter(|_| is_clear));
        all.has_exact_bounds &= is_clear && is_whole && tile.is_exact;
        let sum = tile.sum.as_ref().filter(|_| is_clear && is_whole);
        all.add_sum(sum.and_then(Scalar::integer));
    }

    /// Returns the cells of a tile that a fragment wrote, given some of them.
    fn written_in_tile(
        &self,
        source: WindowSource,
        cells: &IndexBox,
    ) -> FormatResult<Option<IndexBox>> {
        let array = self.stored.array();
        let extents = array.grid()?.extents();
        let ranges = cells.ranges.iter().zip(extents).map(|(range, extent)| {
            let start = range.start / extent * extent;
            start..start.saturating_add(*extent)
        });
        let tile = IndexBox {
            ranges: ranges.collect(),
        };
        let bounds = array.fragment_boxes().get(source.fragment);
        let bounds = bounds.and_then(Option::as_ref);
        Ok(bounds.and_then(|bounds| bounds.intersection(&tile)))
    }
}

/// Returns the sums of integers, in the type of SQL's `sum`; `None` if no sum is known.
fn sums(datatype: Datatype, summaries: &[CellSummary]) -> Option<ArrayRef> {
    if !datatype.is_integer() || summaries.iter().all(|summary| summary.sum.is_none()) {
        return None;
    }
    let is_signed = datatype.representation() == Representation::Signed;
    let known = summaries
        .iter()
        .map(|summary| summary.sum.filter(|_| summary.nulls.is_some()));
    Some(match is_signed {
        true => {
            let known = known.map(|sum| sum.and_then(|sum| i64::try_from(sum).ok()));
            Arc::new(known.collect::<Int64Array>())
        }
        false => {
            let known = known.map(|sum| sum.and_then(|sum| u64::try_from(sum).ok()));
            Arc::new(known.collect::<UInt64Array>())
        }
    })
}
