//! `tet_functions()`: the functions of the session.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Documentation, Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

/// The name of the function.
pub(crate) const NAME: &str = "tet_functions";

/// Name, signature and description of functions of this crate, in alphabetical order.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "arg_max",
        "arg_max(x, value)",
        "The x of the row with the max value.",
    ),
    (
        "arg_min",
        "arg_min(x, value)",
        "The x of the row with the min value.",
    ),
    ("day", "day(time)", "The day of the month, from 1 to 31."),
    (
        "dayofyear",
        "dayofyear(time)",
        "The day of the year, from 1 to 366.",
    ),
    (
        "haversine",
        "haversine(lat1, lon1, lat2, lon2)",
        "The great-circle distance of two points in kilometres.",
    ),
    (
        "histogram",
        "histogram(value, low, high, bins)",
        "The number of values in each of several bins of equal width.",
    ),
    ("hour", "hour(time)", "The hour of a time, from 0 to 23."),
    #[cfg(feature = "tatami")]
    (
        "matches",
        "matches(text, 'words', 'all' | 'any')",
        "True if a text contains all of the words.",
    ),
    (
        "minute",
        "minute(time)",
        "The minute of the hour, from 0 to 59.",
    ),
    ("month", "month(time)", "The month of a time, from 1 to 12."),
    (
        "nearest",
        "nearest(dimension, target)",
        "True at the coordinate of a dimension that is nearest to the target.",
    ),
    (
        "norm_l1",
        "norm_l1(value)",
        "The sum of the magnitudes of values.",
    ),
    (
        "norm_l2",
        "norm_l2(value)",
        "The square root of the sum of squared values.",
    ),
    ("product", "product(value)", "The product of all values."),
    (
        "quantile",
        "quantile(value, fraction)",
        "The value below which a fraction of all values lies.",
    ),
    (
        "quarter",
        "quarter(time)",
        "The quarter of the year, from 1 to 4.",
    ),
    (
        "season",
        "season(time)",
        "The meteorological season of a time: DJF, MAM, JJA or SON.",
    ),
    (
        "second",
        "second(time)",
        "The second of the minute, from 0 to 59.",
    ),
    #[cfg(feature = "tatami")]
    (
        "tatami_pages",
        "tatami_pages('table')",
        "The pages of the columns, with their encodings and sizes.",
    ),
    #[cfg(feature = "tatami")]
    (
        "tatami_search",
        "tatami_search('table', 'words', 'any' | 'all')",
        "Documents that contain any of the words, the best first.",
    ),
    #[cfg(feature = "tatami")]
    (
        "tatami_terms",
        "tatami_terms('table')",
        "Indexed words, and the number of documents that contain each.",
    ),
    (
        "tet_attributes",
        "tet_attributes()",
        "Attributes of files and columns.",
    ),
    (
        "tet_chunks",
        "tet_chunks('table')",
        "Chunks of a table, with their statistics from zone maps.",
    ),
    (
        "tet_datasets",
        "tet_datasets()",
        "Tables that are arrays: shapes, chunks, codecs, sizes.",
    ),
    (
        "tet_dimensions",
        "tet_dimensions()",
        "Dimensions of arrays, with their coordinates.",
    ),
    (
        "tet_files",
        "tet_files()",
        "Files that are registered as schemas.",
    ),
    (NAME, "tet_functions()", "Functions of the session."),
    (
        "tet_history",
        "tet_history()",
        "Steps in the history of files.",
    ),
    #[cfg(feature = "tiledb")]
    (
        "tiledb_at",
        "tiledb_at('table', time)",
        "A table over TileDB arrays as of a time.",
    ),
    #[cfg(feature = "tiledb")]
    (
        "tiledb_fragments",
        "tiledb_fragments('table')",
        "Fragments of the TileDB arrays of a table.",
    ),
    (
        "week",
        "week(time)",
        "The ISO week of the year, from 1 to 53.",
    ),
    ("year", "year(time)", "The year of a time."),
];

/// The table function.
#[derive(Debug)]
pub(crate) struct Functions;

impl TableFunctionImpl for Functions {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!("{NAME} takes no arguments: SELECT * FROM {NAME}()");
        }
        let field = |name: &str| Field::new(name, DataType::Utf8, true);
        let names = [
            "function_name",
            "function_type",
            "alias_of",
            "syntax_example",
            "description",
        ];
        let schema = Schema::new(names.map(field).to_vec());
        Ok(Arc::new(FunctionTable(Arc::new(schema))))
    }
}

/// The table that the function returns.
#[derive(Debug)]
struct FunctionTable(SchemaRef);

#[async_trait]
impl TableProvider for FunctionTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = rows(state);
        let column = |of: fn(&Row) -> Option<&str>| -> ArrayRef {
            Arc::new(StringArray::from_iter(rows.iter().map(of)))
        };
        let columns = vec![
            column(|row| Some(&row.name)),
            column(|row| Some(row.kind)),
            column(|row| row.alias_of.as_deref()),
            column(|row| Some(&row.syntax)),
            column(|row| row.description.as_deref()),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.0), columns)?;
        let table = MemTable::try_new(Arc::clone(&self.0), vec![vec![batch]])?;
        table.scan(state, projection, filters, limit).await
    }
}

/// A function under one of its names.
struct Row {
    name: String,
    kind: &'static str,
    alias_of: Option<String>,
    syntax: String,
    description: Option<String>,
}

/// Lists the functions of a session, sorted by name and kind.
fn rows(state: &dyn Session) -> Vec<Row> {
    let mut rows = BTreeMap::new();
    let mut add = |name: &str, own: &str, kind, documentation: Option<&Documentation>| {
        let known = |name| KNOWN.iter().find(|(known, ..)| *known == name);
        // A function has the description of the name that it is an alias of.
        let known = known(name).or_else(|| known(own));
        let (syntax, description) = match (known, documentation) {
            (Some((_, syntax, description)), _) => (*syntax, Some(*description)),
            (None, Some(found)) => (found.syntax_example.trim(), Some(found.description.trim())),
            (None, None) => ("", None),
        };
        let row = Row {
            name: name.to_string(),
            kind,
            alias_of: (name != own).then(|| own.to_string()),
            syntax: match syntax {
                "" => format!("{own}(...)"),
                known => known.to_string(),
            },
            description: description.map(str::to_string),
        };
        rows.insert((name.to_string(), kind), row);
    };
    // The operator `||` is a function of the session, too.
    let is_name =
        |name: &str| name.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let scalars = state.scalar_functions().iter();
    for (name, function) in scalars.filter(|(name, _)| is_name(name)) {
        add(name, function.name(), "SCALAR", function.documentation());
    }
    for (name, function) in state.higher_order_functions() {
        add(name, function.name(), "SCALAR", function.documentation());
    }
    for (name, function) in state.aggregate_functions() {
        add(name, function.name(), "AGGREGATE", function.documentation());
    }
    for (name, function) in state.window_functions() {
        add(name, function.name(), "WINDOW", function.documentation());
    }
    let state = state.as_any().downcast_ref::<SessionState>();
    for name in state
        .iter()
        .flat_map(|state| state.table_functions().keys())
    {
        add(name, name, "TABLE", None);
    }
    rows.into_values().collect()
}
