//! Functions that are usual over arrays and that DataFusion 55 does not have.
//!
//! | aggregate function | result |
//! | --- | --- |
//! | `arg_min(x, value)`, `arg_max(x, value)` | `x` where `value` is least, greatest: [`extreme_argument`] |
//! | `product(value)` | all values multiplied, as a double |
//! | `norm_l1(value)`, `norm_l2(value)` | the sum of magnitudes, the root of the sum of squares, as doubles |
//! | `histogram(value, low, high, bins)` | how many values each bin holds: [`histogram`] |
//! | `quantile(value, fraction)` | the exact quantile, which is also `percentile_cont`: [`quantile`] |
//!
//! `min` and `max` are DataFusion's, but for groups with infinities or NaN: [`extremes`].
//!
//! NULLs do not count. Without a value that counts the result is NULL, that of `histogram` zeros.
//!
//! | scalar function | result |
//! | --- | --- |
//! | `nearest(dimension, target)` | true at the coordinate nearest to the target: [`mod@nearest`] |
//! | `haversine(lat1, lon1, lat2, lon2)` | the great-circle distance in kilometres: [`mod@haversine`] |
//! | `year(time)`, `month(time)`, ..., `season(time)` | a field of a time: [`date_fields`] |

pub mod bounded;
pub mod date_fields;
pub mod extreme_argument;
pub mod extremes;
pub mod haversine;
pub mod histogram;
pub mod memory;
pub mod nearest;
pub mod powers;
pub mod quantile;
pub mod wide_times;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::provider::functions::extreme_argument::ExtremeArgument;
use crate::provider::functions::extremes::Extreme;
use crate::provider::functions::haversine::Haversine;
use crate::provider::functions::histogram::Histogram;
use crate::provider::functions::memory::SessionMemory;
use crate::provider::functions::nearest::Nearest;
use crate::provider::functions::powers::{Power, PowerSum};
use crate::provider::functions::quantile::Quantile;
use crate::provider::functions::wide_times::WideTimes;

/// The aggregate functions, to be registered in the session whose memory this is. [`enable_tet`](crate::enable_tet) does
/// so.
pub fn aggregates(memory: &SessionMemory) -> Vec<AggregateUDF> {
    vec![
        ExtremeArgument::least().into(),
        ExtremeArgument::greatest().into(),
        PowerSum::new(Power::Product).into(),
        PowerSum::new(Power::Magnitudes).into(),
        PowerSum::new(Power::Squares).into(),
        Histogram::new(memory.clone()).into(),
        Extreme::min().into(),
        Extreme::max().into(),
        Quantile::default().into(),
    ]
}

/// The scalar functions, to be registered in a session. [`enable_tet`](crate::enable_tet) does so.
pub fn scalars() -> Vec<ScalarUDF> {
    let own = [Nearest::new().into(), Haversine::new().into()];
    own.into_iter().chain(date_fields::all()).collect()
}

/// DataFusion's functions of time, for times that nanoseconds do not reach.
pub fn of_times() -> [ScalarUDF; 2] {
    [WideTimes::date_trunc().into(), WideTimes::date_bin().into()]
}
