//! `.tatami` files as tables of documents. A block has the rows of one page, or of a whole row group if the
//! columns have different numbers of pages.

mod blocks;
mod container;
#[cfg(feature = "remote")]
mod fetching;
mod files;
mod format;
mod member;
mod pages;
mod reader;
mod row_table;
mod rows;
pub(in crate::provider) mod search;
mod table;
mod values;

use datafusion::prelude::SessionContext;

pub(in crate::provider) use format::{COLLECTION_FORMAT, CollectionFormat, TatamiFormat};

/// Registers `tatami_search`, `tatami_terms`, `tatami_pages` and `matches` with a session.
pub(in crate::provider) fn register(session: &SessionContext) {
    session.register_udtf(search::Search::NAME, std::sync::Arc::new(search::Search));
    session.register_udtf(search::Terms::NAME, std::sync::Arc::new(search::Terms));
    session.register_udtf(pages::Pages::NAME, std::sync::Arc::new(pages::Pages));
    session.register_udf(search::Matches::new().into());
}
