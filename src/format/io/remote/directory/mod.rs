//! The objects below a path of a store, as the files of a directory.

pub(super) mod partitions;
pub(super) mod references;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use object_store::Error as StoreError;

use crate::error::{Error, Result};
use crate::format::io::remote::directory::references::References;
use crate::format::io::remote::failure::failed;
use crate::format::io::remote::part::Part;
use crate::format::io::remote::runtime;
use crate::format::io::remote::store::{Answer, Entries, Refusal, RemotePlace};
use crate::format::io::remote::version::Version;

/// The number of documents that are read at a time.
const DOCUMENTS_AT_A_TIME: usize = 16;

/// A directory of a store. Its objects are found by their keys, such as `t2m/zarr.json`, or by references
/// to parts of other files.
#[derive(Debug)]
pub struct RemoteDirectory {
    place: RemotePlace,
    references: Option<Box<dyn References>>,
    /// The documents that have been read; `None` if there is no such object.
    documents: Mutex<HashMap<String, Option<Bytes>>>,
}

impl RemoteDirectory {
    /// Creates the directory at a place, without a request.
    pub fn new(place: RemotePlace) -> Self {
        Self {
            place,
            references: None,
            documents: Mutex::default(),
        }
    }

    /// Creates the directory that references describe.
    pub(crate) fn of_references(place: RemotePlace, references: Box<dyn References>) -> Self {
        Self {
            references: Some(references),
            ..Self::new(place)
        }
    }

    /// Returns `true` if references describe the directory.
    pub(crate) fn has_references(&self) -> bool {
        self.references.is_some()
    }

    /// Returns where the bytes of an object are, without a request unless references have to be read.
    ///
    /// # Errors
    /// Fails if the references cannot be read.
    pub(crate) fn find(&self, key: &str) -> Result<Found> {
        match &self.references {
            Some(references) => Ok(match references.find(key)? {
                Found::At(place, part) => Found::At(place.referenced(), part),
                found => found,
            }),
            None => Ok(Found::At(self.place.join(key), Part::Whole)),
        }
    }

    /// Returns the URL, without secrets.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the place of an object.
    pub(crate) fn place(&self, key: &str) -> RemotePlace {
        self.place.join(key)
    }

    /// Returns the directory that this one is in, and the name of this one in it; `None` at the root of a store,
    /// and for directories that references describe.
    pub(crate) fn parent(&self) -> Option<(Self, String)> {
        if self.references.is_some() {
            return None;
        }
        let (place, name) = self.place.parent()?;
        Some((Self::new(place), name))
    }

    /// Reads several documents of at most `most` bytes each at the same time; `None` for documents that
    /// do not exist. Documents are cached, so each is read once.
    ///
    /// # Errors
    /// Fails if the store refuses a request, or cannot be reached.
    pub fn documents(&self, keys: &[String], most: u64) -> Result<Vec<Option<Bytes>>> {
        self.each_document(keys, most)?.into_iter().collect()
    }

    /// Reads several documents as [`Self::documents`] does, with an error for each document that cannot be
    /// read. The keys must be distinct.
    ///
    /// # Errors
    /// Fails if references cannot be read.
    pub(crate) fn each_document(
        &self,
        keys: &[String],
        most: u64,
    ) -> Result<Vec<Result<Option<Bytes>>>> {
        let mut failed = HashMap::new();
        let lock = || {
            self.documents
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let missing: Vec<String> = {
            let known = lock();
            let missing = keys.iter().filter(|key| !known.contains_key(*key));
            missing.cloned().collect()
        };
        if !missing.is_empty() {
            let found = missing.iter().map(|key| self.find(key));
            let found = found.collect::<Result<Vec<_>>>()?;
            let answers = runtime::wait(async move {
                let gets = found.into_iter().map(|found| async move {
                    match found {
                        Found::Absent => Ok(None),
                        Found::Inline(bytes) => Ok(Some(bytes)),
                        Found::At(place, part) => {
                            let fetched = fetch(place, part, None, most).await;
                            Ok(fetched?.map(|fetched| fetched.bytes))
                        }
                    }
                });
                let gets = stream::iter(gets).buffered(DOCUMENTS_AT_A_TIME);
                gets.collect::<Vec<Result<Option<Bytes>>>>().await
            });
            let answers = answers.map_err(Error::io(self.path(), "read"))?;
            for (key, answer) in missing.into_iter().zip(answers) {
                match answer {
                    Ok(document) => {
                        lock().insert(key, document);
                    }
                    Err(error) => {
                        failed.insert(key, error);
                    }
                }
            }
        }
        let known = lock();
        let found = keys.iter().map(|key| match failed.remove(key) {
            Some(error) => Err(error),
            None => Ok(known.get(key).cloned().flatten()),
        });
        Ok(found.collect())
    }

    /// Releases the cached documents. Call this once the directory is open.
    pub(crate) fn forget_documents(&self) {
        let mut documents = self
            .documents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        documents.clear();
    }

    /// Returns the names of the directories directly inside the directory with this key.
    ///
    /// # Errors
    /// Fails if the store cannot list objects. Most HTTP servers cannot.
    pub fn directories(&self, key: &str) -> Result<Vec<String>> {
        Ok(self.entries(key)?.directories)
    }

    /// Returns the names of the directories and objects directly inside the directory with this key.
    ///
    /// # Errors
    /// Returns the errors of [`Self::directories`].
    pub(crate) fn entries(&self, key: &str) -> Result<Entries> {
        if let Some(references) = &self.references {
            return Ok(references.entries(key));
        }
        let place = self.place.join(key);
        let listed = {
            let place = place.clone();
            runtime::wait(async move { place.store.entries(&place.location).await })
        };
        let listed = listed.map_err(Error::io(place.path(), "list"))?;
        listed.map_err(|error| failed(place.path(), "list", Refusal::Store(error)))
    }

    /// Returns the size of the object at the place itself; 0 if there is no such object.
    ///
    /// # Errors
    /// Fails if a referenced object does not exist, if the store refuses the request, or cannot be reached.
    pub(crate) fn size(&self) -> Result<u64> {
        let place = self.place.clone();
        let size = runtime::wait(async move { place.store.size(&place.location).await });
        match size.map_err(Error::io(self.path(), "read the size"))? {
            Err(StoreError::NotFound { .. }) if !self.place.is_referenced => Ok(0),
            size => {
                size.map_err(|error| failed(self.path(), "read the size", Refusal::Store(error)))
            }
        }
    }

    /// Reads a part of an object and blocks until it is read; `None` if there is no such object.
    ///
    /// # Errors
    /// Fails if a referenced object does not exist, if the store refuses the request, or cannot be reached.
    pub(crate) fn read(
        &self,
        key: &str,
        part: Part,
        pinned: Option<Version>,
        most: u64,
    ) -> Result<Option<Answer>> {
        let found = match key {
            "" => Found::At(self.place.clone(), Part::Whole),
            key => self.find(key)?,
        };
        let (place, part) = match found {
            Found::Absent => return Ok(None),
            Found::Inline(bytes) => {
                let size = bytes.len() as u64;
                return Ok(Some(Answer::of_memory(part.of(&bytes), size)));
            }
            Found::At(place, whole) => (place, part.within(whole)),
        };
        let path = place.path().to_path_buf();
        let read = runtime::wait(fetch(place, part, pinned, most));
        read.map_err(Error::io(&path, "read"))?
    }
}

/// The place of an object's bytes.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Absent,
    /// The bytes themselves.
    Inline(Bytes),
    /// An object, or a part of one.
    At(RemotePlace, Part),
}

/// Fetches a part of an object; `None` if there is no such object. If a version is given, the object must
/// still have it. Must run on the thread of requests.
///
/// # Errors
/// Fails if a referenced object does not exist, if the store refuses the request, or cannot be reached.
pub(crate) async fn fetch(
    place: RemotePlace,
    part: Part,
    pinned: Option<Version>,
    most: u64,
) -> Result<Option<Answer>> {
    let mut answer = place.get(part, pinned.as_ref(), most).await;
    // Azure has no ranges that count from the end.
    if let (Part::Last(length), Err(Refusal::Store(StoreError::NotSupported { .. }))) =
        (part, &answer)
        && let Ok(size) = place.store.size(&place.location).await
    {
        let range = Part::Range(size.saturating_sub(length), size);
        answer = place.get(range, pinned.as_ref(), most).await;
    }
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Refusal::Store(StoreError::NotFound { .. })) if !place.is_referenced => Ok(None),
        Err(refusal) => Err(failed(place.path(), "read", refusal)),
    }
}
