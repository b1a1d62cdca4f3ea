//! Refuses types and arguments for which DataFusion would allocate far more than the rows need.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;

use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::rules::analysis::written_times::text;

/// The number of values of a batch that must fit in eight times `tet.max_value_bytes`.
const VALUES: usize = 1024;

/// The maximum length of a number, a time or an interval, in bytes.
const MAX_PRIMITIVE_BYTES: usize = 32;

/// The maximum number of centroids of `approx_percentile_cont`, which allocates them in advance.
const MAX_CENTROIDS: u64 = 10_000;

/// Checks casts to types of a fixed size, whose nulls take as much memory as values, and the number of
/// centroids of percentiles.
#[derive(Debug)]
pub(crate) struct FixedSizes;

impl FunctionRewrite for FixedSizes {
    fn name(&self) -> &str {
        "fixed_sizes"
    }

    fn rewrite(
        &self,
        expr: Expr,
        _schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match &expr {
            Expr::Cast(cast) => check_type(cast.field.data_type(), config)?,
            Expr::TryCast(cast) => check_type(cast.field.data_type(), config)?,
            Expr::ScalarFunction(call)
                if ["arrow_cast", "arrow_try_cast"].contains(&call.func.name()) =>
            {
                let name = call.args.get(1).and_then(text);
                // The function itself refuses names that are no types.
                if let Some(Ok(data_type)) = name.map(str::parse::<DataType>) {
                    check_type(&data_type, config)?;
                }
            }
            Expr::AggregateFunction(call) => {
                check_centroids(call.func.name(), &call.params.args)?;
            }
            Expr::WindowFunction(call) => check_centroids(call.fun.name(), &call.params.args)?,
            _ => {}
        }
        Ok(Transformed::no(expr))
    }
}

/// Fails if a value of a type takes too many bytes, whether or not it is null.
fn check_type(data_type: &DataType, config: &ConfigOptions) -> Result<()> {
    let limit = ArraySettings::limits_of(config).value_bytes;
    let (bytes, limit) = (fixed_bytes(data_type), limit.div_ceil(VALUES));
    if bytes > limit.max(MAX_PRIMITIVE_BYTES) {
        return plan_err!(
            "values of type {data_type} take {bytes} bytes each, more than {limit}; choose a type of variable \
             size, or raise tet.max_value_bytes"
        );
    }
    Ok(())
}

/// Fails unless the number of centroids of a percentile, if it is given, is a small literal.
fn check_centroids(function: &str, arguments: &[Expr]) -> Result<()> {
    let index = match function {
        "approx_percentile_cont" => 2,
        "approx_percentile_cont_with_weight" => 3,
        _ => return Ok(()),
    };
    match arguments.get(index) {
        Some(Expr::Literal(value, _)) if !matches!(value.cast_to(&DataType::UInt64), Ok(ScalarValue::UInt64(Some(count))) if count <= MAX_CENTROIDS) =>
        {
            plan_err!("{function}: {value} centroids, expected at most {MAX_CENTROIDS}")
        }
        Some(Expr::Literal(..)) | None => Ok(()),
        Some(other) => plan_err!(
            "{function}: {other} centroids, expected a literal number of at most {MAX_CENTROIDS}"
        ),
    }
}

/// Returns the bytes that a null of a type, or of an element of its values, takes in an array. Saturates.
fn fixed_bytes(data_type: &DataType) -> usize {
    let size = |count: &i32| usize::try_from(*count).unwrap_or(0);
    match data_type {
        DataType::FixedSizeBinary(bytes) => size(bytes),
        DataType::FixedSizeList(field, count) => {
            size(count).saturating_mul(fixed_bytes(field.data_type()).max(1))
        }
        DataType::Struct(fields) => {
            let bytes = fields.iter().map(|field| fixed_bytes(field.data_type()));
            bytes.fold(0, usize::saturating_add)
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => fixed_bytes(field.data_type()),
        DataType::Dictionary(_, values) => fixed_bytes(values),
        DataType::RunEndEncoded(_, values) => fixed_bytes(values.data_type()),
        other => other.primitive_width().unwrap_or(0),
    }
}
