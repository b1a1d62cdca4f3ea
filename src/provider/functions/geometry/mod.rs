//! Functions of geometries, from the crate [`geodatafusion`]. Tests of points against polygons
//! ([`point_relation`]), and bounds of coordinates, are faster.

mod compact;
mod coordinate_bound;
pub(crate) mod point_index;
pub mod point_relation;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;

use crate::provider::functions::geometry::compact::CompactGeometries;
use crate::provider::functions::geometry::coordinate_bound::CoordinateBound;
use crate::provider::functions::geometry::point_relation::PointRelation;

static FUNCTIONS: LazyLock<Vec<ScalarUDF>> = LazyLock::new(|| {
    // geodatafusion registers its functions in a session, and has no list of them.
    let ctx = SessionContext::new_with_state(SessionStateBuilder::new().build());
    geodatafusion::register(&ctx);
    let state = ctx.state();
    // A function is registered once more for each of its aliases.
    let functions = state.scalar_functions().values();
    let functions: BTreeMap<_, _> = functions.map(|one| (one.name(), one)).collect();
    let compact = |name: &str| {
        let function = functions.get(name)?;
        Some(Arc::new(ScalarUDF::from(CompactGeometries::new(function))))
    };
    let all = functions.keys().filter_map(|name| {
        let function = compact(name)?;
        let replacement = PointRelation::replacement(name, compact);
        let replacement = replacement.or_else(|| CoordinateBound::replacement(&function));
        Some(replacement.unwrap_or_else(|| function.as_ref().clone()))
    });
    all.collect()
});

/// Returns the scalar functions of geometries, such as `ST_Contains`.
pub fn scalars() -> Vec<ScalarUDF> {
    FUNCTIONS.clone()
}

/// Returns the function of this name among [`scalars`].
pub(crate) fn scalar(name: &str) -> Option<Arc<ScalarUDF>> {
    let found = FUNCTIONS.iter().find(|function| function.name() == name)?;
    Some(Arc::new(found.clone()))
}
