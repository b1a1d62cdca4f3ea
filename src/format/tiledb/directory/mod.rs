//! The directory of an array or a group: names with timestamps, commits, deletes and metadata.

mod commits;
mod condition;
pub(crate) mod files;
pub(crate) mod metadata;
mod names;

pub use commits::Delete;
pub(crate) use commits::{Commits, Committed};
pub(crate) use condition::Cells;
pub use condition::{Condition, Operator};
pub(crate) use files::Region;
pub use metadata::MetadataValue;
pub use names::TimeWindow;
pub(crate) use names::{Stamp, now};
