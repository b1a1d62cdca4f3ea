//! [`SignedFiles`]: files of rows behind URLs with secrets.

use std::collections::HashMap;
use std::fmt::{self, Debug, Display, Formatter};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// The store of one host, which reads some files by their signed URLs and all others from the store below. DataFusion names a file by the host and the path of
/// its URL only:
///
/// ```text
/// https://host/a.csv?sig=...   -->   https://host, a.csv   -->   https://host/a.csv?sig=...
/// ```
pub(super) struct SignedFiles {
    host: Arc<dyn ObjectStore>,
    /// The stores of the complete URLs, by their paths.
    files: RwLock<HashMap<Path, Arc<dyn ObjectStore>>>,
}

impl SignedFiles {
    /// Creates the store of a host, without files that have a store of their own.
    pub fn over(host: Arc<dyn ObjectStore>) -> Self {
        Self {
            host,
            files: RwLock::default(),
        }
    }

    /// Reads a file from a store, of which it is the only object.
    pub fn add(&self, location: Path, store: Arc<dyn ObjectStore>) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.insert(location, store);
    }

    fn file(&self, location: &Path) -> Option<Arc<dyn ObjectStore>> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(location).map(Arc::clone)
    }
}

impl Debug for SignedFiles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The stores' own output has the secrets.
        f.debug_struct("SignedFiles").finish_non_exhaustive()
    }
}

impl Display for SignedFiles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.host, f)
    }
}

#[async_trait]
impl ObjectStore for SignedFiles {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let Some(file) = self.file(location) else {
            return self.host.get_opts(location, options).await;
        };
        let whole = Path::default();
        let mut result = match file.get_opts(&whole, options.clone()).await {
            // An S3 signature is valid for one HTTP method, usually GET.
            Err(Error::PermissionDenied { .. }) if options.head => {
                let first = GetOptions {
                    head: false,
                    range: Some(GetRange::Bounded(0..1)),
                    ..options
                };
                file.get_opts(&whole, first).await?
            }
            result => result?,
        };
        result.meta.location = location.clone();
        Ok(result)
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.host.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.host.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.host.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.host.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.host.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.host.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.host.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.host.rename_opts(from, to, options).await
    }
}
