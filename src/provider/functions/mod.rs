//! SQL functions that are common for arrays and missing or inexact in DataFusion 55.
//!
//! | aggregate function | result |
//! | --- | --- |
//! | `arg_min(x, value)`, `arg_max(x, value)` | `x` at the min or max: [`extreme_argument`] |
//! | `product(value)` | the product of all values, as a double |
//! | `norm_l1(value)` | the sum of absolute values, as a double |
//! | `norm_l2(value)` | the square root of the sum of squares, as a double |
//! | `histogram(value, low, high, bins)` | the number of values in each bin: [`histogram`] |
//! | `approx_distinct(value)` | the approximate number of distinct values: [`approx_distinct`] |
//! | `quantile(value, fraction)` | the exact quantile, also `percentile_cont`: [`order_statistics::quantile`] |
//!
//! `string_agg` is DataFusion's with bounded texts: [`string_agg`]. `median` is DataFusion's, with less
//! memory: [`order_statistics::median`]. `min` and `max` are DataFusion's,
//! except for groups with infinities or NaN: [`extremes`]. So is `corr`, except for groups with a large mean, and so are
//! `covar_pop`, `covar_samp` and `regr_slope` and its like, which are faster for many groups: [`correlation`].
//!
//! Aggregate functions ignore nulls. Without any value their result is null, or zeros for
//! `histogram`.
//!
//! | scalar function | result |
//! | --- | --- |
//! | `nearest(dimension, target)` | `true` at the nearest coordinate: [`mod@nearest`] |
//! | `haversine(lat1, lon1, lat2, lon2)` | the great-circle distance in km: [`mod@haversine`] |
//! | `year(time)`, `month(time)`, ..., `season(time)` | a field of a time: [`times::date_fields`] |
//!
//! `date_part` is DataFusion's, except for durations: [`times::duration_parts`]. So is `nullif`, except for -0.0:
//! [`comparisons::null_if`].

pub mod approx_distinct;
pub mod bounded;
pub mod comparisons;
pub mod correlation;
pub mod extreme_argument;
pub mod extremes;
pub mod fast_power;
mod forwarding;
#[cfg(feature = "geo")]
pub(crate) mod geometry;
pub mod haversine;
pub mod histogram;
pub mod memory;
pub mod nearest;
pub(crate) mod nth_extreme;
pub mod order_statistics;
pub mod powers;
pub mod string_agg;
pub mod times;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::provider::functions::approx_distinct::ApproxDistinct;
use crate::provider::functions::comparisons::null_if::NullIf;
use crate::provider::functions::correlation::PairFunction;
use crate::provider::functions::extreme_argument::ExtremeArgument;
use crate::provider::functions::extremes::Extreme;
use crate::provider::functions::fast_power::FastPower;
use crate::provider::functions::haversine::Haversine;
use crate::provider::functions::histogram::Histogram;
use crate::provider::functions::memory::SessionMemory;
use crate::provider::functions::nearest::Nearest;
use crate::provider::functions::order_statistics::median::Median;
use crate::provider::functions::order_statistics::quantile::Quantile;
use crate::provider::functions::powers::{Power, PowerSum};
use crate::provider::functions::string_agg::StringAgg;
use crate::provider::functions::times::duration_parts::DatePart;
use crate::provider::functions::times::wide_times::WideTimes;

/// Returns the aggregate functions for a session, whose memory pool is `memory`.
/// [`enable_arrays`](crate::enable_arrays) registers them.
pub fn aggregates(memory: &SessionMemory) -> Vec<AggregateUDF> {
    let mut all = vec![
        ExtremeArgument::arg_min().into(),
        ExtremeArgument::arg_max().into(),
        PowerSum::new(Power::Product).into(),
        PowerSum::new(Power::Magnitudes).into(),
        PowerSum::new(Power::Squares).into(),
        Histogram::new(memory.clone()).into(),
        Extreme::min().into(),
        Extreme::max().into(),
        Quantile::default().into(),
        Median::default().into(),
        StringAgg::new(memory.clone()).into(),
        ApproxDistinct::default().into(),
    ];
    all.extend(PairFunction::all().map(AggregateUDF::from));
    all
}

/// Returns the scalar functions for a session. [`enable_arrays`](crate::enable_arrays) registers them.
pub fn scalars() -> Vec<ScalarUDF> {
    let own = [Nearest::new().into(), Haversine::new().into()];
    let own = own.into_iter().chain(times::date_fields::all());
    #[cfg(feature = "geo")]
    let own = own.chain(geometry::scalars());
    own.collect()
}

/// Returns the functions that replace DataFusion's of the same name: `date_trunc` and `date_bin` for
/// times outside the range of nanoseconds, `date_part` of durations, `nullif` of -0.0, and a faster `power`.
pub fn replacements() -> [ScalarUDF; 5] {
    [
        WideTimes::date_trunc().into(),
        WideTimes::date_bin().into(),
        DatePart::new().into(),
        NullIf::new().into(),
        FastPower::new().into(),
    ]
}
