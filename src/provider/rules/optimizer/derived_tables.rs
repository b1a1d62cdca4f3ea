//! Keys of the tables in FROM.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::provider::rules::optimizer::group_keys::with_correct_keys;

thread_local! {
    /// `true` if DataFusion plans the next table for [`DerivedTables`].
    static IS_PLANNED: Cell<bool> = const { Cell::new(false) };
}

/// A relation planner that corrects the keys of derived tables and of the queries of WITH.
///
/// DataFusion's planner adds the columns that a key determines to GROUP BY, so that no later rule could tell them from those of the query.
#[derive(Debug)]
pub(crate) struct DerivedTables;

impl DerivedTables {
    /// Adds the planner to those of a session, unless it is among them.
    pub fn add_to(planners: &mut Vec<Arc<dyn RelationPlanner>>) {
        let name = format!("{Self:?}");
        if !planners.iter().any(|other| format!("{other:?}") == name) {
            planners.push(Arc::new(Self));
        }
    }
}

impl RelationPlanner for DerivedTables {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let is_query = matches!(
            relation,
            TableFactor::Derived { .. } | TableFactor::Table { args: None, .. }
        );
        if !is_query || IS_PLANNED.replace(false) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        IS_PLANNED.set(true);
        let plan = context.plan(relation);
        IS_PLANNED.set(false);
        let plan = with_correct_keys(plan?)?.data;
        let planned = PlannedRelation::new(plan, None);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}
