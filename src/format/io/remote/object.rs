//! One object of a store, opened for reading.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use object_store::{Error as StoreError, GetRange};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::identity::FileIdentity;
use crate::format::io::remote::failure::{changed, failed};
use crate::format::io::remote::runtime;
use crate::format::io::remote::segments::{Segments, SharedSegments, shared};
use crate::format::io::remote::store::{Answer, Refusal, RemotePlace};

/// The number of bytes at the start of an object that are read when it is opened. Headers are
/// usually shorter.
const HEAD_BYTES: u64 = 64 << 10;
/// The number of bytes that are read at the end of an object, where footers are.
const TAIL_BYTES: u64 = 256 << 10;
/// The minimum and maximum number of bytes of a read that may be followed by another one close by.
const READ_AHEAD: [u64; 2] = [64 << 10, 1 << 20];
/// The maximum number of bytes of a chunk.
const MAX_FETCH_BYTES: u64 = 2 << 30;
/// The maximum number of bytes of an object that is read as a whole from a server without ranges.
const MAX_WITHOUT_RANGES: u64 = 256 << 20;

/// An object, pinned to its size and entity tag as they were when it was opened.
///
/// Small reads, such as those of headers and indexes, fetch more than they need and keep it. Reads
/// of chunks fetch exactly their bytes.
#[derive(Debug)]
pub struct RemoteObject {
    place: RemotePlace,
    size: u64,
    etag: Option<String>,
    segments: SharedSegments,
    /// The whole object, if the server does not support ranges.
    whole: Option<Bytes>,
    /// Held while a thread reads ahead, so that others wait for the same bytes.
    reading: Mutex<()>,
}

impl RemoteObject {
    /// Opens an object, and reads its first bytes; `None` if there is no such object.
    ///
    /// # Errors
    /// Fails if the store refuses the request, or cannot be reached.
    pub fn open(place: &RemotePlace) -> Result<Option<Self>> {
        let asked = place.clone();
        let answer = runtime::wait(async move { head(&asked).await });
        let answer = answer.map_err(Error::io(place.path(), "open"))?;
        let (answer, is_whole) = match answer {
            Ok(answer) => answer,
            Err(Refusal::Store(StoreError::NotFound { .. })) => return Ok(None),
            Err(refusal) => return Err(failed(place.path(), "open", refusal)),
        };
        let segments = shared(place.path(), answer.etag.as_deref());
        let object = Self {
            place: place.clone(),
            size: answer.size,
            etag: answer.etag,
            segments,
            whole: is_whole.then(|| answer.bytes.clone()),
            reading: Mutex::new(()),
        };
        let head = 0..answer.bytes.len() as u64;
        if !is_whole && object.segments().find(&head).is_none() {
            object.segments().insert(0, answer.bytes);
        }
        Ok(Some(object))
    }

    /// Returns the URL, without secrets.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the identity of the object: its size, and a checksum of its entity tag.
    pub fn identity(&self) -> FileIdentity {
        let etag = self.etag.as_deref().unwrap_or_default();
        FileIdentity::new(self.size, None, [etag.as_bytes()])
    }

    fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a range without a request, if it is in memory.
    fn kept(&self, range: &Range<u64>) -> Option<Bytes> {
        match &self.whole {
            Some(whole) => Some(whole.slice(range.start as usize..range.end as usize)),
            None => self.segments().find(range),
        }
    }

    /// Checks that a range lies within the object.
    fn check(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.size {
            return Ok(());
        }
        Err(Error::malformed(
            ErrorLocation::file(self.path()),
            "size",
            format!("{} bytes", self.size),
            format!("at least {} bytes", range.end),
        ))
    }

    /// Fills a buffer with the bytes from `offset` on, and blocks until they are read.
    ///
    /// # Errors
    /// Fails if the bytes cannot be read, or if the object was replaced since it was opened.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        self.check(&range)?;
        if range.is_empty() {
            return Ok(());
        }
        let bytes = match self.kept(&range) {
            Some(bytes) => bytes,
            None => self.read_ahead(&range)?,
        };
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    /// Reads a range into memory, unless it is there, so that the reads within it need no request.
    pub fn prefetch(&self, range: Range<u64>) -> Result<()> {
        self.check(&range)?;
        if range.is_empty() || self.kept(&range).is_some() {
            return Ok(());
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.kept(&range).is_none() {
            let bytes = self.wait_for(range.clone())?;
            self.segments().insert(range.start, bytes);
        }
        Ok(())
    }

    /// Reads a range and the bytes around it, which are likely to be read next.
    fn read_ahead(&self, range: &Range<u64>) -> Result<Bytes> {
        let [min, max] = READ_AHEAD;
        if range.end - range.start >= max {
            return self.wait_for(range.clone());
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = self.kept(range) {
            return Ok(bytes);
        }
        let wide = if self.size - range.start <= TAIL_BYTES {
            self.size - TAIL_BYTES.min(self.size)..self.size
        } else {
            let ahead = match self.segments().ends_at(range.start) {
                true => max,
                false => min,
            };
            range.start..range.end.max(range.start + ahead).min(self.size)
        };
        let bytes = self.wait_for(wide.clone())?;
        self.segments().insert(wide.start, bytes.clone());
        let from = (range.start - wide.start) as usize;
        Ok(bytes.slice(from..from + (range.end - range.start) as usize))
    }

    fn wait_for(&self, range: Range<u64>) -> Result<Bytes> {
        let request = request(self.place.clone(), self.size, self.etag.clone(), range);
        runtime::wait(request).map_err(Error::io(self.path(), "read"))?
    }

    /// Fetches a range, which is not kept afterwards. Must run on the thread of requests.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_at`].
    pub(crate) async fn fetch(self: Arc<Self>, range: Range<u64>) -> Result<(Bytes, u64)> {
        self.check(&range)?;
        if let Some(bytes) = self.kept(&range) {
            return Ok((bytes, 0));
        }
        let length = range.end - range.start;
        if length > MAX_FETCH_BYTES {
            return Err(failed(self.path(), "read", Refusal::TooLarge(length)));
        }
        let request = request(self.place.clone(), self.size, self.etag.clone(), range);
        Ok((request.await?, 1))
    }
}

/// Gets the first bytes of an object; `true` if these are the whole object, because the server does
/// not support ranges.
async fn head(place: &RemotePlace) -> Result<(Answer, bool), Refusal> {
    let get = |range, most| place.store.get(&place.location, range, None, most);
    match get(Some(GetRange::Bounded(0..HEAD_BYTES)), HEAD_BYTES).await {
        Err(Refusal::Store(StoreError::NotSupported { .. })) => {
            Ok((get(None, MAX_WITHOUT_RANGES).await?, true))
        }
        Err(Refusal::Store(error @ StoreError::Generic { .. })) if is_about_range(&error) => {
            // An object without bytes has no range that could be sent.
            match place.store.size(&place.location).await {
                Ok(0) => Ok((get(None, 0).await?, true)),
                _ => Err(Refusal::Store(error)),
            }
        }
        answer => Ok((answer?, false)),
    }
}

/// Returns `true` if a store refused a range (416 Range Not Satisfiable).
fn is_about_range(error: &StoreError) -> bool {
    let text = error.to_string();
    text.contains("416") || text.contains("range")
}

/// Gets a range of an object, which must still have this size and entity tag.
async fn request(
    place: RemotePlace,
    size: u64,
    etag: Option<String>,
    range: Range<u64>,
) -> Result<Bytes> {
    let length = range.end - range.start;
    let get = place.store.get(
        &place.location,
        Some(GetRange::Bounded(range)),
        etag.as_deref(),
        length,
    );
    let answer = get
        .await
        .map_err(|refusal| failed(place.path(), "read", refusal))?;
    // Servers may ignore the condition.
    let is_same = answer.size == size && (etag.is_none() || answer.etag == etag);
    match is_same && answer.bytes.len() as u64 == length {
        true => Ok(answer.bytes),
        false => Err(changed(place.path())),
    }
}
