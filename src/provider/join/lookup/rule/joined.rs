//! The joins that lookup joins can replace.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, NullEquality, Result, internal_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, JoinOn};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};

use crate::provider::join::lookup::keys::ProbeKeys;
use crate::provider::plans::below::{columns_in, replace_columns};
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::rules::nested_loops::is_recursive;
use crate::provider::rules::probe_sides::rows;
use crate::provider::source::GridSelection;

/// A hash join or a nested-loop join. Its left input is the build side.
pub(in crate::provider::join::lookup) struct Joined {
    /// DataFusion's plan of the join.
    pub plan: Arc<dyn ExecutionPlan>,
    pub left: Arc<dyn ExecutionPlan>,
    pub right: Arc<dyn ExecutionPlan>,
    pub kind: JoinType,
    /// The keys of a hash join; empty for a nested-loop join.
    pub on: JoinOn,
    pub filter: Option<JoinFilter>,
    /// `true` if two NULL keys are equal.
    pub are_nulls_equal: bool,
    projection: Option<Vec<usize>>,
}

impl Joined {
    /// Returns the join at the root of a plan; `None` if the root is another node, or a join that no
    /// lookup join replaces, whatever its inputs.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let join = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            if join.fetch().is_some() || join.null_aware {
                return Ok(None);
            }
            Self {
                plan: Arc::clone(plan),
                left: Arc::clone(join.left()),
                right: Arc::clone(join.right()),
                kind: *join.join_type(),
                on: join.on().to_vec(),
                filter: join.filter().cloned(),
                are_nulls_equal: join.null_equality() == NullEquality::NullEqualsNull,
                projection: join.projection.as_ref().map(|columns| columns.to_vec()),
            }
        } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            Self {
                plan: Arc::clone(plan),
                left: Arc::clone(join.left()),
                right: Arc::clone(join.right()),
                kind: *join.join_type(),
                on: Vec::new(),
                filter: join.filter().cloned(),
                are_nulls_equal: false,
                projection: join.projection().as_ref().map(|columns| columns.to_vec()),
            }
        } else {
            return Ok(None);
        };
        let is_mark = matches!(join.kind, JoinType::LeftMark | JoinType::RightMark);
        let filter = join.filter.iter().map(JoinFilter::expression);
        let keys = join.on.iter().flat_map(|(one, other)| [one, other]);
        let has_volatile = filter.chain(keys).any(is_volatile);
        if is_mark || has_volatile || is_recursive(&join.left)? {
            return Ok(None);
        }
        Ok(Some(join))
    }

    /// Returns a nested-loop join with its inputs swapped, which has the same output; `None` for
    /// other joins, and if the right input is larger.
    pub fn swapped(&self) -> Result<Option<Self>> {
        let Some(join) = self.plan.downcast_ref::<NestedLoopJoinExec>() else {
            return Ok(None);
        };
        if let (Some(left), Some(right)) = (rows(&self.left)?, rows(&self.right)?)
            && left < right
        {
            return Ok(None);
        }
        // With a projection, the swapped join itself outputs the columns in the old order.
        let all = (0..join.schema().fields().len()).collect();
        Self::of(&join.with_projection(Some(all))?.swap_inputs()?)
    }

    /// Returns the join with only these columns of its output.
    pub fn with_projection(&self, columns: Vec<usize>) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = Some(columns);
        if let Some(join) = self.plan.downcast_ref::<HashJoinExec>() {
            return Ok(Arc::new(join.with_projection(columns)?));
        }
        match self.plan.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => Ok(Arc::new(join.with_projection(columns)?)),
            None => internal_err!("{} is not a join", self.plan.name()),
        }
    }

    /// Returns the side and the index of each output column.
    pub fn columns(&self) -> Vec<ColumnIndex> {
        let columns = |side: JoinSide, input: &Arc<dyn ExecutionPlan>| {
            let indices = 0..input.schema().fields().len();
            indices.map(move |index| ColumnIndex { index, side })
        };
        let left = columns(JoinSide::Left, &self.left);
        let right = columns(JoinSide::Right, &self.right);
        let all: Vec<_> = match self.kind {
            JoinType::LeftSemi | JoinType::LeftAnti => left.collect(),
            JoinType::RightSemi | JoinType::RightAnti => right.collect(),
            _ => left.chain(right).collect(),
        };
        match &self.projection {
            Some(projection) => projection
                .iter()
                .map(|column| all[*column].clone())
                .collect(),
            None => all,
        }
    }

    /// Returns `true` if a row of the right input without a match is not part of the output.
    pub fn drops_unmatched_cells(&self) -> bool {
        matches!(
            self.kind,
            JoinType::Inner
                | JoinType::Left
                | JoinType::LeftSemi
                | JoinType::LeftAnti
                | JoinType::RightSemi
        )
    }

    /// Evaluates the keys of the probe side on the axes of its grids, as [`ProbeKeys::of_cells`] does. Also returns `None` if one
    /// of them is null on a selected coordinate and would match a null key of the build side.
    pub fn keys_of_cells(
        &self,
        keys: &[Arc<dyn PhysicalExpr>],
        grids: &[GridSelection],
    ) -> Result<Option<ProbeKeys>> {
        let keys = ProbeKeys::of_cells(keys, grids)?;
        Ok(keys.filter(|keys| !(self.are_nulls_equal && keys.has_nulls())))
    }

    /// Returns the conjuncts of the filter beside the keys, over the columns of the filter.
    pub fn conjuncts(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let filter = self.filter.iter();
        let conjuncts = filter.flat_map(|filter| split_conjunction(filter.expression()));
        conjuncts.cloned().collect()
    }

    /// Returns the filter that consists of some of the conjuncts of the join's filter; `None` if
    /// there are none.
    pub fn filter_of(&self, conjuncts: &[Arc<dyn PhysicalExpr>]) -> Result<Option<JoinFilter>> {
        let expression = conjunction_opt(conjuncts.iter().cloned());
        let (Some(filter), Some(expression)) = (&self.filter, expression) else {
            return Ok(None);
        };
        let used = columns_in(conjuncts.iter());
        let schema = Arc::new(filter.schema().project(&used)?);
        let expression = replace_columns(&expression, &|number| {
            let index = used.binary_search(&number).ok()?;
            let name = schema.field(index).name();
            Some(Arc::new(Column::new(name, index)))
        })?;
        let columns = used
            .iter()
            .map(|number| filter.column_indices()[*number].clone());
        Ok(Some(JoinFilter::new(expression, columns.collect(), schema)))
    }
}

/// The columns of the inputs that a join uses.
pub(in crate::provider::join::lookup) struct UsedColumns {
    /// The output columns.
    pub output: Vec<ColumnIndex>,
    /// The columns of the filter.
    filter: Vec<ColumnIndex>,
}

impl UsedColumns {
    /// Returns the columns that the output and a filter of a join use.
    pub fn of(join: &Joined, filter: Option<&JoinFilter>) -> Self {
        Self {
            output: join.columns(),
            filter: filter.map_or(Vec::new(), |filter| filter.column_indices().to_vec()),
        }
    }

    fn of_side(&mut self, side: JoinSide) -> impl Iterator<Item = &mut usize> {
        let all = self.output.iter_mut().chain(&mut self.filter);
        let of_side = all.filter(move |column| column.side == side);
        of_side.map(|column| &mut column.index)
    }

    /// Returns the columns of one input, sorted.
    pub fn needed(&mut self, side: JoinSide) -> Vec<usize> {
        let needed: BTreeSet<usize> = self.of_side(side).map(|index| *index).collect();
        needed.into_iter().collect()
    }

    /// Renumbers the columns of an input that is narrowed to the columns `kept`, which are sorted.
    pub fn renumber(&mut self, side: JoinSide, kept: &[usize]) {
        for index in self.of_side(side) {
            *index = kept.binary_search(index).unwrap_or(0);
        }
    }

    /// Returns a filter over the renumbered columns.
    pub fn filter(&self, filter: Option<&JoinFilter>) -> Option<JoinFilter> {
        let filter = filter?;
        let expression = Arc::clone(filter.expression());
        let schema = Arc::clone(filter.schema());
        Some(JoinFilter::new(expression, self.filter.clone(), schema))
    }
}
