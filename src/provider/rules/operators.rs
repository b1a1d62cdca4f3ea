//! Physical rules that replace single operators.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// Returns the replacement of an operator, or `None` if the operator stays as it is.
pub(crate) type Replacement = fn(&Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>>;

/// A rule that visits the operators of a plan from the leaves up and replaces some of them.
pub(crate) struct ReplaceOperators {
    /// The name of the rule.
    pub name: &'static str,
    /// Returns the replacement of an operator, or `None` if the operator stays as it is.
    pub replacement: Replacement,
}

impl Debug for ReplaceOperators {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PhysicalOptimizerRule for ReplaceOperators {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        replace_operators(plan, self.replacement)
    }
}

/// Visits the operators of a plan from the leaves up, and replaces those for which `replacement` returns
/// another one.
pub(crate) fn replace_operators(
    plan: Arc<dyn ExecutionPlan>,
    replacement: impl Fn(&Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|operator| {
        Ok(match replacement(&operator)? {
            Some(replacement) => Transformed::yes(replacement),
            None => Transformed::no(operator),
        })
    });
    Ok(plan?.data)
}
