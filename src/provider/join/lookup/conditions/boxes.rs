//! Boxes of indices that cover the matches of a join, as a predicate that prunes chunks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, binary, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};

use crate::provider::join::lookup::build::{is_ordered, with_zeros};
use crate::provider::join::lookup::conditions::axis::ConditionAxis;
use crate::provider::join::lookup::conditions::runs::Runs;
use crate::provider::join::lookup::conditions::{AxisSet, Conditions};
use crate::provider::planning::axis_bounds::fold;
use crate::provider::plans::conjunction::joined;

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

    /// Returns a predicate that holds for every cell with a match: the cell is in one of the boxes. With
    /// several boxes, the predicate also has one conjunct per axis, the union of their ranges along it,
    /// because a conjunct over one axis can be solved on that axis. `columns` are the columns of `schema`
    /// with the coordinates of each axis.
    pub fn predicate(
        &self,
        conditions: &Conditions,
        columns: &[Arc<dyn PhysicalExpr>],
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let mut boxes = Vec::with_capacity(self.boxes.len());
        let mut along: Vec<Option<Vec<_>>> = vec![Some(Vec::new()); conditions.axes().count()];
        for numbers in self.boxes.values() {
            let mut all = Vec::new();
            let axes = conditions.axes().zip(numbers).zip(columns);
            for (((axis, numbers), column), along) in axes.zip(&mut along) {
                let is_whole = numbers.len() == axis.indices.len();
                if is_whole || !is_ordered(axis.coordinates.data_type()) {
                    // The union of the ranges is the whole axis, or unknown.
                    *along = None;
                    continue;
                }
                let coordinates = axis
                    .coordinates
                    .slice(numbers.start as usize, numbers.len());
                let min = lit(with_zeros(&fold(&coordinates, false)?, -0.0));
                let max = lit(with_zeros(&fold(&coordinates, true)?, 0.0));
                let min = binary(Arc::clone(column), Operator::GtEq, min, schema)?;
                let max = binary(Arc::clone(column), Operator::LtEq, max, schema)?;
                let range = conjunction([min, max]);
                if let Some(along) = along {
                    along.push(Arc::clone(&range));
                }
                all.push(range);
            }
            boxes.push(conjunction(all));
        }
        let any_of = |predicates| {
            let or = |one, other| Arc::new(BinaryExpr::new(one, Operator::Or, other)) as _;
            joined(predicates, or).unwrap_or_else(|| lit(false))
        };
        let mut conjuncts = Vec::new();
        if boxes.len() > 1 {
            conjuncts.extend(along.into_iter().flatten().map(any_of));
        }
        conjuncts.push(any_of(boxes));
        Ok(conjunction(conjuncts))
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
