//! The optimizer rule that divides the parts of a plan that read arrays among workers.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::WorkerResolver;

use crate::provider::aggregate::ArrayJoinAggregateExec;
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::cluster::execution::ClusterExec;
use crate::provider::cluster::planning::stage::Divider;
use crate::provider::cluster::{FixedWorkers, parse_workers};
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::rules::pass_through::PassThroughExec;
use crate::provider::rules::windows::kept_rows::KeptRows;

/// Divides scans and aggregates of arrays among the workers of a cluster, if the session has one.
///
/// The rule is the last one. It leaves plans unchanged that read little, and keeps those parts of a plan
/// in this process that cannot be divided.
#[derive(Default)]
pub struct DistributedScans {
    workers: Option<Arc<dyn WorkerResolver>>,
}

impl std::fmt::Debug for DistributedScans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Self::NAME)
    }
}

impl DistributedScans {
    /// The name of the rule.
    pub(in crate::provider) const NAME: &'static str = "distributed_scans";

    /// Creates the rule for sessions whose setting `tet.cluster` lists the workers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the rule for these workers, unless the setting `tet.cluster` lists others.
    pub fn with_workers(workers: Arc<dyn WorkerResolver>) -> Self {
        Self {
            workers: Some(workers),
        }
    }
}

impl PhysicalOptimizerRule for DistributedScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let defaults = ArraySettings::default();
        let settings = config.extensions.get().unwrap_or(&defaults);
        let workers: Arc<dyn WorkerResolver> =
            match (parse_workers(&settings.cluster)?, &self.workers) {
                (urls, _) if !urls.is_empty() => Arc::new(FixedWorkers(urls)),
                (_, Some(workers)) => Arc::clone(workers),
                (_, None) => return Ok(plan),
            };
        let divider = Divider::new(workers, settings.cluster_task_size, config)?;
        distributed(plan, divider)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the plan with its stages on workers, or unchanged if it has none.
pub fn distributed(
    plan: Arc<dyn ExecutionPlan>,
    mut divider: Divider,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() {
        let input = distributed(Arc::clone(analyze.input()), divider)?;
        return replaced(&plan, vec![input]);
    }
    if let Some(root) = plan.downcast_ref::<ScalarSubqueryExec>() {
        let mut children = vec![distributed(
            Arc::clone(root.input()),
            divider.nested(Some(root.results().clone())),
        )?];
        for subquery in root.subqueries() {
            children.push(distributed(
                Arc::clone(&subquery.plan),
                divider.nested(None),
            )?);
        }
        return replaced(&plan, children);
    }
    let divided = walk(&plan, false, &mut divider)?;
    if divider.stages() == 0 {
        return Ok(plan);
    }
    let divided = match divided.output_partitioning().partition_count() {
        1 => divided,
        _ => Arc::new(CoalescePartitionsExec::new(divided)),
    };
    Ok(Arc::new(ClusterExec::new(
        divided,
        plan,
        Arc::clone(divider.resolver()),
        divider.workers(),
        divider.subqueries().cloned(),
    )))
}

/// Divides the parts of a plan that can be. `is_merged` is `true` if the parent merges all partitions.
fn walk(
    plan: &Arc<dyn ExecutionPlan>,
    is_merged: bool,
    divider: &mut Divider,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(divided) = divider.divide(plan, is_merged)? {
        return Ok(divided);
    }
    if let Some(join) = plan.downcast_ref::<ArrayLookupJoinExec>() {
        return walk_build_side(plan, join, divider);
    }
    if plan.is::<ArrayJoinAggregateExec>()
        && let [input] = plan.children()[..]
        && let Some(join) = input.downcast_ref::<ArrayLookupJoinExec>()
    {
        let walked = walk_build_side(input, join, divider)?;
        return match Arc::ptr_eq(&walked, input) {
            true => Ok(Arc::clone(plan)),
            false => replaced(plan, vec![walked]),
        };
    }
    if !runs_inputs_once(plan) {
        return Ok(Arc::clone(plan));
    }
    let merges = plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>();
    let before = divider.stages();
    let children = plan.children().into_iter();
    let children = children.map(|child| walk(child, merges, divider));
    let children = children.collect::<Result<Vec<_>>>()?;
    match divider.stages() == before {
        true => Ok(Arc::clone(plan)),
        false => replaced(plan, children),
    }
}

/// Divides the parts of the build side of a lookup join that runs in this process.
fn walk_build_side(
    plan: &Arc<dyn ExecutionPlan>,
    join: &ArrayLookupJoinExec,
    divider: &mut Divider,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [build, probe] = join.inputs();
    let walked = walk(build, true, divider)?;
    match Arc::ptr_eq(&walked, build) {
        true => Ok(Arc::clone(plan)),
        false => replaced(plan, vec![walked, Arc::clone(probe)]),
    }
}

/// Returns the plan with other children.
pub fn replaced(
    plan: &Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(children, options)
}

/// Returns `true` if an operator runs each partition of its inputs once. The rows of a stage arrive only
/// once. Other operators, such as recursive queries, keep their inputs in this process.
fn runs_inputs_once(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<AggregateExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<DataSinkExec>()
        || plan.is::<FilterExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<UnionExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<PassThroughExec<KeptRows>>()
}
