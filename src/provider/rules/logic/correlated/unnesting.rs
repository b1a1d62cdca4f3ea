//! Subqueries as joins with the values of the query around them.
//!
//! The *domain* of a subquery is the distinct values of the columns of the query around it to which it refers. Each operator of the
//! subquery, from its tables up, computes its rows for all values of the domain at once, and outputs these values, too: a table is joined
//! with the domain, an aggregation also groups by it, a window is also partitioned by it. (T. Neumann and A. Kemper,
//! *Unnesting Arbitrary Queries*, BTW 2015.)

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Distinct, Expr, Filter, Join, JoinConstraint, LogicalPlan, Operator, Projection, binary_expr,
    lit,
};

use super::references::{OuterColumns, replaced};

/// Makes names that no column of a plan has.
#[derive(Debug)]
pub(super) struct Names(Cell<usize>);

impl Names {
    /// Makes names that differ from those of all columns of a plan.
    pub fn beside(plan: &LogicalPlan) -> Result<Self> {
        let mut next = 0;
        plan.apply_with_subqueries(|node| {
            for field in node.schema().fields() {
                let name = field.name().strip_prefix("__");
                let number = name.and_then(|name| name.rsplit_once('_')?.1.parse::<usize>().ok());
                next = next.max(number.map_or(0, |number| number.saturating_add(1)));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self(Cell::new(next)))
    }

    /// Returns another name.
    pub fn next(&self, prefix: &str) -> String {
        let number = self.0.get();
        self.0.set(number.wrapping_add(1));
        format!("__{prefix}_{number}")
    }
}

/// A plan with columns for the values of the domain.
pub(super) struct Unnested {
    pub plan: LogicalPlan,
    /// The columns of the domain, one for each column of the query around the subquery.
    pub domain: Vec<Column>,
}

impl Unnested {
    /// Returns the columns of the domain as expressions.
    pub fn values(&self) -> impl Iterator<Item = Expr> {
        self.domain.iter().cloned().map(Expr::Column)
    }
}

/// Unnests subqueries of one domain.
pub(super) struct Unnesting<'a> {
    pub names: &'a Names,
    outer: OuterColumns,
    domain: Arc<LogicalPlan>,
}

impl<'a> Unnesting<'a> {
    /// Creates the domain of the columns `outer` of `rows`.
    ///
    /// # Errors
    /// Returns an error if the rows would be others when they are computed again.
    pub fn try_new(names: &'a Names, outer: OuterColumns, rows: Arc<LogicalPlan>) -> Result<Self> {
        if is_volatile(&rows)? {
            return plan_err!(
                "a subquery refers to columns of a query with volatile functions, such as random(); store its rows with CREATE TABLE AS"
            );
        }
        let columns = outer.iter().map(|(_, column)| {
            let name = names.next("outer");
            Expr::Column(column.clone()).alias(name)
        });
        let rows = Projection::try_new(columns.collect(), rows)?;
        let rows = Arc::new(LogicalPlan::Projection(rows));
        let domain = Arc::new(LogicalPlan::Distinct(Distinct::All(rows)));
        Ok(Self {
            names,
            outer,
            domain,
        })
    }

    /// Returns the domain, with new names of its columns.
    pub fn domain(&self) -> Result<Unnested> {
        let columns = self.domain.schema().columns().into_iter();
        let columns = columns.map(|column| {
            let name = self.names.next("outer");
            Expr::Column(column).alias(name)
        });
        let plan = Projection::try_new(columns.collect(), Arc::clone(&self.domain))?;
        let domain = plan.schema.columns();
        Ok(Unnested {
            plan: LogicalPlan::Projection(plan),
            domain,
        })
    }

    /// Returns the expressions of an operator like [`Self::expression`].
    pub fn expressions(&self, expressions: &[Expr], input: &Unnested) -> Result<Vec<Expr>> {
        let expressions = expressions.iter();
        expressions
            .map(|expression| self.expression(expression, input))
            .collect()
    }

    /// Returns an expression of an operator with columns of the domain in the place of references. `input` is the unnested input of the
    /// operator.
    pub fn expression(&self, expression: &Expr, input: &Unnested) -> Result<Expr> {
        let replace = |column: &Column| self.replace(column, &input.domain);
        replaced(expression.clone(), input.plan.schema(), &replace)
    }

    /// Returns the keys of ORDER BY like [`Self::expression`].
    pub fn sort_keys(&self, keys: &[SortKey], input: &Unnested) -> Result<Vec<SortKey>> {
        let keys = keys.iter().map(|key| {
            let expr = self.expression(&key.expr, input)?;
            Ok(SortKey::new(expr, key.asc, key.nulls_first))
        });
        keys.collect()
    }

    /// Returns the column of the domain for a column of the query around the subquery.
    pub fn replace(&self, column: &Column, domain: &[Column]) -> Option<Column> {
        let mut all = self.outer.iter().zip(domain);
        all.find_map(|((_, outer), one)| (outer == column).then(|| one.clone()))
    }

    /// Returns the predicate that two sets of columns of the domain are equal.
    pub fn equal(&self, left: &[Column], right: &[Column]) -> Expr {
        let right = right.iter().cloned().map(Expr::Column);
        self.equals(left, right)
    }

    /// Returns the predicate that columns of the domain equal those of the query around the subquery, as references if `is_reference` is
    /// true.
    pub fn equals_outer(&self, domain: &[Column], is_reference: bool) -> Expr {
        let outer = self.outer.iter().map(|(field, column)| {
            let column = column.clone();
            match is_reference {
                true => Expr::OuterReferenceColumn(Arc::clone(field), column),
                false => Expr::Column(column),
            }
        });
        self.equals(domain, outer)
    }

    fn equals(&self, domain: &[Column], others: impl Iterator<Item = Expr>) -> Expr {
        // A join has keys of one kind.
        let mut fields = self.outer.iter().map(|(field, _)| field);
        let operator = match fields.any(|field| field.is_nullable()) {
            true => Operator::IsNotDistinctFrom,
            false => Operator::Eq,
        };
        let all = domain.iter().cloned().zip(others);
        let all = all.map(|(column, other)| binary_expr(Expr::Column(column), operator, other));
        // A domain has at least one column.
        conjunction(all).unwrap_or_else(|| lit(true))
    }

    /// Joins rows of the query around the subquery with the rows of the subquery for each of them. `filter` is another predicate of the
    /// join.
    pub fn joined(
        &self,
        around: Arc<LogicalPlan>,
        rows: Unnested,
        filter: Option<Expr>,
        join_type: JoinType,
    ) -> Result<LogicalPlan> {
        let equal = self.equals_outer(&rows.domain, false);
        let filter = conjunction(filter.into_iter().chain([equal]));
        join(around, Arc::new(rows.plan), filter, join_type)
    }

    /// Returns the rows of the subquery for the values that the query around it has, with the given columns.
    pub fn compared(&self, rows: Unnested, columns: Vec<Expr>) -> Result<LogicalPlan> {
        let equal = self.equals_outer(&rows.domain, true);
        let rows = LogicalPlan::Filter(Filter::try_new(equal, Arc::new(rows.plan))?);
        Ok(LogicalPlan::Projection(Projection::try_new(
            columns,
            Arc::new(rows),
        )?))
    }
}

/// Returns a join by a predicate.
pub(super) fn join(
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
    filter: Option<Expr>,
    join_type: JoinType,
) -> Result<LogicalPlan> {
    let none = Vec::new();
    let equality = NullEquality::NullEqualsNothing;
    let constraint = JoinConstraint::On;
    let join = Join::try_new(
        left, right, none, filter, join_type, constraint, equality, false,
    )?;
    Ok(LogicalPlan::Join(join))
}

/// Returns the columns of a plan as expressions.
pub(super) fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().iter().map(Expr::from).collect()
}

fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut is_volatile = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            is_volatile |= expression.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match is_volatile {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(is_volatile)
}
