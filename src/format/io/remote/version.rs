//! [`Version`]: tells the versions of an object apart.

use chrono::{DateTime, TimeDelta, Utc};
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};

/// An object without an entity tag that was changed this recently may change again without a new time of
/// its last change, which servers send in seconds of their own clock.
const MIN_AGE: TimeDelta = TimeDelta::minutes(1);

/// The size, the entity tag and the time of the last change of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// The size of the whole object in bytes.
    pub size: u64,
    /// The entity tag, which changes with the content of the object.
    pub etag: Option<String>,
    /// The time of the last change, if the server sends it.
    pub modified: Option<DateTime<Utc>>,
}

impl Version {
    /// Returns the version of an object with these metadata.
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        // The crate `object_store` returns the year 1970 if there is no header.
        let modified = Some(meta.last_modified).filter(|time| *time != DateTime::UNIX_EPOCH);
        Self {
            size: meta.size,
            etag: meta.e_tag.clone(),
            modified,
        }
    }

    /// Returns `true` if an object of this version is the one that was opened with version `pinned`.
    pub(super) fn is(&self, pinned: &Self) -> bool {
        self.size == pinned.size && (pinned.etag.is_none() || self.etag == pinned.etag)
    }

    /// Returns the entity tag, if equal tags promise equal bytes.
    pub(super) fn strong_tag(&self) -> Option<String> {
        let is_strong = |etag: &String| !etag.starts_with("W/");
        self.etag.clone().filter(is_strong)
    }

    /// Returns `true` if another object with an equal version has the same bytes.
    pub(super) fn is_reliable(&self) -> bool {
        match &self.etag {
            Some(_) => self.strong_tag().is_some(),
            None => self
                .modified
                .is_some_and(|time| Utc::now() - time > MIN_AGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strong_tags_and_old_times_are_reliable() {
        let now = Utc::now();
        for (etag, age, expected) in [
            (Some("\"a\""), None, true),
            (Some("W/\"a\""), Some(1000), false),
            (None, None, false),
            (None, Some(30), false),
            (None, Some(-30), false),
            (None, Some(90), true),
        ] {
            let version = Version {
                size: 1,
                etag: etag.map(str::to_string),
                modified: age.map(|seconds| now - TimeDelta::seconds(seconds)),
            };
            assert_eq!(version.is_reliable(), expected, "{version:?}");
        }
    }
}
