//! Caches logical plans.
//!
//! A driver prepares a statement, asks for the schema of its result, and then for the result. Each
//! request needs the plan. The plan depends on the text alone, because tables are registered before
//! the server starts and clients change nothing.

use crate::execution::statement::Statement;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The maximum number of cached plans.
const PLANS: usize = 64;
/// The maximum length of the text of a cached statement, in bytes.
const LONGEST: usize = 2048;
/// The maximum number of operators, columns and expressions of a cached plan.
const MAX_PARTS: usize = 2000;

/// The most recently used plans.
#[derive(Debug, Default)]
pub struct Plans(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Each plan with the logical time of its last use.
    plans: HashMap<String, (Statement, u64)>,
    time: u64,
}

impl Plans {
    /// Returns `true` if the plan of a statement can be in the cache.
    pub fn may_have(sql: &str) -> bool {
        sql.len() <= LONGEST
    }

    /// Returns the plan of a statement from the cache.
    pub fn get(&self, sql: &str) -> Option<Statement> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.time += 1;
        let time = kept.time;
        let (statement, used) = kept.plans.get_mut(sql)?;
        *used = time;
        Some(statement.clone())
    }

    /// Adds a plan to the cache, replacing the least recently used one. Large plans are not cached.
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
        Ok(match parts <= MAX_PARTS {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    });
    visited.is_ok() && parts <= MAX_PARTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{DataFusionDialect, Session};
    use datafusion::prelude::SessionContext;
    use std::sync::Arc;

    #[tokio::test]
    async fn small_plans_are_kept_and_the_oldest_is_replaced() {
        let session = Session {
            context: SessionContext::new(),
            dialect: Arc::new(DataFusionDialect),
        };
        let plans = Plans::default();
        let text = |number: usize| format!("SELECT {number}");
        for number in 0..=PLANS {
            // The first plan stays in use.
            assert_eq!(plans.get(&text(0)).is_some(), number > 0);
            let statement = Statement::plan(&session, &text(number)).await.unwrap();
            plans.keep(&text(number), &statement);
        }
        for number in 0..=PLANS {
            assert_eq!(plans.get(&text(number)).is_some(), number != 1, "{number}");
        }
        let columns: Vec<_> = (0..MAX_PARTS).map(|number| number.to_string()).collect();
        let long = format!("SELECT {}", columns.join(", "));
        let statement = Statement::plan(&session, &long).await.unwrap();
        plans.keep("short", &statement);
        assert!(plans.get("short").is_none());
    }
}
