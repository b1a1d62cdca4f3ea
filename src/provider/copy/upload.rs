//! `COPY ... TO 's3://bucket/file.tet'`: writes a temporary file, and uploads it when it is complete.

use std::fmt::{self, Debug, Formatter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use datafusion::prelude::SessionConfig;
use tempfile::TempDir;

use crate::error::Error;
use crate::format::io::remote::{RemotePlace, upload};
use crate::provider::remote::{RemoteStores, admitted};

/// The place of a `COPY` in an object store, and the temporary directory of the file.
pub(super) struct Upload {
    place: RemotePlace,
    directory: TempDir,
    /// The path of the file, which has the name of the target.
    written: PathBuf,
}

impl Upload {
    /// Creates the upload to a URL.
    ///
    /// # Errors
    /// Returns an error if the session has no store for the URL, or there is no space for temporary
    /// files.
    pub fn try_new(url: &str, session: &SessionConfig) -> Result<Self> {
        let shown = admitted(Path::new(url), session)?;
        let place = RemoteStores::of(session).place(&shown)?;
        let (Some(place), Some(name)) = (place, shown.file_name()) else {
            return Err(plan_datafusion_err!("{}: names no file", shown.display()));
        };
        let directory = tempfile::Builder::new()
            .prefix(".tet-writing-")
            .suffix(".tmp")
            .tempdir()
            .map_err(Error::io(&shown, "create a temporary file for"))?;
        Ok(Self {
            written: directory.path().join(name),
            place,
            directory,
        })
    }

    /// Returns the path of the temporary file.
    pub fn written(&self) -> &Path {
        &self.written
    }

    /// Uploads the file that a sink writes.
    pub fn after(self, sink: Arc<dyn DataSink>) -> Arc<dyn DataSink> {
        Arc::new(UploadSink { sink, upload: self })
    }
}

/// A sink that uploads the file of another one.
struct UploadSink {
    sink: Arc<dyn DataSink>,
    upload: Upload,
}

impl Debug for UploadSink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadSink")
            .field("sink", &self.sink)
            .field("place", &self.upload.place.path())
            .field("directory", &self.upload.directory.path())
            .finish()
    }
}

impl DisplayAs for UploadSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        self.sink.fmt_as(format, f)?;
        write!(f, ", upload={}", self.upload.place.path().display())
    }
}

#[async_trait]
impl DataSink for UploadSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.sink.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.sink.schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let count = self.sink.write_all(data, context).await?;
        let written = self.upload.written.clone();
        upload(written, self.upload.place.clone()).await?;
        Ok(count)
    }
}
