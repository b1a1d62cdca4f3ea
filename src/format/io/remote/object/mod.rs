//! One object of a store, opened for reading.

pub(super) mod blocks;
pub(super) mod ranges;
mod segments;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
#[cfg(feature = "tiledb")]
use futures::FutureExt;
#[cfg(feature = "tiledb")]
use futures::future::{BoxFuture, Shared, WeakShared};
use object_store::Error as StoreError;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::identity::FileIdentity;
use crate::format::io::remote::failure::failed;
use crate::format::io::remote::object::ranges::fetch_ranges;
use crate::format::io::remote::object::segments::{Segments, SharedSegments, shared};
use crate::format::io::remote::part::Part;
use crate::format::io::remote::runtime;
use crate::format::io::remote::store::{Answer, Condition, Refusal, RemotePlace};
use crate::format::io::remote::version::Version;

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

/// An object, pinned to its version as it was when it was opened.
///
/// Small reads, such as those of headers and indexes, fetch more than they need and keep it. Reads
/// of chunks fetch exactly their bytes.
#[derive(Debug)]
pub struct RemoteObject {
    place: RemotePlace,
    version: Version,
    segments: SharedSegments,
    /// The whole object, if the server does not support ranges.
    whole: Option<Bytes>,
    /// Held while a thread reads ahead, so that others wait for the same bytes.
    reading: Mutex<()>,
    /// The running requests of [`Self::fetch_ahead`], and their ranges.
    #[cfg(feature = "tiledb")]
    ahead: Mutex<Vec<(Range<u64>, WeakShared<Ahead>)>>,
}

/// A request for more bytes than are needed now; `None` if it failed.
#[cfg(feature = "tiledb")]
type Ahead = BoxFuture<'static, Option<Bytes>>;

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
        let segments = shared(place.path(), answer.version.etag.as_deref());
        let object = Self {
            place: place.clone(),
            version: answer.version,
            segments,
            whole: is_whole.then(|| answer.bytes.clone()),
            reading: Mutex::new(()),
            #[cfg(feature = "tiledb")]
            ahead: Mutex::default(),
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
        self.version.size
    }

    /// Returns the identity of the object: its size, and a checksum of its entity tag.
    pub fn identity(&self) -> FileIdentity {
        let etag = self.version.etag.as_deref().unwrap_or_default();
        FileIdentity::new(self.size(), None, [etag.as_bytes()])
    }

    fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a range without a request, if it is in memory.
    pub(super) fn kept(&self, range: &Range<u64>) -> Option<Bytes> {
        match &self.whole {
            Some(whole) => Some(whole.slice(range.start as usize..range.end as usize)),
            None => self.segments().find(range),
        }
    }

    /// Checks that a range lies within the object.
    fn check(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.size() {
            return Ok(());
        }
        Err(Error::malformed(
            ErrorLocation::file(self.path()),
            "size",
            format!("{} bytes", self.size()),
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

    /// Reads ranges into memory like [`Self::prefetch`], all at the same time. Returns the number of
    /// requests, and of the bytes that they fetched. Must run on the thread of requests.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_at`].
    pub(crate) async fn prefetch_all(
        self: &Arc<Self>,
        ranges: Vec<Range<u64>>,
    ) -> Result<(u64, u64)> {
        let is_missing = |range: &Range<u64>| !range.is_empty() && self.kept(range).is_none();
        let missing: Vec<_> = ranges.into_iter().filter(is_missing).collect();
        let fetched = fetch_ranges(self, &missing).await?;
        for (range, bytes) in missing.iter().zip(fetched.parts) {
            self.segments().insert(range.start, bytes);
        }
        Ok((fetched.requests, fetched.bytes_fetched))
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
        let size = self.size();
        let wide = if size - range.start <= TAIL_BYTES {
            size - TAIL_BYTES.min(size)..size
        } else {
            let ahead = match self.segments().ends_at(range.start) {
                true => max,
                false => min,
            };
            range.start..range.end.max(range.start + ahead).min(size)
        };
        let bytes = self.wait_for(wide.clone())?;
        self.segments().insert(wide.start, bytes.clone());
        let from = (range.start - wide.start) as usize;
        Ok(bytes.slice(from..from + (range.end - range.start) as usize))
    }

    fn wait_for(&self, range: Range<u64>) -> Result<Bytes> {
        let (place, version) = (self.place.clone(), self.version.clone());
        let part = Part::Range(range.start, range.end);
        let length = range.end - range.start;
        let answer = runtime::wait(async move { place.get(part, Some(&version), length).await });
        let answer = answer.map_err(Error::io(self.path(), "read"))?;
        self.checked(answer, length)
    }

    /// Returns the bytes of an answer, which must be those of a whole range.
    fn checked(&self, answer: Result<Answer, Refusal>, length: u64) -> Result<Bytes> {
        let whole = |answer: Answer| match answer.bytes.len() as u64 == length {
            true => Ok(answer.bytes),
            false => Err(Refusal::Changed),
        };
        answer
            .and_then(whole)
            .map_err(|refusal| failed(self.path(), "read", refusal))
    }

    /// Returns a range without a request, if it is in memory or in the cache of the session. Must run
    /// on the thread of requests.
    pub(crate) async fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        self.check(range).ok()?;
        if let Some(bytes) = self.kept(range) {
            return Some(bytes);
        }
        let kept = self.place.kept(Part::Range(range.start, range.end)).await;
        let (_, bytes) = kept.filter(|(version, _)| *version == self.version)?;
        (bytes.len() as u64 == range.end - range.start).then_some(bytes)
    }

    /// Returns a small range, with the number of requests that this took and of the bytes that they
    /// fetched. A request fetches more than the range, and keeps the bytes in memory: 64 KiB at first, and
    /// 1 MiB if the bytes before the range are there already, as in a scan. Ranges that a running request
    /// covers wait for it. Must run on the thread of requests.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_at`].
    #[cfg(feature = "tiledb")]
    pub(crate) async fn fetch_ahead(
        self: &Arc<Self>,
        range: Range<u64>,
    ) -> Result<(Bytes, u64, u64)> {
        if let Some(bytes) = self.find(&range).await {
            return Ok((bytes, 0, 0));
        }
        self.check(&range)?;
        let length = range.end - range.start;
        let (wide, request, requests) = self.request_ahead(&range);
        if let Some(bytes) = request.await {
            let from = (range.start - wide.start) as usize;
            let fetched = requests * bytes.len() as u64;
            return Ok((bytes.slice(from..from + length as usize), requests, fetched));
        }
        // Reports the error.
        let bytes = self.fetch(range).await?;
        Ok((bytes, 1, length))
    }

    /// Returns a running request that covers a range, or a new one, with its range. The number is 1 if the
    /// request is new.
    #[cfg(feature = "tiledb")]
    fn request_ahead(self: &Arc<Self>, range: &Range<u64>) -> (Range<u64>, Shared<Ahead>, u64) {
        let mut running = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(_, request)| request.upgrade().is_some());
        let covers = |of: &Range<u64>| of.start <= range.start && range.end <= of.end;
        for (wide, request) in running.iter() {
            if let (true, Some(request)) = (covers(wide), request.upgrade()) {
                return (wide.clone(), request, 0);
            }
        }
        let [min, max] = READ_AHEAD;
        let is_next = |of: &Range<u64>| of.start < range.start && range.start <= of.end;
        let is_scan =
            running.iter().any(|(wide, _)| is_next(wide)) || self.segments().reaches(range.start);
        let ahead = range.start + if is_scan { max } else { min };
        let wide = range.start..range.end.max(ahead).min(self.size());
        let (object, start, end) = (Arc::clone(self), wide.start, wide.end);
        let request: Ahead = Box::pin(async move {
            let (part, length) = (Part::Range(start, end), end - start);
            let answer = object.place.get(part, Some(&object.version), length).await;
            let bytes = object.checked(answer, length).ok()?;
            object.segments().insert(start, bytes.clone());
            Some(bytes)
        });
        let request = request.shared();
        // The request has not been polled, so it is not complete.
        running.extend(request.downgrade().map(|weak| (wide.clone(), weak)));
        (wide, request, 1)
    }

    /// Puts ranges into the cache of the session, if it has one. Must run on the thread of requests.
    pub(crate) async fn keep(&self, ranges: impl IntoIterator<Item = (Range<u64>, Bytes)>) {
        let parts = ranges
            .into_iter()
            .map(|(range, bytes)| (Part::Range(range.start, range.end), bytes));
        self.place.keep(parts.collect(), &self.version).await;
    }

    /// Fetches a range by a request, and keeps it nowhere. Must run on the thread of requests.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_at`].
    pub(crate) async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        self.check(&range)?;
        let length = range.end - range.start;
        if length > MAX_FETCH_BYTES {
            return Err(failed(self.path(), "read", Refusal::TooLarge(length)));
        }
        let RemotePlace {
            store, location, ..
        } = &self.place;
        let part = Part::Range(range.start, range.end);
        let pinned = Condition::Same(&self.version);
        let answer = store.get(location, part, pinned, length).await;
        self.checked(answer, length)
    }
}

/// Gets the first bytes of an object; `true` if these are the whole object, because the server does
/// not support ranges.
async fn head(place: &RemotePlace) -> Result<(Answer, bool), Refusal> {
    let get = |part, most| place.get(part, None, most);
    match get(Part::Range(0, HEAD_BYTES), HEAD_BYTES).await {
        Err(Refusal::Store(StoreError::NotSupported { .. })) => {
            Ok((get(Part::Whole, MAX_WITHOUT_RANGES).await?, true))
        }
        Err(Refusal::Store(error @ StoreError::Generic { .. })) if is_about_range(&error) => {
            // An object without bytes has no range that could be sent.
            match place.store.size(&place.location).await {
                Ok(0) => Ok((get(Part::Whole, 0).await?, true)),
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
