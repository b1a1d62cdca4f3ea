//! `.tatami` files as tables of documents. A block is one page of each column, or a whole row group if
//! the pages of the columns do not cover the same rows.

mod blocks;
mod container;
mod format;
mod reader;
mod rows;
pub(in crate::provider) mod search;
mod table;
mod values;

use datafusion::prelude::SessionContext;

pub(in crate::provider) use format::TatamiFormat;

/// Registers `tatami_search`, `tatami_terms` and `matches` with a session.
pub(in crate::provider) fn register(session: &SessionContext) {
    session.register_udtf(search::Search::NAME, std::sync::Arc::new(search::Search));
    session.register_udtf(search::Terms::NAME, std::sync::Arc::new(search::Terms));
    session.register_udf(search::Matches::new().into());
}
