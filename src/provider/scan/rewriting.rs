//! Scans that optimizer rules make of other scans.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::filter_pushdown::PushedDown;

use crate::provider::planning::dynamic;
use crate::provider::planning::planned_blocks::PlannedBlocks;
use crate::provider::planning::sorted_blocks::{SortedBlocks, in_turn};
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::scan::{ArrayScan, ScanPlan, SelectArguments, column_indices, project};
use crate::provider::source::{BlockList, BlockSource, ColumnKind, SelectedBlocks};

/// The maximum number of blocks that are searched for the last rows of a scan.
const MAX_LAST_BLOCKS: u64 = 1024;

impl ArrayScan {
    /// Returns a scan of the last blocks only, which have at least `rows` rows, in one partition;
    /// `None` if the scan filters or limits rows, if other operators rely on the order of its partitions,
    /// or if it takes more than [`MAX_LAST_BLOCKS`] blocks.
    pub(in crate::provider) fn of_last_rows(&self, rows: usize) -> Result<Option<Self>> {
        let plan = self.plan.as_ref();
        let is_whole = plan.filter.is_none()
            && plan.dynamic_filter.is_none()
            && plan.fetch.is_none()
            && plan.ordering.is_empty();
        let Some(count) = self.blocks.count().filter(|_| is_whole) else {
            return Ok(None);
        };
        let (mut first, mut found) = (count, 0u64);
        while first > 0 && found < rows as u64 {
            first -= 1;
            let Some(rows) = self.blocks.rows_at(first)?.exact() else {
                return Ok(None);
            };
            found = found.saturating_add(rows);
            if count - first > MAX_LAST_BLOCKS {
                return Ok(None);
            }
        }
        let mut scan = self.with_plan(ScanPlan {
            partitions: std::iter::once(0..count - first).collect(),
            ..plan.clone()
        });
        scan.blocks = self.blocks.reorder(first..count)?;
        scan.column_statistics = Arc::default();
        Ok(Some(scan))
    }

    /// Returns a scan whose partitions read their rows sorted by these output columns; `None` if the
    /// blocks do not have this order. Blocks are dealt to the partitions in turn, so that all of them
    /// work while their rows are merged.
    pub(in crate::provider) fn sorted_by(
        &self,
        keys: &[(usize, SortOptions)],
    ) -> Result<Option<Self>> {
        let plan = self.plan.as_ref();
        // The order of the blocks is that of known columns. Others do not need to load coordinates.
        let keys = keys.iter().map(|(column, sort)| {
            let column = *plan.projection.get(*column)?;
            let is_known = self.source.column_kind(column) == ColumnKind::Known;
            is_known.then_some((column, *sort))
        });
        let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let mut ordering = self.blocks.ordering().into_iter();
        for (column, sort) in &keys {
            // Columns with a single value do not change the order.
            let found = ordering.find(|(other, _)| other == column || !self.is_constant(*other));
            if found != Some((*column, sort.descending)) {
                return Ok(None);
            }
        }
        let mut sorted = self.with_plan(ScanPlan {
            ordering: keys,
            ..plan.clone()
        });
        if let Some(SortedBlocks { blocks, partitions }) =
            in_turn(&self.blocks, plan.partitions.len())?
        {
            Arc::make_mut(&mut sorted.plan).partitions = partitions;
            sorted.blocks = blocks;
        }
        Ok(Some(sorted))
    }

    /// Returns `true` if all selected rows have the same value in a column of the table.
    fn is_constant(&self, column: usize) -> bool {
        let statistics = self.blocks.column_statistics(column, &self.plan.options);
        statistics.is_ok_and(|statistics| {
            matches!(
                (&statistics.min_value, &statistics.max_value),
                (Precision::Exact(min), Precision::Exact(max)) if min == max
            )
        })
    }

    /// Returns the scan with other output columns, which must include those of the dynamic filter;
    /// `None` if they do not.
    pub(in crate::provider) fn with_projection(
        &self,
        projection: Vec<usize>,
    ) -> Result<Option<Self>> {
        let plan = self.plan.as_ref();
        let mut needed = column_indices(plan.dynamic_filter.as_slice());
        if !needed.all(|column| projection.contains(&plan.projection[column])) {
            return Ok(None);
        }
        let mut columns = projection.clone();
        for column in column_indices(plan.filter.as_slice()) {
            if !columns.contains(&plan.columns[column]) {
                columns.push(plan.columns[column]);
            }
        }
        let schema = project(self.source.schema(), &projection)?;
        let read_schema = project(self.source.schema(), &columns)?;
        // The names of a table's columns are distinct.
        let move_to = |filter: &Option<Arc<dyn PhysicalExpr>>, schema| {
            let filter = filter.iter().map(Arc::clone).next();
            let moved = filter.map(|filter| reassign_expr_columns(filter, schema));
            moved.transpose()
        };
        let mut scan = self.with_plan(ScanPlan {
            filter: move_to(&plan.filter, &read_schema)?,
            dynamic_filter: move_to(&plan.dynamic_filter, &schema)?,
            projection,
            columns,
            ..plan.clone()
        });
        scan.read_schema = read_schema;
        scan.schema = schema;
        scan.column_statistics = Arc::default();
        Ok(Some(scan))
    }

    /// Returns the scan over `source`, a table with the columns of this scan's table followed by more.
    /// Returns `None` if `selected_by` selects other blocks of `source`.
    pub(in crate::provider) fn with_source(
        &self,
        source: Arc<dyn BlockSource>,
        selected_by: SelectArguments,
    ) -> Result<Option<Self>> {
        let plan = self.plan.as_ref();
        let SelectArguments { filters, columns } = &selected_by;
        let SelectedBlocks { blocks, .. } = source.select(filters, columns, &plan.options)?;
        let chunk_grids = |blocks: &dyn BlockList| {
            let grids = blocks.grid_selections().unwrap_or_default().into_iter();
            let chunk_grids = grids.map(|part| part.grid.chunk_grid().clone());
            chunk_grids.collect::<Vec<_>>()
        };
        let own = self.blocks.list();
        if blocks.count() != own.count()
            || chunk_grids(blocks.as_ref()) != chunk_grids(own.as_ref())
        {
            return Ok(None);
        }
        let mut scan = self.with_plan(ScanPlan {
            ordering: Vec::new(),
            selected_by,
            ..plan.clone()
        });
        scan.source = source;
        scan.blocks = PlannedBlocks::new(blocks, self.blocks.order().clone());
        scan.column_statistics = Arc::default();
        Ok(Some(scan))
    }

    /// Offers filters over the output to the scan. Returns the scan that uses them, with
    /// [`PushedDown::Yes`] for each filter that it applies to its rows; `None` if it uses none of
    /// them.
    ///
    /// The scan applies filters that stay the same while it runs. Filters whose value becomes known
    /// while the scan runs also prune blocks. The scan applies scalar subqueries to its rows as
    /// well, but not dynamic filters.
    ///
    /// Only [`FilterPushdown`](crate::provider::rules::filter_pushdown::FilterPushdown) calls this.
    /// The scan refuses the filters that DataFusion's rule of the same name offers, since that rule
    /// confuses columns that have the same name.
    pub(in crate::provider) fn with_filters(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
    ) -> Option<(Self, Vec<PushedDown>)> {
        // A filter above a limit must not change which rows the limit keeps.
        if self.plan.fetch.is_some() || filters.is_empty() {
            return None;
        }
        let (mut applied, mut dynamic) = (Vec::new(), Vec::new());
        let answers = filters.iter().map(|filter| {
            if is_volatile(filter) {
                return PushedDown::No;
            }
            if dynamic::is_dynamic(filter) {
                dynamic.push(Arc::clone(filter));
            }
            if dynamic::has_dynamic_filter(filter) {
                return PushedDown::No;
            }
            applied.push(Arc::clone(filter));
            PushedDown::Yes
        });
        let answers = answers.collect();
        // The output columns are the first of the columns that are read.
        let applied = self.plan.filter.iter().cloned().chain(applied);
        let dynamic = self.plan.dynamic_filter.iter().cloned().chain(dynamic);
        let scan = self.with_plan(ScanPlan {
            filter: conjunction_opt(applied),
            dynamic_filter: conjunction_opt(dynamic),
            ..self.plan.as_ref().clone()
        });
        Some((scan, answers))
    }

    /// Returns the scan with its blocks cut into partitions anew.
    pub(in crate::provider) fn recut(mut self, config: &ConfigOptions) -> Self {
        let min_size = config.optimizer.repartition_file_min_size;
        self.cut(self.target_partitions, min_size);
        self
    }
}
