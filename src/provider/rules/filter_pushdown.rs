//! Filter pushdown that follows columns by index.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{JoinSide, JoinType, Result, assert_eq_or_internal_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown, PushedDownPredicate,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;

use crate::provider::aggregate::ArrayAggregateExec;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::join::negative_zeros::has_negative_zero;
use crate::provider::join::side::Side;
use crate::provider::plans::below::replace_columns;
use crate::provider::scan::ArrayScan;

/// Pushes filters towards the scans, in place of DataFusion's rule of the same name.
///
/// DataFusion 55.2 looks up the columns of a pushed filter by name, and takes the first column with
/// that name. The output of a join can have several: a filter on the second one then lands on the
/// first, and drops the wrong rows. All arrays have a `value` column and most share their
/// dimensions, so this rule follows every column by its index instead. DataFusion's operators still
/// decide which filters they pass on, and what happens to the others.
///
/// ```text
///   FilterExec: lat@2 = 50                 lat@2 is y's
///     ProjectionExec: [lat, value, lat]    DataFusion: lat@2 -> lat@0, this rule: lat@2 -> lat@2
///       HashJoinExec: x.lat, x.value, y.lat
/// ```
///
/// Scans of arrays accept filters only from this rule. Without it, a filter could skip chunks of
/// the wrong array. [`enable_arrays`](crate::enable_arrays) replaces DataFusion's rule in both phases.
#[derive(Debug)]
pub struct FilterPushdown {
    phase: FilterPushdownPhase,
}

impl FilterPushdown {
    /// Creates the rule for filters that are known when the query is planned.
    pub fn new() -> Self {
        let phase = FilterPushdownPhase::Pre;
        Self { phase }
    }

    /// Creates the rule for dynamic filters. It has to come last, because other rules would
    /// separate these filters from the operators that update them.
    pub fn new_post_optimization() -> Self {
        let phase = FilterPushdownPhase::Post;
        Self { phase }
    }

    /// Replaces DataFusion's rules of both phases.
    pub fn replace_in(rules: &mut [Arc<dyn PhysicalOptimizerRule + Send + Sync>]) {
        for ours in [Self::new(), Self::new_post_optimization()] {
            let ours: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(ours);
            for rule in rules.iter_mut().filter(|rule| rule.name() == ours.name()) {
                *rule = Arc::clone(&ours);
            }
        }
    }
}

impl Default for FilterPushdown {
    fn default() -> Self {
        Self::new()
    }
}

impl PhysicalOptimizerRule for FilterPushdown {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let pushed = push_down(&plan, Vec::new(), self.phase, config)?;
        Ok(pushed.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        match self.phase {
            FilterPushdownPhase::Pre => "FilterPushdown",
            FilterPushdownPhase::Post => "FilterPushdown(Post)",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

type Propagation = FilterPushdownPropagation<Arc<dyn ExecutionPlan>>;

/// Offers filters over the output of a node to the node and to everything below it.
fn push_down(
    node: &Arc<dyn ExecutionPlan>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    phase: FilterPushdownPhase,
    config: &ConfigOptions,
) -> Result<Propagation> {
    if let Some(accepted) = accept(node, &filters)? {
        return Ok(accepted);
    }
    // A volatile filter has to see every row exactly once.
    let offered: Vec<_> = (0..filters.len())
        .filter(|number| !is_volatile(&filters[*number]))
        .collect();
    let exprs = offered.iter().map(|number| Arc::clone(&filters[*number]));
    let description = node.gather_filters_for_pushdown(phase, exprs.collect(), config)?;
    let (passed, mut own) = (description.parent_filters(), description.self_filters());
    if let Some(join) = node.downcast_ref::<HashJoinExec>()
        && may_lose_negative_zeros(join)?
    {
        own = vec![Vec::new(); own.len()];
    }
    let children = node.children();
    assert_eq_or_internal_err!(passed.len(), children.len(), "filters per child");
    assert_eq_or_internal_err!(own.len(), children.len(), "own filters per child");

    let mut results = vec![Vec::with_capacity(children.len()); filters.len()];
    let mut own_results = Vec::with_capacity(children.len());
    let mut new_children = Vec::with_capacity(children.len());
    for (number, (passed, own)) in passed.into_iter().zip(own).enumerate() {
        assert_eq_or_internal_err!(passed.len(), offered.len(), "filters of a child");
        let child = children[number];
        let columns = InputColumns::of(node.as_ref(), number);
        let mut for_child = Vec::new();
        let mut own_of_child = Vec::with_capacity(own.len());
        for filter in own {
            let is_pushed = !is_volatile(&filter);
            if is_pushed {
                for_child.push(Arc::clone(&filter));
            }
            own_of_child.push((filter, is_pushed));
        }
        let mut pushed = Vec::new();
        for (filter, of_child) in offered.iter().zip(passed) {
            if matches!(of_child.discriminant, PushedDown::Yes)
                && let Some(expr) = columns.replace_in(&filters[*filter], of_child.predicate)?
                // The column of the filter may be computed by a volatile expression.
                && !is_volatile(&expr)
            {
                for_child.push(expr);
                pushed.push(*filter);
            }
        }
        let below = push_down(child, for_child, phase, config)?;
        new_children.push(below.updated_node.unwrap_or_else(|| Arc::clone(child)));
        let mut answers = below.filters.into_iter();
        let mut answer = || answers.next().unwrap_or(PushedDown::No);
        own_results.push(
            own_of_child
                .into_iter()
                .map(|(filter, is_pushed)| {
                    let answer = if is_pushed { answer() } else { PushedDown::No };
                    answer.wrap_expression(filter)
                })
                .collect(),
        );
        for result in &mut results {
            result.push(PushedDown::No);
        }
        for filter in pushed {
            results[filter][number] = answer();
        }
    }

    let updated = replace_children_if_necessary(Arc::clone(node), new_children)?;
    let results = ChildPushdownResult {
        parent_filters: filters
            .into_iter()
            .zip(results)
            .map(|(filter, child_results)| ChildFilterPushdownResult {
                filter,
                child_results,
            })
            .collect(),
        self_filters: own_results,
    };
    let mut propagation = handle(updated.as_ref(), phase, results, config)?;
    if propagation.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
        propagation.updated_node = Some(updated);
    }
    Ok(propagation)
}

/// Offers filters to an operator that reads arrays. Returns `None` for any other node. DataFusion
/// applies the filters that the operator does not apply itself to the rows.
fn accept(
    node: &Arc<dyn ExecutionPlan>,
    filters: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<Propagation>> {
    let refused = || vec![PushedDown::No; filters.len()];
    let (updated, answers): (Option<Arc<dyn ExecutionPlan>>, _) =
        if let Some(operator) = node.downcast_ref::<ArrayAggregateExec>() {
            let operator = operator.with_filters(filters)?;
            (operator.map(|operator| Arc::new(operator) as _), refused())
        } else if let Some((_, scan)) = ArrayScan::of(node.as_ref()) {
            match scan.with_filters(filters) {
                Some((scan, answers)) => (Some(scan.into_exec() as _), answers),
                None => (None, refused()),
            }
        } else {
            return Ok(None);
        };
    let mut propagation = Propagation::with_parent_pushdown_result(answers);
    propagation.updated_node = updated;
    Ok(Some(propagation))
}

/// Lets a node handle the answers of its children.
fn handle(
    node: &dyn ExecutionPlan,
    phase: FilterPushdownPhase,
    mut results: ChildPushdownResult,
    config: &ConfigOptions,
) -> Result<Propagation> {
    let projects = node
        .downcast_ref::<FilterExec>()
        .is_some_and(|filter| filter.projection().is_some());
    if !projects || !matches!(phase, FilterPushdownPhase::Pre) {
        return node.handle_child_pushdown_result(phase, results, config);
    }
    // The node takes over filters that its child refuses. It looks up their columns by name, so it
    // receives them, like its own filters, in terms of the child's columns.
    let filters = results.parent_filters.len();
    let columns = InputColumns::of(node, 0);
    let mut refused = Vec::new();
    let mut kept_above = vec![PushedDown::Yes; filters];
    for (number, result) in results.parent_filters.drain(..).enumerate() {
        if matches!(result.all(), PushedDown::No) {
            let expr = Arc::clone(&result.filter);
            match columns.replace_in(&result.filter, expr)? {
                Some(expr) => refused.push(PushedDownPredicate::unsupported(expr)),
                None => kept_above[number] = PushedDown::No,
            }
        }
    }
    if let Some(own) = results.self_filters.first_mut() {
        refused.append(own);
        *own = refused;
    }
    let mut propagation = node.handle_child_pushdown_result(phase, results, config)?;
    propagation.filters = kept_above;
    Ok(propagation)
}

/// The output columns of a node in terms of one of its inputs.
enum InputColumns {
    /// For each output column, the expression over the input; `None` for columns of other inputs.
    ByIndex(Vec<Option<Arc<dyn PhysicalExpr>>>),
    /// The node is of an unknown kind and looks up columns by name. These names are ambiguous.
    ByName(Vec<String>),
}

impl InputColumns {
    fn of(node: &dyn ExecutionPlan, number: usize) -> Self {
        let input = node.children()[number].schema();
        let column = |index: usize| -> Option<Arc<dyn PhysicalExpr>> {
            let field = input.fields().get(index)?;
            Some(Arc::new(Column::new(field.name(), index)))
        };
        let columns = if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let exprs = projection.expr().iter();
            exprs
                .map(|projected| Some(Arc::clone(&projected.expr)))
                .collect()
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            columns_of_join(join, number)
        } else if let Some(join) = node.downcast_ref::<ArrayLookupJoinExec>() {
            join.columns_of_input(number)
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            let groups = aggregate.group_expr().expr().iter();
            groups.map(|(expr, _)| Some(Arc::clone(expr))).collect()
        } else if let Some(filter) = node.downcast_ref::<FilterExec>()
            && let Some(projection) = filter.projection()
        {
            projection.iter().map(|index| column(*index)).collect()
        } else if passes_columns_on(node) {
            (0..input.fields().len()).map(column).collect()
        } else {
            let mut names = Vec::new();
            for schema in [node.schema(), input] {
                let mut all: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
                all.sort_unstable();
                let twice = all.windows(2).filter(|two| two[0] == two[1]);
                names.extend(twice.map(|two| two[0].clone()));
            }
            return Self::ByName(names);
        };
        Self::ByIndex(columns)
    }

    /// Translates a filter over the node's output into one over the input. `by_name` is the
    /// translation by the node itself. Returns `None` if the filter cannot be translated.
    fn replace_in(
        &self,
        filter: &Arc<dyn PhysicalExpr>,
        by_name: Arc<dyn PhysicalExpr>,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let columns = collect_columns(filter);
        match self {
            Self::ByIndex(exprs) => {
                let expr = |index: usize| exprs.get(index).cloned().flatten();
                if columns.iter().any(|column| expr(column.index()).is_none()) {
                    return Ok(None);
                }
                replace_columns(filter, &expr).map(Some)
            }
            Self::ByName(ambiguous) => {
                let is_clear =
                    |column: &Column| !ambiguous.iter().any(|name| name == column.name());
                Ok(columns.iter().all(is_clear).then_some(by_name))
            }
        }
    }
}

/// Returns `true` if a key of the probe side may be -0.0 where that matters. It matches 0.0, but the dynamic filter of
/// DataFusion 55's join compares it in the total order, in which it is less than 0.0. Scans of arrays compare cells as
/// numbers, and coordinates in the total order.
fn may_lose_negative_zeros(join: &HashJoinExec) -> Result<bool> {
    let schema = join.right().schema();
    let mut keys = Vec::new();
    for (_, key) in join.on() {
        if key.data_type(&schema)?.is_floating() {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Ok(false);
    }
    let filters = join
        .right()
        .exists(|node| Ok(node.is::<FilterExec>() || node.is::<SortExec>()))?;
    let Some(side) = Side::of_files(join.right())?.filter(|_| !filters) else {
        return Ok(true);
    };
    for key in keys {
        let key = replace_columns(key, &|number| side.below.columns.get(number).cloned())?;
        let dimensions = side.part.grid.axes().len();
        let mut columns = collect_columns(&key).into_iter();
        if columns.any(|column| column.index() >= dimensions) {
            continue;
        }
        let Some(axis) = key.downcast_ref::<Column>().map(Column::index) else {
            return Ok(true);
        };
        for part in side.grids() {
            let axis = &part.grid.axes()[axis];
            if has_negative_zero(&axis.coordinates()?.slice(0..axis.length())) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns `true` if each input has the same columns as the node.
fn passes_columns_on(node: &dyn ExecutionPlan) -> bool {
    node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<BufferExec>()
        || node.is::<SortExec>()
        || node.is::<UnionExec>()
        || node.is::<FilterExec>()
}

/// The output columns of a join in terms of its left (0) or right (1) input.
fn columns_of_join(join: &HashJoinExec, number: usize) -> Vec<Option<Arc<dyn PhysicalExpr>>> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (_, columns) = build_join_schema(&left, &right, join.join_type());
    let (side, input) = if number == 0 {
        (JoinSide::Left, left)
    } else {
        (JoinSide::Right, right)
    };
    // Each output row of a semi join has a partner with equal join keys, so a filter on a key also
    // holds for the partner's key. Floating-point keys are excluded, because equal keys may differ
    // in the sign of a zero.
    let partner = |side: JoinSide, index: usize| {
        let keys = join
            .on()
            .iter()
            .map(|(left, right)| match join.join_type() {
                JoinType::LeftSemi if side == JoinSide::Left => Some((left, right)),
                JoinType::RightSemi if side == JoinSide::Right => Some((right, left)),
                _ => None,
            });
        let mut keys = keys.flatten();
        let (_, partner) = keys.find(|(key, _)| {
            let key = key.downcast_ref::<Column>();
            key.is_some_and(|key| key.index() == index)
        })?;
        let is_exact = !partner.data_type(&input).ok()?.is_floating();
        is_exact.then(|| Arc::clone(partner))
    };
    let expr = |index: usize| -> Option<Arc<dyn PhysicalExpr>> {
        let column = columns.get(index)?;
        if column.side != side {
            return partner(column.side, column.index);
        }
        let field = input.fields().get(column.index)?;
        Some(Arc::new(Column::new(field.name(), column.index)))
    };
    match &join.projection {
        Some(projection) => projection.iter().map(|index| expr(*index)).collect(),
        None => (0..columns.len()).map(expr).collect(),
    }
}
