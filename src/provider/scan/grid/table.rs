//! A grid as a table of blocks. Each selected cell is a row, with the coordinates first and then
//! the attributes; each chunk is a block.

use std::sync::Arc;

use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

use crate::provider::catalog::description::TableDescription;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::product_mask::kept_chunks;
use crate::provider::planning::pushdown::Pushdown;
use crate::provider::scan::grid::blocks::GridBlocks;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    BlockSource, ColumnKind, DIMENSION, GridSource, ReplaceGrid, SelectedBlocks, for_columns,
};

/// A grid as a [`BlockSource`].
#[derive(Debug)]
pub struct GridTable {
    grid: Arc<dyn GridSource>,
    schema: SchemaRef,
}

impl GridTable {
    /// Creates the table of a grid.
    pub fn new(grid: Arc<dyn GridSource>) -> Self {
        Self {
            schema: Arc::new(Schema::new(columns(grid.as_ref()))),
            grid,
        }
    }
}

/// Returns the columns of a grid's table: the dimensions in order, which are never null, then the
/// attributes.
pub(crate) fn columns(grid: &dyn GridSource) -> Fields {
    let dimensions = grid.axes().iter().map(|axis| {
        let field = Field::new(axis.name(), axis.data_type(), false);
        let attributes = axis.attributes();
        let attributes = attributes.map(|(key, text)| (key.clone(), text.clone()));
        let mark = (DIMENSION.to_string(), String::new());
        Arc::new(field.with_metadata(attributes.chain([mark]).collect()))
    });
    dimensions
        .chain(grid.attributes().iter().map(Arc::clone))
        .collect()
}

impl BlockSource for GridTable {
    fn format(&self) -> &'static str {
        self.grid.format()
    }

    fn name(&self) -> &str {
        self.grid.name()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn grids(&self) -> Vec<Arc<dyn GridSource>> {
        vec![Arc::clone(&self.grid)]
    }

    fn with_grids(&self, replace: ReplaceGrid<'_>) -> Result<Option<Arc<dyn BlockSource>>> {
        Ok(Some(Arc::new(Self::new(replace(&self.grid)))))
    }

    fn column_kind(&self, column: usize) -> ColumnKind {
        match self.grid.axes().get(column) {
            Some(_) => ColumnKind::Known,
            None => ColumnKind::Stored,
        }
    }

    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
        _options: &ReadOptions,
    ) -> Result<SelectedBlocks> {
        let grid = for_columns(&self.grid, columns);
        let Pushdown {
            selection,
            products,
            residual,
        } = Pushdown::try_new(self.grid.axes(), filters)?;
        Ok(SelectedBlocks {
            kept: kept_chunks(&products, grid.chunk_grid(), &selection),
            blocks: Arc::new(GridBlocks::new(&grid, selection)),
            residual,
        })
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        self.grid.recipe()
    }

    fn renewed(&self) -> Result<Option<Arc<dyn BlockSource>>> {
        let grid = self.grid.renewed()?;
        Ok(grid.map(|grid| Arc::new(Self::new(grid)) as Arc<dyn BlockSource>))
    }

    fn describe(&self) -> Result<TableDescription> {
        self.grid.describe()
    }
}
