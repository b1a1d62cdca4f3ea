//! The bytes of an object that are kept in memory: headers, footers and indexes.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use lru::LruCache;

/// The maximum number of bytes that are kept of one object.
const MAX_BYTES: usize = 16 << 20;
/// The number of objects whose bytes are kept after they are closed.
const KEPT_OBJECTS: NonZeroUsize = match NonZeroUsize::new(32) {
    Some(count) => count,
    None => NonZeroUsize::MIN,
};

/// Parts of an object, each with its offset, the least recently used first.
#[derive(Debug, Default)]
pub struct Segments {
    parts: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl Segments {
    /// Returns a range, if one part contains it.
    pub fn find(&mut self, range: &Range<u64>) -> Option<Bytes> {
        let contains = |(start, bytes): &(u64, Bytes)| {
            *start <= range.start && range.end <= start + bytes.len() as u64
        };
        let number = self.parts.iter().rposition(contains)?;
        let (start, bytes) = self.parts.remove(number)?;
        let from = (range.start - start) as usize;
        let found = bytes.slice(from..from + (range.end - range.start) as usize);
        self.parts.push_back((start, bytes));
        Some(found)
    }

    /// Returns `true` if a part ends at an offset.
    pub fn ends_at(&self, offset: u64) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|(start, bytes)| start + bytes.len() as u64 == offset)
    }

    /// Returns `true` if a part that is not at the start of the object contains the byte before an offset.
    #[cfg(any(test, feature = "tiledb"))]
    pub fn reaches(&self, offset: u64) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|(start, bytes)| {
            *start > 0 && *start < offset && offset <= start + bytes.len() as u64
        })
    }

    /// Adds a part, and drops others if there are too many bytes.
    pub fn insert(&mut self, start: u64, bytes: Bytes) {
        self.bytes += bytes.len();
        self.parts.push_back((start, bytes));
        while self.bytes > MAX_BYTES && self.parts.len() > 1 {
            if let Some((_, dropped)) = self.parts.pop_front() {
                self.bytes -= dropped.len();
            }
        }
    }
}

/// The kept bytes of an object, shared by all that have opened it.
pub type SharedSegments = Arc<Mutex<Segments>>;

/// Returns the bytes that are kept of the object at a URL with this entity tag.
///
/// A process that opens the same object again reads its headers only once, even in another session:
/// a session learns the tag only if it may read the object.
pub fn shared(path: &Path, etag: Option<&str>) -> SharedSegments {
    type Kept = LruCache<(PathBuf, String), SharedSegments>;
    static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(|| Mutex::new(LruCache::new(KEPT_OBJECTS)));
    let Some(etag) = etag else {
        return SharedSegments::default();
    };
    let key = (path.to_path_buf(), etag.to_string());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(kept.get_or_insert(key, SharedSegments::default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_within_one_part_are_found() {
        let mut segments = Segments::default();
        segments.insert(10, Bytes::from_static(b"abcdef"));
        segments.insert(20, Bytes::from_static(b"uvw"));
        assert_eq!(segments.find(&(11..13)).unwrap(), "bc");
        assert_eq!(segments.find(&(20..23)).unwrap(), "uvw");
        assert_eq!(segments.find(&(15..21)), None);
        assert!(segments.ends_at(16) && !segments.ends_at(17));
        let reaches = [10, 11, 16, 17].map(|offset| segments.reaches(offset));
        assert_eq!(reaches, [false, true, true, false]);
        segments.insert(100, Bytes::from(vec![0; MAX_BYTES]));
        assert_eq!(segments.find(&(11..13)), None);
        assert!(segments.find(&(100..101)).is_some());
    }

    #[test]
    fn bytes_are_kept_by_url_and_entity_tag() {
        let path = PathBuf::from("https://host/kept-in-a-unit-test.tet");
        shared(&path, Some("1"))
            .lock()
            .unwrap()
            .insert(0, Bytes::from_static(b"x"));
        assert!(
            shared(&path, Some("1"))
                .lock()
                .unwrap()
                .find(&(0..1))
                .is_some()
        );
        assert!(
            shared(&path, Some("2"))
                .lock()
                .unwrap()
                .find(&(0..1))
                .is_none()
        );
        assert!(shared(&path, None).lock().unwrap().find(&(0..1)).is_none());
    }
}
