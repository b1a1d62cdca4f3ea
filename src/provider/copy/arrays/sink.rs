//! The sink of `COPY` to an array format.

use std::collections::BTreeSet;
use std::fmt::{self, Formatter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use async_trait::async_trait;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use crate::format::array::DatasetSpec;
use crate::grid::ChunkGrid;
use crate::provider::adapters::arrays::{base, group};
use crate::provider::adapters::create::{CreateArrays, CreateSettings};
use crate::provider::copy::arrays::assembly::Assembly;
use crate::provider::copy::arrays::axes::AxisBuilder;
use crate::provider::copy::arrays::chunk_lookup::ChunkLookup;
use crate::provider::copy::arrays::columns::Columns;
use crate::provider::copy::arrays::dataset_metadata::{attribute_of, carried};
use crate::provider::copy::arrays::measure::Measure;
use crate::provider::copy::arrays::runs::Runs;
use crate::provider::copy::arrays::spool::{BLOCK_ROWS, Block, Spool};
use crate::provider::copy::arrays::target::{AxisStorage, chunk_shape};
use crate::provider::copy::background::{CancelOnDrop, in_background};
use crate::provider::copy::lineage::Origin;
use crate::provider::copy::options::CopyOptions;

/// The max memory for encoded rows in bytes. The pool may grant less.
const MAX_SPOOL_MEMORY: usize = 64 << 20;
/// An array with more than `MAX_CELLS_PER_ROW` cells per row is probably a mistake, unless it has at most
/// `SMALL_ARRAY_CELLS` cells.
const MAX_CELLS_PER_ROW: u64 = 1000;
const SMALL_ARRAY_CELLS: u64 = 1 << 28;

/// Writes rows as arrays.
#[derive(Debug)]
pub struct ArraySink {
    pub creator: Arc<dyn CreateArrays>,
    path: PathBuf,
    pub schema: SchemaRef,
    /// The origin of each column of the schema.
    pub origins: Vec<Origin>,
    columns: Columns,
    pub options: CopyOptions,
}

impl ArraySink {
    /// Creates a sink for the rows of `input`, whose schema is `schema`.
    ///
    /// # Errors
    /// Fails if the columns cannot become dimensions and values of arrays.
    pub fn try_new(
        creator: Arc<dyn CreateArrays>,
        path: PathBuf,
        schema: SchemaRef,
        input: &Arc<dyn ExecutionPlan>,
        options: CopyOptions,
    ) -> Result<Self> {
        let origins = Origin::of_columns(input);
        let columns = Columns::of(&schema, &origins, &options, creator.limits().dimensions)?;
        let sink = Self {
            creator,
            path,
            schema,
            origins,
            columns,
            options,
        };
        // Report invalid types and options before any row is read.
        let rows = Rows::try_new(&sink)?;
        sink.check_path()?;
        sink.check_names()?;
        sink.check_attributes(&rows)?;
        for measure in &rows.measures {
            if rows
                .axes
                .iter()
                .any(|axis| axis.name() == base(&measure.name))
            {
                return plan_err!(
                    "dataset {:?} has the name of a dimension, so its values would be read as coordinates; \
                     rename it: {}",
                    measure.name,
                    sink.options.spelled("dataset", "...")
                );
            }
        }
        if sink.options.dataset.is_some() && sink.columns.measures.len() > 1 {
            return plan_err!(
                "{} requires a single value column, found {}; with several, each dataset is named after its column",
                sink.options.named("dataset"),
                sink.columns.measures.len()
            );
        }
        if let Some(chunk) = &sink.options.chunk
            && chunk.len() != sink.columns.dimensions.len()
        {
            return plan_err!(
                "{} has {} extents, expected one for each of the {} dimensions",
                sink.options.named("chunk"),
                chunk.len(),
                sink.columns.dimensions.len()
            );
        }
        Ok(sink)
    }

    fn check_path(&self) -> Result<()> {
        let path = self.path.display();
        // `COPY` puts no file in place of a directory.
        if self.path.is_dir() && !self.creator.creates_directories() {
            return plan_err!("{path} is a directory, expected the path of a file");
        }
        let folder = self.path.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        match folder {
            Some(folder) if !folder.is_dir() => {
                plan_err!("{path}: directory {} does not exist", folder.display())
            }
            _ => Ok(()),
        }
    }

    /// Checks that no column name would put an array into a group without the option `dataset`, which
    /// names groups on purpose. Readers of directories, such as xarray, search one group.
    fn check_names(&self) -> Result<()> {
        let Columns {
            dimensions,
            measures,
        } = &self.columns;
        let named = measures.iter().filter(|_| self.options.dataset.is_none());
        let names = dimensions.iter().chain(named);
        let mut fields = names.map(|number| self.field(*number));
        match fields.find(|field| field.name().contains('/')) {
            Some(field) if self.creator.creates_directories() => plan_err!(
                "column {:?} has a slash in its name, which stands for a group in this format; rename it: AS {:?}",
                field.name(),
                field.name().replace('/', "_")
            ),
            _ => Ok(()),
        }
    }

    /// Checks that each attribute in the options belongs to a dataset.
    fn check_attributes(&self, rows: &Rows) -> Result<()> {
        for key in self.options.attributes.keys() {
            let measures = rows.measures.iter().zip(&self.columns.measures);
            let mut names = measures.map(|(measure, number)| {
                attribute_of(key, &measure.name, self.field(*number).name())
            });
            if !names.any(|name| name.is_some()) {
                let measures = rows.measures.iter().map(|measure| measure.name.as_str());
                return plan_err!(
                    "option attribute.{key} names no dataset; there are {}",
                    measures.collect::<Vec<_>>().join(", ")
                );
            }
        }
        Ok(())
    }

    fn field(&self, number: usize) -> &Field {
        self.schema.field(number)
    }
}

impl DisplayAs for ArraySink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let names = |numbers: &[usize]| {
            let names = numbers
                .iter()
                .map(|number| self.field(*number).name().as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        write!(
            f,
            "ArraySink: dimensions=[{}], values=[{}]",
            names(&self.columns.dimensions),
            names(&self.columns.measures)
        )
    }
}

#[async_trait]
impl DataSink for ArraySink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let mut rows = Rows::try_new(self)?;
        // Leaves memory for coordinates and texts, whose number is not known before all rows have come.
        let most_memory = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => MAX_SPOOL_MEMORY.min(bytes / 4),
            _ => MAX_SPOOL_MEMORY,
        };
        let mut spool = Spool::new(context, self.columns.dimensions.len(), most_memory);
        let mut count = 0;
        let none = || Block::empty(self.columns.dimensions.len(), self.columns.measures.len());
        let mut block = none();
        let memory = MemoryConsumer::new("axes of COPY").register(context.memory_pool());
        while let Some(batch) = data.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            count += batch.num_rows() as u64;
            block.append(rows.encode(&self.columns, &batch)?);
            memory.try_resize(rows.memory())?;
            if block.rows >= BLOCK_ROWS {
                spool.push(std::mem::replace(&mut block, none()), context)?;
            }
        }
        drop(data);
        if block.rows > 0 {
            spool.push(block, context)?;
        }
        spool.finish()?;
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _guard = CancelOnDrop(Arc::clone(&is_cancelled));
        let creator = Arc::clone(&self.creator);
        let (path, options) = (self.path.clone(), self.options.clone());
        let context = Arc::clone(context);
        in_background(move || {
            let _memory = memory;
            rows.write(
                creator.as_ref(),
                &path,
                &options,
                count,
                &spool,
                &context,
                &is_cancelled,
            )
        })
        .await?;
        Ok(count)
    }
}

/// The axes and measures collected from the rows so far.
struct Rows {
    axes: Vec<AxisBuilder>,
    measures: Vec<Measure>,
}

impl Rows {
    fn try_new(sink: &ArraySink) -> Result<Self> {
        let limits = sink.creator.limits();
        let axes = sink.columns.dimensions.iter().map(|number| {
            let field = sink.field(*number);
            let origin = sink.origins.get(*number);
            let sources = origin.map_or_else(Vec::new, |origin| origin.axes.clone());
            AxisBuilder::try_new(
                field.name(),
                field.data_type(),
                carried(field, &limits),
                sources,
            )
        });
        let measures = sink.columns.measures.iter().map(|number| {
            let field = sink.field(*number);
            let name = sink.dataset(field);
            let metadata = sink.metadata(*number, &name);
            let given = sink.options.fill_value.as_deref();
            Measure::try_new(&name, field.data_type(), metadata, given, &limits)
        });
        Ok(Self {
            axes: axes.collect::<Result<_>>()?,
            measures: measures.collect::<Result<_>>()?,
        })
    }

    /// Returns the memory of distinct coordinates and texts in bytes.
    fn memory(&self) -> usize {
        let axes = self.axes.iter().map(AxisBuilder::memory);
        axes.chain(self.measures.iter().map(Measure::memory)).sum()
    }

    fn encode(&mut self, columns: &Columns, batch: &RecordBatch) -> Result<Block> {
        let axes = self.axes.iter_mut().zip(&columns.dimensions);
        let codes = axes.map(|(axis, number)| axis.codes(batch.column(*number)));
        let mut block = Block {
            rows: batch.num_rows(),
            runs: Runs::of(&codes.collect::<Result<Vec<_>>>()?),
            ..Block::default()
        };
        for (measure, number) in self.measures.iter_mut().zip(&columns.measures) {
            let values = measure.values(batch.column(*number))?;
            block.values.push(values.bytes);
            let valid = values.nulls.iter().flat_map(|nulls| nulls.iter());
            block.valid.push(valid.map(u8::from).collect());
        }
        Ok(block)
    }

    /// Writes the file. Call this after the last row.
    #[allow(clippy::too_many_arguments)] // fields of the sink, which the thread cannot borrow
    fn write(
        mut self,
        creator: &dyn CreateArrays,
        path: &Path,
        options: &CopyOptions,
        count: u64,
        spool: &Spool,
        context: &TaskContext,
        is_cancelled: &AtomicBool,
    ) -> Result<()> {
        if count == 0 {
            return plan_err!("the query returned no rows, but an array needs at least one cell");
        }
        let shape: Vec<u64> = self.axes.iter().map(|axis| axis.len() as u64).collect();
        let names: Vec<String> = self
            .axes
            .iter()
            .map(|axis| axis.name().to_string())
            .collect();
        let cells = shape
            .iter()
            .try_fold(1u64, |cells, extent| cells.checked_mul(*extent));
        let Some(cells) =
            cells.filter(|cells| *cells <= SMALL_ARRAY_CELLS || cells / count <= MAX_CELLS_PER_ROW)
        else {
            return plan_err!(
                "{count} rows would make an array of {shape:?} cells over {}, nearly all of them missing; are \
                 all of these dimensions? Name the dimensions with {}",
                names.join(", "),
                options.spelled("dims", "...")
            );
        };
        let mut fills = Vec::with_capacity(self.measures.len());
        for measure in &mut self.measures {
            let is_needed = cells > count || measure.nulls > 0;
            if is_needed && measure.is_text() && !creator.allows_null_texts() {
                return plan_err!(
                    "column {} has null or missing texts, which this format cannot store; replace nulls with COALESCE",
                    measure.name
                );
            }
            fills.push(measure.fill(is_needed)?);
        }
        let largest = self
            .measures
            .iter()
            .map(|measure| measure.size() as u64)
            .max();
        let chunk_shape = match &options.chunk {
            Some(chunk) => chunk
                .iter()
                .zip(&shape)
                .map(|(chunk, extent)| *chunk.min(extent))
                .collect(),
            None => chunk_shape(&shape, largest.unwrap_or(1)),
        };
        let axes = self.axes.iter().map(|axis| axis.finish(options.axis_order));
        let axes = axes.collect::<Result<Vec<_>>>()?;
        let mut specs = Vec::new();
        let mut coordinates = Vec::new();
        let mut labels = Vec::new();
        // Readers look up coordinate datasets in the group of the dataset.
        let groups: BTreeSet<&str> = self.measures.iter().map(|one| group(&one.name)).collect();
        for axis in &axes {
            match AxisStorage::of(axis, &creator.limits())? {
                AxisStorage::Counted => {}
                AxisStorage::Labels(texts) => labels.push((axis.name.as_str(), texts)),
                AxisStorage::Dataset(dataset) => {
                    for group in &groups {
                        let spec = dataset.spec(group);
                        specs.push(spec.with_compression(options.compression));
                        coordinates.push(Arc::clone(&dataset.cells));
                    }
                }
            }
        }
        let first_dataset = specs.len();
        for measure in &self.measures {
            let spec = DatasetSpec::new(&measure.name, measure.dtype, &shape, &chunk_shape)
                .with_compression(options.compression)
                .with_dim_names(names.iter().map(String::as_str));
            let spec = labels.iter().fold(spec, |spec, (axis, texts)| {
                spec.with_labels(axis, texts.iter().map(String::as_str))
            });
            let attributes = measure.metadata.attrs.iter();
            specs.push(attributes.fold(spec, |spec, (key, value)| spec.with_attribute(key, value)));
        }
        let settings = CreateSettings {
            format_options: options.format_options.clone(),
            history: ("write", "sql"),
            ..CreateSettings::default()
        };
        let mut writer = creator.create(path, specs, &settings)?;
        for (dataset, cells) in coordinates.iter().enumerate() {
            writer.write_dataset(dataset, cells)?;
        }
        let positions: Vec<&[u32]> = axes.iter().map(|axis| axis.positions.as_slice()).collect();
        let assembly = Assembly {
            lookup: ChunkLookup::new(&positions, ChunkGrid::new(shape, chunk_shape)),
            fills,
            first_dataset,
            options,
            context,
            is_cancelled,
            cell: &|codes| {
                let cell = self.axes.iter().zip(codes);
                let cell =
                    cell.map(|(axis, code)| format!("{} = {}", axis.name(), axis.text(*code)));
                cell.collect::<Vec<_>>().join(", ")
            },
        };
        assembly.write(spool, writer.as_mut())?;
        writer.finish()?;
        Ok(())
    }
}
