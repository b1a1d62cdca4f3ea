//! Join conditions over the dimensions of an array, prepared on its axes.

mod axis;
pub(super) mod boxes;
#[cfg(feature = "geo")]
mod geometry;
mod run_index;
pub(super) mod run_matches;
pub(super) mod runs;
mod sides;
mod solve;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::utils::JoinOn;

use crate::grid::Axis;
use crate::provider::join::lookup::conditions::axis::ConditionAxis;
use crate::provider::join::lookup::conditions::sides::{BothSides, Sides, may_fail};
use crate::provider::join::lookup::keys::{KeyTerms, NO_KEY};
use crate::provider::join::lookup::rule::joined::Joined;
use crate::provider::join::side::Side;
use crate::provider::planning::dynamic::is_dynamic;
use crate::provider::plans::below::{columns_in, replace_columns};
use crate::provider::plans::safety::divides;

/// The conditions of a join over the dimensions of an array and the columns of its build side,
/// such as `lat BETWEEN south AND north AND lon BETWEEN west AND east`.
///
/// The axes are grouped into [`AxisSet`]s. A condition over several axes puts them into the same
/// set. The indices selected along an axis are numbered, so that the combinations of indices in a
/// set are numbered, too, and the key index of a cell has one term per axis:
///
/// ```text
/// axes          lat      lon      set {lat, lon}, or two sets
/// selected      3        4
/// stride        4        1
///
/// key index of cell [t, y, x] = number of y * 4 + number of x
/// ```
///
/// When the query runs, the conditions are evaluated on pairs of numbers and rows of the build side
/// ([`solve`]).
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct Conditions {
    /// The conditions over the build side alone, over its columns.
    pub of_rows: Vec<Arc<dyn PhysicalExpr>>,
    /// The sets of axes. The number of the last one varies fastest.
    pub sets: Vec<AxisSet>,
    /// The number of key indices.
    pub count: u32,
    /// The conditions as EXPLAIN shows them.
    pub shown: Vec<String>,
    /// The conjuncts of the join's filter that remain to be evaluated on pairs of matching rows:
    /// those over attributes, and those that may fail where DataFusion would not evaluate them.
    pub residual: Vec<Arc<dyn PhysicalExpr>>,
}

/// Axes with the conditions over them.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct AxisSet {
    /// The axes, ascending.
    pub axes: Vec<ConditionAxis>,
    /// The conditions over several of the axes.
    pub joint: Vec<Condition>,
    /// The number of combinations of selected indices. They are numbered in row-major order.
    pub count: u32,
    /// The term of the combination with the number `n` is `n * stride`.
    pub stride: u32,
}

/// A condition of any form.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct Condition {
    /// The axes that it uses, as indices among the axes of its [`AxisSet`].
    pub axes: Vec<usize>,
    /// The columns of the build side that it uses.
    pub columns: Vec<usize>,
    /// The condition, over the coordinates of `axes` followed by `columns`.
    pub expr: Arc<dyn PhysicalExpr>,
}

/// A conjunct over the columns of the array's table, followed by the columns of the build side.
struct Conjunct {
    expr: Arc<dyn PhysicalExpr>,
    axes: BTreeSet<usize>,
    comparison: Option<Sides>,
    is_key: bool,
}

impl Conjunct {
    /// Creates a conjunct of the join's filter.
    fn new(expr: Arc<dyn PhysicalExpr>, both: &BothSides) -> Result<Self> {
        let used = columns_in([&expr].into_iter()).into_iter();
        Ok(Self {
            axes: used.filter(|column| *column < both.width).collect(),
            comparison: both.sides(&expr)?,
            expr,
            is_key: false,
        })
    }
}

impl Conditions {
    /// Prepares the conditions of a join whose probe side is an array. `on` are the keys of the
    /// join, those of the probe side over the table.
    ///
    /// Returns `None` if the join has no condition over dimensions beside its keys, if the keys are
    /// enough to find its matches, if a key is not an expression over a single dimension, if NULL keys
    /// are equal, or if the array is in several files.
    /// Conjuncts can remain only in inner joins.
    pub fn try_new(join: &Joined, on: &JoinOn, probe: &Side) -> Result<Option<Self>> {
        let is_supported = probe.others.is_empty() && !join.are_nulls_equal;
        let Some(filter) = join.filter.as_ref().filter(|_| is_supported) else {
            return Ok(None);
        };
        let table = probe.below.node.source().schema();
        let (dimensions, width) = (probe.part.grid.axes().len(), table.fields().len());
        let build = join.left.schema();
        let mut conjuncts = Vec::new();
        let mut key_axes = BTreeSet::new();
        for (bound, key) in on {
            let axes: BTreeSet<usize> = columns_in([key].into_iter()).into_iter().collect();
            if axes.len() != 1 || axes.iter().any(|axis| *axis >= dimensions) {
                return Ok(None);
            }
            key_axes.extend(axes.iter().copied());
            let sides = Sides {
                of_axis: Arc::clone(key),
                operator: Operator::Eq,
                bound: Arc::clone(bound),
            };
            conjuncts.push(Conjunct {
                expr: Arc::clone(key),
                axes,
                comparison: Some(sides),
                is_key: true,
            });
        }
        // A nested-loop join evaluates its filter on all pairs.
        let is_evaluated_on_all = on.is_empty() && probe.below.conjuncts.is_empty();
        let fields = table.fields().iter().chain(build.fields()).cloned();
        let both = BothSides {
            schema: Schema::new(fields.collect::<Vec<_>>()),
            width,
        };
        let (mut residual, mut of_rows, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        let mut needs_conditions = false;
        for conjunct in join.conjuncts() {
            let of_column = |number: usize, in_build: &dyn Fn(usize) -> Column| {
                let column = filter.column_indices().get(number)?;
                match column.side {
                    JoinSide::Left => Some(Arc::new(in_build(column.index)) as _),
                    JoinSide::Right => probe.below.columns.get(column.index).cloned(),
                    JoinSide::None => None,
                }
            };
            let name = |index: usize| build.field(index).name();
            let expr = replace_columns(&conjunct, &|number| {
                of_column(number, &|index| Column::new(name(index), width + index))
            })?;
            let used = columns_in([&expr].into_iter());
            let axes: BTreeSet<usize> = used.iter().copied().filter(|n| *n < width).collect();
            let may_fail = match is_evaluated_on_all {
                true => divides(&expr),
                false => may_fail(&expr, &both.schema),
            };
            if axes.last().is_some_and(|axis| *axis >= dimensions) || may_fail || is_dynamic(&expr)
            {
                residual.push(conjunct);
                continue;
            }
            needs_conditions |= axes.iter().any(|axis| !key_axes.contains(axis));
            let with_sides = replace_columns(&conjunct, &|number| {
                of_column(number, &|index| {
                    Column::new(&format!("build.{}", name(index)), index)
                })
            })?;
            shown.push(with_sides.to_string());
            if axes.is_empty() {
                of_rows.push(both.of_build(&expr)?);
                continue;
            }
            #[cfg(feature = "geo")]
            for bound in geometry::bounds(&expr, &both)? {
                let conjunct = Conjunct::new(bound, &both)?;
                match conjunct.axes.is_empty() {
                    // A coordinate of the point is not along an axis.
                    true => of_rows.push(both.of_build(&conjunct.expr)?),
                    false => conjuncts.push(conjunct),
                }
            }
            conjuncts.push(Conjunct::new(expr, &both)?);
        }
        let is_inner = join.kind == JoinType::Inner;
        if !(needs_conditions || (!is_inner && conjuncts.iter().any(|conjunct| conjunct.is_key)))
            || (!is_inner && !residual.is_empty())
        {
            return Ok(None);
        }
        let Some(sets) = sets(conjuncts, probe, &both)? else {
            return Ok(None);
        };
        let count = sets
            .iter()
            .try_fold(1u32, |count, set| count.checked_mul(set.count));
        let Some(count) = count.filter(|count| *count < NO_KEY) else {
            return Ok(None);
        };
        Ok(Some(Self {
            of_rows,
            sets,
            count,
            shown,
            residual,
        }))
    }

    /// Returns the terms that add up to the key index of a cell of this grid.
    pub fn terms(&self, axes: &[Axis]) -> Vec<KeyTerms> {
        let mut terms = Vec::new();
        for set in &self.sets {
            let mut stride = set.stride;
            for axis in set.axes.iter().rev() {
                let mut of_axis = vec![NO_KEY; axes[axis.axis].length() as usize];
                for (number, index) in axis.indices.iter().enumerate() {
                    of_axis[*index as usize] = number as u32 * stride;
                }
                terms.push(KeyTerms {
                    axes: vec![axis.axis],
                    terms: of_axis.into(),
                });
                stride *= axis.indices.len() as u32;
            }
        }
        terms
    }

    /// Returns the axes of all sets.
    pub fn axes(&self) -> impl Iterator<Item = &ConditionAxis> {
        self.sets.iter().flat_map(|set| &set.axes)
    }

    /// Returns the expressions that the join evaluates on the build side.
    pub fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let of_axes = self.axes().flat_map(|axis| {
            let bounds = axis.comparisons.iter().map(|comparison| &comparison.bound);
            bounds.chain(axis.others.iter().map(|condition| &condition.expr))
        });
        let joint = self.sets.iter().flat_map(|set| &set.joint);
        self.of_rows
            .iter()
            .chain(of_axes)
            .chain(joint.map(|condition| &condition.expr))
    }
}

impl Condition {
    /// Creates a condition from a conjunct. `set` are the axes of its [`AxisSet`].
    fn new(conjunct: &Arc<dyn PhysicalExpr>, set: &[usize], both: &BothSides) -> Result<Self> {
        let used = columns_in([conjunct].into_iter());
        let (axes, columns): (Vec<usize>, Vec<usize>) =
            used.iter().partition(|number| **number < both.width);
        let expr = replace_columns(conjunct, &|number| {
            let index = used.binary_search(&number).ok()?;
            Some(Arc::new(Column::new(
                both.schema.field(number).name(),
                index,
            )))
        })?;
        Ok(Self {
            axes: axes
                .iter()
                .filter_map(|axis| set.binary_search(axis).ok())
                .collect(),
            columns: columns.iter().map(|number| number - both.width).collect(),
            expr,
        })
    }
}

/// Groups conjuncts by their axes. Returns `None` if an axis cannot be prepared, or if there are too
/// many combinations of indices.
fn sets(conjuncts: Vec<Conjunct>, probe: &Side, both: &BothSides) -> Result<Option<Vec<AxisSet>>> {
    let mut groups: Vec<(BTreeSet<usize>, Vec<Conjunct>)> = Vec::new();
    for conjunct in conjuncts {
        let mut axes = conjunct.axes.clone();
        let mut together = Vec::new();
        let (apart, joined): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .partition(|(others, _)| others.is_disjoint(&axes));
        groups = apart;
        for (others, conjuncts) in joined {
            axes.extend(others);
            together.extend(conjuncts);
        }
        together.push(conjunct);
        groups.push((axes, together));
    }
    // The last axis varies fastest.
    groups.sort_by_key(|(axes, _)| axes.last().copied());
    let mut sets = Vec::with_capacity(groups.len());
    let mut stride = 1u32;
    for (axes, conjuncts) in groups.into_iter().rev() {
        let axes: Vec<usize> = axes.into_iter().collect();
        let (joint, single): (Vec<_>, Vec<_>) = conjuncts
            .into_iter()
            .partition(|conjunct| conjunct.axes.len() > 1);
        let mut of_axis: Vec<Vec<Conjunct>> = axes.iter().map(|_| Vec::new()).collect();
        for conjunct in single {
            let index = axes.iter().position(|axis| conjunct.axes.contains(axis));
            if let Some(index) = index {
                of_axis[index].push(conjunct);
            }
        }
        let mut prepared = Vec::with_capacity(axes.len());
        let mut count = 1u32;
        for (axis, conjuncts) in axes.iter().zip(of_axis) {
            let Some(axis) = ConditionAxis::try_new(*axis, conjuncts, probe, both)? else {
                return Ok(None);
            };
            let Some(product) = count.checked_mul(axis.indices.len() as u32) else {
                return Ok(None);
            };
            count = product;
            prepared.push(axis);
        }
        let joint = joint.iter();
        let joint = joint.map(|conjunct| Condition::new(&conjunct.expr, &axes, both));
        sets.push(AxisSet {
            axes: prepared,
            joint: joint.collect::<Result<_>>()?,
            count,
            stride,
        });
        let Some(next) = stride.checked_mul(count) else {
            return Ok(None);
        };
        stride = next;
    }
    sets.reverse();
    Ok(Some(sets))
}
