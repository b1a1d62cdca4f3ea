//! The results of the functions, and their partial states.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, UInt64Array};

use crate::provider::functions::correlation::moments::Moments;

/// A number of a partial state.
pub type Number = fn(&mut Moments) -> &mut f64;

const MEAN_X: Number = |moments| &mut moments.mean_x;
const MEAN_Y: Number = |moments| &mut moments.mean_y;
const SQUARES_X: Number = |moments| &mut moments.squares_x;
const SQUARES_Y: Number = |moments| &mut moments.squares_y;
const PRODUCTS: Number = |moments| &mut moments.products;

/// The result of a function of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statistic {
    Correlation,
    PopulationCovariance,
    SampleCovariance,
    Slope,
    Intercept,
    Count,
    RSquared,
    MeanX,
    MeanY,
    SquaresX,
    SquaresY,
    Products,
}

impl Statistic {
    /// Returns the indices of the arguments `x` and `y`. The functions of a regression take `y` first.
    pub fn arguments(self) -> [usize; 2] {
        match self {
            Self::Correlation | Self::PopulationCovariance | Self::SampleCovariance => [0, 1],
            _ => [1, 0],
        }
    }

    /// Returns the numbers of a partial state after the count, in the order of DataFusion's accumulator without groups.
    pub fn numbers(self) -> &'static [Number] {
        match self {
            Self::Correlation => &[MEAN_X, SQUARES_X, MEAN_Y, SQUARES_Y, PRODUCTS],
            Self::PopulationCovariance | Self::SampleCovariance => &[MEAN_X, MEAN_Y, PRODUCTS],
            _ => &[MEAN_X, MEAN_Y, SQUARES_X, SQUARES_Y, PRODUCTS],
        }
    }

    /// Returns the final values of groups.
    pub fn final_values(self, groups: &[Moments]) -> ArrayRef {
        match self {
            Self::Count => {
                let counts = groups.iter().map(|group| group.count);
                Arc::new(UInt64Array::from_iter_values(counts))
            }
            _ => {
                let values = groups.iter().map(|group| self.value(group));
                Arc::new(values.collect::<Float64Array>())
            }
        }
    }

    /// Returns the result, as DataFusion defines it.
    fn value(self, moments: &Moments) -> Option<f64> {
        let count = moments.count as f64;
        let covariance = moments.products / count;
        let variance_x = moments.squares_x / count;
        let variance_y = moments.squares_y / count;
        let slope = covariance / variance_x;
        let has_pairs = moments.count > 0;
        let has_slope = moments.count > 1 && variance_x != 0.0;
        match self {
            Self::Correlation => moments.correlation(),
            Self::PopulationCovariance => has_pairs.then_some(covariance),
            Self::SampleCovariance => (moments.count > 1).then(|| moments.products / (count - 1.0)),
            Self::Slope => has_slope.then_some(slope),
            Self::Intercept => has_slope.then_some(moments.mean_y - slope * moments.mean_x),
            Self::Count => Some(count),
            Self::RSquared => (has_slope && variance_y != 0.0)
                .then(|| covariance * covariance / (variance_x * variance_y)),
            Self::MeanX => has_pairs.then_some(moments.mean_x),
            Self::MeanY => has_pairs.then_some(moments.mean_y),
            Self::SquaresX => has_pairs.then_some(moments.squares_x),
            Self::SquaresY => has_pairs.then_some(moments.squares_y),
            Self::Products => has_pairs.then_some(moments.products),
        }
    }
}
