//! `tet_datasets()`: the tables that are arrays.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::{DataFusionError, Result};

use crate::grid::{Axis, Selection};
use crate::provider::catalog::description::{AttributeDescription, TableDescription};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::error::describe;
use crate::provider::introspection::catalogs::{ListedSchema, ListedTable};
use crate::provider::introspection::column::Column;
use crate::provider::introspection::column_attributes;
use crate::provider::introspection::listing::Listing;
use crate::provider::source::{BlockList, BlockSource, GridSource};

/// Lists one row per table.
pub(crate) struct Datasets;

/// Returns all blocks of a table.
pub(super) fn all_blocks(source: &dyn BlockSource) -> Result<Arc<dyn BlockList>> {
    let columns: Vec<_> = (0..source.schema().fields().len()).collect();
    Ok(source
        .select(&[], &columns, &ReadOptions::default())?
        .blocks)
}

/// A table. The description of its chunks or blocks is read on first use.
pub(crate) struct Row {
    table: ListedTable,
    /// Empty if the table is not made of grids.
    grids: Vec<Arc<dyn GridSource>>,
    attributes: Vec<AttributeDescription>,
    described: OnceCell<Result<TableDescription>>,
    /// The blocks of a table that is not made of grids.
    blocks: OnceCell<Result<Arc<dyn BlockList>>>,
}

impl Listing for Datasets {
    type Row = Row;
    const NAME: &'static str = "tet_datasets";
    const COLUMNS: &'static [Column<Row>] = &[
        Column::text("table_name", |row| Ok(Some(row.table.name.clone()))),
        Column::text("dataset", |row| Ok(row.dataset())),
        Column::texts("value_columns", |row| {
            if row.grids.is_empty() {
                return Ok(Some(row.columns(false)));
            }
            let attributes = row.attributes.iter();
            Ok(Some(attributes.map(|one| one.name.clone()).collect()))
        }),
        Column::text("path", |row| {
            let grid = row.grids.first();
            let path = grid.map(|grid| grid.path().display().to_string());
            Ok(path.or_else(|| row.table.source.location().map(str::to_string)))
        }),
        Column::number("files", |row| {
            Ok(Some(row.grids.len() as u64).filter(|files| *files > 0))
        }),
        Column::text("format", |row| {
            Ok(Some(row.table.source.format().to_string()))
        }),
        Column::text("stored_type", |row| {
            Ok(row.only_attribute().map(|one| one.stored_type.clone()))
        }),
        Column::text("data_type", |row| {
            Ok(row.only_attribute().map(|one| one.data_type.to_string()))
        }),
        Column::texts("dimensions", |row| {
            let axes = row.grids.first().map(|grid| grid.axes());
            let names = axes.map(|axes| axes.iter().map(|axis| axis.name().to_string()).collect());
            Ok(names.or_else(|| Some(row.columns(true)).filter(|names| !names.is_empty())))
        }),
        Column::numbers("shape", |row| Ok(row.shape())),
        Column::numbers("chunk_shape", |row| {
            Ok(row.same(|grid| grid.chunk_grid().chunk_shape().to_vec()))
        }),
        Column::number("chunks", |row| {
            if row.grids.is_empty() {
                return Ok(row.blocks().and_then(|blocks| blocks.total()));
            }
            Ok(row.sum(|grid| {
                let parts = grid.parts();
                let mut counts = parts.iter().map(|part| part.chunk_grid().count());
                counts.try_fold(0u64, |sum, count| sum.checked_add(count?))
            }))
        }),
        Column::number("cells", |row| {
            if row.grids.is_empty() {
                return Ok(row.blocks().and_then(|blocks| blocks.rows().exact()));
            }
            Ok(row.sum(|grid| Selection::all(grid.chunk_grid().shape()).count()))
        }),
        Column::texts("codecs", |row| {
            let codecs = row.described().map(|found| found.codecs.clone());
            Ok(codecs.filter(|codecs| !row.grids.is_empty() || !codecs.is_empty()))
        }),
        Column::number("stored_bytes", |row| {
            let bytes = row.described().map(|found| found.stored_bytes);
            // A source of blocks need not count its bytes.
            Ok(bytes.filter(|bytes| !row.grids.is_empty() || *bytes > 0))
        }),
        Column::number("raw_bytes", |row| {
            Ok(row.described().and_then(|found| found.raw_bytes))
        }),
        Column::text("fill", |row| {
            Ok(row.only_attribute().and_then(|one| one.fill.clone()))
        }),
        Column::text("units", |row| {
            Ok(row.only_values().and_then(column_attributes::units))
        }),
        Column::text("long_name", |row| Ok(row.value_attribute("long_name"))),
        Column::text("standard_name", |row| {
            Ok(row.value_attribute("standard_name"))
        }),
        Column::texts("problems", |row| {
            let mut problems = match row.describe_table() {
                Ok(found) => found.problems.clone(),
                Err(error) => vec![describe(error)],
            };
            if let Some(Err(error)) = row.grids.is_empty().then(|| row.select_blocks()) {
                problems.push(describe(error));
            }
            Ok(Some(problems))
        }),
    ];

    fn rows(schema: &ListedSchema) -> Vec<Row> {
        let rows = schema.tables.iter().map(|table| {
            let grids = table.source.grids();
            let first = grids.first();
            Row {
                table: table.clone(),
                attributes: first.map_or_else(Vec::new, |grid| grid.describe_attributes()),
                grids,
                described: OnceCell::new(),
                blocks: OnceCell::new(),
            }
        });
        rows.collect()
    }
}

impl Row {
    /// Looks up every chunk. The column `problems` reports an error.
    fn describe_table(&self) -> Result<&TableDescription, &DataFusionError> {
        let described = self.described.get_or_init(|| self.table.source.describe());
        described.as_ref()
    }

    fn described(&self) -> Option<&TableDescription> {
        self.describe_table().ok()
    }

    /// The blocks of a table that is not made of grids. The column `problems` reports an error.
    fn select_blocks(&self) -> Result<&Arc<dyn BlockList>, &DataFusionError> {
        let select = || all_blocks(self.table.source.as_ref());
        self.blocks.get_or_init(select).as_ref()
    }

    fn blocks(&self) -> Option<&Arc<dyn BlockList>> {
        self.select_blocks().ok()
    }

    /// Returns the names of the dimensions of a table that is not made of grids, or the names of
    /// its other columns.
    fn columns(&self, are_dimensions: bool) -> Vec<String> {
        let source = self.table.source.as_ref();
        let dimensions = column_attributes::dimensions(source);
        let fields = source.schema().fields().iter().enumerate();
        fields
            .filter(|(column, _)| dimensions.contains(column) == are_dimensions)
            .map(|(_, field)| field.name().clone())
            .collect()
    }

    /// The value column, if there is only one.
    fn only_attribute(&self) -> Option<&AttributeDescription> {
        let attributes = match self.grids.is_empty() {
            true => self.described().map_or(&[][..], |found| &found.attributes),
            false => &self.attributes,
        };
        match attributes {
            [only] => Some(only),
            _ => None,
        }
    }

    fn only_values(&self) -> Option<&Field> {
        column_attributes::only_values(self.table.source.schema())
    }

    fn value_attribute(&self, key: &str) -> Option<String> {
        column_attributes::attribute(self.only_values()?, key)
    }

    fn dataset(&self) -> Option<String> {
        column_attributes::dataset(self.only_values()?).map(ToString::to_string)
    }

    fn shape(&self) -> Option<Vec<u64>> {
        self.same(|grid| grid.axes().iter().map(Axis::length).collect())
    }

    /// Returns the property if it is the same in all files, else `None`.
    fn same<T: PartialEq>(&self, of: impl Fn(&dyn GridSource) -> T) -> Option<T> {
        let mut grids = self.grids.iter().map(|grid| of(grid.as_ref()));
        let first = grids.next()?;
        grids.all(|other| other == first).then_some(first)
    }

    /// Returns the sum over all files; `None` if it does not fit in 64 bits.
    fn sum(&self, of: impl Fn(&dyn GridSource) -> Option<u64>) -> Option<u64> {
        let mut counts = self.grids.iter().map(|grid| of(grid.as_ref()));
        counts.try_fold(0u64, |sum, count| sum.checked_add(count?))
    }
}
