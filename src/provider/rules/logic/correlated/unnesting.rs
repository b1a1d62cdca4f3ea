//! Subqueries as joins with the values of the query around them.
//!
//! The *domain* of a subquery is the distinct values of the columns of the query around it to which it refers. Each operator of the
//! subquery, from its tables up, computes its rows for all values of the domain at once, and outputs these values, too: a table is joined
//! with the domain, an aggregation also groups by it, a window is also partitioned by it. (T. Neumann and A. Kemper,
//! *Unnesting Arbitrary Queries*, BTW 2015.)

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, plan_err};
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, JoinConstraint, LogicalPlan, Operator, Projection, binary_expr,
    lit,
};

use super::references::{OuterColumns, replaced};
use crate::provider::rules::optimizer::with_correct_keys;
use crate::provider::sql::budget::Limits;

/// The number of times that a join with the rows of a subquery may contain the rows of the query around it.
const REPETITIONS: usize = 3;

/// Makes names that no column of a plan has, and counts the nodes that the plan gains.
#[derive(Debug)]
pub(super) struct Names {
    next: Cell<usize>,
    /// The number of nodes that joins have repeated.
    repeated: Cell<usize>,
    limits: Limits,
}

impl Names {
    /// Makes names that differ from those of all columns of a plan.
    pub fn beside(plan: &LogicalPlan, limits: Limits) -> Result<Self> {
        let mut next = 0;
        plan.apply_with_subqueries(|node| {
            for field in node.schema().fields() {
                let name = field.name().strip_prefix("__");
                let number = name.and_then(|name| name.rsplit_once('_')?.1.parse::<usize>().ok());
                next = next.max(number.map_or(0, |number| number.saturating_add(1)));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self {
            next: Cell::new(next),
            repeated: Cell::new(0),
            limits,
        })
    }

    /// Counts the nodes of a plan that a join with the values of its columns repeats.
    fn check(&self, plan: &LogicalPlan) -> Result<()> {
        let most = self.limits.plan_nodes;
        let mut nodes = self.repeated.get();
        plan.apply_with_subqueries(|_| {
            nodes += REPETITIONS;
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.repeated.set(nodes);
        match nodes > most {
            true => plan_err!(
                "subqueries that refer to columns of subqueries make a plan of more than {most} nodes; store the rows of one with \
                 CREATE TABLE AS, or raise tet.max_plan_nodes"
            ),
            false => Ok(()),
        }
    }

    /// Returns another name.
    pub fn next(&self, prefix: &str) -> String {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
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
    /// The columns of the query around the subquery that the domain has.
    outer: OuterColumns,
    /// `true` for each of these columns that is compared. The others depend on those.
    is_compared: Vec<bool>,
    /// `true` if a compared column may be NULL.
    is_nullable: bool,
    domain: Arc<LogicalPlan>,
}

impl<'a> Unnesting<'a> {
    /// Creates the domain of the columns `outer` of `rows`.
    ///
    /// # Errors
    /// Returns an error if the rows would be others when they are computed again, or if their plan, which the join repeats, is too
    /// large.
    pub fn try_new(names: &'a Names, outer: OuterColumns, rows: Arc<LogicalPlan>) -> Result<Self> {
        if may_differ(&rows)? {
            return plan_err!(
                "a subquery refers to columns of a query with volatile functions, such as random(), or with LIMIT but no ORDER BY; store \
                 its rows with CREATE TABLE AS"
            );
        }
        names.check(&rows)?;
        let rows = with_correct_keys(Arc::unwrap_or_clone(rows))?.data;
        let (outer, is_compared) = with_keys(outer, rows.schema());
        let has_scalars = has_scalar_subqueries(&rows)?;
        let mut is_nullable = false;
        let (mut groups, mut values, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for ((known, column), is_compared) in outer.iter().zip(&is_compared) {
            let name = names.next("outer");
            let value = Expr::Column(column.clone());
            match is_compared {
                true => groups.push(value.alias(&name)),
                false => values.push(max(value).alias(&name)),
            }
            columns.push(Expr::Column(Column::new_unqualified(name)));
            // The field of a reference may be that of a column before an outer join or grouping set, and a scalar subquery without
            // rows is NULL.
            let (_, field) = rows.schema().qualified_field_from_column(column)?;
            let is_null = has_scalars || known.is_nullable() || field.is_nullable();
            is_nullable |= *is_compared && is_null;
        }
        let domain = Aggregate::try_new(Arc::new(rows), groups, values)?;
        let domain = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(domain)))?;
        Ok(Self {
            names,
            outer,
            is_compared,
            is_nullable,
            domain: Arc::new(LogicalPlan::Projection(domain)),
        })
    }

    /// Returns new names of the columns of the domain.
    pub fn new_names(&self) -> Vec<String> {
        let columns = self.outer.iter();
        columns.map(|_| self.names.next("outer")).collect()
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
        let operator = match self.is_nullable {
            true => Operator::IsNotDistinctFrom,
            false => Operator::Eq,
        };
        let all = domain.iter().cloned().zip(others).zip(&self.is_compared);
        let all = all.filter(|(_, is_compared)| **is_compared);
        let all =
            all.map(|((column, other), _)| binary_expr(Expr::Column(column), operator, other));
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

/// Adds the columns of a key for each column of floating-point numbers that depends on it, and returns which columns are compared. Sums
/// and averages may differ in their last digits when they are computed again.
fn with_keys(mut outer: OuterColumns, schema: &DFSchema) -> (OuterColumns, Vec<bool>) {
    let mut is_compared = vec![true; outer.len()];
    for index in 0..is_compared.len() {
        let column = &outer[index].1;
        let Some(found) = schema.maybe_index_of_column(column) else {
            continue;
        };
        if !schema.field(found).data_type().is_floating() {
            continue;
        }
        let mut keys = schema.functional_dependencies().iter();
        let key = keys.find(|key| {
            let mut source = key.source_indices.iter();
            key.target_indices.contains(&found)
                && source.all(|index| !schema.field(*index).data_type().is_floating())
        });
        let Some(key) = key else {
            continue;
        };
        is_compared[index] = false;
        for source in &key.source_indices {
            let (table, field) = schema.qualified_field(*source);
            let column = Column::from((table, field));
            match outer.iter().position(|(_, other)| *other == column) {
                Some(index) => is_compared[index] = true,
                None => {
                    outer.push((Arc::clone(field), column));
                    is_compared.push(true);
                }
            }
        }
    }
    (outer, is_compared)
}

fn has_scalar_subqueries(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let mut has_any = false;
        node.apply_expressions(|expression| {
            has_any |= expression.exists(|one| Ok(matches!(one, Expr::ScalarSubquery(_))))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(has_any)
    })
}

/// Returns `true` if the rows of a plan may be others when they are computed again.
fn may_differ(plan: &LogicalPlan) -> Result<bool> {
    let mut may_differ = plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::Limit(limit) if !is_ordered(&limit.input)))
    })?;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            may_differ |= expression.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match may_differ {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(may_differ)
}

fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => is_ordered(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_ordered(&alias.input),
        _ => false,
    }
}
