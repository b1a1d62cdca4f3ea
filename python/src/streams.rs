//! Record batches to and from other libraries, over the Arrow C stream interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tokio::task::spawn_blocking;

use crate::columns::Column;
use crate::errors::{ExecutionError, exception};
use crate::runtime::{Workers, exit, wait};
use crate::text;

/// The name of a capsule with a stream.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";
/// The name of a capsule with a schema.
const SCHEMA: &std::ffi::CStr = c"arrow_schema";

/// The maximum time that the process waits for abandoned readers when it ends.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of threads that read streams of other libraries.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// The record batches of a result that has been read completely.
#[pyclass(frozen, module = "tet_sql._tet_sql")]
pub struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Batches {
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// Returns the batches.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }
}

#[pymethods]
impl Batches {
    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Exports the batches without copying.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer casts the batches itself if they do not have the schema that it requested.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        export(py, Box::new(reader))
    }

    /// Exports the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// The columns, each in one piece of memory.
    fn columns(&self, py: Python<'_>) -> PyResult<Vec<Column>> {
        let columns = py.detach(|| Column::all(&self.schema, &self.batches));
        columns.map_err(|error| exception(&error))
    }

    /// The first rows as a table of text.
    fn table(&self, rows: usize) -> PyResult<String> {
        let table = text::table(&self.schema, &self.batches, rows);
        table.map_err(|error| exception(&error.into()))
    }

    /// The first rows, with each value as text; nulls are `None`.
    fn rows(&self, rows: usize) -> PyResult<Vec<Vec<Option<String>>>> {
        let rows = text::rows(&self.batches, rows);
        rows.map_err(|error| exception(&error.into()))
    }

    /// A chart of the rows as text for a terminal, or as a file if there is a path.
    #[pyo3(signature = (kind, path, columns, lines))]
    fn chart(
        &self,
        py: Python<'_>,
        kind: Option<String>,
        path: Option<std::path::PathBuf>,
        columns: usize,
        lines: usize,
    ) -> PyResult<String> {
        let drawn = py.detach(|| {
            let size = (columns, lines);
            text::chart(
                &self.schema,
                &self.batches,
                kind.as_deref(),
                path.as_deref(),
                size,
            )
        });
        drawn.map_err(ExecutionError::new_err)
    }
}

/// A running query that another library reads batch by batch.
pub struct QueryReader {
    schema: SchemaRef,
    /// `None` after the last batch and after an error. Dropping the stream cancels the query.
    stream: Option<SendableRecordBatchStream>,
    /// The workers that run the operators of the query.
    workers: Workers,
}

impl QueryReader {
    pub fn new(schema: SchemaRef, stream: SendableRecordBatchStream, workers: Workers) -> Self {
        Self {
            schema,
            stream: Some(stream),
            workers,
        }
    }
}

impl Iterator for QueryReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut stream = self.stream.take()?;
        // The consumer may or may not hold the GIL. `attach` takes it in either case, and waiting
        // releases it, so that the query can read Python objects.
        let read = Python::attach(|py| {
            self.workers.wait(py, async move {
                let batch = stream.next().await.transpose()?;
                Ok((stream, batch))
            })
        });
        match read {
            Ok((stream, Some(batch))) => {
                self.stream = Some(stream);
                Some(Ok(batch))
            }
            Ok((_, None)) => None,
            Err(error) => {
                let message = Python::attach(|py| error.value(py).to_string());
                let message = match message.is_empty() {
                    true => "interrupted".to_owned(),
                    false => message,
                };
                Some(Err(ArrowError::ExternalError(message.into())))
            }
        }
    }
}

impl RecordBatchReader for QueryReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Exports a stream of batches as a capsule.
pub fn export<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Exports a schema as a capsule.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema);
    let schema = schema.map_err(|error| exception(&error.into()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Reads all batches of an object that exports a stream.
///
/// # Errors
/// Returns an error if the object exports no stream, if the stream fails, or if a signal handler raises an
/// exception. Its thread then ends with the batch that it is waiting for.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err(
            "__arrow_c_stream__ returned no PyCapsule, as the Arrow C stream interface requires",
        )
    })?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name holds a stream. `from_raw` moves it out, and leaves a released
    // stream behind for the destructor of the capsule.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(pointer.as_ptr().cast()) };
    let reader = reader.map_err(|error| exception(&error.into()))?;
    // pandas adds schema metadata that describes the frame. It is dropped, because the inputs of a UNION must
    // have equal metadata.
    let schema = Arc::new(Schema::new(reader.schema().fields().clone()));
    // On a thread of its own: the stream may block, and may need the GIL.
    let batches = wait(object.py(), async move {
        // Dropped when the wait is interrupted.
        let waiting = Waiting(Arc::default());
        let is_abandoned = Arc::clone(&waiting.0);
        let reading = Reading::start();
        let read = spawn_blocking(move || {
            let _reading = reading;
            let wanted = reader.take_while(|_| !is_abandoned.load(Ordering::Relaxed));
            wanted.collect::<Result<Vec<_>, _>>()
        });
        let batches = read
            .await
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(batches?)
    })?;
    let batches = batches.into_iter().map(|batch| {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
    });
    let batches = batches.collect::<Result<Vec<_>, _>>();
    let batches = batches.map_err(|error| exception(&error.into()))?;
    Ok((schema, batches))
}

/// Tells a reader when nobody waits for it any longer.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Counts a reader as long as it reads.
struct Reading(());

impl Reading {
    fn start() -> Self {
        READERS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Stops threads that wait for queries, and waits until abandoned readers have ended, but at most a second. A
/// thread that needs the interpreter while it shuts down would end the process.
#[pyfunction]
pub fn wait_for_readers(py: Python<'_>) {
    exit(py);
    py.detach(|| {
        let end = Instant::now() + EXIT_TIMEOUT;
        while READERS.load(Ordering::Relaxed) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}
