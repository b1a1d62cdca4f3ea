//! `tet_dimensions()`: the axes of arrays.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::datatypes::Field;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Result, ScalarValue};

use crate::grid::{Axis, IndexSet, Monotonicity};
use crate::provider::catalog::many_files::axis_union::{AxisUnion, CoordinateRange};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::error::describe;
use crate::provider::introspection::catalogs::{ListedSchema, ListedTable};
use crate::provider::introspection::column::Column;
use crate::provider::introspection::column_attributes;
use crate::provider::introspection::listing::Listing;
use crate::provider::introspection::tables::datasets::all_blocks;
use crate::provider::planning::axis_bounds::axis_range;
use crate::provider::source::GridSource;

/// Lists one row per dimension of each table.
pub(crate) struct Dimensions;

/// A dimension. Its coordinates are read on first use.
pub(crate) struct Row {
    table: ListedTable,
    /// The grids of the table, one per file. Empty if the table is not made of grids.
    grids: Arc<[Arc<dyn GridSource>]>,
    position: usize,
    /// The index of the column in the table.
    column: usize,
    coordinates: OnceCell<Result<CoordinateSummary>>,
}

/// Properties that need all coordinates, combined over all files.
#[derive(Debug, Default)]
struct CoordinateSummary {
    extent: Option<u64>,
    range: Option<CoordinateRange>,
    /// The order of the coordinates; only for a single file.
    direction: Option<&'static str>,
    is_unique: Option<bool>,
}

impl Listing for Dimensions {
    type Row = Row;
    const NAME: &'static str = "tet_dimensions";
    const COLUMNS: &'static [Column<Row>] = &[
        Column::text("table_name", |row| Ok(Some(row.table.name.clone()))),
        Column::number("position", |row| Ok(Some(row.position as u64))),
        Column::text("dimension", |row| Ok(Some(row.field().name().clone()))),
        Column::number("extent", |row| Ok(row.extent())),
        Column::text("data_type", |row| {
            Ok(Some(row.field().data_type().to_string()))
        }),
        Column::text("min", |row| row.bound(|(min, _)| min)),
        Column::text("max", |row| row.bound(|(_, max)| max)),
        Column::text("coordinates", |row| {
            Ok(row.axis().map(|axis| axis.source().to_string()))
        }),
        Column::text("direction", |row| {
            Ok(row
                .coordinates()
                .and_then(|known| known.direction)
                .map(str::to_string))
        }),
        Column::flag("is_unique", |row| {
            Ok(row.coordinates().and_then(|known| known.is_unique))
        }),
        Column::text("units", |row| Ok(row.attribute("units"))),
        Column::text("long_name", |row| Ok(row.attribute("long_name"))),
        Column::text("problem", |row| {
            Ok(row.read_coordinates().err().map(describe))
        }),
    ];

    fn rows(schema: &ListedSchema) -> Vec<Row> {
        let rows = schema.tables.iter().flat_map(|table| {
            let grids: Arc<[_]> = table.source.grids().into();
            let columns = match grids.first() {
                Some(grid) => (0..grid.axes().len()).collect(),
                None => column_attributes::dimensions(table.source.as_ref()),
            };
            let columns = columns.into_iter().enumerate();
            columns.map(move |(position, column)| Row {
                table: table.clone(),
                grids: Arc::clone(&grids),
                position,
                column,
                coordinates: OnceCell::new(),
            })
        });
        rows.collect()
    }
}

impl Row {
    /// Returns the axis in the first file; `None` if the table is not made of grids.
    fn axis(&self) -> Option<&Axis> {
        Some(&self.grids.first()?.axes()[self.position])
    }

    fn field(&self) -> &Field {
        self.table.source.schema().field(self.column)
    }

    fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.grids.iter().map(|grid| &grid.axes()[self.position])
    }

    fn attribute(&self, key: &str) -> Option<String> {
        column_attributes::attribute(self.field(), key)
    }

    /// Returns the length of the dimension. Reads coordinates only if there are several files.
    fn extent(&self) -> Option<u64> {
        match (self.axis(), self.grids.len()) {
            (Some(axis), 1) => Some(axis.length()),
            _ => self.coordinates()?.extent,
        }
    }

    fn bound(&self, of: fn(&CoordinateRange) -> &ScalarValue) -> Result<Option<String>> {
        let range = self.coordinates().and_then(|known| known.range.as_ref());
        range.map(|range| text(of(range))).transpose()
    }

    /// Reads the coordinates. The column `problem` reports an error.
    fn read_coordinates(&self) -> Result<&CoordinateSummary, &DataFusionError> {
        let known = self.coordinates.get_or_init(|| {
            let mut axes = self.axes();
            let mut known = CoordinateSummary::default();
            if self.grids.is_empty() {
                known.range = self.range_in_blocks()?;
                return Ok(known);
            }
            if let (Some(only), None) = (axes.next(), axes.next()) {
                known.extent = Some(only.length());
                known.range = axis_range(only, &IndexSet::all(only.length()))?;
                known.direction = direction(only)?;
                known.is_unique = is_unique(only, known.range.is_some())?;
                return Ok(known);
            }
            let mut joined = AxisUnion::new();
            for axis in self.axes() {
                joined.add(
                    axis.length(),
                    axis_range(axis, &IndexSet::all(axis.length()))?,
                );
            }
            Ok(CoordinateSummary {
                extent: joined.extent,
                range: joined.bounds,
                ..known
            })
        });
        known.as_ref()
    }

    /// Returns the min and max in a table that is not made of grids, if they are known exactly.
    fn range_in_blocks(&self) -> Result<Option<CoordinateRange>> {
        let blocks = all_blocks(self.table.source.as_ref())?;
        let known = blocks.column_statistics(self.column, &ReadOptions::default())?;
        let (Precision::Exact(min), Precision::Exact(max)) = (known.min_value, known.max_value)
        else {
            return Ok(None);
        };
        Ok((!min.is_null() && !max.is_null()).then_some((min, max)))
    }

    fn coordinates(&self) -> Option<&CoordinateSummary> {
        self.read_coordinates().ok()
    }
}

/// Returns the order of the coordinates; `None` for fewer than two.
fn direction(axis: &Axis) -> Result<Option<&'static str>> {
    Ok(match axis.monotonicity()? {
        _ if axis.length() < 2 => None,
        Monotonicity::Ascending => Some("ascending"),
        Monotonicity::Descending => Some("descending"),
        Monotonicity::None => Some("none"),
    })
}

/// Returns `true` if no coordinate repeats; `None` if that is unknown, because the axis is unsorted
/// and a NaN leaves it without bounds.
fn is_unique(axis: &Axis, has_bounds: bool) -> Result<Option<bool>> {
    if axis.length() < 2 || axis.monotonicity()? != Monotonicity::None {
        return Ok(Some(true));
    }
    if !has_bounds {
        return Ok(None);
    }
    Ok(Some(axis.has_unique_coordinates()?))
}

fn text(value: &ScalarValue) -> Result<String> {
    let array = value.to_array()?;
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
    Ok(formatter.value(0).to_string())
}
