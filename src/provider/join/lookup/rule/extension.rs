//! Adds a column to a plan over an array: the sum of one term per set of axes, for each cell.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::provider::join::lookup::key_index_grid::table_with_terms;
use crate::provider::join::lookup::keys::{KeyTerms, ProbeKeys};
use crate::provider::join::lookup::operator::{ArrayLookupJoinExec, LookupSpec};
use crate::provider::join::lookup::probe::JoinOutput;
use crate::provider::join::lookup::rule::keyed_scan::ScanFilter;
use crate::provider::plans::below::{InlinedInput, columns_in, moved, replace_columns};
use crate::provider::scan::{ArrayScan, SelectArguments};
use crate::provider::source::GridSelection;

/// The columns of a plan over a table of one or more arrays, in terms of the columns of the table. The plan
/// consists of filters, projections and lookup joins whose probe side is the table.
pub(in crate::provider) struct GridColumns {
    /// The arrays, one per file, and their selected cells.
    pub grids: Vec<GridSelection>,
    /// The columns of the table.
    pub table: SchemaRef,
    /// For each column of the plan, an expression over the table; `None` for columns of build sides.
    columns: Vec<Option<Arc<dyn PhysicalExpr>>>,
}

impl GridColumns {
    /// Returns the columns of a plan; `None` if it is not over arrays, or if the table has the column
    /// `file`.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(below) = InlinedInput::of(plan)? else {
            return Ok(None);
        };
        let Some(join) = below.node.downcast_ref::<ArrayLookupJoinExec>() else {
            let Some(scan) = InlinedInput::of_scan(plan)? else {
                return Ok(None);
            };
            let Some(grids) = scan.node.blocks().grid_selections() else {
                return Ok(None);
            };
            let is_taken = !grids.is_empty() && grids.iter().all(|grid| grid.file.is_none());
            return Ok(is_taken.then(|| Self {
                grids,
                table: Arc::clone(scan.node.source().schema()),
                columns: scan.columns.into_iter().map(Some).collect(),
            }));
        };
        let Some(of_join) = Self::of_join(join)? else {
            return Ok(None);
        };
        let columns = below.columns.iter();
        let columns = columns.map(|expr| of_join.replace_in(std::slice::from_ref(expr)));
        let columns = columns.map(|columns| Ok(columns?.and_then(|mut columns| columns.pop())));
        Ok(Some(Self {
            columns: columns.collect::<Result<_>>()?,
            ..of_join
        }))
    }

    /// Returns the columns of a join's output; `None` as in [`Self::of`], and if the join returns rows
    /// of the build side without a match.
    pub fn of_join(join: &ArrayLookupJoinExec) -> Result<Option<Self>> {
        let has_cell_in_every_row = matches!(
            join.join_type(),
            JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti
        );
        if !has_cell_in_every_row {
            return Ok(None);
        }
        let Some(probe) = Self::of(&join.inputs()[1])? else {
            return Ok(None);
        };
        let columns = join
            .output_columns()
            .iter()
            .map(|column| match column.side {
                JoinSide::Right => probe.columns.get(column.index).cloned().flatten(),
                _ => None,
            });
        Ok(Some(Self {
            columns: columns.collect(),
            ..probe
        }))
    }

    /// Numbers grouping expressions over the plan. Returns `None` if they are not expressions over
    /// dimensions, if one is null, or for the same reasons as [`ProbeKeys::try_new`].
    pub fn group_numbers(
        &self,
        expressions: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Option<ProbeKeys>> {
        let Some(expressions) = self.replace_in(expressions)? else {
            return Ok(None);
        };
        let keys = ProbeKeys::try_new(&expressions, &self.grids)?;
        Ok(keys.filter(|keys| !keys.has_nulls()))
    }

    /// Rewrites expressions over the plan in terms of the table. Returns `None` if they use other
    /// columns.
    pub fn replace_in(
        &self,
        expressions: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Option<Vec<Arc<dyn PhysicalExpr>>>> {
        let column = |number: usize| self.columns.get(number).cloned().flatten();
        if !columns_in(expressions.iter())
            .into_iter()
            .all(|number| column(number).is_some())
        {
            return Ok(None);
        }
        let expressions = expressions.iter();
        let replaced = expressions.map(|expr| replace_columns(expr, &column));
        replaced.collect::<Result<_>>().map(Some)
    }
}

/// A column to add to a plan over an array, and a dynamic filter to add to its scan.
pub(in crate::provider::join::lookup) struct Extension<'a> {
    /// The name of the column.
    name: &'a str,
    /// For each array, the terms that add up to the values of the column; `None` for no column.
    terms: Option<Vec<Vec<KeyTerms>>>,
    /// Expressions over the array's table that a dynamic filter will restrict.
    pub filtered_keys: &'a [Arc<dyn PhysicalExpr>],
    /// The dynamic filter that was added, with the expressions over the columns of the scan, and the
    /// schema of the scan.
    pub filter: Option<ScanFilter>,
}

/// A plan with an additional last column, if there is one to add, and the columns of the original plan
/// that come before it. These are sorted.
type Extended = (Arc<dyn ExecutionPlan>, Vec<usize>);

impl<'a> Extension<'a> {
    /// Creates an extension by one column, or by none.
    pub fn new(name: &'a str, terms: Option<Vec<Vec<KeyTerms>>>) -> Self {
        Self {
            name,
            terms,
            filtered_keys: &[],
            filter: None,
        }
    }

    /// Extends a plan, and narrows it to the columns `needed`, which are sorted, and those that its
    /// dynamic filters use. Returns `None` if the plan is not as [`GridColumns`] describes.
    pub fn of(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        needed: &[usize],
        config: &ConfigOptions,
    ) -> Result<Option<Extended>> {
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            self.of_projection(projection, needed, config)
        } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            self.of_filter(filter, needed, config)
        } else if let Some(join) = plan.downcast_ref::<ArrayLookupJoinExec>() {
            let join = self.of_join(join, needed, config)?;
            Ok(join.map(|join| (Arc::new(join) as _, needed.to_vec())))
        } else if let Some((_, scan)) = ArrayScan::of(plan.as_ref()) {
            self.of_scan(scan, needed, config)
        } else {
            Ok(None)
        }
    }

    /// Extends a join on its probe side. The output has the columns `needed`, then the added column.
    pub fn of_join(
        &mut self,
        join: &ArrayLookupJoinExec,
        needed: &[usize],
        config: &ConfigOptions,
    ) -> Result<Option<ArrayLookupJoinExec>> {
        let has_terms = self.terms.is_some();
        let spec = join.spec();
        let columns = needed
            .iter()
            .map(|column| spec.output.columns[*column].clone());
        let mut columns: Vec<ColumnIndex> = columns.collect();
        let filter = spec.output.filter.as_ref();
        let mut condition = filter.map_or(Vec::new(), |filter| filter.column_indices().to_vec());
        let mut key_index = spec.output.key_index;
        let of_probe = columns.iter_mut().chain(&mut condition);
        let of_probe = of_probe.filter(|column| column.side == JoinSide::Right);
        let mut of_probe: Vec<&mut usize> = of_probe.map(|column| &mut column.index).collect();
        of_probe.push(&mut key_index);
        let needed_of_probe: BTreeSet<usize> = of_probe.iter().map(|index| **index).collect();
        let needed_of_probe: Vec<usize> = needed_of_probe.into_iter().collect();
        let [build, probe] = join.inputs();
        let Some((probe, kept)) = self.of(probe, &needed_of_probe, config)? else {
            return Ok(None);
        };
        for index in of_probe {
            *index = kept.binary_search(index).unwrap_or(0);
        }
        let fields = needed
            .iter()
            .map(|column| Arc::clone(&spec.schema.fields()[*column]));
        let mut fields: Vec<_> = fields.collect();
        if has_terms {
            let index = probe.schema().fields().len() - 1;
            let side = JoinSide::Right;
            columns.push(ColumnIndex { index, side });
            fields.push(Arc::clone(&probe.schema().fields()[index]));
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
            ..spec.clone()
        };
        let inputs = [Arc::clone(build), probe];
        let filter = join.dynamic_filter().cloned();
        Ok(Some(ArrayLookupJoinExec::new(
            inputs,
            Arc::new(spec),
            filter,
        )))
    }

    fn of_projection(
        &mut self,
        projection: &ProjectionExec,
        needed: &[usize],
        config: &ConfigOptions,
    ) -> Result<Option<Extended>> {
        let has_terms = self.terms.is_some();
        let output = needed.iter().map(|column| &projection.expr()[*column]);
        let used = columns_in(output.clone().map(|projected| &projected.expr));
        let Some((input, kept)) = self.of(projection.input(), &used, config)? else {
            return Ok(None);
        };
        let schema = input.schema();
        let output = output.map(|projected| {
            Ok(ProjectionExpr {
                expr: moved(&projected.expr, &kept, &schema)?,
                alias: projected.alias.clone(),
            })
        });
        let mut output = output.collect::<Result<Vec<_>>>()?;
        if has_terms {
            let last = schema.fields().len() - 1;
            let alias = schema.field(last).name().clone();
            let expr = Arc::new(Column::new(&alias, last));
            output.push(ProjectionExpr { expr, alias });
        }
        let plan = Arc::new(ProjectionExec::try_new(output, input)?);
        Ok(Some((plan, needed.to_vec())))
    }

    fn of_filter(
        &mut self,
        filter: &FilterExec,
        needed: &[usize],
        config: &ConfigOptions,
    ) -> Result<Option<Extended>> {
        if filter.projection().is_some() || filter.fetch().is_some() {
            return Ok(None);
        }
        let mut used = columns_in(std::iter::once(filter.predicate()));
        used.extend(needed);
        used.sort_unstable();
        used.dedup();
        let Some((input, kept)) = self.of(filter.input(), &used, config)? else {
            return Ok(None);
        };
        let predicate = moved(filter.predicate(), &kept, &input.schema())?;
        Ok(Some((
            Arc::new(FilterExec::try_new(predicate, input)?),
            kept,
        )))
    }

    fn of_scan(
        &mut self,
        scan: &ArrayScan,
        needed: &[usize],
        config: &ConfigOptions,
    ) -> Result<Option<Extended>> {
        let mut kept = columns_in(scan.plan().dynamic_filter.iter());
        kept.extend(needed);
        kept.sort_unstable();
        kept.dedup();
        let output = kept.iter().map(|column| scan.plan().projection[*column]);
        let mut output: Vec<usize> = output.collect();
        for column in columns_in(self.filtered_keys.iter()) {
            if !output.contains(&column) {
                output.push(column);
            }
        }
        let mut extended = scan.clone();
        if let Some(terms) = self.terms.take() {
            match with_attribute(scan, self.name, terms)? {
                Some(scan) => extended = scan,
                None => return Ok(None),
            }
            output.push(extended.source().schema().fields().len() - 1);
        }
        let Some(mut scan) = extended.with_projection(output.clone())? else {
            return Ok(None);
        };
        if !self.filtered_keys.is_empty() {
            (scan, self.filter) = ScanFilter::add_to(scan, self.filtered_keys)?;
        }
        Ok(Some((scan.recut(config).into_exec(), kept)))
    }
}

/// Returns a scan of a table with one more attribute, the sum of the terms of each cell, as the last
/// column of the table. `None` if the table cannot be extended.
fn with_attribute(
    scan: &ArrayScan,
    name: &str,
    terms: Vec<Vec<KeyTerms>>,
) -> Result<Option<ArrayScan>> {
    let grids = scan.blocks().grid_selections().unwrap_or_default();
    let Some(source) = table_with_terms(scan.source(), &grids, name, terms)? else {
        return Ok(None);
    };

    let old = scan.plan();
    let last = source.schema().fields().len() - 1;
    let mut selected = old.columns.clone();
    selected.push(last);
    selected.sort_unstable();
    let selected_by = SelectArguments {
        filters: old.selected_by.filters.clone(),
        columns: selected,
    };
    scan.with_source(source, selected_by)
}
