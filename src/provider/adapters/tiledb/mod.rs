//! TileDB arrays and groups as tables. A dense array is a grid, whose chunks are space tiles. The
//! blocks of a sparse array are the data tiles of its fragments.

mod additions;
mod columns;
mod container;
mod dense;
#[cfg(feature = "remote")]
mod fetching;
mod format;
mod functions;
mod options;
mod sparse;
mod stored;

use std::sync::Arc;

use datafusion::prelude::SessionContext;

pub(in crate::provider) use additions::add as note_addition;
pub(in crate::provider) use format::TileDbFormat;
pub(in crate::provider) use stored::{latest, stored_columns};

/// Registers `tiledb_at` and `tiledb_fragments` with a session.
pub(in crate::provider) fn register(session: &SessionContext) {
    session.register_udtf(functions::At::NAME, Arc::new(functions::At));
    session.register_udtf(functions::Fragments::NAME, Arc::new(functions::Fragments));
}
