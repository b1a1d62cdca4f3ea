//! The sink of `COPY ... STORED AS TILEDB`.

use std::cmp::Ordering;
use std::fmt::{self, Formatter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use crate::format::tiledb::{ArrayWriter, CellSpool, Interval, Scalar, TileBuffers, WriteOptions};
use crate::provider::copy::background::in_background;
use crate::provider::copy::lineage::Origin;
use crate::provider::copy::tiledb::columns::StoredColumn;
use crate::provider::copy::tiledb::fragment::FragmentWriter;
use crate::provider::copy::tiledb::layout::{ArrayLayout, length};
use crate::provider::copy::tiledb::options::TileDbCopyOptions;

/// Memory for cells in bytes, before temporary files are used. The pool may grant less.
const MAX_MEMORY: usize = 64 << 20;
/// Memory that is needed in any case.
const MIN_MEMORY: usize = 1 << 20;
/// A dense array with more than `MAX_CELLS_PER_ROW` cells per row is probably a mistake, unless it has at
/// most `SMALL_ARRAY_CELLS` cells.
const MAX_CELLS_PER_ROW: u64 = 1000;
const SMALL_ARRAY_CELLS: u64 = 1 << 24;

/// Writes rows to a new TileDB array.
#[derive(Debug)]
pub(super) struct TileDbSink {
    path: PathBuf,
    schema: SchemaRef,
    layout: Arc<ArrayLayout>,
}

impl TileDbSink {
    /// Creates a sink for the rows of `input`, whose schema is `schema`.
    ///
    /// # Errors
    /// Fails if TileDB arrays cannot store the type of a column, if an option does not fit the columns, or
    /// if the path exists.
    pub fn try_new(
        path: PathBuf,
        schema: &SchemaRef,
        input: &Arc<dyn ExecutionPlan>,
        options: TileDbCopyOptions,
    ) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return plan_err!(
                "{} exists; INSERT INTO adds rows to an array, and COPY creates a new one",
                path.display()
            );
        }
        let directory = directory_of(&path);
        if !directory.is_dir() {
            return plan_err!(
                "{}: directory {} does not exist",
                path.display(),
                directory.display()
            );
        }
        let layout = ArrayLayout::try_new(schema, &Origin::of_columns(input), options)?;
        // Reports filters and extents that do not fit before any row is read.
        layout.schema_of_one_cell().check_new(&path)?;
        Ok(Self {
            path,
            schema: Arc::clone(schema),
            layout: Arc::new(layout),
        })
    }
}

/// The cells of a new array.
struct Writing {
    path: PathBuf,
    layout: Arc<ArrayLayout>,
    spool: CellSpool,
    rows: u64,
    /// The smallest and largest coordinate of each dimension; `None` for texts.
    bounds: Vec<Option<Interval>>,
    memory: MemoryReservation,
}

impl Writing {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = self.layout.columns.iter();
        let cells = columns.map(|column| column.cells(batch.column(column.index)));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let dimensions = self.layout.columns.iter().take(self.layout.dimensions);
        for ((column, cells), bounds) in dimensions.zip(&cells).zip(&mut self.bounds) {
            extend(column, cells, bounds)?;
        }
        self.rows += batch.num_rows() as u64;
        Ok(self.spool.push(cells)?)
    }

    fn finish(self) -> Result<u64> {
        let layout = &self.layout;
        if self.rows == 0 && !layout.options.is_sparse {
            return plan_err!("the query returned no rows, but an array needs at least one cell");
        }
        let mut bounds = self.bounds;
        if self.rows == 0 {
            let none = layout.schema_of_one_cell();
            bounds = none
                .dimensions
                .into_iter()
                .map(|dimension| dimension.domain)
                .collect();
        }
        let mut schema = layout.schema(&bounds);
        if !layout.options.is_sparse {
            let lengths = bounds.iter().flatten().map(length);
            let cells = lengths.clone().fold(1, u64::saturating_mul);
            if cells > SMALL_ARRAY_CELLS && cells / self.rows > MAX_CELLS_PER_ROW {
                return plan_err!(
                    "{} rows would make an array of {:?} cells, nearly all of them missing; write a sparse array: \
                     OPTIONS (sparse 'true')",
                    self.rows,
                    lengths.collect::<Vec<_>>()
                );
            }
            if cells > self.rows {
                // Cells without a row are null.
                let attributes = schema.attributes.iter_mut();
                attributes.for_each(|attribute| attribute.is_nullable = true);
            }
        }
        let options = WriteOptions {
            timestamp: layout.options.timestamp,
            sort_memory: self.memory.size() / 2,
            ..WriteOptions::default()
        };
        let array = ArrayWriter::create(&self.path, schema, &[], &options)?;
        let attributes = &array.schema().attributes;
        let complete = |mut columns: Vec<TileBuffers>| {
            let values = columns.iter_mut().skip(layout.dimensions);
            for (column, attribute) in values.zip(attributes) {
                if attribute.is_nullable && column.validity.is_empty() {
                    column.validity.resize(column.cells, 1);
                }
            }
            columns
        };
        let mut writer = FragmentWriter::new(&array)?;
        self.spool.finish(|columns| {
            let columns = complete(columns);
            let cells = columns.first().map_or(0, |column| column.cells);
            writer.write(cells, &columns)
        })?;
        writer.finish()?;
        array.finish()?;
        Ok(self.rows)
    }
}

/// Extends the bounds of a dimension by coordinates.
fn extend(column: &StoredColumn, cells: &TileBuffers, bounds: &mut Option<Interval>) -> Result<()> {
    if column.cell_values.is_variable() {
        return Ok(());
    }
    for bytes in cells.values.chunks_exact(column.datatype.size()) {
        let Some(value) = Scalar::from_bytes(column.datatype, bytes) else {
            continue;
        };
        if value.compare(&value).is_none() {
            return plan_err!(
                "dimension {:?} has NaN, which is no coordinate",
                column.name
            );
        }
        match bounds {
            None => {
                *bounds = Some(Interval {
                    low: value.clone(),
                    high: value,
                });
            }
            Some(bounds) if value.compare(&bounds.low) == Some(Ordering::Less) => {
                bounds.low = value;
            }
            Some(bounds) if value.compare(&bounds.high) == Some(Ordering::Greater) => {
                bounds.high = value;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Returns the directory in which a path is created.
fn directory_of(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Reserves memory for cells: as much as the pool grants.
pub(super) fn reserve(context: &TaskContext) -> Result<MemoryReservation> {
    let memory = MemoryConsumer::new("cells of COPY").register(context.memory_pool());
    let mut wanted = MAX_MEMORY;
    while wanted > MIN_MEMORY && memory.try_grow(wanted).is_err() {
        wanted /= 2;
    }
    if memory.size() == 0 {
        memory.try_grow(MIN_MEMORY)?;
    }
    Ok(memory)
}

impl DisplayAs for TileDbSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let names = |columns: &[StoredColumn]| {
            let names = columns.iter().map(|column| column.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let (dimensions, attributes) = self.layout.columns.split_at(self.layout.dimensions);
        let kind = if self.layout.options.is_sparse {
            "sparse"
        } else {
            "dense"
        };
        write!(
            f,
            "TileDbSink: {kind}, dimensions=[{}], attributes=[{}]",
            names(dimensions),
            names(attributes)
        )
    }
}

#[async_trait]
impl DataSink for TileDbSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let memory = reserve(context)?;
        let mut writing = Writing {
            spool: CellSpool::new(directory_of(&self.path), memory.size() / 2),
            path: self.path.clone(),
            layout: Arc::clone(&self.layout),
            rows: 0,
            bounds: vec![None; self.layout.dimensions],
            memory,
        };
        while let Some(batch) = data.next().await {
            let batch = batch?;
            writing = in_background(move || {
                writing.write(&batch)?;
                Ok(writing)
            })
            .await?;
        }
        in_background(move || writing.finish()).await
    }
}
