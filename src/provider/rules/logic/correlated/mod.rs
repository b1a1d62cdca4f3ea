//! Subqueries of EXISTS, IN, ANY and ALL, scalar subqueries and LATERAL subqueries that refer to the query around them.
//!
//! DataFusion plans them as joins, and moves the predicates that refer to the query around them above their other operators. Windows,
//! limits, aggregations and outer joins then see other rows. The rule of this module leaves to DataFusion only what it plans correctly.
//! It plans all others as joins with the values of the query around them, so that only a filter on top still refers to this query,
//! or none.
//!
//! - [`references`]: references to the query around a subquery.
//! - [`direct`]: what DataFusion plans correctly.
//! - [`unnesting`], [`operators`]: all others.
//! - [`names`]: names of columns.

mod direct;
pub(super) mod names;
mod operators;
mod references;
mod unnesting;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder,
    Projection, Subquery, lit,
};
use datafusion::optimizer::AnalyzerRule;

use self::direct::{
    always_has_row, distinct_rows, has_one_row, is_direct_lateral, is_direct_subquery,
};
use self::references::{lateral_of, outer_columns, with_lateral, with_rows};
use self::unnesting::{Names, Unnested, Unnesting, columns_of};
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::plans::conjunction::joined;
use crate::provider::rules::logic::in_subqueries;

/// A rule that rewrites subqueries that refer to the query around them, so that DataFusion plans them correctly.
#[derive(Debug, Default)]
pub(crate) struct CorrelatedSubqueries;

impl AnalyzerRule for CorrelatedSubqueries {
    fn name(&self) -> &str {
        "correlated_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_subqueries(&plan)? {
            return Ok(plan);
        }
        let names = Names::beside(&plan, ArraySettings::limits_of(config))?;
        let plan = rewritten_plan(plan, &names)?;
        let given = names::given(&plan)?;
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Filter(filter) => names::distinct_keys(filter, &given, &names),
            node => Ok(Transformed::no(node)),
        })?;
        Ok(plan.data)
    }
}

/// Returns `true` if a plan has subqueries in expressions, or LATERAL ones.
pub(super) fn has_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let end = plan.apply_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::Subquery(_) => TreeNodeRecursion::Stop,
            _ => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(end == TreeNodeRecursion::Stop)
}

/// Rewrites the subqueries of a plan, those of the outermost queries first.
fn rewritten_plan(plan: LogicalPlan, names: &Names) -> Result<LogicalPlan> {
    let plan = plan.transform_down(|node| {
        let node = match node {
            LogicalPlan::Join(join) => filtered_above(join)?,
            node => Transformed::no(node),
        };
        let node = node.transform_data(|node| match node {
            LogicalPlan::Join(join) => without_lateral(join, names),
            node => Ok(Transformed::no(node)),
        })?;
        node.transform_data(|node| with_subqueries(node, names))
    })?;
    // The inputs may have other columns that are nullable.
    let plan = plan.transform_data(|plan| {
        plan.transform_up(|node| node.recompute_schema().map(Transformed::yes))
    })?;
    Ok(plan.data)
}

/// Moves the predicates of an inner join's ON that have subqueries, or refer to the query around it, into a filter above the join,
/// where rules look for them.
fn filtered_above(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.take_if(|_| join.join_type == JoinType::Inner) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let (mut above, mut within) = (Vec::new(), Vec::new());
    for predicate in split_conjunction_owned(filter) {
        let is_moved = predicate.contains_outer() || has_subquery(&predicate)?;
        match is_moved {
            true => above.push(predicate),
            false => within.push(predicate),
        }
    }
    join.filter = joined(within, Expr::and);
    let join = LogicalPlan::Join(join);
    Ok(match joined(above, Expr::and) {
        Some(above) => {
            let filter = Filter::try_new(above, Arc::new(join))?;
            Transformed::yes(LogicalPlan::Filter(filter))
        }
        None => Transformed::no(join),
    })
}

fn has_subquery(expression: &Expr) -> Result<bool> {
    expression.exists(|one| Ok(subquery_of(one).is_some()))
}

fn subquery_of(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(found) => Some(&found.subquery),
        Expr::SetComparison(compared) => Some(&compared.subquery),
        Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Returns a subquery expression with another subquery.
fn with_subquery(mut expression: Expr, new: Subquery) -> Expr {
    match &mut expression {
        Expr::Exists(exists) => exists.subquery = new,
        Expr::InSubquery(found) => found.subquery = new,
        Expr::SetComparison(compared) => compared.subquery = new,
        Expr::ScalarSubquery(subquery) => *subquery = new,
        _ => {}
    }
    expression
}

/// Joins the left side of a join with the rows of its LATERAL subquery, unless DataFusion does so correctly.
fn without_lateral(join: Join, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let outer = match lateral_of(&join) {
        Some(lateral) if !is_direct_lateral(&join)? => outer_columns(&lateral.subquery)?,
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let columns = join.schema.iter().map(Expr::from).collect();
    let right = with_lateral(&join.right, &mut |lateral| {
        Ok(lateral.subquery.as_ref().clone())
    })?;
    if outer.is_empty() {
        let join = Join {
            right: Arc::new(right),
            ..join
        };
        return Ok(Transformed::yes(LogicalPlan::Join(join)));
    }
    let unnesting = Unnesting::try_new(names, outer, Arc::clone(&join.left))?;
    let rows = unnesting.unnested(&right)?;
    let keys = join.on.into_iter().map(|(left, right)| left.eq(right));
    let filter = conjunction(keys.chain(join.filter));
    let plan = unnesting.joined(join.left, rows, filter, join.join_type)?;
    let plan = Projection::try_new(columns, Arc::new(plan))?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

/// Rewrites the subqueries in the expressions of a node.
fn with_subqueries(node: LogicalPlan, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let mut has_any = false;
    node.apply_expressions(|expression| {
        has_any |= has_subquery(expression)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_any {
        return Ok(Transformed::no(node));
    }
    let node = match node {
        LogicalPlan::Filter(_) => node,
        node => in_subqueries::as_values(node)?,
    };
    let mut around = Around::of(&node, names)?;
    let saved = NamePreserver::new(&node);
    let node = node.map_expressions(|expression| {
        let name = saved.save(&expression);
        around.is_tested = is_tested(&expression)?;
        let expression = expression.transform_up(|one| around.rewritten(one))?;
        Ok(expression.update_data(|expression| name.restore(expression)))
    })?;
    if !around.is_joined {
        return Ok(node);
    }
    let node = node.data;
    let columns = match node {
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Join(_) => Some(columns_of(&node)),
        _ => None,
    };
    let node = match node {
        // `with_new_exprs` panics if it has ORDER BY.
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            let input = Arc::new(around.inputs.swap_remove(0));
            let (on, select) = (distinct.on_expr, distinct.select_expr);
            let distinct = DistinctOn::try_new(on, select, distinct.sort_expr, input)?;
            LogicalPlan::Distinct(Distinct::On(distinct))
        }
        node => node.with_new_exprs(node.expressions(), around.inputs)?,
    };
    Ok(Transformed::yes(match columns {
        Some(columns) => LogicalPlan::Projection(Projection::try_new(columns, Arc::new(node))?),
        None => node,
    }))
}

/// Returns `true` if a subquery of IN, ANY or ALL in an expression is compared with a scalar subquery.
fn is_tested(expression: &Expr) -> Result<bool> {
    expression.exists(|one| match one {
        Expr::InSubquery(found) => has_subquery(&found.expr),
        Expr::SetComparison(compared) => has_subquery(&compared.expr),
        _ => Ok(false),
    })
}

/// The query around a subquery.
struct Around<'a> {
    names: &'a Names,
    /// The inputs of the operator with the subquery, joined with the rows of scalar subqueries.
    inputs: Vec<LogicalPlan>,
    /// For each input, the rows whose values are needed.
    needed: Vec<Arc<LogicalPlan>>,
    is_filter: bool,
    /// `true` if DataFusion plans scalar subqueries of the operator.
    has_scalars: bool,
    /// `true` if the expression compares a scalar subquery with the rows of another subquery.
    is_tested: bool,
    /// `true` if an input is joined with the rows of a subquery.
    is_joined: bool,
}

impl<'a> Around<'a> {
    fn of(node: &LogicalPlan, names: &'a Names) -> Result<Self> {
        let inputs: Vec<_> = node.inputs().into_iter().cloned().collect();
        let needed = inputs.iter().cloned().map(Arc::new);
        let mut needed: Vec<_> = needed.collect();
        if let (LogicalPlan::Filter(filter), [rows]) = (node, needed.as_mut_slice()) {
            // Rows that other predicates drop need no rows of the subquery.
            let mut others = Vec::new();
            for conjunct in split_conjunction(&filter.predicate) {
                if !has_subquery(conjunct)? && !conjunct.is_volatile() {
                    others.push(conjunct.clone());
                }
            }
            if let Some(others) = conjunction(others) {
                let filter = Filter::try_new(others, Arc::clone(rows))?;
                *rows = Arc::new(LogicalPlan::Filter(filter));
            }
        }
        Ok(Self {
            names,
            inputs,
            needed,
            is_filter: matches!(node, LogicalPlan::Filter(_)),
            has_scalars: matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Projection(_)),
            is_tested: false,
            is_joined: false,
        })
    }

    /// Rewrites a subquery expression, and the subqueries in it.
    fn rewritten(&mut self, expression: Expr) -> Result<Transformed<Expr>> {
        let Some(subquery) = subquery_of(&expression) else {
            return Ok(Transformed::no(expression));
        };
        let subquery = subquery.clone();
        let outer = outer_columns(&subquery.subquery)?;
        if outer.is_empty() {
            return self.independent(expression, &subquery);
        }
        let is_exists = matches!(expression, Expr::Exists(_));
        let rows = match &expression {
            Expr::ScalarSubquery(_) => Arc::clone(&subquery.subquery),
            _ => distinct_rows(&subquery.subquery, is_exists)?,
        };
        let is_unnested = match &expression {
            Expr::ScalarSubquery(_) => {
                let is_direct = self.has_scalars && !self.is_tested;
                let is_direct = is_direct && is_direct_subquery(&expression, &rows)?;
                has_one_row(&rows)? && !is_direct
            }
            Expr::Exists(_) => !self.is_filter || !is_direct_subquery(&expression, &rows)?,
            _ => !is_direct_subquery(&expression, &rows)?,
        };
        let has_all = |input: &LogicalPlan| {
            let mut columns = outer.iter().map(|(_, column)| column);
            columns.all(|column| input.schema().has_column(column))
        };
        let (true, Some(side)) = (is_unnested, self.inputs.iter().position(has_all)) else {
            let rows = rewritten_plan(Arc::unwrap_or_clone(rows), self.names)?;
            let subquery = with_rows(&subquery, rows)?;
            return Ok(Transformed::yes(named(expression, subquery)?));
        };
        let unnesting = Unnesting::try_new(self.names, outer, Arc::clone(&self.needed[side]))?;
        let rows = unnesting.unnested(&rows)?;
        match &expression {
            Expr::ScalarSubquery(_) => {
                let item = Expr::from(subquery.subquery.schema().qualified_field(0));
                let value = self.join(side, &unnesting, rows, item)?;
                Ok(Transformed::yes(value))
            }
            Expr::Exists(exists) if !self.is_filter => {
                // DataFusion does not sort by a constant of the optional side of a join.
                let count = self.names.next("count");
                let counts = vec![count_all().alias(&count)];
                let groups = rows.values().collect();
                let found = Aggregate::try_new(Arc::new(rows.plan), groups, counts)?;
                let rows = Unnested {
                    plan: LogicalPlan::Aggregate(found),
                    ..rows
                };
                let count = Expr::Column(Column::new_unqualified(count));
                let value = self.join(side, &unnesting, rows, count)?;
                Ok(Transformed::yes(match exists.negated {
                    true => value.is_null(),
                    false => value.is_not_null(),
                }))
            }
            _ => {
                let rows = unnesting.compared(rows, columns_of(&subquery.subquery))?;
                let rows = rewritten_plan(rows, self.names)?;
                let subquery = with_rows(&subquery, rows)?;
                Ok(Transformed::yes(named(expression, subquery)?))
            }
        }
    }

    /// Joins an input with the rows of a subquery, of which each row of the input has at most one.
    /// Returns the column that has the value of an item of these rows.
    fn join(
        &mut self,
        side: usize,
        unnesting: &Unnesting<'_>,
        rows: Unnested,
        item: Expr,
    ) -> Result<Expr> {
        let name = self.names.next("value");
        let columns = rows.values().chain([item.alias(&name)]).collect();
        let plan = Projection::try_new(columns, Arc::new(rows.plan))?;
        let rows = Unnested {
            plan: LogicalPlan::Projection(plan),
            domain: rows.domain,
        };
        let input = Arc::new(self.inputs[side].clone());
        self.inputs[side] = unnesting.joined(input, rows, None, JoinType::Left)?;
        self.is_joined = true;
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    /// Rewrites a subquery that does not refer to the query around it.
    fn independent(&self, expression: Expr, subquery: &Subquery) -> Result<Transformed<Expr>> {
        let rows = rewritten_plan(subquery.subquery.as_ref().clone(), self.names)?;
        let rows = match &expression {
            Expr::ScalarSubquery(_) => nullable(rows)?,
            _ => rows,
        };
        let subquery = with_rows(subquery, rows)?;
        Ok(Transformed::yes(match &expression {
            Expr::Exists(exists) if !self.is_filter => {
                let rows = subquery.subquery.as_ref().clone();
                let has_row = in_subqueries::exists(&subquery, rows)?;
                match exists.negated {
                    true => Expr::Not(Box::new(has_row)),
                    false => has_row,
                }
            }
            // DataFusion makes a correlated EXISTS of it.
            Expr::SetComparison(_) => named(expression, subquery)?,
            _ => with_subquery(expression, subquery),
        }))
    }
}

/// Returns a subquery expression with a subquery whose columns have names of their own.
fn named(expression: Expr, subquery: Subquery) -> Result<Expr> {
    let subquery = match &expression {
        Expr::Exists(_) => names::without_columns(subquery)?,
        Expr::InSubquery(_) | Expr::SetComparison(_) => names::with_item(&subquery)?,
        _ => subquery,
    };
    Ok(with_subquery(expression, subquery))
}

/// Returns the rows of an uncorrelated scalar subquery with a column that may be null, because DataFusion takes the nullability of the
/// column for that of the subquery, which is null without rows.
fn nullable(rows: LogicalPlan) -> Result<LogicalPlan> {
    let mut fields = rows.schema().fields().iter();
    if always_has_row(&rows)? || fields.any(|field| field.is_nullable()) {
        return Ok(rows);
    }
    let columns = columns_of(&rows);
    let none: (Vec<Column>, Vec<Column>) = (Vec::new(), Vec::new());
    let outer = LogicalPlanBuilder::empty(true);
    let outer = outer.join(rows, JoinType::Left, none, Some(lit(true)))?;
    outer.project(columns)?.build()
}
