//! Uploads finished files to an object store.
//!
//! An object becomes visible when it is complete. Readers find a directory by its metadata, so the
//! metadata files are uploaded after all other files, and the metadata of the root last.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path as ObjectPath;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutPayload};

use crate::error::{Error, Result};
use crate::format::io::remote::failure::failed;
use crate::format::io::remote::runtime;
use crate::format::io::remote::store::{Refusal, RemotePlace};

/// The maximum size of an object that is uploaded in one request. Larger objects are uploaded in parts
/// of at least this size.
const PART_BYTES: u64 = 16 << 20;
/// The maximum number of parts. Stores allow 10,000.
const MAX_PARTS: u64 = 9_000;
/// The number of files that are uploaded at a time.
const FILES_AT_A_TIME: usize = 8;
/// Names of files that make a directory visible to readers.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zmetadata", ".zarray", ".zattrs", ".zgroup"];

/// Uploads a local file or directory to a place, which must not exist if it is a directory.
///
/// # Errors
/// Fails if a file cannot be read or uploaded, or if the directory exists.
pub(crate) async fn upload(local: PathBuf, place: RemotePlace) -> Result<()> {
    let path = place.path().to_path_buf();
    let task = runtime::spawn(async move {
        if !local.is_dir() {
            return put(&local, &place).await;
        }
        refuse_existing(&place).await?;
        let (documents, others): (Vec<_>, Vec<_>) = files(&local)?
            .into_iter()
            .partition(|(key, _)| is_document(key));
        let uploads = others.into_iter().map(|(key, file)| {
            let place = place.join(&key);
            async move { put(&file, &place).await }
        });
        let uploads = stream::iter(uploads).buffer_unordered(FILES_AT_A_TIME);
        uploads.try_collect::<()>().await?;
        for (key, file) in documents {
            put(&file, &place.join(&key)).await?;
        }
        Ok(())
    });
    let task = task.map_err(Error::io(&path, "write"))?;
    task.await.map_err(Error::io(&path, "write"))?
}

/// Returns `true` for metadata, and for the commits of TileDB.
fn is_document(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    DOCUMENTS.contains(&name) || key.starts_with("__commits/")
}

/// Lists the files of a directory by their keys. Files of nested directories come first.
fn files(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut directories = vec![(String::new(), directory.to_path_buf())];
    while let Some((prefix, directory)) = directories.pop() {
        for entry in directory
            .read_dir()
            .map_err(Error::io(&directory, "list"))?
        {
            let entry = entry.map_err(Error::io(&directory, "list"))?;
            let key = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => directories.push((format!("{key}/"), entry.path())),
                false => found.push((key, entry.path())),
            }
        }
    }
    found.sort_by_key(|(key, _)| (std::cmp::Reverse(key.matches('/').count()), key.clone()));
    Ok(found)
}

/// Checks that no object is below a place. Stores that cannot list are not checked.
async fn refuse_existing(place: &RemotePlace) -> Result<()> {
    let store = place.store.inner();
    let mut listed = store.list(Some(&place.location));
    match listed.next().await {
        Some(Ok(_)) => Err(Error::invalid(
            place.path(),
            "exists; delete it first, or choose another name",
        )),
        _ => Ok(()),
    }
}

/// Uploads a file, in parts if it is large.
async fn put(file: &Path, place: &RemotePlace) -> Result<()> {
    let refused = |error| failed(place.path(), "write", Refusal::Store(error));
    let opened = File::open(file).and_then(|opened| Ok((opened.metadata()?.len(), opened)));
    let (size, mut opened) = opened.map_err(Error::io(file, "read"))?;
    let store = place.store.inner().as_ref();
    if size > PART_BYTES {
        match put_parts(&mut opened, size, store, &place.location).await {
            // Plain HTTP has no uploads in parts.
            Err(PutError::Store(StoreError::NotImplemented { .. })) => {}
            Err(PutError::Store(error)) => return Err(refused(error)),
            Err(PutError::Read(error)) => return Err(Error::io(file, "read")(error)),
            Ok(()) => return Ok(()),
        }
    }
    let bytes = std::fs::read(file).map_err(Error::io(file, "read"))?;
    let put = store.put(&place.location, PutPayload::from(bytes)).await;
    put.map(|_| ()).map_err(refused)
}

enum PutError {
    Store(StoreError),
    Read(std::io::Error),
}

async fn put_parts(
    file: &mut File,
    size: u64,
    store: &dyn ObjectStore,
    location: &ObjectPath,
) -> Result<(), PutError> {
    let mut upload = store
        .put_multipart(location)
        .await
        .map_err(PutError::Store)?;
    let part = PART_BYTES.max(size.div_ceil(MAX_PARTS));
    let mut sent = Ok(());
    loop {
        let mut bytes = Vec::new();
        match file.by_ref().take(part).read_to_end(&mut bytes) {
            Ok(0) => break,
            Ok(_) => {
                sent = upload
                    .put_part(PutPayload::from(bytes))
                    .await
                    .map_err(PutError::Store);
            }
            Err(error) => sent = Err(PutError::Read(error)),
        }
        if sent.is_err() {
            break;
        }
    }
    if let Err(error) = sent {
        // If this fails, the store eventually deletes the parts by itself.
        let _ = upload.abort().await;
        return Err(error);
    }
    upload.complete().await.map(|_| ()).map_err(PutError::Store)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::format::io::remote::RemoteStore;

    #[tokio::test]
    async fn files_and_directories() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(InMemory::new());
        let inner: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&store);
        let store_of = RemoteStore::new(inner);
        let place = |name: &str| RemotePlace::new(store_of.clone(), ObjectPath::from(name), name);
        let large = folder.path().join("large");
        let size = (2 * PART_BYTES + 5) as usize;
        std::fs::write(&large, vec![7; size]).unwrap();
        upload(large.clone(), place("l")).await.unwrap();
        assert_eq!(
            store.head(&ObjectPath::from("l")).await.unwrap().size,
            size as u64
        );
        std::fs::remove_file(large).unwrap();
        for name in ["zarr.json", "t/zarr.json", "t/c/0", "t/c/1"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let keys: Vec<_> = files(folder.path())
            .unwrap()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys, ["t/c/0", "t/c/1", "t/zarr.json", "zarr.json"]);
        upload(folder.path().to_path_buf(), place("z"))
            .await
            .unwrap();
        let read = store.get(&ObjectPath::from("z/t/c/1")).await.unwrap();
        assert_eq!(read.bytes().await.unwrap(), "t/c/1");
        let error = upload(folder.path().to_path_buf(), place("z"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("exists"), "{error}");
    }
}
