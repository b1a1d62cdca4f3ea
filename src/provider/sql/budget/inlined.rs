//! Measures a plan into which WITH queries and views have been inlined.

use std::collections::HashMap;
use std::rc::Rc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::provider::sql::budget::nodes::too_many_nodes;
use crate::provider::sql::budget::{GROWTH_PER_OPERATOR, Limits};

/// The stack that one node may need, and the size of a new stack segment when less is left.
const RED_ZONE: usize = 256 << 10;
const STACK_BYTES: usize = 4 << 20;

/// Checks the size of a plan, and the size of its predicates after computed columns are inlined.
///
/// The optimizer moves a predicate below a projection by replacing columns with their expressions.
/// In a chain of queries that each compute `x + x` from the previous one, every step doubles the
/// predicate.
///
/// # Errors
/// Fails if a limit is exceeded.
pub fn check_plan(plan: &LogicalPlan, limits: &Limits) -> Result<()> {
    let measure = Measure {
        limits,
        known: HashMap::new(),
    }
    .of(plan)?;
    match measure.nodes > limits.plan_nodes as u64 {
        true => too_many_nodes(limits.plan_nodes),
        false => Ok(()),
    }
}

/// Measures plans. Shared subtrees are visited once.
struct Measure<'a> {
    limits: &'a Limits,
    known: HashMap<usize, Measured>,
}

#[derive(Clone)]
struct Measured {
    /// The nodes of the plan, counted as a tree.
    nodes: u64,
    /// For each column, the number of nodes by which a predicate grows if the column is replaced by
    /// its expression; `None` if all are plain columns.
    growth: Option<Rc<[u64]>>,
}

impl Measure<'_> {
    fn of(&mut self, plan: &LogicalPlan) -> Result<Measured> {
        let address = std::ptr::from_ref(plan) as usize;
        if let Some(known) = self.known.get(&address) {
            return Ok(known.clone());
        }
        let inputs = plan.inputs();
        // The depth of a plan is bounded only by the number of its nodes.
        let measured = inputs
            .iter()
            .map(|input| stacker::maybe_grow(RED_ZONE, STACK_BYTES, || self.of(input)));
        let measured = measured.collect::<Result<Vec<_>>>()?;
        let mut nodes = 1u64;
        for input in &measured {
            nodes = nodes.saturating_add(input.nodes);
        }
        plan.apply_expressions(|expression| {
            expression.apply(|expression| {
                if let Some(subquery) = subquery(expression) {
                    nodes = nodes.saturating_add(self.of(subquery)?.nodes);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let below: Vec<_> = inputs.into_iter().zip(&measured).collect();
        self.check_conditions(plan, &below)?;
        let measured = Measured {
            nodes,
            growth: growth(plan, &below)?,
        };
        self.known.insert(address, measured.clone());
        Ok(measured)
    }

    fn check_conditions(
        &self,
        plan: &LogicalPlan,
        below: &[(&LogicalPlan, &Measured)],
    ) -> Result<()> {
        if !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
            return Ok(());
        }
        let limit = self.limits.expression_operators;
        let most = (limit as u64).saturating_mul(GROWTH_PER_OPERATOR);
        plan.apply_expressions(|condition| {
            if columns_growth(condition, below)? > most {
                return plan_err!(
                    "a filter or join condition of the statement has more than {most} operators once computed \
                     columns are inlined, {GROWTH_PER_OPERATOR} times tet.max_expression_operators; store \
                     intermediate columns with CREATE TABLE AS, or raise the setting"
                );
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }
}

fn subquery(expression: &Expr) -> Option<&LogicalPlan> {
    let subquery = match expression {
        Expr::ScalarSubquery(subquery) => subquery,
        Expr::Exists(exists) => &exists.subquery,
        Expr::InSubquery(list) => &list.subquery,
        Expr::SetComparison(comparison) => &comparison.subquery,
        _ => return None,
    };
    Some(&subquery.subquery)
}

/// The growth of each output column of a plan over these inputs.
fn growth(plan: &LogicalPlan, below: &[(&LogicalPlan, &Measured)]) -> Result<Option<Rc<[u64]>>> {
    let columns = plan.schema().fields().len();
    let expressions = match plan {
        LogicalPlan::Projection(projection) => &projection.expr,
        LogicalPlan::Aggregate(aggregate) => &aggregate.group_expr,
        _ => {
            // All other nodes pass columns on: a union the same columns of each input, other nodes
            // the columns of all inputs side by side.
            let mut all: Vec<u64> = below
                .iter()
                .flat_map(|(input, measured)| match &measured.growth {
                    Some(growth) => growth.to_vec(),
                    None => vec![0; input.schema().fields().len()],
                })
                .collect();
            if let LogicalPlan::Union(_) = plan {
                let largest = |column| all.iter().skip(column).step_by(columns.max(1)).max();
                all = (0..columns)
                    .map(|column| largest(column).copied().unwrap_or(0))
                    .collect();
            }
            all.resize(columns, 0);
            let is_plain = all.iter().all(|growth| *growth == 0);
            return Ok((!is_plain).then(|| all.into()));
        }
    };
    let mut all = Vec::with_capacity(columns);
    for expression in expressions {
        let mut own = 0u64;
        expression.apply(|expression| {
            own += u64::from(!matches!(expression, Expr::Alias(_)));
            Ok(TreeNodeRecursion::Continue)
        })?;
        let from_below = columns_growth(expression, below)?;
        all.push(from_below.saturating_add(own - 1));
    }
    // The result of an aggregate function is a plain column to the nodes above.
    all.resize(columns, 0);
    let is_plain = all.iter().all(|growth| *growth == 0);
    Ok((!is_plain).then(|| all.into()))
}

/// The total growth of the columns that an expression refers to.
fn columns_growth(expression: &Expr, below: &[(&LogicalPlan, &Measured)]) -> Result<u64> {
    let mut sum = 0u64;
    if below.iter().all(|(_, measured)| measured.growth.is_none()) {
        return Ok(sum);
    }
    expression.apply(|expression| {
        if let Expr::Column(column) = expression {
            for (input, measured) in below {
                if let Some(growth) = &measured.growth
                    && let Some(index) = input.schema().maybe_index_of_column(column)
                {
                    sum = sum.saturating_add(growth[index]);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(sum)
}
