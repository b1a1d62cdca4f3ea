//! Subqueries that refer to the query around them, and that DataFusion would answer wrongly.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, plan_err};
use datafusion::logical_expr::{
    Expr, FetchType, GroupingSet, Limit, LogicalPlan, SkipType, Subquery,
};

use super::single_row::SingleRow;
use super::windows::{compares_equal, refers_outward};

/// Checks a subquery, of EXISTS if `is_exists` is true.
///
/// # Errors
/// Returns an error if an outer join, a grouping set or a limit of the subquery would see other rows.
pub(super) fn check(subquery: &Subquery, is_exists: bool) -> Result<()> {
    if !refers_outward(&subquery.subquery) {
        return Ok(());
    }
    check_plan(&subquery.subquery, is_exists, true, &mut false)
}

/// Checks a LATERAL subquery.
///
/// # Errors
/// Returns an error if it has HAVING without GROUP BY, or distinct rows that would be distinct for each row that it is compared with.
pub(super) fn check_lateral(plan: &LogicalPlan) -> Result<()> {
    if SingleRow::of(plan)?.is_some_and(|row| !row.having.is_empty()) {
        return plan_err!(
            "a LATERAL subquery without GROUP BY must not have HAVING; write the condition in the WHERE of the query around it"
        );
    }
    plan.apply(|node| {
        let input = match node {
            LogicalPlan::Subquery(_) => return Ok(TreeNodeRecursion::Jump),
            LogicalPlan::Distinct(distinct) => distinct.input(),
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.is_empty() => &aggregate.input,
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        if !compares_equal(input)? {
            return plan_err!(
                "a LATERAL subquery with DISTINCT, or with GROUP BY without aggregates, must compare with the table before it by =; \
                 write DISTINCT in the query around it"
            );
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Checks a plan. `is_last` is true if a row of it is a row of the subquery. `is_moved` becomes true once a predicate was met
/// that DataFusion moves up.
fn check_plan(
    plan: &LogicalPlan,
    is_exists: bool,
    is_last: bool,
    is_moved: &mut bool,
) -> Result<()> {
    let keeps_rows = matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Distinct(_)
    );
    for input in plan.inputs() {
        check_plan(input, is_exists, is_last && keeps_rows, is_moved)?;
    }
    *is_moved |= plan.contains_outer_reference();
    match plan {
        LogicalPlan::Limit(limit)
            if is_exists && *is_moved && !(is_last && keeps_a_row(limit)?) =>
        {
            return plan_err!(
                "EXISTS with a subquery that refers to the query around it must not have OFFSET or LIMIT 0, nor LIMIT in a subquery \
                 in FROM; compare a count of the rows instead"
            );
        }
        LogicalPlan::Join(join) => {
            let [left, right] = [refers_outward(&join.left), refers_outward(&join.right)];
            let is_allowed = match join.join_type {
                JoinType::Inner => true,
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                    !right
                }
                JoinType::Right
                | JoinType::RightSemi
                | JoinType::RightAnti
                | JoinType::RightMark => !left,
                JoinType::Full => !left && !right,
            };
            let is_in_on = join.join_type != JoinType::Inner && plan.contains_outer_reference();
            let is_semi_or_anti = !matches!(
                join.join_type,
                JoinType::Left | JoinType::Right | JoinType::Full
            );
            if !is_allowed && is_semi_or_anti {
                return plan_err!(
                    "the second SELECT of EXCEPT and INTERSECT, and of other semi joins and anti joins, must not refer to the query \
                     around the subquery; write a join instead"
                );
            }
            if !is_allowed || is_in_on {
                return plan_err!(
                    "an outer join in a subquery must not refer to the query around it in its ON, or on the side whose rows may \
                     have no match; join the query around it with these rows, and aggregate, instead"
                );
            }
        }
        LogicalPlan::Aggregate(aggregate) => {
            if let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice()
                && has_empty_set(sets)
                && refers_outward(&aggregate.input)
            {
                return plan_err!(
                    "ROLLUP, CUBE and an empty grouping set are not possible in a subquery that refers to the query around it; \
                     write GROUP BY, and a subquery without GROUP BY for the total"
                );
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns `true` if a limit keeps a row of all inputs that have a row.
pub(super) fn keeps_a_row(limit: &Limit) -> Result<bool> {
    let is_null = |expression: &Option<Box<Expr>>| match expression.as_deref() {
        Some(Expr::Literal(value, _)) => value.is_null(),
        Some(Expr::Cast(cast)) => {
            matches!(cast.expr.as_ref(), Expr::Literal(value, _) if value.is_null())
        }
        _ => false,
    };
    let skips_none = is_null(&limit.skip) || matches!(limit.get_skip_type()?, SkipType::Literal(0));
    let fetches_some = is_null(&limit.fetch)
        || matches!(limit.get_fetch_type()?, FetchType::Literal(fetch) if fetch != Some(0));
    Ok(skips_none && fetches_some)
}

fn has_empty_set(sets: &GroupingSet) -> bool {
    match sets {
        GroupingSet::Rollup(_) | GroupingSet::Cube(_) => true,
        GroupingSet::GroupingSets(sets) => sets.iter().any(Vec::is_empty),
    }
}
