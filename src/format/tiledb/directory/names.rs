//! Names of files and directories that carry timestamps, and the window of time that is read.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// The timestamps and the format version in the name of a fragment, schema or commit:
/// `__<first>_<last>_<unique>[_<version>]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    /// The first timestamp, in milliseconds since 1970.
    pub first: u64,
    /// The last timestamp, in milliseconds since 1970.
    pub last: u64,
    /// The format version, if the name ends with one.
    pub version: Option<u32>,
}

impl Stamp {
    /// Parses a name; `None` if it is not of this form.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("__")?.split('_');
        let number = |part: &str| -> Option<u64> {
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| is_number)
        };
        let first = number(parts.next()?)?;
        let last = number(parts.next()?)?;
        let unique = parts.next()?;
        let is_unique = !unique.is_empty() && unique.bytes().all(|byte| byte.is_ascii_hexdigit());
        let version = match parts.next() {
            Some(part) => Some(u32::try_from(number(part)?).ok()?),
            None => None,
        };
        let is_valid = is_unique && parts.next().is_none() && first <= last;
        is_valid.then_some(Self {
            first,
            last,
            version,
        })
    }
}

/// The window of time of which an array is read: timestamps from `start` to `end`, both included, in
/// milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeWindow {
    /// The first timestamp.
    pub start: u64,
    /// The last timestamp.
    pub end: u64,
}

/// First format version whose consolidated sparse fragments keep the timestamps of cells.
const MIN_TIMESTAMPS_VERSION: u32 = 15;

impl TimeWindow {
    /// Returns `true` if all of the stamp's time is in the window.
    pub(crate) fn contains(&self, stamp: &Stamp) -> bool {
        self.start <= stamp.first && stamp.last <= self.end
    }

    /// Returns `true` if the fragment with the stamp is read. Sparse fragments that keep timestamps
    /// of cells need only overlap with the window.
    pub(crate) fn selects(&self, stamp: &Stamp, is_sparse: bool) -> bool {
        let keeps_timestamps = |version| version >= MIN_TIMESTAMPS_VERSION;
        if is_sparse && stamp.version.is_some_and(keeps_timestamps) {
            self.start <= stamp.last && stamp.first <= self.end
        } else {
            self.contains(stamp)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let stamp = Stamp::parse("__10_20_0123456789abcdef0123456789abcdef_22");
        let (first, last, version) = (10, 20, Some(22));
        assert_eq!(
            stamp,
            Some(Stamp {
                first,
                last,
                version
            })
        );
        assert_eq!(
            Stamp::parse("__1_1_ab").map(|stamp| stamp.version),
            Some(None)
        );
        for name in [
            "",
            "__",
            "__1_2",
            "__2_1_ab",
            "__1_2_xyz",
            "__1_2_ab_3_4",
            "__+1_2_ab",
            "1_2_ab",
        ] {
            assert_eq!(Stamp::parse(name), None, "{name}");
        }
    }
}
