//! Lookup joins whose rows have group numbers, for the aggregation above.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{JoinSide, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::group_values::new_group_values;
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::joins::utils::ColumnIndex;

use crate::provider::join::lookup::build::Matching;
use crate::provider::join::lookup::keys::{KeyTerms, ProbeKeys};
use crate::provider::join::lookup::operator::{ArrayLookupJoinExec, LookupSpec};
use crate::provider::join::lookup::probe::JoinOutput;
use crate::provider::join::lookup::rule::extension::Extension;
use crate::provider::source::GridSelection;

/// The name of the columns with group numbers.
pub(in crate::provider) const GROUP_NUMBER: &str = "group_number";

/// The distinct combinations of grouping values among the rows of a build side, numbered from zero.
#[derive(Debug)]
pub(in crate::provider) struct BuildGroups {
    /// The value of each grouping expression, one per group.
    pub values: Vec<ArrayRef>,
    /// The number of groups.
    pub count: usize,
    /// The group of rows of the probe side without a match.
    pub unmatched: usize,
}

impl BuildGroups {
    /// Numbers the groups of some rows, and of a row of nulls. Returns them with the group number of
    /// each row. Like in GROUP BY, nulls are equal.
    pub fn of(
        expressions: &[Arc<dyn PhysicalExpr>],
        rows: &RecordBatch,
    ) -> Result<(Self, UInt32Array)> {
        let fields = rows.schema_ref().fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let nulls = RecordBatch::try_new_with_options(
            Arc::clone(&schema),
            rows.columns()
                .iter()
                .map(|column| new_null_array(column.data_type(), 1))
                .collect(),
            &RecordBatchOptions::new().with_row_count(Some(1)),
        )?;
        let evaluate = |batch: &RecordBatch| {
            let values = expressions.iter();
            let values = values.map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows()));
            values.collect::<Result<Vec<ArrayRef>>>()
        };
        let (columns, of_nulls) = (evaluate(rows)?, evaluate(&nulls)?);
        let fields = columns.iter().enumerate();
        let fields = fields.map(|(number, values)| {
            Field::new(number.to_string(), values.data_type().clone(), true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut groups = new_group_values(schema, &GroupOrdering::None)?;
        let (mut numbers, mut unmatched) = (Vec::with_capacity(rows.num_rows()), Vec::new());
        groups.intern(&columns, &mut numbers)?;
        groups.intern(&of_nulls, &mut unmatched)?;
        let found = Self {
            count: groups.len(),
            values: groups.emit(EmitTo::All)?,
            unmatched: unmatched.first().copied().unwrap_or(0),
        };
        let numbers = numbers.into_iter().map(|number| number as u32);
        Ok((found, UInt32Array::from_iter_values(numbers)))
    }
}

/// The grouping expressions of an aggregation over a lookup join.
pub(in crate::provider) struct GroupKeys {
    /// The expressions over dimensions of the probe side, numbered on its axes.
    pub probe: Option<Arc<ProbeKeys>>,
    /// The expressions over columns of the build side.
    pub build: Vec<Arc<dyn PhysicalExpr>>,
}

impl ArrayLookupJoinExec {
    /// Returns the side and the index of each output column.
    pub(in crate::provider) fn output_columns(&self) -> &[ColumnIndex] {
        &self.spec().output.columns
    }

    /// Returns the join with only the output columns `needed`, which are sorted, followed by the group
    /// number of the probe side's row and that of the build side's row, as far as `groups` has such
    /// expressions. `None` if the scan of the probe side cannot be extended.
    pub(in crate::provider) fn with_groups(
        &self,
        needed: &[usize],
        groups: &GroupKeys,
        config: &ConfigOptions,
    ) -> Result<Option<Self>> {
        let terms = groups.probe.as_ref().map(|keys| keys.terms());
        let mut extension = Extension::new(GROUP_NUMBER, terms);
        let Some(join) = extension.of_join(self, needed, config)? else {
            return Ok(None);
        };
        let (columns, schema) = (join.output_columns().to_vec(), &join.spec().schema);
        let key_index = join.spec().output.key_index;
        let probe = Arc::clone(&join.inputs()[1]);
        Ok(Some(
            join.with_output(probe, key_index, columns, schema, groups),
        ))
    }

    /// Returns, for each array, the terms that add up to the key index of a cell. `None` if the matches of
    /// a cell do not depend on its key index alone, or if the scan of the probe side leaves out files.
    pub(in crate::provider) fn cell_terms(
        &self,
        grids: &[GridSelection],
    ) -> Option<Vec<Vec<KeyTerms>>> {
        let spec = self.spec();
        if spec.output.filter.is_some() {
            return None;
        }
        match (spec.matching.as_ref(), grids) {
            (Matching::Keys(keys, _), _) => {
                Some(keys.terms()).filter(|terms| terms.len() == grids.len())
            }
            (Matching::Conditions(conditions), [part]) => {
                Some(vec![conditions.terms(part.grid.axes())])
            }
            (Matching::Conditions(_), _) => None,
        }
    }

    /// Returns the join over a probe side with one row per group before the join: `state_columns` columns of
    /// partial states, the key index, and the group number if the aggregation is grouped by dimensions. The
    /// output has the partial states, then the group numbers as in [`Self::with_groups`].
    pub(in crate::provider) fn over_states(
        &self,
        probe: Arc<dyn ExecutionPlan>,
        state_columns: usize,
        groups: &GroupKeys,
    ) -> Self {
        let all = probe.schema();
        let columns = (0..all.fields().len()).filter(|column| *column != state_columns);
        let columns: Vec<usize> = columns.collect();
        let fields = columns.iter().map(|column| all.field(*column).clone());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|index| ColumnIndex {
            index,
            side: JoinSide::Right,
        });
        self.with_output(probe, state_columns, columns.collect(), &schema, groups)
    }

    /// Returns the join over another probe side, whose column `key_index` holds key indices. The output
    /// consists of `columns`, whose fields are in `schema`, and of the group number of the build side's row if
    /// `groups` has expressions over the build side.
    fn with_output(
        &self,
        probe: Arc<dyn ExecutionPlan>,
        key_index: usize,
        mut columns: Vec<ColumnIndex>,
        schema: &SchemaRef,
        groups: &GroupKeys,
    ) -> Self {
        let spec = self.spec();
        let build = Arc::clone(&self.inputs()[0]);
        let mut fields = schema.fields().to_vec();
        if !groups.build.is_empty() {
            columns.push(ColumnIndex {
                index: build.schema().fields().len(),
                side: JoinSide::Left,
            });
            fields.push(Arc::new(Field::new(GROUP_NUMBER, DataType::UInt32, true)));
        }
        let spec = LookupSpec {
            output: Arc::new(JoinOutput {
                columns,
                key_index,
                ..spec.output.as_ref().clone()
            }),
            schema: Arc::new(Schema::new(fields)),
            build_groups: groups.build.clone(),
            ..spec.clone()
        };
        let filter = self.dynamic_filter().cloned();
        Self::new([build, probe], Arc::new(spec), filter)
    }
}
