//! Boxes of indices that cover the matches of a join, as a predicate that prunes chunks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};

use crate::provider::join::lookup::build::{is_ordered, with_zeros};
use crate::provider::join::lookup::conditions::axis::ConditionAxis;
use crate::provider::join::lookup::conditions::runs::Runs;
use crate::provider::join::lookup::conditions::{AxisSet, Conditions};
use crate::provider::planning::axis_bounds::fold;

/// The maximum number of boxes of the predicate.
const MAX_BOXES: usize = 64;
/// The number of boxes from which they are merged while more rows are added.
const MANY_BOXES: usize = 4096;

/// For each axis of the conditions, a range of numbers.
type NumberBox = Vec<Range<u32>>;

/// Boxes that cover the matches of all rows. Boxes in the same chunks are merged. If there are too
/// many, boxes of neighbouring chunks are merged as well.
#[derive(Debug, Default)]
pub(in crate::provider::join::lookup) struct Boxes {
    /// For the first and the last chunk along each axis, a box.
    boxes: BTreeMap<Vec<(u64, u64)>, NumberBox>,
}

impl Boxes {
    /// Returns boxes that cover the matches of the rows with these runs.
    pub fn new(conditions: &Conditions, runs: &[Runs]) -> Self {
        let rows = runs.first().map_or(0, |runs| runs.rows());
        let mut all = Self::default();
        for row in 0..rows {
            let mut of_row = NumberBox::new();
            for (set, runs) in conditions.sets.iter().zip(runs) {
                match extent(set, runs, row) {
                    Some(extent) => of_row.extend(extent),
                    None => break,
                }
            }
            if of_row.len() == conditions.axes().count() {
                let axes = conditions.axes().zip(&of_row);
                let chunks = axes.map(|(axis, numbers)| axis.chunks_of(numbers));
                all.add(chunks.collect(), of_row);
                if all.boxes.len() >= MANY_BOXES {
                    all.merge();
                }
            }
        }
        all.merge();
        all
    }

    fn add(&mut self, chunks: Vec<(u64, u64)>, numbers: NumberBox) {
        let known = self.boxes.entry(chunks).or_insert_with(|| numbers.clone());
        for (known, numbers) in known.iter_mut().zip(numbers) {
            *known = known.start.min(numbers.start)..known.end.max(numbers.end);
        }
    }

    /// Merges consecutive boxes until there are at most [`MAX_BOXES`].
    fn merge(&mut self) {
        let together = self.boxes.len().div_ceil(MAX_BOXES);
        if together <= 1 {
            return;
        }
        let boxes: Vec<_> = std::mem::take(&mut self.boxes).into_iter().collect();
        for some in boxes.chunks(together) {
            let mut chunks = some[0].0.clone();
            for (others, _) in some {
                for (known, (first, last)) in chunks.iter_mut().zip(others) {
                    *known = (known.0.min(*first), known.1.max(*last));
                }
            }
            for (_, numbers) in some {
                self.add(chunks.clone(), numbers.clone());
            }
        }
    }

    /// Returns a predicate that holds for all cells with a match. `columns` are the columns of
    /// `schema` with the coordinates of each axis.
    pub fn predicate(
        &self,
        conditions: &Conditions,
        columns: &[Arc<dyn PhysicalExpr>],
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let mut any = Vec::with_capacity(self.boxes.len());
        for numbers in self.boxes.values() {
            let mut all = Vec::new();
            for ((axis, numbers), column) in conditions.axes().zip(numbers).zip(columns) {
                let is_whole = numbers.len() == axis.indices.len();
                if is_whole || !is_ordered(axis.coordinates.data_type()) {
                    continue;
                }
                let coordinates = axis
                    .coordinates
                    .slice(numbers.start as usize, numbers.len());
                let min = lit(with_zeros(&fold(&coordinates, false)?, -0.0));
                let max = lit(with_zeros(&fold(&coordinates, true)?, 0.0));
                all.push(binary(Arc::clone(column), Operator::GtEq, min, schema)?);
                all.push(binary(Arc::clone(column), Operator::LtEq, max, schema)?);
            }
            any.push(conjunction(all));
        }
        // A balanced tree, because expressions are visited recursively.
        while any.len() > 1 {
            let pairs = any.chunks(2).map(|pair| match pair {
                [one, other] => binary(Arc::clone(one), Operator::Or, Arc::clone(other), schema),
                rest => Ok(Arc::clone(&rest[0])),
            });
            any = pairs.collect::<Result<_>>()?;
        }
        Ok(any.pop().unwrap_or_else(|| lit(false)))
    }
}

/// Returns the numbers of a row along each axis of a set, from the first to the last; `None` if
/// there are none.
fn extent(set: &AxisSet, runs: &Runs, row: usize) -> Option<NumberBox> {
    let runs = runs.of(row);
    let mut behind = set.count;
    let mut extents = NumberBox::with_capacity(set.axes.len());
    for axis in &set.axes {
        let count = axis.indices.len() as u32;
        let period = behind;
        behind /= count;
        // A run that crosses the end of a period may contain every index of the axis.
        let of_run = |start: u32, end: u32| match start / period == (end - 1) / period {
            true => start / behind % count..(end - 1) / behind % count + 1,
            false => 0..count,
        };
        let ranges = runs.iter().map(|run| of_run(run.start, run.end));
        let extent = ranges.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
        extents.push(extent?);
    }
    Some(extents)
}

impl ConditionAxis {
    /// Returns the first and the last chunk with the indices of these numbers.
    fn chunks_of(&self, numbers: &Range<u32>) -> (u64, u64) {
        let chunk = |number: u32| {
            let index = self.indices.get(number as usize).copied().unwrap_or(0);
            self.chunks.chunk_at(u64::from(index))
        };
        match self.is_in_order && !numbers.is_empty() {
            true => (chunk(numbers.start), chunk(numbers.end - 1)),
            false => (0, u64::MAX),
        }
    }
}
