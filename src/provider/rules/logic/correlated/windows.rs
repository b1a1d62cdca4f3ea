//! Windows in subqueries that refer to the query around them.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, Result, plan_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, LogicalPlan, Operator, Window};

/// Adds the expressions that the input of a window compares with the query around it to the partitions of the window: once the
/// predicates have moved above the window, only rows of the partition are left.
pub(super) fn partitioned(mut window: Window) -> Result<Transformed<LogicalPlan>> {
    let Some(keys) = compared(&window.input)? else {
        return plan_err!(
            "a window in a subquery that refers to the query around it needs columns that the subquery compares with that query, \
             by = in its WHERE; its input has other references to that query, or none of these columns"
        );
    };
    let mut is_changed = false;
    for expression in &mut window.window_expr {
        let name = expression.schema_name().to_string();
        let mut found = expression.clone().unalias();
        let Expr::WindowFunction(function) = &mut found else {
            continue;
        };
        let partition = &mut function.params.partition_by;
        let new = keys.iter().filter(|key| !partition.contains(key));
        let new: Vec<_> = new.cloned().collect();
        if !new.is_empty() {
            partition.extend(new);
            *expression = found.alias(name);
            is_changed = true;
        }
    }
    let window = LogicalPlan::Window(window);
    Ok(Transformed::new_transformed(window, is_changed))
}

/// Returns the expressions, over the columns of a plan, that it compares with the query around it by `=`. Returns `None` if it refers
/// to that query otherwise, or if the plan has no such columns.
pub(super) fn compared(plan: &LogicalPlan) -> Result<Option<Vec<Expr>>> {
    if !refers_outward(plan) {
        return Ok(Some(Vec::new()));
    }
    let inputs = plan.inputs();
    let of_first = || inputs.first().map_or(Ok(None), |input| compared(input));
    Ok(match plan {
        LogicalPlan::Filter(filter) => of_first()?.and_then(|mut keys| {
            keys.extend(keys_of(&filter.predicate)?);
            Some(keys)
        }),
        LogicalPlan::Projection(projection) => {
            renamed(of_first()?, &projection.expr, &projection.schema)?
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let columns = alias.input.schema().columns().into_iter();
            let columns: Vec<_> = columns.map(Expr::Column).collect();
            renamed(of_first()?, &columns, &alias.schema)?
        }
        LogicalPlan::Aggregate(aggregate) => {
            renamed(of_first()?, &aggregate.group_expr, &aggregate.schema)?
        }
        LogicalPlan::Sort(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::All(_)) => {
            of_first()?
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let keys = match &join.filter {
                Some(filter) => keys_of(filter),
                None => Some(Vec::new()),
            };
            match (keys, compared(&join.left)?, compared(&join.right)?) {
                (Some(keys), Some(left), Some(right)) => Some([keys, left, right].concat()),
                _ => None,
            }
        }
        _ => None,
    })
}

/// Returns `true` if a plan refers to the query around it.
pub(super) fn refers_outward(plan: &LogicalPlan) -> bool {
    refers_beyond(plan, None)
}

/// Returns `true` if a plan refers to the query around it. LATERAL subqueries in it may refer to the table before them, which has
/// the columns `before`.
fn refers_beyond(plan: &LogicalPlan, before: Option<&DFSchema>) -> bool {
    match plan {
        LogicalPlan::Subquery(lateral) => {
            let is_of_table = |reference: &Expr| match (reference, before) {
                (Expr::OuterReferenceColumn(_, column), Some(before)) => before.has_column(column),
                _ => false,
            };
            let references = lateral.subquery.all_out_ref_exprs();
            !references.iter().all(is_of_table)
        }
        _ if plan.contains_outer_reference() => true,
        LogicalPlan::Join(join) => {
            refers_beyond(&join.left, before)
                || refers_beyond(&join.right, Some(join.left.schema()))
        }
        _ => {
            let mut inputs = plan.inputs().into_iter();
            inputs.any(|input| refers_beyond(input, before))
        }
    }
}

/// Returns `true` if a plan refers to the query around it only by `=` in filters.
pub(super) fn compares_equal(plan: &LogicalPlan) -> Result<bool> {
    let has_other = plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Filter(filter) => keys_of(&filter.predicate).is_none(),
            node => node.contains_outer_reference(),
        })
    })?;
    Ok(!has_other)
}

/// Returns the expressions that the conjuncts of a predicate compare with the query around it.
fn keys_of(predicate: &Expr) -> Option<Vec<Expr>> {
    let conjuncts = split_conjunction(predicate).into_iter();
    // Without columns of its own, a conjunct drops all rows or none.
    let conjuncts =
        conjuncts.filter(|conjunct| conjunct.contains_outer() && conjunct.any_column_refs());
    let keys = conjuncts.map(|conjunct| match conjunct {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq | Operator::IsNotDistinctFrom,
            right,
        }) => {
            let sides = [(left, right), (right, left)];
            let mut sides = sides.into_iter();
            let found =
                sides.find(|(own, other)| !own.contains_outer() && !other.any_column_refs());
            found.map(|(own, _)| own.as_ref().clone())
        }
        _ => None,
    });
    keys.collect()
}

/// Returns expressions over the input of a plan as expressions over its output, which has a column for each of `expressions`.
fn renamed(
    keys: Option<Vec<Expr>>,
    expressions: &[Expr],
    schema: &DFSchema,
) -> Result<Option<Vec<Expr>>> {
    let columns = schema.columns();
    let mut has_all = keys.is_some();
    let keys = keys.into_iter().flatten().map(|key| {
        let key = key.transform_down(|one| {
            let is_one = |other: &Expr| other.clone().unalias_nested().data == one;
            Ok(match expressions.iter().position(is_one) {
                Some(found) => {
                    let column = Expr::Column(columns[found].clone());
                    Transformed::new(column, true, TreeNodeRecursion::Jump)
                }
                None => {
                    has_all &= !matches!(one, Expr::Column(_));
                    Transformed::no(one)
                }
            })
        })?;
        Ok(key.data)
    });
    let keys = keys.collect::<Result<Vec<_>>>()?;
    Ok(has_all.then_some(keys))
}
