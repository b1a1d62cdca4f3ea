//! The order of the rules that [`enable_arrays`](crate::enable_arrays) adds to a session.
//!
//! ```text
//! analyzer     AddedGroups, ExpressionRewrites, ResultAttributes,
//!              CountedSetOperations, ResolveNearest, RowSubqueries      as written, types unknown
//!              DataFusion's rules
//!              OuterUnions, EqualZeros, CorrelatedSubqueries,
//!              NullAwareInSubqueries, CombinedInLists, EqualZeros, ComputedKeys,
//!              WrittenTypes, BoundedFunctions, ChangedRows              types are coerced
//!
//! logical      KeptKeys                in the place of eliminate_cross_join
//!              NullSafeKeys            in the place of extract_equijoin_predicate
//!              KeptFilters             in the place of push_down_filter
//!              CorrectKeys             in the places of the rules that use keys
//!              BalancedConjunctions    after push_down_filter
//!              IndependentLaterals     before decorrelate_lateral_join
//!              ExpandedValues, SingleRowGroups, SimplifiedSortKeys,
//!              AgreedNullability                                        after all others
//!
//! physical     InexactFloatBounds      before any rule that uses statistics
//!              ...
//!              join_selection
//!              ArrayProbeSides         corrects the sides that join_selection chose
//!              ...
//!              GroupingSets            before properties of groups are used
//!              ZipJoins                before repartitioning hides scans below joins
//!              WholePartitions         makes lookup joins of windows
//!              LookupJoins             joins that are not zipped
//!              AxisWindows             before their inputs are sorted and repartitioned
//!              ArrayAggregates         over scans and over zipped joins
//!              SingleStageAggregates   aggregates that ArrayAggregates left to DataFusion
//!              EnsureRequirements
//!              ...                     FilterPushdown takes the place of DataFusion's, in both phases
//!              SortedScans, SharedReads, MergedLimits, OrderedDistinct, SpillLongLimits,
//!              RestartBuildSides, SliceBatches, NullOrderKeys, ReserveKeptRows            on the finished plan
//!              DistributedScans        divides the finished plan among workers (feature `cluster`)
//! ```

use std::sync::Arc;

use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
#[cfg(feature = "sql")]
use datafusion::{common::Result, execution::SessionState, logical_expr::LogicalPlan};

use crate::provider::aggregate::ArrayAggregates;
use crate::provider::attributes::ResultAttributes;
#[cfg(feature = "cluster")]
use crate::provider::cluster::DistributedScans;
use crate::provider::join::lookup::LookupJoins;
use crate::provider::join::zip::ZipJoins;
#[cfg(feature = "parquet")]
use crate::provider::parquet::INEXACT_FLOAT_BOUNDS;
use crate::provider::rules::analysis::{ExpressionRewrites, ResolveNearest};
use crate::provider::rules::batch_slices::SLICE_BATCHES;
use crate::provider::rules::filter_pushdown::FilterPushdown;
use crate::provider::rules::grouping_sets::GROUPING_SETS;
use crate::provider::rules::limits::{MERGED_LIMITS, ORDERED_DISTINCT, SPILL_LONG_LIMITS};
use crate::provider::rules::logic::{
    CombinedInLists, ComputedKeys, CorrelatedSubqueries, CountedSetOperations, EqualZeros,
    NullAwareInSubqueries, OuterUnions, RowSubqueries, WrittenTypes,
};
use crate::provider::rules::nested_loops::RESTART_BUILD_SIDES;
use crate::provider::rules::optimizer::{
    AddedGroups, AgreedNullability, BalancedConjunctions, CorrectKeys, ExpandedValues,
    IndependentLaterals, KeptFilters, KeptKeys, NullSafeKeys, SimplifiedSortKeys, SingleRowGroups,
};
use crate::provider::rules::probe_sides::ArrayProbeSides;
use crate::provider::rules::shared_reads::SharedReads;
use crate::provider::rules::single_stage::SINGLE_STAGE;
use crate::provider::rules::sorted_scans::SortedScans;
use crate::provider::rules::windows::kept_rows::RESERVE_KEPT_ROWS;
use crate::provider::rules::windows::null_order_keys::NULL_ORDER_KEYS;
use crate::provider::window::AxisWindows;
use crate::provider::window::plan::whole_partitions::WholePartitions;

/// DataFusion's rule that repartitions and sorts.
const REQUIREMENTS: &str = "EnsureRequirements";
/// DataFusion's rule that moves filters towards the tables.
const PUSH_DOWN_FILTER: &str = "push_down_filter";
/// DataFusion's rule that turns LATERAL subqueries into joins.
const DECORRELATE_LATERAL: &str = "decorrelate_lateral_join";
/// DataFusion's rule that chooses the sides of joins.
const JOIN_SELECTION: &str = "join_selection";

type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The index at which a physical rule is added.
enum Position {
    #[cfg(feature = "parquet")]
    First,
    /// Before a rule of DataFusion, or last in a session without that rule.
    Before(&'static str),
    /// After a rule of DataFusion. A session without that rule does not need the added one.
    After(&'static str),
    Last,
}

/// Adds the physical rules that a session does not have yet.
pub(crate) fn add_physical_rules(rules: &mut Vec<PhysicalRule>) {
    use Position::{After, Before, Last};
    let added: Vec<(Position, PhysicalRule)> = vec![
        #[cfg(feature = "parquet")]
        (Position::First, Arc::new(INEXACT_FLOAT_BOUNDS)),
        (After(JOIN_SELECTION), Arc::new(ArrayProbeSides::new())),
        (Before(REQUIREMENTS), Arc::new(GROUPING_SETS)),
        (Before(REQUIREMENTS), Arc::new(ZipJoins::new())),
        (Before(REQUIREMENTS), Arc::new(WholePartitions)),
        (Before(REQUIREMENTS), Arc::new(LookupJoins::new())),
        (Before(REQUIREMENTS), Arc::new(AxisWindows::new())),
        (Before(REQUIREMENTS), Arc::new(ArrayAggregates::new())),
        (Before(REQUIREMENTS), Arc::new(SINGLE_STAGE)),
        (Last, Arc::new(SortedScans)),
        (Last, Arc::new(SharedReads)),
        (Last, Arc::new(MERGED_LIMITS)),
        (Last, Arc::new(ORDERED_DISTINCT)),
        (Last, Arc::new(SPILL_LONG_LIMITS)),
        (Last, Arc::new(RESTART_BUILD_SIDES)),
        (Last, Arc::new(SLICE_BATCHES)),
        (Last, Arc::new(NULL_ORDER_KEYS)),
        (Last, Arc::new(RESERVE_KEPT_ROWS)),
        #[cfg(feature = "cluster")]
        (Last, Arc::new(DistributedScans::new())),
    ];
    for (position, rule) in added {
        if rules.iter().any(|other| other.name() == rule.name()) {
            continue;
        }
        let index_of = |name: &str| rules.iter().position(|rule| rule.name() == name);
        let index = match position {
            #[cfg(feature = "parquet")]
            Position::First => Some(0),
            Before(name) => Some(index_of(name).unwrap_or(rules.len())),
            After(name) => index_of(name).map(|index| index + 1),
            Last => Some(rules.len()),
        };
        if let Some(index) = index {
            rules.insert(index, rule);
        }
    }
    FilterPushdown::replace_in(rules);
}

/// Adds the optimizer rules that a session does not have yet. [`BalancedConjunctions`] follows the rule
/// that makes long chains of AND, and [`IndependentLaterals`] precedes the one that needs subqueries with references. The
/// last rules see the expressions that will be executed.
pub(crate) fn add_optimizer_rules(optimizer: &mut Optimizer) {
    let rules = &mut optimizer.rules;
    let replacements: [Arc<dyn OptimizerRule + Send + Sync>; 3] = [
        Arc::new(KeptKeys::default()),
        Arc::new(NullSafeKeys::default()),
        Arc::new(KeptFilters::default()),
    ];
    let corrected = CorrectKeys::all().map(|rule| Arc::new(rule) as _);
    for replacement in replacements.into_iter().chain(corrected) {
        let rule = rules
            .iter_mut()
            .find(|rule| rule.name() == replacement.name());
        if let Some(rule) = rule {
            *rule = replacement;
        }
    }
    let index_of = |name: &str| rules.iter().position(|rule| rule.name() == name);
    if let Some(index) = index_of(PUSH_DOWN_FILTER)
        && index_of(BalancedConjunctions.name()).is_none()
    {
        rules.insert(index + 1, Arc::new(BalancedConjunctions));
    }
    let last: [Arc<dyn OptimizerRule + Send + Sync>; 4] = [
        Arc::new(ExpandedValues),
        Arc::new(SingleRowGroups),
        Arc::new(SimplifiedSortKeys),
        Arc::new(AgreedNullability),
    ];
    for rule in last {
        if !rules.iter().any(|other| other.name() == rule.name()) {
            rules.push(rule);
        }
    }
    let index_of = |name: &str| rules.iter().position(|rule| rule.name() == name);
    if let Some(index) = index_of(DECORRELATE_LATERAL)
        && index_of(IndependentLaterals.name()).is_none()
    {
        rules.insert(index, Arc::new(IndependentLaterals));
    }
}

/// Adds the analyzer rules that a session does not have yet.
pub(crate) fn add_analyzer_rules(analyzer: &mut Analyzer) {
    let rules = &mut analyzer.rules;
    if !rules
        .iter()
        .any(|rule| rule.name() == ResultAttributes.name())
    {
        let first: [Arc<dyn AnalyzerRule + Send + Sync>; 6] = [
            Arc::new(AddedGroups),
            Arc::new(ExpressionRewrites),
            Arc::new(ResultAttributes),
            Arc::new(CountedSetOperations),
            Arc::new(ResolveNearest),
            Arc::new(RowSubqueries),
        ];
        rules.splice(0..0, first);
        rules.push(Arc::new(OuterUnions));
        rules.push(Arc::new(EqualZeros));
        rules.push(Arc::new(CorrelatedSubqueries));
        rules.push(Arc::new(NullAwareInSubqueries));
        rules.push(Arc::new(CombinedInLists));
        // Also in the lists that the last rule has made.
        rules.push(Arc::new(EqualZeros));
        rules.push(Arc::new(ComputedKeys));
        rules.push(Arc::new(WrittenTypes));
    }
}

/// Applies the rules that expect a plan as written to a plan whose types DataFusion coerces before the analyzer runs. The
/// attributes of results ([`ResultAttributes`]) are found later, too.
#[cfg(feature = "sql")]
pub(crate) fn analyze_as_written(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let names = [
        ExpressionRewrites.name(),
        CountedSetOperations.name(),
        ResolveNearest.name(),
        RowSubqueries.name(),
    ];
    let rules = state.analyzer().rules.iter();
    let mut rules = rules.filter(|rule| names.contains(&rule.name()));
    rules.try_fold(plan, |plan, rule| {
        rule.analyze(plan, state.config_options())
    })
}

#[cfg(test)]
mod tests {
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    use super::*;

    #[test]
    fn datafusion_has_the_rules_that_ours_stand_beside() {
        let mut rules = PhysicalOptimizer::new().rules;
        add_physical_rules(&mut rules);
        let count = rules.len();
        add_physical_rules(&mut rules);
        assert_eq!(rules.len(), count);
        let index = |name: &str| rules.iter().position(|rule| rule.name() == name).unwrap();
        assert_eq!(index(ArrayProbeSides::NAME), index(JOIN_SELECTION) + 1);
        assert_eq!(
            index(ArrayAggregates::new().name()) + 2,
            index(REQUIREMENTS)
        );
        let names = rules
            .iter()
            .filter(|rule| rule.name().starts_with("FilterPushdown"));
        assert_eq!(names.count(), 2);
        let mut optimizer = Optimizer::new();
        let count = optimizer.rules.len();
        add_optimizer_rules(&mut optimizer);
        add_optimizer_rules(&mut optimizer);
        assert_eq!(optimizer.rules.len(), count + 6);
    }
}
