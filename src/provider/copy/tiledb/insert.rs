//! `INSERT INTO` a TileDB array.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use crate::format::tiledb::{TileDbArray, WriteOptions};
use crate::provider::adapters::tiledb;
use crate::provider::copy::background::in_background;
use crate::provider::copy::tiledb::columns::StoredColumn;
use crate::provider::copy::tiledb::fills::fill_of;
use crate::provider::copy::tiledb::fragment::FragmentWriter;
use crate::provider::copy::tiledb::ordinals::Ordinals;
use crate::provider::copy::tiledb::sink::reserve;

/// Returns a plan that adds the rows of `input` to a TileDB array, as one fragment. A table of the array
/// returns it from `TableProvider::insert_into`.
///
/// The columns of `input` are those of the table. `columns` are their indices: of each dimension and then
/// of each attribute, in the order of the array's schema.
///
/// # Errors
/// Fails if the operation is not `INSERT INTO`. The plan fails if a value cannot be stored, or if the rows
/// of a dense array are not all cells of a box.
pub fn insert_into_tiledb(
    array: &Arc<TileDbArray>,
    columns: &[usize],
    input: Arc<dyn ExecutionPlan>,
    operation: InsertOp,
) -> Result<Arc<dyn ExecutionPlan>> {
    if operation != InsertOp::Append {
        return plan_err!(
            "{}: rows can only be added to an array, with INSERT INTO",
            array.path().display()
        );
    }
    if !array.is_local() {
        return plan_err!(
            "{}: rows cannot be added to an array behind a URL; write another array with COPY",
            array.path().display()
        );
    }
    let sink = InsertSink::try_new(Arc::clone(array), columns, input.schema())?;
    Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
}

/// Adds rows to an array.
#[derive(Debug)]
struct InsertSink {
    array: Arc<TileDbArray>,
    schema: SchemaRef,
    /// The dimensions, followed by the attributes.
    columns: Arc<Vec<StoredColumn>>,
}

impl InsertSink {
    fn try_new(array: Arc<TileDbArray>, columns: &[usize], schema: SchemaRef) -> Result<Self> {
        let stored = array.schema();
        let fields = stored.dimensions.len() + stored.attributes.len();
        if columns.len() != fields || columns.iter().any(|index| *index >= schema.fields().len()) {
            return plan_err!(
                "{}: {} columns are given for {fields} dimensions and attributes",
                array.path().display(),
                columns.len()
            );
        }
        let (of_dimensions, of_attributes) = columns.split_at(stored.dimensions.len());
        let dimensions = stored.dimensions.iter().zip(of_dimensions);
        let dimensions = dimensions.map(|(dimension, index)| StoredColumn {
            name: dimension.name.clone(),
            index: *index,
            datatype: dimension.datatype,
            cell_values: dimension.cell_values,
            is_nullable: false,
            is_dimension: true,
            fill: None,
            enumeration: None,
        });
        let mut all: Vec<StoredColumn> = dimensions.collect();
        let attributes = stored.attributes.iter().zip(of_attributes);
        for (number, (attribute, index)) in attributes.enumerate() {
            let enumeration = array.enumeration(number)?;
            let enumeration = enumeration.map(|values| Ordinals::new(&attribute.name, &values));
            let values = enumeration.as_ref().map(Ordinals::len);
            let fill = fill_of(attribute, values).filter(|_| !stored.is_sparse);
            all.push(StoredColumn {
                name: attribute.name.clone(),
                index: *index,
                datatype: attribute.datatype,
                cell_values: attribute.cell_values,
                is_nullable: attribute.is_nullable,
                is_dimension: false,
                fill,
                enumeration: enumeration.map(Arc::new),
            });
        }
        Ok(Self {
            array,
            schema,
            columns: Arc::new(all),
        })
    }
}

impl DisplayAs for InsertSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "TileDbInsert: {}", self.array.path().display())
    }
}

#[async_trait]
impl DataSink for InsertSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let memory = reserve(context)?;
        let options = WriteOptions {
            sort_memory: memory.size(),
            ..WriteOptions::default()
        };
        let mut writer = FragmentWriter::append(&self.array, &options)?;
        let mut rows = 0;
        while let Some(batch) = data.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            let columns = Arc::clone(&self.columns);
            writer = in_background(move || {
                let cells = columns.iter();
                let cells = cells.map(|column| column.cells(batch.column(column.index)));
                writer.write(batch.num_rows(), &cells.collect::<Result<Vec<_>>>()?)?;
                Ok(writer)
            })
            .await?;
        }
        in_background(move || Ok(writer.finish()?)).await?;
        tiledb::note_addition(self.array.path());
        Ok(rows)
    }
}
