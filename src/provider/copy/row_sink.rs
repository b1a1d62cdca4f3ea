//! The sink of `COPY` to rows.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::Array;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use crate::error::Error;
use crate::format::io::target::{self, TemporaryDirectory};
use crate::provider::copy::row_paths::CopyPaths;
use crate::provider::copy::stored_types::cast_rows;

/// The start of the message with which DataFusion replaces the cause of a failed write.
const FINALIZING: &str = "Error encountered while finalizing writes";
/// Attempts to delete a directory in which an aborted writer may still create files, and the pause
/// between attempts.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// A sink that writes local files into a temporary directory and renames them once they are complete.
pub(super) struct RowSink {
    /// DataFusion's operator, whose sink writes into the temporary directory.
    pub writer: Arc<dyn ExecutionPlan>,
    /// The paths of a `COPY` to local files; `None` for `INSERT` and object stores.
    pub paths: Option<CopyPaths>,
    pub is_parquet: bool,
    /// The columns whose values become names of directories.
    pub partition_keys: Vec<String>,
}

impl RowSink {
    /// Returns DataFusion's sink.
    ///
    /// # Errors
    /// Returns an error if the operator is not that of a sink.
    pub fn inner(&self) -> Result<&dyn DataSink> {
        match self.writer.downcast_ref::<DataSinkExec>() {
            Some(writer) => Ok(writer.sink()),
            None => internal_err!("{} is not a sink of rows", self.writer.name()),
        }
    }
}

impl Debug for RowSink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowSink")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for RowSink {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        match self.inner() {
            Ok(inner) => inner.fmt_as(t, f),
            Err(_) => write!(f, "RowSink"),
        }
    }
}

#[async_trait]
impl DataSink for RowSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.inner().ok()?.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        match self.inner() {
            Ok(inner) => inner.schema(),
            // Unreachable: `create_writer_physical_plan` has checked `inner`.
            Err(_) => self.writer.properties().eq_properties.schema(),
        }
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let data = match self.is_parquet {
            true => cast_rows(data),
            false => data,
        };
        let data = match self.partition_keys.is_empty() {
            true => data,
            false => without_null_keys(data, self.partition_keys.clone()),
        };
        let Some(paths) = &self.paths else {
            return self.inner()?.write_all(data, context).await;
        };
        let target = &paths.target;
        let temporary = target::create_private_directory(&paths.temporary, target)?;
        let temporary = TemporaryDirectoryGuard(Some(temporary));
        let written = self.inner()?.write_all(data, context).await;
        let rows = written.map_err(|error| match error.find_root() {
            DataFusionError::Internal(message) if message.starts_with(FINALIZING) => {
                let message = "the file could not be completed; is the disk full?";
                Error::io(target, "write")(io::Error::other(message)).into()
            }
            _ => error,
        })?;
        paths.put()?;
        temporary.remove();
        Ok(rows)
    }
}

/// Returns rows that fail at a null in a column whose values become names of directories, because DataFusion would take it for
/// another value.
fn without_null_keys(
    rows: SendableRecordBatchStream,
    keys: Vec<String>,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let batches = rows.map(move |batch| {
        let batch = batch?;
        let has_null = |key: &&String| {
            let column = batch.column_by_name(key);
            column.is_some_and(|column| column.logical_null_count() > 0)
        };
        match keys.iter().find(has_null) {
            Some(key) => exec_err!(
                "column {key} is NULL in a row, but PARTITIONED BY makes names of directories of its values; use \
                 coalesce({key}, ...), or WHERE {key} IS NOT NULL"
            ),
            None => Ok(batch),
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// The temporary directory of a running `COPY`.
///
/// If the `COPY` fails, a thread deletes the directory repeatedly: blocking writes of an aborted
/// task continue for a moment, and may create their file again along with the directory.
struct TemporaryDirectoryGuard(Option<TemporaryDirectory>);

impl TemporaryDirectoryGuard {
    fn remove(mut self) {
        self.0.take();
    }
}

impl Drop for TemporaryDirectoryGuard {
    fn drop(&mut self) {
        let Some(folder) = self.0.take() else {
            return;
        };
        let _ = std::fs::remove_dir_all(folder.path());
        std::thread::spawn(move || {
            for _ in 0..ATTEMPTS {
                std::thread::sleep(PAUSE);
                let _ = std::fs::remove_dir_all(folder.path());
            }
        });
    }
}
