//! The aggregate functions of pairs of numbers: `corr`, `covar_pop`, `covar_samp` and `regr_slope` and the others of a
//! linear regression.
//!
//! Their results are those of DataFusion's functions without groups, with `corr` kept within -1 and 1. Those accumulators update means and sums of
//! products of deviations (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
//! Variances", 1979). The accumulator of groups in this module does the same. In DataFusion,
//!
//! - grouped `corr` subtracts a product of sums from a sum of products. Both have the same leading digits if a mean is
//!   large beside the deviations from it, as that of a time in seconds since 1970, so that the difference has no correct
//!   digits.
//! - the other functions have no accumulator of groups, and allocate an accumulator for each group.

mod groups;
mod moments;
mod statistic;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::regr::{
    regr_avgx_udaf, regr_avgy_udaf, regr_count_udaf, regr_intercept_udaf, regr_r2_udaf,
    regr_slope_udaf, regr_sxx_udaf, regr_sxy_udaf, regr_syy_udaf,
};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator};

use self::groups::GroupMoments;
use self::statistic::Statistic;
use crate::provider::functions::forwarding::forward_to_inner;

/// A function of pairs of numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct PairFunction {
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
    statistic: Statistic,
}

impl PairFunction {
    /// Returns all functions.
    pub fn all() -> [Self; 12] {
        let all = [
            (corr_udaf(), Statistic::Correlation),
            (covar_pop_udaf(), Statistic::PopulationCovariance),
            (covar_samp_udaf(), Statistic::SampleCovariance),
            (regr_slope_udaf(), Statistic::Slope),
            (regr_intercept_udaf(), Statistic::Intercept),
            (regr_count_udaf(), Statistic::Count),
            (regr_r2_udaf(), Statistic::RSquared),
            (regr_avgx_udaf(), Statistic::MeanX),
            (regr_avgy_udaf(), Statistic::MeanY),
            (regr_sxx_udaf(), Statistic::SquaresX),
            (regr_syy_udaf(), Statistic::SquaresY),
            (regr_sxy_udaf(), Statistic::Products),
        ];
        all.map(|(inner, statistic)| Self { inner, statistic })
    }
}

impl AggregateUDFImpl for PairFunction {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, _arguments: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        _arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(GroupMoments::new(self.statistic)))
    }
}
