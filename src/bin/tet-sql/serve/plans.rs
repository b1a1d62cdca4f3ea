//! Logical plans that are used again.
//!
//! A driver prepares a statement, asks for the schema of its result and then for the result. Each of these requests needs the plan,
//! which depends on the text alone: files are opened when the server starts, and no client changes anything.

use crate::serve::statement::Statement;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The number of plans that are kept.
const PLANS: usize = 64;
/// The longest text of a statement whose plan is kept.
const LONGEST: usize = 2048;
/// The most operators, columns and expressions of a plan that is kept.
const MOST_PARTS: usize = 2000;

/// The plans that were used last.
#[derive(Debug, Default)]
pub struct Plans(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Each with the time when it was used.
    plans: HashMap<String, (Statement, u64)>,
    time: u64,
}

impl Plans {
    /// Returns `true` if the plan of a statement may be among those that are kept.
    pub fn may_have(sql: &str) -> bool {
        sql.len() <= LONGEST
    }

    /// The plan of a statement, if it is kept.
    pub fn get(&self, sql: &str) -> Option<Statement> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.time += 1;
        let time = kept.time;
        let (statement, used) = kept.plans.get_mut(sql)?;
        *used = time;
        Some(statement.clone())
    }

    /// Keeps a plan in place of the one that has not been used for longest, unless the plan is large.
    pub fn keep(&self, sql: &str, statement: &Statement) {
        if !Self::may_have(sql) || !is_small(statement.logical_plan()) {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.plans.len() >= PLANS && !kept.plans.contains_key(sql) {
            let oldest = kept.plans.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(sql, _)| sql.clone()) {
                kept.plans.remove(&oldest);
            }
        }
        kept.time += 1;
        let entry = (statement.clone(), kept.time);
        kept.plans.insert(sql.to_owned(), entry);
    }
}

fn is_small(plan: &LogicalPlan) -> bool {
    let mut parts = 0;
    let visited = plan.apply_with_subqueries(|plan| {
        parts += 1 + plan.schema().fields().len() + plan.expressions().len();
        Ok(match parts <= MOST_PARTS {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    });
    visited.is_ok() && parts <= MOST_PARTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn small_plans_are_kept_and_the_oldest_is_replaced() {
        let (context, plans) = (SessionContext::new(), Plans::default());
        let text = |number: usize| format!("SELECT {number}");
        for number in 0..=PLANS {
            // The first one stays in use.
            assert_eq!(plans.get(&text(0)).is_some(), number > 0);
            let statement = Statement::plan(&context, &text(number)).await.unwrap();
            plans.keep(&text(number), &statement);
        }
        for number in 0..=PLANS {
            assert_eq!(plans.get(&text(number)).is_some(), number != 1, "{number}");
        }
        let columns: Vec<_> = (0..MOST_PARTS).map(|number| number.to_string()).collect();
        let long = format!("SELECT {}", columns.join(", "));
        let statement = Statement::plan(&context, &long).await.unwrap();
        plans.keep("short", &statement);
        assert!(plans.get("short").is_none());
    }
}
