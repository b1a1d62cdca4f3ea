//! Columns of unions, such as geometries, in outer joins.
//!
//! For a row without a match, DataFusion takes the columns of the other input at a null index. `arrow::compute::take`
//! ignores null indices for unions, so that the row gets the geometry of another row.

use std::sync::Arc;

use arrow::array::{Array, AsArray, UInt32Array};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Column, Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::planning::unions::{ignores_null_indices, take_or_null};

/// The names of the columns that are added to the left and the right input of a join. They are true in every row, so that
/// null above the join means no match.
const MARKS: [&str; 2] = ["tet_left_row", "tet_right_row"];

/// Makes unions null in rows of outer joins that have no match:
///
/// ```text
/// Projection: a.x, tet_null_without_match(tet_right_row, b.geometry) AS b.geometry
///   Left Join: ..
///     a
///     Projection: b.geometry, true AS tet_right_row
/// ```
#[derive(Debug, Default)]
pub(crate) struct OuterUnions;

impl AnalyzerRule for OuterUnions {
    fn name(&self) -> &str {
        "outer_unions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => with_null_unions(join),
            node => Ok(Transformed::no(node)),
        })?;
        Ok(plan.data)
    }
}

fn with_null_unions(join: Join) -> Result<Transformed<LogicalPlan>> {
    let may_lack_match = match join.join_type {
        JoinType::Left => [false, true],
        JoinType::Right => [true, false],
        JoinType::Full => [true, true],
        _ => [false, false],
    };
    let sides = [&join.left, &join.right];
    let is_marked = [0, 1].map(|side: usize| {
        let (plan, schema) = (sides[side], sides[side].schema());
        let mut fields = schema.fields().iter();
        may_lack_match[side]
            && fields.any(|field| ignores_null_indices(field.data_type()))
            // A plan may be analysed twice.
            && !schema.has_column_with_unqualified_name(MARKS[side])
            && !is_lateral(plan)
    });
    if !is_marked.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let left_width = join.left.schema().fields().len();
    let columns = join.schema.iter().enumerate();
    let columns = columns.map(|(index, (qualifier, field))| {
        let side = usize::from(index >= left_width);
        let column = Expr::Column(Column::from((qualifier, field)));
        match is_marked[side] && ignores_null_indices(field.data_type()) {
            true => ScalarUDF::from(NullWithoutMatch::new())
                .call(vec![Expr::Column(Column::from_name(MARKS[side])), column])
                .alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    let marked = |side: usize| match is_marked[side] {
        false => Ok(Arc::clone(sides[side])),
        true => {
            let columns = sides[side].schema().iter();
            let columns = columns.map(|column| Expr::Column(Column::from(column)));
            let all = columns.chain([lit(true).alias(MARKS[side])]);
            let builder = LogicalPlanBuilder::from(Arc::clone(sides[side])).project(all)?;
            builder.build().map(Arc::new)
        }
    };
    let (left, right) = (marked(0)?, marked(1)?);
    let marked = LogicalPlan::Join(Join {
        left,
        right,
        ..join
    });
    let plan = LogicalPlanBuilder::from(marked.recompute_schema()?).project(columns)?;
    Ok(Transformed::yes(plan.build()?))
}

/// Returns `true` for a lateral subquery, which DataFusion finds only right below the join.
fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        _ => false,
    }
}

/// Returns its second argument where the first one is not null, and null elsewhere.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NullWithoutMatch {
    signature: Signature,
}

impl NullWithoutMatch {
    pub const NAME: &str = "tet_null_without_match";

    pub fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for NullWithoutMatch {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        internal_err!("{} has a return field", Self::NAME)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let [_, column] = take_function_args(Self::NAME, arguments.arg_fields)?;
        Ok(Arc::new(column.as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [mark, column] = take_function_args(Self::NAME, arguments.args)?;
        let (mark, column) = (mark.into_array(rows)?, column.into_array(rows)?);
        let nulls = mark.as_boolean().nulls().cloned();
        let rows = UInt32Array::new((0..rows as u32).collect(), nulls);
        match rows.null_count() {
            0 => Ok(ColumnarValue::Array(column)),
            _ => Ok(ColumnarValue::Array(take_or_null(&column, &rows)?)),
        }
    }
}
