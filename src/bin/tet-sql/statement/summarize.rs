//! `SUMMARIZE`: a row about each column of a table.
//!
//! The result has the columns of DuckDB's `SUMMARIZE`. Dimensions of an array are summarized from
//! their axes, values in one pass over the stored cells. Quantiles and distinct counts would need a
//! pass over rows, so they are null for the values of large arrays.

use crate::output::formats::READABLE;
use crate::statement::outcome::Error;
use crate::statement::tokens::word;
use arrow::util::display::ArrayFormatter;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::compute::{can_cast_types, cast, sort};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::common::utils::quote_identifier;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use tet_sql::ArrayTable;
use tet_sql::grid::Axis;

/// The maximum number of cells of an array whose values are read row by row for quantiles and
/// distinct counts.
const MAX_ROWS: u64 = 10_000_000;
/// The maximum number of coordinates of an axis that are summarized in memory.
const MAX_COORDINATES: u64 = 1 << 20;
/// The keywords that a query begins with.
const QUERIES: [&str; 4] = ["SELECT", "WITH", "VALUES", "FROM"];
/// The columns of the result.
const COLUMNS: [&str; 12] = [
    "column_name",
    "column_type",
    "min",
    "max",
    "approx_unique",
    "avg",
    "std",
    "q25",
    "q50",
    "q75",
    "count",
    "null_percentage",
];

/// Returns a query that summarizes a table or a query.
pub async fn query(context: &SessionContext, target: &str) -> Result<String, Error> {
    let target = target.trim();
    let (first, _) = word(target);
    let is_query = first.is_empty() && target.starts_with('(')
        || QUERIES.iter().any(|word| first.eq_ignore_ascii_case(word));
    let target = match is_query {
        true => format!("(\n{target}\n) AS summarized"),
        false => target.to_owned(),
    };
    let rows = format!("SELECT * FROM {target}");
    let plan = tet_sql::create_logical_plan(&context.state(), &rows).await?;
    let frame = context.execute_logical_plan(plan).await?;
    let schema = frame.schema().as_arrow();
    let rows = match array_of(frame.logical_plan()) {
        Some(table) => of_array(&table, schema)?,
        None => schema
            .fields()
            .iter()
            .map(|field| of_column(field.name(), field.data_type(), true))
            .collect(),
    };
    let lists = COLUMNS.iter().enumerate().map(|(number, name)| {
        let cells: Vec<&str> = rows.iter().map(|row| row[number].as_str()).collect();
        format!(
            "make_array({}) AS {}",
            cells.join(", "),
            quote_identifier(name)
        )
    });
    let lists: Vec<String> = lists.collect();
    let unnested = COLUMNS.map(|name| format!("unnest({0}) AS {0}", quote_identifier(name)));
    Ok(format!(
        "SELECT {} FROM (SELECT {} FROM {target})",
        unnested.join(", "),
        lists.join(", ")
    ))
}

/// Returns the array table that a plan reads, if the plan returns all of its rows.
fn array_of(plan: &LogicalPlan) -> Option<Arc<dyn datafusion::catalog::TableProvider>> {
    match plan {
        LogicalPlan::Projection(projection) => array_of(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => array_of(&alias.input),
        LogicalPlan::TableScan(scan) if scan.filters.is_empty() && scan.fetch.is_none() => {
            let provider = source_as_provider(&scan.source).ok()?;
            provider.downcast_ref::<ArrayTable>()?.grid()?;
            Some(provider)
        }
        _ => None,
    }
}

/// The row about a column. Each cell is a SQL expression.
type Row = [String; COLUMNS.len()];

/// Returns the rows about the dimensions and values of an array.
fn of_array(
    table: &Arc<dyn datafusion::catalog::TableProvider>,
    schema: &Schema,
) -> Result<Vec<Row>, Error> {
    let array = table.downcast_ref::<ArrayTable>();
    let grid = array.and_then(ArrayTable::grid);
    let axes = grid.as_ref().map_or(&[][..], |grid| grid.axes());
    let lengths = axes.iter().map(Axis::length);
    let cells = lengths.fold(1u64, u64::saturating_mul);
    let rows = schema.fields().iter().map(|field| {
        let (name, data_type) = (field.name(), field.data_type());
        match axes.iter().find(|axis| axis.name() == name) {
            Some(axis) if axis.length() > 0 && axis.length() <= MAX_COORDINATES => {
                of_axis(axis, data_type, cells)
            }
            Some(_) => Ok(of_column(name, data_type, false)),
            None => Ok(of_column(name, data_type, cells <= MAX_ROWS)),
        }
    });
    rows.collect()
}

/// Returns the row about a dimension. Every coordinate occurs in equally many cells, so no cell is
/// read.
fn of_axis(axis: &Axis, data_type: &DataType, cells: u64) -> Result<Row, Error> {
    let engine = |error: ArrowError| Error::DataFusion(error.into());
    let coordinates = axis
        .coordinates()
        .map_err(|error| Error::DataFusion(error.into()))?;
    let sorted = sort(&coordinates.slice(0..axis.length()), None).map_err(engine)?;
    // This cannot overflow: the caller skips axes without coordinates.
    let last = sorted.len() - 1;
    let formatter = ArrayFormatter::try_new(sorted.as_ref(), &READABLE).map_err(engine)?;
    let at = |index: usize| -> Result<String, Error> {
        let text = formatter.value(index).try_to_string();
        Ok(literal(&text.map_err(engine)?))
    };
    let (mean, deviation) = match data_type.is_numeric() {
        true => moments(&sorted, cells).map_err(engine)?,
        false => (None, None),
    };
    let is_ordered = data_type.is_numeric() || data_type.is_temporal();
    let has_ticks = can_cast_types(&DataType::Int64, data_type);
    let rows = cells.max(axis.length());
    let repetitions = rows / axis.length();
    let quantile = |fraction: f64| -> Result<String, Error> {
        if !is_ordered {
            return Ok(null("VARCHAR"));
        }
        let row = fraction * (rows - 1) as f64;
        let index = |row: f64| last.min((row as u64 / repetitions) as usize);
        let (lower, upper) = (index(row.floor()), index(row.ceil()));
        if lower == upper || !has_ticks {
            return at(lower);
        }
        let text = interpolated(&sorted, lower, upper, row.fract()).map_err(engine)?;
        Ok(literal(&text))
    };
    let changes = distinct(&sorted.slice(1, last), &sorted.slice(0, last)).map_err(engine)?;
    let different = 1 + changes.true_count();
    Ok([
        literal(axis.name()),
        literal(&data_type.to_string()),
        at(0)?,
        at(last)?,
        different.to_string(),
        number(mean),
        number(deviation),
        quantile(0.25)?,
        quantile(0.5)?,
        quantile(0.75)?,
        "count(*)".to_owned(),
        number(Some(0.0)),
    ])
}

/// Returns the text of the value that lies between two coordinates, `weight` of the way from the lower to the upper
/// one. Times are rounded down to their unit.
fn interpolated(
    coordinates: &ArrayRef,
    lower: usize,
    upper: usize,
    weight: f64,
) -> Result<String, ArrowError> {
    let data_type = coordinates.data_type();
    let ends = [lower, upper].map(|index| coordinates.slice(index, 1));
    let value: ArrayRef = if data_type.is_numeric() {
        let [lower, upper] = ends.map(|end| cast(&end, &DataType::Float64));
        let (lower, upper) = (lower?, upper?);
        let [lower, upper] = [&lower, &upper].map(|end| end.as_primitive::<Float64Type>().value(0));
        let value = lower + (upper - lower) * weight;
        if !data_type.is_floating() {
            return Ok(value.to_string());
        }
        Arc::new(Float64Array::from(vec![value]))
    } else {
        let [lower, upper] = ends.map(|end| cast(&end, &DataType::Int64));
        let (lower, upper) = (lower?, upper?);
        let [lower, upper] = [&lower, &upper].map(|end| end.as_primitive::<Int64Type>().value(0));
        let distance = (i128::from(upper) - i128::from(lower)) as f64;
        let value = lower.saturating_add((distance * weight) as i64);
        Arc::new(Int64Array::from(vec![value]))
    };
    let value = cast(&value, data_type)?;
    let formatter = ArrayFormatter::try_new(value.as_ref(), &READABLE)?;
    formatter.value(0).try_to_string()
}

/// Returns the mean and the sample standard deviation of `cells` cells in which each value occurs
/// equally often.
fn moments(values: &ArrayRef, cells: u64) -> Result<(Option<f64>, Option<f64>), ArrowError> {
    let values = cast(values, &DataType::Float64)?;
    let values = values.as_primitive::<Float64Type>().values();
    let (count, cells) = (values.len() as f64, cells as f64);
    let mean = values.iter().sum::<f64>() / count;
    let squares = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / count;
    let deviation = (squares * cells / (cells - 1.0)).sqrt();
    Ok((
        Some(mean),
        Some(deviation).filter(|deviation| deviation.is_finite()),
    ))
}

/// Returns the row about a column, computed by aggregates. Slow aggregates are used only if
/// `is_thorough`.
fn of_column(name: &str, data_type: &DataType, is_thorough: bool) -> Row {
    let column = quote_identifier(name);
    let is_nested = data_type.is_nested() || matches!(data_type, DataType::Null);
    let when = |wanted: bool, text: String, kind: &str| match wanted {
        true => text,
        false => null(kind),
    };
    let text = |function: &str| format!("CAST({function}({column}) AS VARCHAR)");
    let quantile = |fraction: f64| {
        let sql = format!("CAST(approx_percentile_cont({column}, {fraction}) AS VARCHAR)");
        when(is_thorough && data_type.is_numeric(), sql, "VARCHAR")
    };
    let different = format!("CAST(approx_distinct({column}) AS BIGINT)");
    let moment = |function: &str| {
        let sql = format!("CAST({function}({column}) AS DOUBLE)");
        when(data_type.is_numeric(), sql, "DOUBLE")
    };
    [
        literal(name),
        literal(&data_type.to_string()),
        when(!is_nested, text("min"), "VARCHAR"),
        when(!is_nested, text("max"), "VARCHAR"),
        when(is_thorough && !is_nested, different, "BIGINT"),
        moment("avg"),
        moment("stddev"),
        quantile(0.25),
        quantile(0.5),
        quantile(0.75),
        "count(*)".to_owned(),
        format!("round(100.0 * (count(*) - count({column})) / nullif(count(*), 0), 2)"),
    ]
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn number(value: Option<f64>) -> String {
    match value {
        Some(value) => format!("CAST('{value}' AS DOUBLE)"),
        None => null("DOUBLE"),
    }
}

fn null(kind: &str) -> String {
    format!("CAST(NULL AS {kind})")
}
