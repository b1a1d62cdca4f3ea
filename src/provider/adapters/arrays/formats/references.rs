//! References of kerchunk and VirtualiZarr, which open as the Zarr hierarchy that they describe: JSON
//! documents, and directories of Parquet files.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;

use crate::error::Error;
use crate::format::io::remote::{
    METADATA, PlaceOf, ReferenceDocument, ReferencePartitions, References, RemoteDirectory,
    RemotePlace, RemoteStore, is_url,
};
use crate::format::zarr::ZarrFile;
use crate::provider::adapters::arrays::container::ArrayContainer;
use crate::provider::adapters::arrays::formats::reference_rows::decode_rows;
use crate::provider::adapters::registry::{Candidate, Format, RemoteFile};
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::remote::{TargetCheck, place};
use crate::provider::source::container::Container;

/// The maximum size of a document in bytes.
const MAX_BYTES: u64 = 512 << 20;

/// JSON documents and Parquet directories of references.
#[derive(Debug)]
pub(super) struct ReferenceFormat;

impl ReferenceFormat {
    /// Returns `true` if this entry of a directory is the metadata of references.
    pub fn recognises_entry(&self, candidate: &Candidate<'_>, name: &str) -> bool {
        let metadata = || candidate.entry(name);
        name == METADATA && metadata().is_some_and(|bytes| ReferencePartitions::are_in(&bytes))
    }
}

impl Format for ReferenceFormat {
    fn name(&self) -> &'static str {
        "kerchunk"
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["KERCHUNK"]
    }

    // Most documents are called `.json`, as are files of rows.
    fn extensions(&self) -> &'static [&'static str] {
        &["parq"]
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        if !candidate.is_directory() {
            return ReferenceDocument::are_in(candidate.start());
        }
        // Asked first, because hierarchies of version 3 need no other document.
        if candidate.is_remote() && candidate.has_entry("zarr.json") {
            return false;
        }
        self.recognises_entry(candidate, METADATA)
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let absolute = std::path::absolute(path).map_err(Error::io(path, "open"))?;
        let absolute = without_parents(absolute);
        let local = RemoteStore::new(Arc::new(LocalFileSystem::new()) as Arc<dyn ObjectStore>);
        let place_of = {
            let (path, local, session) = (path.to_path_buf(), local.clone(), session.clone());
            let directory = absolute.parent().unwrap_or(&absolute).to_path_buf();
            let check = session.get_extension::<TargetCheck>();
            let is_within = options.refuse_outward_links && check.is_none();
            checked(check, move |file| {
                let text = file.strip_prefix("file://").unwrap_or(file);
                match is_url(file) {
                    true => of_url(&path, file, &session),
                    false => of_path(&local, &directory, text, is_within),
                }
            })
        };
        let metadata = path.metadata().map_err(Error::io(path, "open"))?;
        if metadata.is_dir() {
            let location = ObjectPath::from_absolute_path(&absolute)
                .map_err(|error| Error::invalid(path, error.to_string()))?;
            let place = RemotePlace::new(local, location, path);
            return partitions(place, place_of, options);
        }
        check_size(path, metadata.len())?;
        let bytes = std::fs::read(path).map_err(Error::io(path, "read"))?;
        let references = ReferenceDocument::parse(path, &bytes, place_of)?;
        let place = RemotePlace::new(local, ObjectPath::default(), path);
        opened(place, Box::new(references), options)
    }

    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        // References from elsewhere must not lead to files of this machine.
        let place_of = {
            let (path, session) = (file.path().to_path_buf(), session.clone());
            let check = session.get_extension::<TargetCheck>();
            checked(check, move |file| of_url(&path, file, &session))
        };
        let path = file.path().to_path_buf();
        let Some(place) = place(&path, session)? else {
            return Err(Error::invalid(&path, "is not a URL"));
        };
        if let RemoteFile::Directory(_) = &file {
            return partitions(place, place_of, options);
        }
        let object = file.into_object()?;
        check_size(object.path(), object.size())?;
        let mut bytes = vec![0; object.size() as usize];
        object.read_at(0, &mut bytes)?;
        let references = ReferenceDocument::parse(&path, &bytes, place_of)?;
        opened(place, Box::new(references), options)
    }
}

/// Returns the places of files and URLs that pass a check.
fn checked(
    check: Option<Arc<TargetCheck>>,
    place_of: impl Fn(&str) -> Result<RemotePlace, Error> + Send + Sync + 'static,
) -> PlaceOf {
    Box::new(move |file| {
        let place = place_of(file)?;
        if let Some(check) = &check {
            check.check(place.path())?;
        }
        Ok(place)
    })
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

/// Opens the references in a directory of Parquet files.
fn partitions(
    place: RemotePlace,
    place_of: PlaceOf,
    options: &ArrayOptions,
) -> Result<Arc<dyn Container>, Error> {
    let directory = RemoteDirectory::new(place.clone());
    let metadata = directory.documents(&[METADATA.to_string()], MAX_BYTES)?;
    let Some(metadata) = metadata.into_iter().next().flatten() else {
        let message = format!("there is no {METADATA}, which a directory of references has");
        return Err(Error::invalid(place.path(), message));
    };
    let references = ReferencePartitions::parse(directory, metadata, decode_rows, place_of)?;
    opened(place, Box::new(references), options)
}

fn opened(
    place: RemotePlace,
    references: Box<dyn References>,
    options: &ArrayOptions,
) -> Result<Arc<dyn Container>, Error> {
    let file = ZarrFile::open_remote(RemoteDirectory::of_references(place, references))?;
    Ok(ArrayContainer::shared(Arc::new(file), options))
}

/// Returns the place of a URL that the references at `path` name. References that are themselves behind a
/// URL may name files relative to it.
fn of_url(path: &Path, file: &str, session: &SessionConfig) -> Result<RemotePlace, Error> {
    let above = path.parent().and_then(Path::to_str);
    let above = above.filter(|above| is_url(above));
    let is_relative = !file.is_empty() && !file.starts_with('/') && !file.contains("://");
    let url = match above.filter(|_| is_relative) {
        Some(above) => format!("{above}/{file}"),
        None => file.to_string(),
    };
    let place = place(Path::new(&url), session)?;
    place.ok_or_else(|| {
        let message = format!("refers to {file:?}, expected a URL such as s3://bucket/file");
        Error::invalid(path, message)
    })
}

/// Returns the place of a local file, relative to the directory that the references are in.
fn of_path(
    local: &RemoteStore,
    directory: &Path,
    file: &str,
    is_within: bool,
) -> Result<RemotePlace, Error> {
    let path = without_parents(directory.join(file));
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

/// Returns a path without `..`, which the names of objects cannot contain. The file itself need not exist.
fn without_parents(path: PathBuf) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path;
    }
    // `..` of a symbolic link to a directory is the parent of its target.
    let found = match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => above.canonicalize().map(|above| above.join(name)),
        _ => path.canonicalize(),
    };
    found.unwrap_or_else(|_| {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    plain.pop();
                }
                part => plain.push(part),
            }
        }
        plain
    })
}
