//! Documents of references (kerchunk, VirtualiZarr), which open as the Zarr hierarchy that they
//! describe.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;

use crate::error::Error;
use crate::format::io::remote::{References, RemoteDirectory, RemotePlace, RemoteStore, is_url};
use crate::format::zarr::ZarrFile;
use crate::provider::adapters::arrays::container::ArrayContainer;
use crate::provider::adapters::registry::{Candidate, Format, RemoteFile};
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::remote::RemoteStores;
use crate::provider::source::container::Container;

/// The maximum size of a document in bytes.
const MAX_BYTES: u64 = 512 << 20;

/// Documents of references.
#[derive(Debug)]
pub(super) struct ReferenceFormat;

impl Format for ReferenceFormat {
    fn name(&self) -> &'static str {
        "kerchunk"
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["KERCHUNK"]
    }

    // Most documents are called `.json`, as are files of rows.
    fn extensions(&self) -> &'static [&'static str] {
        &[]
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        !candidate.is_directory() && References::are_in(candidate.start())
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let absolute = std::path::absolute(path).map_err(Error::io(path, "open"))?;
        let size = path.metadata().map_err(Error::io(path, "open"))?.len();
        check_size(path, size)?;
        let bytes = std::fs::read(path).map_err(Error::io(path, "read"))?;
        let local = RemoteStore::new(Arc::new(LocalFileSystem::new()) as Arc<dyn ObjectStore>);
        let directory = absolute.parent().unwrap_or(&absolute).to_path_buf();
        let references = References::parse(path, &bytes, |file| {
            let text = file.strip_prefix("file://").unwrap_or(file);
            match is_url(file) {
                true => of_url(path, file, session),
                false => of_path(&local, &directory, text, options.refuse_outward_links),
            }
        })?;
        let place = RemotePlace::new(local, ObjectPath::default(), path);
        opened(RemoteDirectory::of_references(place, references), options)
    }

    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let object = file.into_object()?;
        check_size(object.path(), object.size())?;
        let mut bytes = vec![0; object.size() as usize];
        object.read_at(0, &mut bytes)?;
        // A document from elsewhere must not lead to files of this machine.
        let path = object.path();
        let references = References::parse(path, &bytes, |file| of_url(path, file, session))?;
        let Some(place) = RemoteStores::of(session).place(path)? else {
            return Err(Error::invalid(path, "is not a URL"));
        };
        opened(RemoteDirectory::of_references(place, references), options)
    }
}

fn check_size(path: &Path, size: u64) -> Result<(), Error> {
    match size <= MAX_BYTES {
        true => Ok(()),
        false => Err(Error::invalid(
            path,
            format!("the references take {size} bytes, expected at most {MAX_BYTES}"),
        )),
    }
}

fn opened(directory: RemoteDirectory, options: &ArrayOptions) -> Result<Arc<dyn Container>, Error> {
    let file = ZarrFile::open_remote(directory)?;
    Ok(ArrayContainer::shared(Arc::new(file), options))
}

/// Returns the place of a URL that the document at `path` refers to.
fn of_url(path: &Path, url: &str, session: &SessionConfig) -> Result<RemotePlace, Error> {
    let place = RemoteStores::of(session).place(Path::new(url))?;
    place.ok_or_else(|| {
        let message = format!("refers to {url:?}, expected a URL such as s3://bucket/file");
        Error::invalid(path, message)
    })
}

/// Returns the place of a local file, relative to the directory of the document.
fn of_path(
    local: &RemoteStore,
    directory: &Path,
    file: &str,
    is_within: bool,
) -> Result<RemotePlace, Error> {
    let path: PathBuf = directory.join(file);
    if is_within {
        let target = path.canonicalize().map_err(Error::io(&path, "open"))?;
        let directory = directory
            .canonicalize()
            .map_err(Error::io(directory, "open"))?;
        if !target.starts_with(directory) {
            let message =
                "is outside of the directory of the references; such files are not read here";
            return Err(Error::invalid(&path, message));
        }
    }
    let location = ObjectPath::from_absolute_path(&path)
        .map_err(|error| Error::invalid(&path, error.to_string()))?;
    Ok(RemotePlace::new(local.clone(), location, path))
}
