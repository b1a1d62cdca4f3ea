//! The rule that replaces hash joins and nested-loop joins by lookup joins.

pub(in crate::provider) mod extension;
pub(super) mod joined;
mod keyed_scan;
mod stacked;

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinOn;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::join::lookup::build::{BuildKeys, KeyBounds, Matching};
use crate::provider::join::lookup::conditions::Conditions;
use crate::provider::join::lookup::keys::{KeyedCells, ProbeKeys};
use crate::provider::join::lookup::operator::{ArrayLookupJoinExec, LookupSpec};
use crate::provider::join::lookup::probe::JoinOutput;
use crate::provider::join::lookup::rule::joined::{Joined, UsedColumns};
use crate::provider::join::lookup::rule::keyed_scan::{KeyedScan, ScanFilter};
use crate::provider::join::side::Side;
use crate::provider::plans::below::{InlinedInput, columns_in, replace_columns};
use crate::provider::rules::operators::replace_operators;

/// The maximum number of key indices per cell of a build side that keeps its cells by key index.
const MAX_PER_CELL: u64 = 4;

/// Replaces joins by [`ArrayLookupJoinExec`]: hash joins whose probe side is an array in one or several files and whose keys
/// are expressions over its dimensions, and nested-loop joins with conditions over dimensions of an
/// array and columns of the other input.
///
/// The rule leaves a join unchanged if
///
/// - the probe side is not the scan of an array or of arrays in several files, with filters and
///   projections, or has the column `file`,
/// - a condition other than an equality is on the dimensions of arrays in several files,
/// - a key uses an attribute of the array or is volatile, or there are too many distinct keys,
/// - a join other than an inner join has a condition over attributes, or one that may fail on rows
///   that do not match, or
/// - the join is a mark join, is null-aware or has a limit, or treats NULL keys as equal and has some on the array.
///
/// [`enable_arrays`](crate::enable_arrays) adds the rule after
/// [`ZipJoins`](crate::provider::join::zip::ZipJoins).
#[derive(Debug, Default)]
pub struct LookupJoins {}

impl LookupJoins {
    /// Creates the rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for LookupJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !ArraySettings::is_on(config, |settings| settings.lookup_joins) {
            return Ok(plan);
        }
        replace_operators(plan, |plan| match plan.is::<ProjectionExec>() {
            true => narrow(plan, config),
            false => Ok(in_session(plan, config)?.map(|operator| Arc::new(operator) as _)),
        })
    }

    fn name(&self) -> &str {
        "lookup_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the operator that replaces a join, with a dynamic filter if the session has them for joins.
fn in_session(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<ArrayLookupJoinExec>> {
    let wants_filter = config.optimizer.enable_join_dynamic_filter_pushdown;
    operator(plan, config, wants_filter)
}

/// Returns the operator that replaces a join; `None` if the join stays unchanged. If `wants_filter`
/// is `true`, a dynamic filter prunes chunks of the probe side where possible.
pub(crate) fn operator(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
    wants_filter: bool,
) -> Result<Option<ArrayLookupJoinExec>> {
    let Some(join) = Joined::of(plan)? else {
        return Ok(None);
    };
    if let Some(operator) = operator_of(&join, config, wants_filter)? {
        return Ok(Some(operator));
    }
    match join.swapped()? {
        Some(swapped) => operator_of(&swapped, config, wants_filter),
        None => Ok(None),
    }
}

/// Returns the operator that replaces a join whose right input is an array.
fn operator_of(
    join: &Joined,
    config: &ConfigOptions,
    wants_filter: bool,
) -> Result<Option<ArrayLookupJoinExec>> {
    let Some(probe) = Side::of_files(&join.right)? else {
        return stacked::operator(join, config, wants_filter);
    };
    let (build_schema, table) = (join.left.schema(), probe.below.node.source().schema());
    let mut on = Vec::with_capacity(join.on.len());
    for (build, key) in &join.on {
        let key = replace_columns(key, &|number| probe.below.columns.get(number).cloned())?;
        if build.data_type(&build_schema)? != key.data_type(table)? {
            return Ok(None);
        }
        on.push((Arc::clone(build), key));
    }
    let mut keys: Vec<_> = on.iter().map(|(_, key)| Arc::clone(key)).collect();
    let (mut conditions, mut keys_of_cells, mut keyed_build) = (None, None, None);
    let mut filter = join.filter.clone();
    if let Some(prepared) = Conditions::try_new(join, &on, &probe)? {
        let axes = prepared.axes();
        let axes = axes.map(|axis| Arc::new(Column::new(axis.field.name(), axis.axis)) as _);
        keys = axes.collect();
        filter = join.filter_of(&prepared.residual)?;
        conditions = Some(prepared);
    } else {
        let is_taken = !on.is_empty() && (join.kind == JoinType::Inner || join.filter.is_none());
        let Some(of_cells) = is_taken
            .then(|| join.keys_of_cells(&keys, &probe.grids()))
            .transpose()?
            .flatten()
        else {
            return Ok(None);
        };
        keyed_build = KeyedBuild::try_new(join, &on, &of_cells)?;
        keys_of_cells = Some(of_cells);
    }

    let mut used = UsedColumns::of(join, filter.as_ref());
    let mut narrow = |side: JoinSide| {
        let needed = used.needed(side);
        used.renumber(side, &needed);
        needed
    };
    let needed = narrow(JoinSide::Right);
    let needed_build = keyed_build.as_ref().map(|_| narrow(JoinSide::Left));

    let (mut bounds, mut is_filtered) = (None, false);
    if join.drops_unmatched_cells() {
        match &keyed_build {
            Some(build) => {
                let values = &build.cells.values;
                let of_keys =
                    KeyBounds::new(values.iter().map(|values| (Arc::clone(values), true)))?;
                bounds = Some(of_keys.predicate(&keys, table)?);
            }
            None => is_filtered = wants_filter,
        }
    }
    let filtered_keys = is_filtered.then_some(keys.as_slice());
    let terms = match (&conditions, &keys_of_cells) {
        (Some(conditions), _) => vec![conditions.terms(probe.part.grid.axes())],
        (None, Some(keys)) => keys.terms(),
        (None, None) => return Ok(None),
    };
    let scan = KeyedScan::try_new(&probe, terms, &needed, bounds, filtered_keys, config)?;
    let Some(scan) = scan else {
        return Ok(None);
    };
    let input = scan.plan(&probe, &join.right.schema(), &needed)?;
    let mut build = Arc::clone(&join.left);
    let of_build = on.iter().map(|(build, _)| Arc::clone(build));
    let mut build_keys = BuildKeys::Expressions(of_build.collect());
    if let (Some(keyed), Some(needed)) = (keyed_build, needed_build) {
        let count = keys_of_cells.as_ref().map_or(0, |keys| keys.count);
        build_keys = keyed.keys(needed.len(), count);
        let terms = vec![keyed.cells.terms];
        let scan = KeyedScan::try_new(&keyed.side, terms, &needed, None, None, config)?;
        let Some(scan) = scan else {
            return Ok(None);
        };
        build = scan.plan(&keyed.side, &join.left.schema(), &needed)?;
    }
    let matching = match (conditions, keys_of_cells) {
        (Some(conditions), _) => Matching::Conditions(Arc::new(conditions)),
        (None, Some(keys)) => Matching::Keys(keys, build_keys),
        (None, None) => return Ok(None),
    };
    let (filtered, dynamic_filter) = scan.filter.map(ScanFilter::into_parts).unzip();
    let spec = LookupSpec {
        output: Arc::new(JoinOutput {
            join_type: join.kind,
            filter: used.filter(filter.as_ref()),
            columns: used.output,
            key_index: needed.len(),
        }),
        matching: Arc::new(matching),
        on,
        filtered,
        build_groups: Vec::new(),
        schema: join.plan.schema(),
        replaced: Arc::clone(&join.plan),
    };
    let inputs = [build, input];
    Ok(Some(ArrayLookupJoinExec::new(
        inputs,
        Arc::new(spec),
        dynamic_filter,
    )))
}

/// Narrows the lookup join below a projection to the columns that the projection uses. Returns
/// `None` if there is no such join or if all of its columns are used.
fn narrow(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(below) = InlinedInput::of(plan)? else {
        return Ok(None);
    };
    let Some(join) = below.node.downcast_ref::<ArrayLookupJoinExec>() else {
        return Ok(None);
    };
    let mut used = columns_in(below.columns.iter().chain(&below.conjuncts));
    if used.is_empty() {
        // DataFusion's codec does not distinguish an empty projection from none.
        used.push(0);
    }
    if used.len() == join.schema().fields().len() {
        return Ok(None);
    }
    let Some(replaced) = Joined::of(join.replaced())? else {
        return Ok(None);
    };
    let replaced = replaced.with_projection(used.clone())?;
    let Some(join) = in_session(&replaced, config)? else {
        return Ok(None);
    };
    below
        .over_narrowed(Arc::new(join), &used, &plan.schema())
        .map(Some)
}

/// A build side that is an array, joined on expressions over its dimensions.
struct KeyedBuild {
    side: Side,
    cells: KeyedCells,
}

impl KeyedBuild {
    fn try_new(join: &Joined, on: &JoinOn, keys: &ProbeKeys) -> Result<Option<Self>> {
        let Some(side) = Side::of(&join.left)? else {
            return Ok(None);
        };
        let of_table = on.iter().map(|(key, _)| {
            replace_columns(key, &|number| side.below.columns.get(number).cloned())
        });
        let of_table = of_table.collect::<Result<Vec<_>>>()?;
        let evaluated = keys.terms_of(&of_table, &side.part)?;
        Ok(evaluated.map(|cells| Self { side, cells }))
    }

    /// Returns the source of the build side's keys, given the column with the key indices and their
    /// number.
    fn keys(&self, column: usize, count: usize) -> BuildKeys {
        let cells = self.side.part.selection.count();
        let is_dense = cells.is_some_and(|cells| count as u64 / MAX_PER_CELL <= cells);
        match self.cells.is_distinct && is_dense {
            true => BuildKeys::DistinctKeyIndex(column),
            false => BuildKeys::KeyIndex(column),
        }
    }
}
