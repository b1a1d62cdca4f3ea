//! Keys of the tables in FROM.

use std::cell::RefCell;

use datafusion::common::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::provider::rules::optimizer::group_keys::with_correct_keys;

thread_local! {
    /// The table whose keys are corrected when DataFusion has planned it.
    static PLANNED: RefCell<Option<TableFactor>> = const { RefCell::new(None) };
}

/// A relation planner that corrects the keys of derived tables and of the queries of WITH.
///
/// DataFusion's planner adds the columns that a key determines to GROUP BY, so that no later rule could tell them from those of the query.
#[derive(Debug)]
pub(crate) struct DerivedTables;

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
        if !is_query || PLANNED.with_borrow(|planned| planned.as_ref() == Some(&relation)) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let outer = PLANNED.replace(Some(relation.clone()));
        let plan = context.plan(relation);
        PLANNED.set(outer);
        let plan = with_correct_keys(plan?)?.data;
        let planned = PlannedRelation::new(plan, None);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}
