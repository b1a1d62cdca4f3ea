//! `tet_chunks('t')`: the chunks of one table.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::introspection::column::list_of;
use crate::provider::introspection::lookup;
use crate::provider::introspection::scan::RowScan;
use crate::provider::introspection::tables::block_rows::{BlockColumn, BlockRows};
use crate::provider::introspection::tables::chunk_rows::ChunkRows;
use crate::provider::source::{BlockSource, GridSource};

/// The name of the function.
pub(crate) const NAME: &str = "tet_chunks";

/// The table function.
#[derive(Debug)]
pub(crate) struct Chunks;

impl TableFunctionImpl for Chunks {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let name = lookup::table_name(NAME, args.exprs())?;
        let table = lookup::table(NAME, args.session(), name)?;
        let source = match table.downcast_ref::<ArrayTable>() {
            Some(array) => array.source(),
            None => return plan_err!("{NAME}: {name} is not an array and has no chunks"),
        };
        let grids = source.grids();
        let (chunks, fields): (_, Vec<_>) = if grids.is_empty() {
            let columns = BlockColumn::of(source.as_ref());
            let fields = columns.iter().map(|column| column.field(source.as_ref()));
            let fields = fields.collect();
            (ListedChunks::Blocks(source, columns.into()), fields)
        } else {
            let parts: Vec<_> = grids.iter().flat_map(|grid| grid.parts()).collect();
            let columns = columns(&parts);
            let fields = columns.iter().map(|column| column.field(&parts)).collect();
            (ListedChunks::Grids(parts.into(), columns.into()), fields)
        };
        Ok(Arc::new(ChunksTable {
            name: name.to_string(),
            table,
            chunks,
            schema: Arc::new(Schema::new(fields)),
        }))
    }
}

/// A column of the table that the function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkColumn {
    Path,
    Dataset,
    Chunk,
    Start,
    Extent,
    /// The coordinate at the chunk's first index along this dimension.
    First(usize),
    /// The coordinate at the chunk's last index along this dimension.
    Last(usize),
    Cells,
    Codec,
    PayloadOffset,
    StoredBytes,
    RawBytes,
    Minimum,
    Maximum,
    Nulls,
    Problem,
}

impl ChunkColumn {
    /// Returns `true` if the column needs a lookup of every chunk in the file.
    pub fn needs_lookup(self) -> bool {
        matches!(
            self,
            Self::Codec | Self::PayloadOffset | Self::StoredBytes | Self::RawBytes | Self::Problem
        )
    }

    /// Returns `true` if the column comes from zone maps.
    pub fn needs_statistics(self) -> bool {
        matches!(self, Self::Minimum | Self::Maximum | Self::Nulls)
    }

    fn field(self, parts: &[Arc<dyn GridSource>]) -> Field {
        let (name, data_type) = match self {
            Self::Path => ("path", DataType::Utf8),
            Self::Dataset => ("dataset", DataType::Utf8),
            Self::Chunk => ("chunk", list_of(DataType::UInt64)),
            Self::Start => ("start", list_of(DataType::UInt64)),
            Self::Extent => ("extent", list_of(DataType::UInt64)),
            Self::First(axis) | Self::Last(axis) => {
                let axis = &parts[0].axes()[axis];
                let end = if matches!(self, Self::First(_)) {
                    "first"
                } else {
                    "last"
                };
                let name = format!("{}_{end}", axis.name());
                return Field::new(name, axis.data_type(), true);
            }
            Self::Cells => ("cells", DataType::UInt64),
            Self::Codec => ("codec", DataType::Utf8),
            Self::PayloadOffset => ("payload_offset", DataType::UInt64),
            Self::StoredBytes => ("stored_bytes", DataType::UInt64),
            Self::RawBytes => ("raw_bytes", DataType::UInt64),
            Self::Minimum => ("minimum", value_type(parts)),
            Self::Maximum => ("maximum", value_type(parts)),
            Self::Nulls => ("nulls", DataType::UInt64),
            Self::Problem => ("problem", DataType::Utf8),
        };
        Field::new(name, data_type, true)
    }
}

fn columns(parts: &[Arc<dyn GridSource>]) -> Vec<ChunkColumn> {
    use ChunkColumn as C;
    let dimensions = parts.first().map_or(0, |part| part.axes().len());
    let ends = (0..dimensions).flat_map(|axis| [C::First(axis), C::Last(axis)]);
    [C::Path, C::Dataset, C::Chunk, C::Start, C::Extent]
        .into_iter()
        .chain(ends)
        .chain([
            C::Cells,
            C::Codec,
            C::PayloadOffset,
            C::StoredBytes,
            C::RawBytes,
            C::Minimum,
            C::Maximum,
            C::Nulls,
            C::Problem,
        ])
        .collect()
}

/// The type of the values if all datasets have the same type, else `Float64`, which can approximate
/// any number.
fn value_type(parts: &[Arc<dyn GridSource>]) -> DataType {
    let types = parts.iter().flat_map(|part| part.attributes());
    let mut types = types.map(|attribute| attribute.data_type());
    match types.next() {
        Some(first) if types.all(|other| other == first) => first.clone(),
        _ => DataType::Float64,
    }
}

/// The table that the function returns for its argument.
#[derive(Debug)]
struct ChunksTable {
    /// The argument of the function, as written.
    name: String,
    table: Arc<dyn TableProvider>,
    chunks: ListedChunks,
    schema: SchemaRef,
}

/// The chunks of a table, and the columns about them.
#[derive(Debug)]
enum ListedChunks {
    /// The chunks of these datasets, file by file.
    Grids(Arc<[Arc<dyn GridSource>]>, Arc<[ChunkColumn]>),
    /// The blocks of a table that is not made of grids.
    Blocks(Arc<dyn BlockSource>, Arc<[BlockColumn]>),
}

impl ChunksTable {
    fn read_options(&self, session: &dyn Session) -> ReadOptions {
        match self.table.downcast_ref::<ArrayTable>() {
            Some(array) => array.read_options(session.config_options()),
            // Unreachable: the function creates this table only over an `ArrayTable`.
            None => ReadOptions::default(),
        }
    }
}

#[async_trait]
impl TableProvider for ChunksTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let label = format!("{NAME}({})", self.name);
        let options = self.read_options(state);
        let scan = match &self.chunks {
            ListedChunks::Grids(parts, columns) => {
                let (parts, columns) = (Arc::clone(parts), Arc::clone(columns));
                let rows = Arc::new(ChunkRows::new(label, parts, columns, options));
                RowScan::try_new(rows, &self.schema, projection, limit)?
            }
            ListedChunks::Blocks(source, columns) => {
                let (source, columns) = (Arc::clone(source), Arc::clone(columns));
                let rows = Arc::new(BlockRows::try_new(label, source, columns, options)?);
                RowScan::try_new(rows, &self.schema, projection, limit)?
            }
        };
        Ok(scan.into_exec())
    }
}
