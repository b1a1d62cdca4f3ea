//! The rows of `tet_chunks` for a table that is not made of grids: its blocks.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, ListBuilder, RecordBatch, StringArray, UInt64Array, UInt64Builder,
    new_null_array,
};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::error::describe;
use crate::provider::introspection::column::{list_of, repeated};
use crate::provider::introspection::column_attributes::dimensions;
use crate::provider::introspection::scan::{Batches, Request, RowSource, batch};
use crate::provider::introspection::tables::datasets::all_blocks;
use crate::provider::source::{BlockList, BlockSource, BlockStatistics, ColumnBounds};

/// Maximum number of blocks per batch. A query can be cancelled only between batches.
const MAX_BLOCKS: usize = 1024;
/// The number of failed lookups that are reported as rows. The next failure ends the query, because
/// a file can claim far more blocks than it contains.
const MAX_PROBLEMS: u64 = 1024;

/// A column of `tet_chunks` over blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockColumn {
    Path,
    Dataset,
    Chunk,
    /// A lower bound of a column of the table.
    Lower(usize),
    /// An upper bound of a column of the table.
    Upper(usize),
    Cells,
    IsExact,
    StoredBytes,
    Minimum,
    Maximum,
    Nulls,
    Problem,
    /// A column that has values only for chunks of grids.
    OfGrids(&'static str),
}

/// The blocks of a table, in order.
#[derive(Debug)]
pub(crate) struct BlockRows {
    label: String,
    source: Arc<dyn BlockSource>,
    blocks: Arc<dyn BlockList>,
    columns: Arc<[BlockColumn]>,
    options: ReadOptions,
}

impl BlockRows {
    pub fn try_new(
        label: String,
        source: Arc<dyn BlockSource>,
        columns: Arc<[BlockColumn]>,
        options: ReadOptions,
    ) -> Result<Self> {
        Ok(Self {
            label,
            blocks: all_blocks(source.as_ref())?,
            source,
            columns,
            options,
        })
    }
}

impl BlockColumn {
    /// Returns the columns for a table.
    pub fn of(source: &dyn BlockSource) -> Vec<Self> {
        let bounds =
            (0..source.schema().fields().len()).flat_map(|c| [Self::Lower(c), Self::Upper(c)]);
        [Self::Path, Self::Dataset, Self::Chunk]
            .into_iter()
            .chain(["start", "extent"].map(Self::OfGrids))
            .chain(bounds)
            .chain([Self::Cells, Self::IsExact])
            .chain(["codec", "payload_offset"].map(Self::OfGrids))
            .chain([Self::StoredBytes, Self::OfGrids("raw_bytes")])
            .chain([Self::Minimum, Self::Maximum, Self::Nulls, Self::Problem])
            .collect()
    }

    pub fn field(self, source: &dyn BlockSource) -> Field {
        let of_table = |column: usize, end: &str| {
            let field = source.schema().field(column);
            let name = format!("{}_{end}", field.name());
            Field::new(name, field.data_type().clone(), true)
        };
        let (name, data_type) = match self {
            Self::Lower(column) => return of_table(column, "min"),
            Self::Upper(column) => return of_table(column, "max"),
            Self::Path => ("path", DataType::Utf8),
            Self::Dataset => ("dataset", DataType::Utf8),
            Self::Chunk => ("chunk", list_of(DataType::UInt64)),
            Self::OfGrids(name @ ("start" | "extent")) => (name, list_of(DataType::UInt64)),
            Self::OfGrids(name @ "codec") => (name, DataType::Utf8),
            Self::OfGrids(name) => (name, DataType::UInt64),
            Self::Cells => ("cells", DataType::UInt64),
            Self::IsExact => ("is_exact", DataType::Boolean),
            Self::StoredBytes => ("stored_bytes", DataType::UInt64),
            Self::Minimum => ("minimum", value_type(source)),
            Self::Maximum => ("maximum", value_type(source)),
            Self::Nulls => ("nulls", DataType::UInt64),
            Self::Problem => ("problem", DataType::Utf8),
        };
        Field::new(name, data_type, true)
    }

    /// Returns the column of the table whose statistics this column needs.
    fn statistics(self, source: &dyn BlockSource) -> Option<usize> {
        match self {
            Self::Lower(column) | Self::Upper(column) => Some(column),
            Self::Minimum | Self::Maximum | Self::Nulls => only_values(source),
            _ => None,
        }
    }
}

/// Returns the column that is not a dimension, if there is exactly one.
fn only_values(source: &dyn BlockSource) -> Option<usize> {
    let dimensions = dimensions(source);
    let mut values = (0..source.schema().fields().len()).filter(|one| !dimensions.contains(one));
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

fn value_type(source: &dyn BlockSource) -> DataType {
    let values = only_values(source);
    values.map_or(DataType::Float64, |column| {
        source.schema().field(column).data_type().clone()
    })
}

impl RowSource for BlockRows {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn count(&self) -> Option<u64> {
        self.blocks.count()
    }

    fn read(self: Arc<Self>, request: Request) -> Batches {
        let size = request.batch_size.clamp(1, MAX_BLOCKS) as u64;
        // The reader cannot reach the end of a list of 2^64 blocks or more.
        let end = self.blocks.count().unwrap_or(u64::MAX).min(request.fetch);
        let mut next = 0;
        let mut problems = 0;
        Box::new(std::iter::from_fn(move || {
            let range = next..end.min(next + size);
            next = range.end;
            (!range.is_empty()).then(|| {
                let found = self.batch(&request, range, &mut problems);
                if found.is_err() {
                    // The iterator ends after an error.
                    next = end;
                }
                found
            })
        }))
    }
}

impl BlockRows {
    fn batch(
        &self,
        request: &Request,
        range: Range<u64>,
        problems: &mut u64,
    ) -> Result<RecordBatch> {
        let source = self.source.as_ref();
        let wanted: Vec<_> = request
            .columns
            .iter()
            .map(|one| self.columns[*one])
            .collect();
        let blocks: Vec<u64> = range.collect();
        let mut described: Vec<usize> =
            wanted.iter().filter_map(|c| c.statistics(source)).collect();
        described.sort_unstable();
        described.dedup();
        let statistics = match described.is_empty() {
            true => BlockStatistics::unknown(0, blocks.len()),
            false => self.blocks.statistics(&described, &blocks, &self.options)?,
        };
        let bounds = |column: BlockColumn| {
            let column = column.statistics(source)?;
            let index = described.binary_search(&column).ok()?;
            statistics.columns.get(index)?.as_ref()
        };
        let looks_up = |column| matches!(column, &BlockColumn::StoredBytes | &BlockColumn::Problem);
        let mut stored = Vec::new();
        if wanted.iter().any(looks_up) {
            for block in &blocks {
                stored.push(match self.blocks.block_bytes(*block, &self.options) {
                    Ok(bytes) => Ok(bytes),
                    Err(error) if *problems < MAX_PROBLEMS => {
                        *problems += 1;
                        Err(describe(&error))
                    }
                    Err(error) => return Err(error),
                });
            }
        }
        let columns = wanted.iter().zip(request.schema.fields());
        let columns = columns.map(|(column, field)| -> Result<ArrayRef> {
            let null = || new_null_array(field.data_type(), blocks.len());
            let of = |of: fn(&ColumnBounds) -> ArrayRef| bounds(*column).map_or_else(null, of);
            Ok(match column {
                BlockColumn::Path => match source.location() {
                    Some(location) => repeated(location, blocks.len()),
                    None => null(),
                },
                BlockColumn::Dataset => repeated(source.name(), blocks.len()),
                BlockColumn::Chunk => {
                    let mut lists = ListBuilder::new(UInt64Builder::new());
                    for block in &blocks {
                        lists.append_value([Some(*block)]);
                    }
                    Arc::new(lists.finish())
                }
                BlockColumn::Lower(_) | BlockColumn::Minimum => of(|one| Arc::clone(&one.min)),
                BlockColumn::Upper(_) | BlockColumn::Maximum => of(|one| Arc::clone(&one.max)),
                BlockColumn::Nulls => of(|one| Arc::new(one.nulls.clone())),
                BlockColumn::Cells => {
                    let rows = blocks.iter().map(|block| self.blocks.rows_in(&[*block]));
                    let rows = rows.map(|rows| Ok(rows?.at_most()));
                    Arc::new(rows.collect::<Result<UInt64Array>>()?)
                }
                BlockColumn::IsExact => {
                    let rows = blocks.iter().map(|block| self.blocks.rows_in(&[*block]));
                    let rows = rows.map(|rows| Ok(Some(rows?.exact().is_some())));
                    Arc::new(rows.collect::<Result<BooleanArray>>()?)
                }
                BlockColumn::StoredBytes => {
                    let bytes = stored.iter().map(|one| one.as_ref().ok().copied());
                    Arc::new(UInt64Array::from_iter(bytes))
                }
                BlockColumn::Problem => {
                    let problems = stored.iter().map(|one| one.as_ref().err());
                    Arc::new(StringArray::from_iter(problems))
                }
                BlockColumn::OfGrids(_) => null(),
            })
        });
        let columns = columns.collect::<Result<_>>()?;
        batch(&request.schema, columns, blocks.len())
    }
}
