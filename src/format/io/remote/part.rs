//! [`Part`]: a range of an object's bytes.

use std::fmt;

use bytes::Bytes;
use object_store::GetRange;

/// A part of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// The range from the first offset up to the second.
    Range(u64, u64),
    /// The last bytes.
    Last(u64),
}

impl Part {
    /// Returns this part of bytes that are in memory, as far as they have it.
    pub(crate) fn of(self, whole: &Bytes) -> Bytes {
        let size = whole.len() as u64;
        let (start, end) = match self {
            Self::Whole => (0, size),
            Self::Range(start, end) => (start.min(size), end.min(size)),
            Self::Last(length) => (size.saturating_sub(length), size),
        };
        whole.slice(start as usize..end.max(start) as usize)
    }

    /// Returns this part of another part.
    pub(crate) fn within(self, whole: Self) -> Self {
        match (whole, self) {
            (Self::Range(start, end), Self::Range(from, to)) => {
                let most = end.max(start);
                Self::Range((start + from).min(most), (start + to).min(most))
            }
            (Self::Range(start, end), Self::Last(length)) => {
                Self::Range(end.saturating_sub(length).max(start), end)
            }
            (whole, Self::Whole) => whole,
            (_, part) => part,
        }
    }

    /// Returns the range of a request; `None` for the whole object.
    pub(super) fn range(self) -> Option<GetRange> {
        match self {
            Self::Whole => None,
            Self::Range(start, end) => Some(GetRange::Bounded(start..end)),
            Self::Last(length) => Some(GetRange::Suffix(length)),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("all"),
            Self::Range(start, end) => write!(f, "{start}-{end}"),
            Self::Last(length) => write!(f, "-{length}"),
        }
    }
}
