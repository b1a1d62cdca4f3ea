//! Lookup joins on top of each other: an array joined with a climatology, a mask and weights.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::config::ConfigOptions;

use crate::provider::join::lookup::build::{BuildKeys, Matching};
use crate::provider::join::lookup::key_index_grid::KEY_INDEX;
use crate::provider::join::lookup::operator::{ArrayLookupJoinExec, LookupSpec};
use crate::provider::join::lookup::probe::JoinOutput;
use crate::provider::join::lookup::rule::extension::{Extension, GridColumns};
use crate::provider::join::lookup::rule::joined::{Joined, UsedColumns};
use crate::provider::join::lookup::rule::keyed_scan::ScanFilter;

/// Returns the operator that replaces a join whose right input is a lookup join, perhaps below filters
/// and projections. `None` if the keys are not expressions over dimensions of the array at the bottom,
/// or if a join other than an inner join has a filter beside its keys.
///
/// The scan of the array adds the key index, and the joins in between pass it on.
pub(in crate::provider::join::lookup) fn operator(
    join: &Joined,
    config: &ConfigOptions,
    wants_filter: bool,
) -> Result<Option<ArrayLookupJoinExec>> {
    if join.on.is_empty() || (join.kind != JoinType::Inner && join.filter.is_some()) {
        return Ok(None);
    }
    let Some(columns) = GridColumns::of(&join.right)? else {
        return Ok(None);
    };
    let (of_build, keys): (Vec<_>, Vec<_>) = join.on.iter().cloned().unzip();
    let Some(keys) = columns.replace_in(&keys)? else {
        return Ok(None);
    };
    let schema = join.left.schema();
    for (build, key) in of_build.iter().zip(&keys) {
        if build.data_type(&schema)? != key.data_type(&columns.table)? {
            return Ok(None);
        }
    }
    let Some(of_cells) = join.keys_of_cells(&keys, &columns.grids)? else {
        return Ok(None);
    };

    let mut used = UsedColumns::of(join, join.filter.as_ref());
    let needed = used.needed(JoinSide::Right);
    let mut extension = Extension::new(KEY_INDEX, Some(of_cells.terms()));
    if wants_filter && join.drops_unmatched_cells() {
        extension.filtered_keys = &keys;
    }
    let Some((probe, kept)) = extension.of(&join.right, &needed, config)? else {
        return Ok(None);
    };
    used.renumber(JoinSide::Right, &kept);
    let (filtered, dynamic_filter) = extension.filter.map(ScanFilter::into_parts).unzip();
    let spec = LookupSpec {
        output: Arc::new(JoinOutput {
            join_type: join.kind,
            filter: used.filter(join.filter.as_ref()),
            columns: used.output,
            key_index: probe.schema().fields().len() - 1,
        }),
        matching: Arc::new(Matching::Keys(
            of_cells,
            BuildKeys::Expressions(of_build.clone()),
        )),
        on: of_build.into_iter().zip(keys).collect(),
        filtered,
        build_groups: Vec::new(),
        schema: join.plan.schema(),
        replaced: Arc::clone(&join.plan),
    };
    let inputs = [Arc::clone(&join.left), probe];
    Ok(Some(ArrayLookupJoinExec::new(
        inputs,
        Arc::new(spec),
        dynamic_filter,
    )))
}
