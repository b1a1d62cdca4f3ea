//! Points in memory as a block source: a table without axes, whose blocks have bounding boxes.

use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, StringArray, UInt64Array};
use datafusion::arrow::compute::{filter, max, min, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use futures::future::BoxFuture;
use tet_sql::ArrayOptions;
use tet_sql::grid::KeptRows;
use tet_sql::provider::catalog::description::TableDescription;
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::provider::source::recipe::{Recipe, TableRecipe};
use tet_sql::provider::source::{
    Availability, BlockList, BlockReader, BlockSource, BlockStatistics, ColumnBounds, ColumnKind,
    Fetch, FetchedBlock, ReadCounts, RowCount, SelectedBlocks,
};

/// Points with two coordinates and an optional name, in blocks that may overlap. A point of a later
/// block replaces the points at the same coordinates in earlier blocks, so a block has at most as
/// many rows as points.
#[derive(Debug, Clone)]
pub struct Points {
    schema: SchemaRef,
    /// The columns `x`, `y` and `name` of each block.
    blocks: Arc<[Block]>,
    /// The store that blocks are fetched from; `None` to read blocks in place.
    store: Option<Store>,
}

/// A store that blocks are fetched from. The function fetches the block with the given ordinal.
#[derive(Clone)]
pub struct Store(pub Arc<dyn Fn(u64) -> BoxFuture<'static, ()> + Send + Sync>);

impl Debug for Store {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

#[derive(Debug, Clone)]
struct Block {
    x: Float64Array,
    y: Float64Array,
    name: StringArray,
}

impl Points {
    /// Creates the table of these blocks of points.
    pub fn new(blocks: &[Vec<(f64, f64, Option<&str>)>], store: Option<Store>) -> Self {
        let blocks = blocks.iter().map(|points| Block {
            x: points.iter().map(|(x, _, _)| Some(*x)).collect(),
            y: points.iter().map(|(_, y, _)| Some(*y)).collect(),
            name: points.iter().map(|(_, _, name)| *name).collect(),
        });
        let fields = vec![
            Field::new("x", DataType::Float64, false),
            Field::new("y", DataType::Float64, false),
            Field::new("name", DataType::Utf8, true),
        ];
        Self {
            schema: Arc::new(Schema::new(fields)),
            blocks: blocks.collect(),
            store,
        }
    }

    /// Returns the indices of the points of a block that no later block replaces.
    fn rows_of(&self, block: u64) -> UInt64Array {
        let (this, later) = (
            &self.blocks[block as usize],
            &self.blocks[block as usize + 1..],
        );
        let is_left = |index: &u64| {
            let at = (this.x.value(*index as usize), this.y.value(*index as usize));
            let mut others = later.iter().flat_map(|block| {
                block
                    .x
                    .values()
                    .iter()
                    .copied()
                    .zip(block.y.values().iter().copied())
            });
            !others.any(|other| other == at)
        };
        (0..this.x.len() as u64).filter(is_left).map(Some).collect()
    }
}

impl BlockSource for Points {
    fn format(&self) -> &'static str {
        "points"
    }

    fn name(&self) -> &str {
        "points"
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn column_kind(&self, column: usize) -> ColumnKind {
        // Each block knows its bounding box, so `x` and `y` are located.
        if column < 2 {
            ColumnKind::Located
        } else {
            ColumnKind::Stored
        }
    }

    fn select(
        &self,
        _filters: &[Arc<dyn PhysicalExpr>],
        _columns: &[usize],
        _options: &ReadOptions,
    ) -> Result<SelectedBlocks> {
        // No column is known without reading, so every block is selected, and no filter is
        // answered.
        Ok(SelectedBlocks {
            blocks: Arc::new(self.clone()),
            kept: None,
            residual: Vec::new(),
        })
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        // Another process needs a format of this name, which knows the points.
        Ok(Some(Recipe::Table(TableRecipe {
            format: self.format().to_string(),
            path: PathBuf::from("memory"),
            table: self.name().to_string(),
            options: ArrayOptions::new(),
            identity: None,
        })))
    }

    fn describe(&self) -> Result<TableDescription> {
        Ok(TableDescription::new("points", "points", "memory"))
    }
}

impl BlockList for Points {
    fn total(&self) -> Option<u64> {
        Some(self.blocks.len() as u64)
    }

    fn count(&self) -> Option<u64> {
        self.total()
    }

    fn rows(&self) -> RowCount {
        RowCount::AtMost(self.blocks.iter().map(|block| block.x.len() as u64).sum())
    }

    fn rows_in(&self, blocks: &[u64]) -> Result<RowCount> {
        let blocks = blocks.iter().map(|block| &self.blocks[*block as usize]);
        Ok(RowCount::AtMost(
            blocks.map(|block| block.x.len() as u64).sum(),
        ))
    }

    fn block_bytes(&self, block: u64, _options: &ReadOptions) -> Result<u64> {
        Ok(self.blocks[block as usize].x.len() as u64 * 24)
    }

    fn availability(&self, column: usize, _options: &ReadOptions) -> Availability {
        Availability {
            is_known: column < 2,
            unusable: None,
        }
    }

    fn statistics(
        &self,
        columns: &[usize],
        blocks: &[u64],
        _options: &ReadOptions,
    ) -> Result<BlockStatistics> {
        let bounds = |column: &usize| {
            let coordinates = blocks.iter().map(|block| match column {
                0 => &self.blocks[*block as usize].x,
                _ => &self.blocks[*block as usize].y,
            });
            (*column < 2).then(|| ColumnBounds {
                min: Arc::new(coordinates.clone().map(min).collect::<Float64Array>()),
                max: Arc::new(coordinates.map(max).collect::<Float64Array>()),
                nulls: vec![0; blocks.len()].into(),
                sums: None,
                is_exact: false,
            })
        };
        Ok(BlockStatistics {
            columns: columns.iter().map(bounds).collect(),
            ..BlockStatistics::unknown(0, blocks.len())
        })
    }

    fn fetch(&self, block: u64, _columns: &[usize], _options: &ReadOptions) -> Option<Fetch> {
        let fetched = self.store.as_ref()?.0(block);
        Some(Fetch {
            bytes: self.blocks[block as usize].x.len() * 24,
            fetched: Box::pin(async {
                fetched.await;
                Ok(Box::new(()) as FetchedBlock)
            }),
        })
    }

    fn reader(
        &self,
        columns: &[usize],
        max_rows: usize,
        _options: &ReadOptions,
    ) -> Result<Box<dyn BlockReader>> {
        Ok(Box::new(PointReader {
            points: self.clone(),
            columns: columns.to_vec(),
            max_rows: max_rows as u64,
            open: Vec::new(),
            rows: 0,
            counts: ReadCounts::default(),
        }))
    }
}

struct PointReader {
    points: Points,
    columns: Vec<usize>,
    max_rows: u64,
    /// The columns of the current block.
    open: Vec<ArrayRef>,
    rows: u64,
    counts: ReadCounts,
}

impl BlockReader for PointReader {
    fn open(&mut self, block: u64, _fetched: Option<FetchedBlock>) -> Result<()> {
        let rows = self.points.rows_of(block);
        let block = &self.points.blocks[block as usize];
        let column = |column: &usize| match column {
            0 => take(&block.x, &rows, None),
            1 => take(&block.y, &rows, None),
            _ => take(&block.name, &rows, None),
        };
        self.open = self.columns.iter().map(column).collect::<Result<_, _>>()?;
        self.rows = rows.len() as u64;
        self.counts.chunks += 1;
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn batch(&self, first: u64) -> Range<u64> {
        first..self.rows.min(first + self.max_rows)
    }

    fn read(&mut self, rows: Range<u64>, kept: Option<&KeptRows>) -> Result<Vec<ArrayRef>> {
        let (first, count) = (rows.start as usize, (rows.end - rows.start) as usize);
        let columns = self.open.iter().map(|column| column.slice(first, count));
        let columns = columns.map(|column| match kept {
            Some(kept) => Ok(filter(&column, kept.mask())?),
            None => Ok(column),
        });
        columns.collect()
    }

    fn counts(&self) -> ReadCounts {
        self.counts
    }
}
