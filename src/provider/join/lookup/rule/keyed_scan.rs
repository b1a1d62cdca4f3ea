//! The scans of a lookup join, which compute key indices.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::provider::join::lookup::key_index_grid::{KEY_INDEX, table_with_terms};
use crate::provider::join::lookup::keys::KeyTerms;
use crate::provider::join::side::Side;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::plans::below::{columns_in, replace_columns};
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::scan::{ArrayScan, ScanPlan, SelectArguments};
use crate::provider::source::SelectedBlocks;

/// A dynamic filter of a scan.
pub(in crate::provider::join::lookup) struct ScanFilter {
    /// The expressions that the filter restricts, over the columns of the scan.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The schema of the scan.
    schema: SchemaRef,
    filter: Arc<DynamicFilterPhysicalExpr>,
}

impl ScanFilter {
    /// Adds a dynamic filter to a scan. `keys` are expressions over the columns of the scan's table.
    /// The scan is unchanged, and there is no filter, if the scan cannot use one.
    pub fn add_to(
        scan: ArrayScan,
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> Result<(ArrayScan, Option<Self>)> {
        let columns = &scan.plan().projection;
        let table = scan.source().schema();
        let keys = keys.iter().map(|key| over_scan(key, columns, table));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(keys.clone(), lit(true)));
        let offered: Arc<dyn PhysicalExpr> = Arc::clone(&filter) as _;
        let Some((filtered, _)) = scan.with_filters(&[offered]) else {
            return Ok((scan, None));
        };
        let schema = Arc::clone(filtered.schema());
        let added = Self {
            keys,
            schema,
            filter,
        };
        Ok((filtered, Some(added)))
    }

    /// Returns the expressions with the schema of the scan, and the filter.
    pub fn into_parts(self) -> (FilteredKeys, Arc<DynamicFilterPhysicalExpr>) {
        ((self.keys, self.schema), self.filter)
    }
}

/// The expressions that a dynamic filter restricts, over the columns of a scan, and the schema of the
/// scan.
type FilteredKeys = (Vec<Arc<dyn PhysicalExpr>>, SchemaRef);

/// Rewrites an expression over a table for a scan of some of its columns.
pub(super) fn over_scan(
    expr: &Arc<dyn PhysicalExpr>,
    columns: &[usize],
    table: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    replace_columns(expr, &|number| {
        let index = columns.iter().position(|column| *column == number)?;
        Some(Arc::new(Column::new(table.field(number).name(), index)))
    })
}

/// The scan of an array on either side of a join, with the key index as its last column.
pub(super) struct KeyedScan {
    scan: ArrayScan,
    pub filter: Option<ScanFilter>,
}

impl KeyedScan {
    /// Creates the scan that replaces the scan of `side`; `None` if its table cannot be extended.
    /// `terms` are the terms of each grid. `needed` are the columns of the side's
    /// plan that the join uses. `bounds` is a predicate over the table that narrows the selection,
    /// and `filtered_keys` are the keys over the table that a dynamic filter restricts.
    pub fn try_new(
        side: &Side,
        terms: Vec<Vec<KeyTerms>>,
        needed: &[usize],
        bounds: Option<Arc<dyn PhysicalExpr>>,
        filtered_keys: Option<&[Arc<dyn PhysicalExpr>]>,
        config: &ConfigOptions,
    ) -> Result<Option<Self>> {
        let table = side.below.node.source();
        let Some(source) = table_with_terms(table, &side.grids(), KEY_INDEX, terms)? else {
            return Ok(None);
        };
        let key_index = source.schema().fields().len() - 1;

        let old = side.below.node.plan();
        let output = needed.iter().map(|column| &side.below.columns[*column]);
        let mut projection = columns_in(output);
        if let Some(keys) = filtered_keys {
            projection.extend(columns_in(keys.iter()));
            projection.sort_unstable();
            projection.dedup();
        }
        projection.push(key_index);
        let mut read = projection.clone();
        for column in columns_in(side.below.conjuncts.iter()) {
            if !read.contains(&column) {
                read.push(column);
            }
        }
        let mut selected = read.clone();
        selected.sort_unstable();
        let selected_by = SelectArguments {
            filters: old
                .selected_by
                .filters
                .iter()
                .cloned()
                .chain(bounds)
                .collect(),
            columns: selected,
        };
        let SelectedBlocks { blocks, kept, .. } =
            source.select(&selected_by.filters, &selected_by.columns, &old.options)?;
        let plan = ScanPlan {
            columns: read.clone(),
            projection: read.clone(),
            filter: None,
            dynamic_filter: None,
            fetch: None,
            partitions: Vec::new(),
            ordering: Vec::new(),
            keeps_partitions: false,
            options: old.options,
            selected_by,
        };
        let conjuncts = side.below.conjuncts.iter();
        let predicate = conjunction_opt(conjuncts.clone().cloned());
        let mut scan = ArrayScan::of_blocks(
            Arc::clone(&source),
            PlannedBlocks::new(blocks, kept.map_or(BlockOrder::All, BlockOrder::Ascending)),
            predicate.as_ref(),
            plan,
            config,
        )?;
        let filters = conjuncts.map(|conjunct| over_scan(conjunct, &read, source.schema()));
        let filters = filters.collect::<Result<Vec<_>>>()?;
        if let Some((filtered, _)) = scan.with_filters(&filters) {
            scan = filtered;
        }
        if let Some(narrow) = scan.with_projection(projection.clone())? {
            scan = narrow.recut(config);
        }
        let mut filter = None;
        if let Some(keys) = filtered_keys {
            (scan, filter) = ScanFilter::add_to(scan, keys)?;
        }
        Ok(Some(Self { scan, filter }))
    }

    /// Returns a plan with the columns `needed` of the side's plan, followed by the key index.
    /// `schema` is the schema of the side's plan.
    pub fn plan(
        &self,
        side: &Side,
        schema: &Schema,
        needed: &[usize],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = &self.scan.plan().projection;
        let table = self.scan.source().schema();
        let Some(last) = columns.last() else {
            return internal_err!("the scan of a lookup join has no column");
        };
        let key_index = table.field(*last).name();
        let mut output = Vec::with_capacity(needed.len() + 1);
        for column in needed {
            let expr = over_scan(&side.below.columns[*column], columns, table)?;
            let alias = schema.field(*column).name().clone();
            output.push(ProjectionExpr { expr, alias });
        }
        let expr = Arc::new(Column::new(key_index, columns.len() - 1));
        let alias = key_index.clone();
        output.push(ProjectionExpr { expr, alias });
        let is_same = output.len() == columns.len()
            && output.iter().enumerate().all(|(index, projected)| {
                let column = projected.expr.downcast_ref::<Column>();
                column.is_some_and(|column| {
                    column.index() == index && column.name() == projected.alias
                })
            });
        let scan: Arc<dyn ExecutionPlan> = self.scan.clone().into_exec();
        Ok(match is_same {
            true => scan,
            false => Arc::new(ProjectionExec::try_new(output, scan)?),
        })
    }
}
