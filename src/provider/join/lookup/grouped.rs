//! Lookup joins whose rows have group numbers, for the aggregation above.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{JoinSide, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::group_values::new_group_values;
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::provider::join::aligned::AlignedGrids;
use crate::provider::join::lookup::key_index_grid::KeyIndexGrid;
use crate::provider::join::lookup::keys::{KeyTerms, ProbeKeys};
use crate::provider::join::lookup::operator::{ArrayLookupJoinExec, LookupSpec};
use crate::provider::join::lookup::probe::JoinOutput;
use crate::provider::join::zip::columns_in;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::plans::below::{InlinedInput, replace_columns};
use crate::provider::scan::grid_table::GridTable;
use crate::provider::scan::{ArrayScan, ScanPlan, SelectArguments};
use crate::provider::source::{BlockSource, GridSource, SelectedBlocks};

/// The name of the columns with group numbers.
pub(super) const GROUP_NUMBER: &str = "group_number";

/// The distinct combinations of grouping values among the rows of a build side, numbered from zero.
#[derive(Debug)]
pub(in crate::provider) struct BuildGroups {
    /// The value of each grouping expression, one per group.
    pub values: Vec<ArrayRef>,
    /// The number of groups.
    pub count: usize,
}

impl BuildGroups {
    /// Numbers the groups of some rows. Returns them with the group number of each row. Like in
    /// GROUP BY, nulls are equal.
    pub fn of(
        expressions: &[Arc<dyn PhysicalExpr>],
        rows: &RecordBatch,
    ) -> Result<(Self, UInt32Array)> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (number, expr) in expressions.iter().enumerate() {
            let values = expr.evaluate(rows)?.into_array(rows.num_rows())?;
            fields.push(Field::new(
                number.to_string(),
                values.data_type().clone(),
                true,
            ));
            columns.push(values);
        }
        let schema = Arc::new(Schema::new(fields));
        let mut groups = new_group_values(schema, &GroupOrdering::None)?;
        let mut numbers = Vec::with_capacity(rows.num_rows());
        groups.intern(&columns, &mut numbers)?;
        let found = Self {
            count: groups.len(),
            values: groups.emit(EmitTo::All)?,
        };
        let numbers = numbers.into_iter().map(|number| number as u32);
        Ok((found, UInt32Array::from_iter_values(numbers)))
    }
}

/// The grouping expressions of an aggregation over a lookup join.
pub(in crate::provider) struct GroupKeys {
    /// The expressions over dimensions of the probe side, numbered on its axes.
    pub probe: Option<ProbeKeys>,
    /// The expressions over columns of the build side.
    pub build: Vec<Arc<dyn PhysicalExpr>>,
}

impl ArrayLookupJoinExec {
    /// Returns the side and the index of each output column.
    pub(in crate::provider) fn output_columns(&self) -> &[ColumnIndex] {
        &self.spec().output.columns
    }

    /// Numbers grouping expressions over columns of the probe side. Returns `None` if they are not
    /// expressions over dimensions, if one is null, or for the same reasons as
    /// [`ProbeKeys::try_new`].
    pub(in crate::provider) fn probe_groups(
        &self,
        expressions: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Option<ProbeKeys>> {
        let Some(below) = InlinedInput::of_scan(self.children()[1])? else {
            return Ok(None);
        };
        let parts = below.node.blocks().grid_selections();
        let Some([part]) = parts.as_deref() else {
            return Ok(None);
        };
        let of_table = expressions.iter();
        let of_table = of_table
            .map(|expr| replace_columns(expr, &|number| below.columns.get(number).cloned()));
        let keys = ProbeKeys::try_new(&of_table.collect::<Result<Vec<_>>>()?, part)?;
        Ok(keys.filter(|keys| !keys.has_nulls()))
    }

    /// Returns the join with these output columns, followed by the group number of the probe side's
    /// row and that of the build side's row, as far as `groups` has such expressions. `None` if the
    /// scan of the probe side cannot be extended.
    pub(in crate::provider) fn with_groups(
        &self,
        mut columns: Vec<ColumnIndex>,
        groups: &GroupKeys,
        config: &ConfigOptions,
    ) -> Result<Option<Self>> {
        let [build, probe] = self.inputs();
        let spec = self.spec();
        let mut fields: Vec<Field> = columns
            .iter()
            .map(|column| {
                let input = [probe, build][usize::from(column.side == JoinSide::Left)];
                let field = input.schema().field(column.index).clone();
                field.with_nullable(true)
            })
            .collect();

        let filter = spec.output.filter.as_ref();
        let mut condition = filter.map_or(Vec::new(), |filter| filter.column_indices().to_vec());
        let mut of_probe: Vec<&mut usize> = columns
            .iter_mut()
            .chain(&mut condition)
            .filter(|column| column.side == JoinSide::Right)
            .map(|column| &mut column.index)
            .collect();
        let mut key_index = spec.output.key_index;
        of_probe.push(&mut key_index);
        let needed: BTreeSet<usize> = of_probe.iter().map(|index| **index).collect();
        let needed: Vec<usize> = needed.into_iter().collect();
        let terms = groups.probe.as_ref().map(ProbeKeys::terms);
        let Some((probe, kept)) = with_terms(probe, &needed, terms, config)? else {
            return Ok(None);
        };
        for index in of_probe {
            *index = kept.binary_search(index).unwrap_or(0);
        }

        if groups.probe.is_some() {
            columns.push(ColumnIndex {
                index: probe.schema().fields().len() - 1,
                side: JoinSide::Right,
            });
            fields.push(Field::new(GROUP_NUMBER, DataType::UInt32, false));
        }
        if !groups.build.is_empty() {
            columns.push(ColumnIndex {
                index: build.schema().fields().len(),
                side: JoinSide::Left,
            });
            fields.push(Field::new(GROUP_NUMBER, DataType::UInt32, true));
        }
        let filter = filter.map(|filter| {
            let expression = Arc::clone(filter.expression());
            JoinFilter::new(expression, condition, Arc::clone(filter.schema()))
        });
        let output = JoinOutput {
            join_type: spec.output.join_type,
            columns,
            key_index,
            filter,
        };
        let spec = LookupSpec {
            output: Arc::new(output),
            schema: Arc::new(Schema::new(fields)),
            build_groups: groups.build.clone(),
            ..spec.clone()
        };
        let inputs = [Arc::clone(build), probe];
        let filter = self.dynamic_filter().cloned();
        Ok(Some(Self::new(inputs, Arc::new(spec), filter)))
    }
}

/// A plan, and the columns of another plan that it keeps, sorted.
type Narrowed = (Arc<dyn ExecutionPlan>, Vec<usize>);

/// Returns a plan with only some columns of `plan`, followed by the sum of the terms of each cell, if
/// there are terms. Returns the columns that are kept, too: those of `needed`, which are sorted, and
/// those of the dynamic filter. `plan` is a scan of a grid, which may be below a projection. `None` if
/// it is anything else.
fn with_terms(
    plan: &Arc<dyn ExecutionPlan>,
    needed: &[usize],
    terms: Option<Vec<KeyTerms>>,
    config: &ConfigOptions,
) -> Result<Option<Narrowed>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let has_terms = terms.is_some();
        let output = needed.iter().map(|column| &projection.expr()[*column]);
        let used = columns_in(output.clone().map(|projected| &projected.expr));
        let Some((input, kept)) = with_terms(projection.input(), &used, terms, config)? else {
            return Ok(None);
        };
        let schema = input.schema();
        let column = |place: usize| Column::new(schema.field(place).name(), place);
        let output = output.map(|projected| {
            let expr = replace_columns(&projected.expr, &|number| {
                let place = kept.binary_search(&number).ok()?;
                Some(Arc::new(column(place)))
            })?;
            let alias = projected.alias.clone();
            Ok(ProjectionExpr { expr, alias })
        });
        let mut output = output.collect::<Result<Vec<_>>>()?;
        if has_terms {
            let column = column(schema.fields().len() - 1);
            let alias = column.name().to_string();
            let expr = Arc::new(column);
            output.push(ProjectionExpr { expr, alias });
        }
        let plan = Arc::new(ProjectionExec::try_new(output, input)?);
        return Ok(Some((plan, needed.to_vec())));
    }
    let source = plan.downcast_ref::<DataSourceExec>();
    let Some(scan) = source.and_then(|source| source.data_source().downcast_ref::<ArrayScan>())
    else {
        return Ok(None);
    };
    let mut kept = columns_in(scan.plan().dynamic_filter.iter());
    kept.extend(needed);
    kept.sort_unstable();
    kept.dedup();
    let output = kept.iter().map(|column| scan.plan().projection[*column]);
    let mut output: Vec<usize> = output.collect();
    let scan = match terms {
        None => scan.with_projection(output)?,
        Some(terms) => match with_attribute(scan, terms, config)? {
            None => None,
            Some(scan) => {
                output.push(scan.source().schema().fields().len() - 1);
                scan.with_projection(output)?
            }
        },
    };
    Ok(scan.map(|scan| (scan.recut(config).into_exec() as _, kept)))
}

/// Returns a scan of a table with one more attribute, the sum of the terms of each cell, as the last
/// column of the table. `None` if the scan is not over a single grid.
fn with_attribute(
    scan: &ArrayScan,
    terms: Vec<KeyTerms>,
    config: &ConfigOptions,
) -> Result<Option<ArrayScan>> {
    let parts = scan.blocks().grid_selections();
    let Some([part]) = parts.as_deref() else {
        return Ok(None);
    };
    let terms: Arc<dyn GridSource> = Arc::new(KeyIndexGrid::new(&part.grid, terms));
    let mut name = GROUP_NUMBER.to_string();
    while scan.source().schema().index_of(&name).is_ok() {
        name.push('_');
    }
    let mut attributes = part.grid.attributes().to_vec();
    let field = terms.attributes()[0].as_ref().clone();
    attributes.push(Arc::new(field.with_name(name)));
    let grids = [Arc::clone(&part.grid), terms];
    let grid = AlignedGrids::new(part.grid.name().to_string(), &grids, attributes);
    let source = Arc::new(GridTable::new(Arc::new(grid)));

    let old = scan.plan();
    let last = source.schema().fields().len() - 1;
    let mut selected = old.columns.clone();
    selected.push(last);
    selected.sort_unstable();
    let selected_by = SelectArguments {
        filters: old.selected_by.filters.clone(),
        columns: selected,
    };
    let SelectedBlocks { blocks, kept, .. } =
        source.select(&selected_by.filters, &selected_by.columns)?;
    let predicate = old.filter.as_ref().map(|filter| {
        replace_columns(filter, &|number| {
            let column = *old.columns.get(number)?;
            let name = scan.source().schema().field(column).name();
            Some(Arc::new(Column::new(name, column)))
        })
    });
    let predicate = predicate.transpose()?;
    let plan = ScanPlan {
        partitions: Vec::new(),
        selected_by,
        ..old.clone()
    };
    ArrayScan::of_blocks(
        source,
        PlannedBlocks::new(blocks, kept.map_or(BlockOrder::All, BlockOrder::Ascending)),
        predicate.as_ref(),
        plan,
        config,
    )
    .map(Some)
}
