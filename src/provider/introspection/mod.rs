//! What a session knows of its arrays, as tables: functions that a query can filter, join and aggregate.

mod attributes;
mod catalogs;
mod chunk_rows;
mod chunks;
mod column;
mod datasets;
mod dimensions;
mod files;
mod history;
#[cfg(feature = "sql")]
mod information_schema;
mod listing;
mod lookup;
mod meaning;
mod scan;

use std::sync::Arc;

use datafusion::catalog::TableFunctionImpl;
use datafusion::prelude::SessionContext;

use crate::provider::introspection::attributes::Attributes;
use crate::provider::introspection::chunks::Chunks;
use crate::provider::introspection::datasets::Datasets;
use crate::provider::introspection::dimensions::Dimensions;
use crate::provider::introspection::files::Files;
use crate::provider::introspection::history::History;
use crate::provider::introspection::listing::ListingFunction;

/// The functions with their names, to be registered in a session. [`enable_tet`](crate::enable_tet) does so.
pub fn all() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    vec![
        ListingFunction::<Files>::named(),
        ListingFunction::<Datasets>::named(),
        ListingFunction::<Dimensions>::named(),
        (chunks::NAME, Arc::new(Chunks)),
        ListingFunction::<Attributes>::named(),
        ListingFunction::<History>::named(),
    ]
}

/// Makes the functions known to a session, and units and descriptions part of its `information_schema`.
pub(super) fn register(ctx: &SessionContext) {
    for (name, function) in all() {
        ctx.register_udtf(name, function);
    }
    #[cfg(feature = "sql")]
    {
        use crate::provider::introspection::information_schema::DescribedTables;
        // Registering never fails.
        let _ = ctx
            .state_ref()
            .write()
            .register_relation_planner(Arc::new(DescribedTables));
    }
}
