//! The bytes of a file apart from its data: header, trailer, footer, and the headers of records.

pub(super) mod bounds;
pub(super) mod checks;
pub(super) mod footer;
pub(super) mod header;
pub(super) mod record;
pub(super) mod row_group;
pub(super) mod schema;
pub(super) mod types;
