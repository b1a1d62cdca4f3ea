//! [`CheckedStore`]: rejects answers whose length is not the announced one.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result,
};

/// A store whose answers have the announced length, or are errors. A faulty proxy can send another part of
/// an object than its headers say, for which the readers of DataFusion are not prepared.
#[derive(Debug)]
pub(super) struct CheckedStore(pub Arc<dyn ObjectStore>);

impl Display for CheckedStore {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for CheckedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    // The trait's `get_ranges` calls this method, so that its answers are checked, too.
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let mut result = self.0.get_opts(location, options).await?;
        result.payload = match result.payload {
            GetResultPayload::Stream(body) if !is_head => {
                let length = result.range.end.saturating_sub(result.range.start);
                GetResultPayload::Stream(checked(body, length, location.clone()))
            }
            other => other,
        };
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.0.rename_opts(from, to, options).await
    }
}

/// Returns the body of an answer, which fails if its length is not `expected`.
fn checked(
    body: BoxStream<'static, Result<Bytes>>,
    expected: u64,
    location: Path,
) -> BoxStream<'static, Result<Bytes>> {
    let received = (body, 0, location);
    let checked = stream::try_unfold(received, move |(mut body, before, location)| async move {
        let bytes = body.try_next().await?;
        let length = before + bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let is_wrong = match bytes {
            Some(_) => length > expected,
            None => length != expected,
        };
        if is_wrong {
            let found =
                format!("the answer for {location} has {length} bytes, expected {expected}");
            return Err(Error::Generic {
                store: "remote",
                source: found.into(),
            });
        }
        Ok(bytes.map(|bytes| (bytes, (body, length, location))))
    });
    checked.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_of_another_length_are_errors() {
        for (parts, expected) in [
            (vec!["ab", "c"], Ok(3)),
            (vec![], Err("has 0 bytes, expected 3")),
            (vec!["ab"], Err("a.csv has 2 bytes, expected 3")),
            (vec!["ab", "cd"], Err("has 4 bytes, expected 3")),
        ] {
            let body = stream::iter(parts).map(|part| Ok(Bytes::from(part)));
            let body = checked(body.boxed(), 3, Path::from("a.csv"));
            let read = body.try_collect::<Vec<_>>().await;
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read.concat().len(), expected),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (read, expected) => panic!("{read:?}, {expected:?}"),
            }
        }
    }
}
