//! Lookup joins whose rows have group numbers, for the aggregation above.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{JoinSide, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::group_values::new_group_values;
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::joins::utils::ColumnIndex;

use crate::provider::join::lookup::keys::ProbeKeys;
use crate::provider::join::lookup::operator::{ArrayLookupJoinExec, LookupSpec};
use crate::provider::join::lookup::probe::JoinOutput;
use crate::provider::join::lookup::rule::extension::Extension;

/// The name of the columns with group numbers.
pub(super) const GROUP_NUMBER: &str = "group_number";

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
    pub probe: Option<ProbeKeys>,
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
        let terms = groups.probe.as_ref().map(ProbeKeys::terms);
        let mut extension = Extension::new(GROUP_NUMBER, terms);
        let Some(join) = extension.of_join(self, needed, config)? else {
            return Ok(None);
        };
        if groups.build.is_empty() {
            return Ok(Some(join));
        }
        let spec = join.spec();
        let mut columns = spec.output.columns.clone();
        columns.push(ColumnIndex {
            index: join.inputs()[0].schema().fields().len(),
            side: JoinSide::Left,
        });
        let mut fields = spec.schema.fields().to_vec();
        fields.push(Arc::new(Field::new(GROUP_NUMBER, DataType::UInt32, true)));
        let spec = LookupSpec {
            output: Arc::new(JoinOutput {
                columns,
                ..spec.output.as_ref().clone()
            }),
            schema: Arc::new(Schema::new(fields)),
            build_groups: groups.build.clone(),
            ..spec.clone()
        };
        let filter = join.dynamic_filter().cloned();
        Ok(Some(Self::new(
            join.inputs().clone(),
            Arc::new(spec),
            filter,
        )))
    }
}
