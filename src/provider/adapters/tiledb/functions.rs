//! The table functions `tiledb_at('t', time)` and `tiledb_fragments('t')`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, StringArray, TimestampMillisecondArray,
    UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::array_value_to_string;
use datafusion::catalog::{MemTable, Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::SessionConfig;

use crate::format::tiledb::{Fragment, IndexBox};
use crate::provider::adapters::tiledb::options::TIMESTAMP;
use crate::provider::adapters::tiledb::stored::{FORMAT, StoredArray};
use crate::provider::catalog::reopen;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::introspection::lookup;
use crate::provider::source::recipe::{Recipe, TableRecipe};

/// `tiledb_at('t', time)`: the table as of an earlier or later time.
#[derive(Debug)]
pub(super) struct At;

impl At {
    /// The name of the function.
    pub const NAME: &'static str = "tiledb_at";
}

impl TableFunctionImpl for At {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let (Some(table), Some(time), 2) = (
            args.exprs().first().and_then(text),
            args.exprs()
                .get(1)
                .map(|time| constant(time, args.session())),
            args.exprs().len(),
        ) else {
            return plan_err!(
                "{} takes the name of a table and a time or a number of milliseconds since 1970, \
                 as in SELECT * FROM {}('t', '2024-05-01T00:00:00Z')",
                Self::NAME,
                Self::NAME
            );
        };
        let time = time.and_then(|time| milliseconds(&time))?;
        let mut recipe = recipe(Self::NAME, args.session(), &table)?;
        let config = args.session().config();
        let options = set_time(&mut recipe, &time);
        let source = reopen::open(&recipe, config)?;
        Ok(Arc::new(ArrayTable::new(source, options)))
    }
}

/// Sets the time of all arrays of a recipe. Returns the options of the last array.
fn set_time(recipe: &mut Recipe, time: &str) -> crate::ArrayOptions {
    match recipe {
        Recipe::Table(table) => {
            let options = std::mem::take(&mut table.options);
            table.options = options.with_format_option(TIMESTAMP, time);
            // The recipe identifies the fragments of the earlier time.
            table.identity = None;
            table.options.clone()
        }
        Recipe::Files { files, .. } => {
            let options = files.iter_mut().map(|(_, recipe)| set_time(recipe, time));
            options.last().unwrap_or_default()
        }
        Recipe::Aligned { grids, .. } => {
            let options = grids.iter_mut().map(|recipe| set_time(recipe, time));
            options.last().unwrap_or_default()
        }
        Recipe::Repeated { grid, values, .. } | Recipe::Reindexed { grid, values, .. } => {
            set_time(values, time);
            set_time(grid, time)
        }
        Recipe::Sorted { grid, .. } | Recipe::KeyIndex { grid, .. } => set_time(grid, time),
    }
}

/// Returns the recipe of a table of TileDB arrays.
fn recipe(function: &str, session: &dyn Session, name: &str) -> Result<Recipe> {
    let table = lookup::table(function, session, name)?;
    let source = table.downcast_ref::<ArrayTable>().map(ArrayTable::source);
    let recipe = match source {
        Some(source) => source.recipe()?,
        None => None,
    };
    match recipe {
        Some(recipe) if !tables(&recipe).is_empty() => Ok(recipe),
        _ => plan_err!("{function}: {name} is not a table of TileDB arrays"),
    }
}

/// Returns the arrays of a recipe; empty if any array has another format.
fn tables(recipe: &Recipe) -> Vec<&TableRecipe> {
    let mut arrays = Vec::new();
    let inner: Vec<&Recipe> = match recipe {
        Recipe::Table(table) => {
            arrays.push(table);
            Vec::new()
        }
        Recipe::Files { files, .. } => files.iter().map(|(_, recipe)| recipe).collect(),
        Recipe::Aligned { grids, .. } => grids.iter().collect(),
        Recipe::Repeated { grid, values, .. } | Recipe::Reindexed { grid, values, .. } => {
            vec![grid, values]
        }
        Recipe::Sorted { grid, .. } | Recipe::KeyIndex { grid, .. } => vec![grid],
    };
    for recipe in inner {
        arrays.extend(tables(recipe));
    }
    match arrays.iter().all(|table| table.format == FORMAT) {
        true => arrays,
        false => Vec::new(),
    }
}

/// Returns the text of a string literal.
fn text(argument: &Expr) -> Option<String> {
    match argument {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_string),
        _ => None,
    }
}

/// Evaluates an expression without columns, such as `now() - INTERVAL '1 day'`.
fn constant(expression: &Expr, session: &dyn Session) -> Result<ScalarValue> {
    let context = SimplifyContext::builder()
        .with_config_options(Arc::clone(session.config().options()))
        .with_current_time()
        .build();
    let schema = Arc::clone(context.schema());
    let simplifier = ExprSimplifier::new(context);
    let expression = simplifier.coerce(expression.clone(), &schema)?;
    match simplifier.simplify(expression)? {
        Expr::Literal(value, _) => Ok(value),
        other => plan_err!("{}: the time {other} is not a constant", At::NAME),
    }
}

/// Returns a time as an option of the table: a text, or milliseconds since 1970.
fn milliseconds(time: &ScalarValue) -> Result<String> {
    let data_type = time.data_type();
    let time = match data_type {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            let unit = DataType::Timestamp(TimeUnit::Millisecond, None);
            time.cast_to(&unit)?.cast_to(&DataType::Int64)?
        }
        _ => time.clone(),
    };
    match time.try_as_str() {
        _ if time.is_null() => plan_err!("{}: the time is NULL", At::NAME),
        Some(text) => Ok(text.unwrap_or_default().to_string()),
        None if time.data_type().is_integer() => Ok(time.to_string()),
        None => plan_err!(
            "{}: the time has the type {data_type}, expected a timestamp, a text or a number of milliseconds \
             since 1970",
            At::NAME
        ),
    }
}

/// `tiledb_fragments('t')`: the fragments that a table reads. Later ones overwrite the cells of
/// earlier ones.
#[derive(Debug)]
pub(super) struct Fragments;

impl Fragments {
    /// The name of the function.
    pub const NAME: &'static str = "tiledb_fragments";
}

impl TableFunctionImpl for Fragments {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let table = lookup::table_name(Self::NAME, args.exprs())?;
        let recipe = recipe(Self::NAME, args.session(), table)?;
        let config = args.session().config();
        let batches = tables(&recipe).into_iter();
        let batches = batches.map(|table| fragments(table, config));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        // There is at least one array.
        let Some(schema) = batches.first().map(RecordBatch::schema) else {
            return plan_err!("{}: {table} has no arrays", Self::NAME);
        };
        Ok(Arc::new(MemTable::try_new(schema, vec![batches])?))
    }
}

/// Returns one row per fragment of an array.
fn fragments(table: &TableRecipe, session: &SessionConfig) -> Result<RecordBatch> {
    let stored = StoredArray::open(&table.path, &table.table, &table.options, session)?;
    let fragments = stored.array().fragments();
    let count = fragments.len();
    let times = |time: fn((u64, u64)) -> u64| -> ArrayRef {
        let times = fragments
            .iter()
            .map(|fragment| i64::try_from(time(fragment.timestamps())).ok());
        let times = times.collect::<TimestampMillisecondArray>();
        Arc::new(times.with_timezone("UTC"))
    };
    let numbers = |number: &dyn Fn(usize, &Fragment) -> Option<u64>| -> ArrayRef {
        let fragments = fragments.iter().enumerate();
        let numbers = fragments.map(|(index, fragment)| number(index, fragment));
        Arc::new(numbers.collect::<UInt64Array>())
    };
    let flags = |flag: fn(&Fragment) -> bool| -> ArrayRef {
        Arc::new(
            fragments
                .iter()
                .map(|fragment| Some(flag(fragment)))
                .collect::<BooleanArray>(),
        )
    };
    let path = stored.array().path().display().to_string();
    let names = fragments.iter().map(|fragment| fragment.name());
    let versions = fragments.iter().map(Fragment::version);
    let cells = |index: usize, fragment: &Fragment| match stored.array().schema().is_sparse {
        true => Some(fragment.sparse_cells()),
        false => {
            let cells = stored
                .array()
                .fragment_boxes()
                .get(index)
                .cloned()
                .flatten();
            cells.map_or(Some(0), |cells: IndexBox| cells.cells())
        }
    };
    let columns: [(&str, ArrayRef); 11] = [
        ("path", Arc::new(StringArray::from(vec![path; count]))),
        ("fragment", Arc::new(StringArray::from_iter_values(names))),
        ("first_write", times(|(first, _)| first)),
        ("last_write", times(|(_, last)| last)),
        ("version", Arc::new(UInt32Array::from_iter_values(versions))),
        ("tiles", numbers(&|_, fragment| Some(fragment.tiles()))),
        ("cells", numbers(&cells)),
        (
            "stored_bytes",
            numbers(&|_, fragment| Some(fragment.stored_bytes())),
        ),
        ("has_timestamps", flags(Fragment::has_timestamps)),
        ("has_deletes", flags(Fragment::has_deletes)),
        ("domain", Arc::new(domains(&stored)?)),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}

/// Returns the bounding box of each fragment's cells, such as `lat: 1 to 4, lon: 0 to 9`.
fn domains(stored: &StoredArray) -> Result<StringArray> {
    let fragments = stored.array().fragments();
    let mut texts: Vec<Vec<String>> = vec![Vec::new(); fragments.len()];
    for (index, column) in stored.dimensions().iter().enumerate() {
        let domains = fragments
            .iter()
            .map(|fragment| fragment.domain()?.get(index));
        let (lows, highs) = column.intervals(domains)?;
        for (row, texts) in texts.iter_mut().enumerate() {
            if lows.is_valid(row) && highs.is_valid(row) {
                let low = array_value_to_string(&lows, row)?;
                let high = array_value_to_string(&highs, row)?;
                texts.push(format!("{}: {low} to {high}", column.name()));
            }
        }
    }
    let texts = texts
        .into_iter()
        .map(|texts| Some(texts.join(", ")).filter(|text| !text.is_empty()));
    Ok(texts.collect())
}
