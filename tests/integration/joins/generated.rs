//! Generated joins of tables that share column names, compared with the same joins after renaming
//! every column.
//!
//! The expected rows come from DataFusion over rows in memory, in one partition, without filter
//! pushdown, and with unique column names in each query. `TET_SQL_JOINS` sets the number of
//! queries, `TET_SQL_SEED` the first seed.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int16Array};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};
use tetration::catalog::embed_indexes_in_tet;

use crate::cells;
#[cfg(feature = "proto")]
use crate::support::encoded::Encoded;
use crate::support::sql::{register_rows, rows, texts, write};
use crate::tables::exploded::Random;

const AXES: [(&str, usize); 3] = [("time", 4), ("lat", 5), ("lon", 6)];
/// Three arrays, and a Parquet file with the rows of a fourth.
const TABLES: [&str; 4] = ["a", "b", "c", "parquet"];

fn axes(table: &str) -> &'static [(&'static str, usize)] {
    if table == "c" { &AXES[1..] } else { &AXES }
}

/// The cells of an array. NaN stands for null.
fn values(table: &str) -> Vec<f64> {
    let mut random = Random(table.len() as u64 + u64::from(table.as_bytes()[0]));
    let count = axes(table).iter().map(|(_, length)| length).product();
    let mut value = || match random.below(6) {
        0 if table != "b" => f64::NAN,
        // Only twelve distinct values, so that joins and predicates on values match some rows.
        _ => random.below(12) as f64 - 3.0,
    };
    (0..count).map(|_| value()).collect()
}

fn nullable(values: &[f64]) -> impl Iterator<Item = Option<f64>> + '_ {
    values
        .iter()
        .map(|value| (!value.is_nan()).then_some(*value))
}

fn array(table: &str) -> ArrayRef {
    let values = values(table);
    match table {
        "b" => Arc::new(Int16Array::from_iter_values(
            values.iter().map(|v| *v as i16),
        )),
        "c" => Arc::new(Float64Array::from_iter(nullable(&values))),
        _ => Arc::new(Float32Array::from_iter(
            nullable(&values).map(|value| value.map(|value| value as f32)),
        )),
    }
}

fn write_arrays(path: &Path) {
    let spec = |table: &str, dtype, chunks: &[u64]| {
        let shape: Vec<_> = axes(table).iter().map(|(_, n)| *n as u64).collect();
        let names: Vec<_> = axes(table).iter().map(|(name, _)| *name).collect();
        DatasetSpec::new(table, dtype, &shape, chunks).with_dim_names(names)
    };
    let datasets = [
        (
            spec("a", Dtype::F32, &[2, 2, 3]),
            cells!(values("a").into_iter().map(|v| v as f32)),
        ),
        (
            spec("b", Dtype::I16, &[1, 5, 2]),
            cells!(values("b").into_iter().map(|v| v as i16)),
        ),
        (spec("c", Dtype::F64, &[2, 2]), cells!(values("c"))),
    ];
    write(path, &datasets);
    embed_indexes_in_tet(path, 1).unwrap();
}

/// A session over the array file and the Parquet file. Each bit of `setting` switches one option.
async fn session_under_test(path: &Path, parquet: &Path, setting: usize) -> SessionContext {
    let is = |bit: usize| setting & bit != 0;
    let optimizer = "datafusion.optimizer";
    let config = SessionConfig::new()
        .with_target_partitions(if is(1) { 3 } else { 1 })
        .with_batch_size(if is(2) { 7 } else { 8192 })
        .set_usize(&format!("{optimizer}.repartition_file_min_size"), 1)
        .set_bool(
            &format!("{optimizer}.enable_dynamic_filter_pushdown"),
            !is(4),
        );
    let config = match is(8) {
        true => config
            .set_usize(
                &format!("{optimizer}.hash_join_single_partition_threshold"),
                1,
            )
            .set_usize(
                &format!("{optimizer}.hash_join_single_partition_threshold_rows"),
                1,
            ),
        false => config,
    };
    let config = config.set_bool("datafusion.execution.parquet.pushdown_filters", true);
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    if is(16) {
        rows(&ctx, "SET tet.zip_joins = false").await;
    }
    if is(64) {
        rows(&ctx, "SET tet.lookup_joins = false").await;
    }
    ctx.register_array_file_as("f", path, ArrayOptions::new())
        .await
        .unwrap();
    rows(&ctx, "SET datafusion.catalog.default_schema = 'f'").await;
    let location = parquet.display();
    let sql = format!("CREATE EXTERNAL TABLE parquet STORED AS PARQUET LOCATION '{location}'");
    rows(&ctx, &sql).await;
    #[cfg(feature = "proto")]
    if is(32) {
        Encoded::add_to(&ctx, &[]);
    }
    ctx
}

/// A session over the same rows in memory, without the filter pushdown rules.
fn reference_session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(1);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    let rules = SessionStateBuilder::new().with_default_features().build();
    let rules = rules.physical_optimizers().iter();
    let rules = rules.filter(|rule| !rule.name().starts_with("FilterPushdown"));
    let state = state.with_physical_optimizer_rules(rules.cloned().collect());
    let ctx = SessionContext::new_with_state(state.build());
    for table in TABLES {
        register_rows(&ctx, table, axes(table), array(table));
    }
    ctx
}

/// A table of a FROM clause: its name, its alias and its columns.
struct Source {
    /// The SQL of the table, without alias and column list.
    table: String,
    alias: char,
    columns: Vec<&'static str>,
}

/// A query with a placeholder such as `{x.lat}` for each column.
struct Template {
    sql: String,
    sources: Vec<Source>,
}

impl Template {
    fn render(&self, renames: bool) -> String {
        let mut sql = self.sql.clone();
        for Source {
            table,
            alias,
            columns,
        } in &self.sources
        {
            let renamed = |column: &str| match renames {
                true => format!("{alias}_{column}"),
                false => column.to_string(),
            };
            let names: Vec<_> = columns.iter().map(|column| renamed(column)).collect();
            // Arrays keep their column names unless all columns are renamed.
            let list = match renames || table.starts_with('(') {
                true => format!("({})", names.join(", ")),
                false => String::new(),
            };
            sql = sql.replace(&format!("{{{alias}}}"), &format!("{table} {alias}{list}"));
            for column in columns {
                let written = format!("{{{alias}.{column}}}");
                sql = sql.replace(&written, &format!("{alias}.{}", renamed(column)));
            }
        }
        sql
    }
}

fn source(random: &mut Random, alias: char) -> Source {
    if random.chance(15) {
        let mut row = || format!("({}, {})", random.below(6), random.below(9));
        let rows = [row(), row(), row()].join(", ");
        return Source {
            table: format!("(VALUES {rows})"),
            alias,
            columns: vec!["lat", "value"],
        };
    }
    let table = *random.pick(&TABLES);
    let mut columns: Vec<_> = axes(table).iter().map(|(name, _)| *name).collect();
    columns.push("value");
    Source {
        table: table.to_string(),
        alias,
        columns,
    }
}

fn column(random: &mut Random, source: &Source) -> String {
    format!("{{{}.{}}}", source.alias, random.pick(&source.columns))
}

fn value(source: &Source) -> String {
    format!("{{{}.value}}", source.alias)
}

/// A random predicate over one or two tables. Most kinds can be true for nulls.
fn condition(random: &mut Random, sources: &[Source]) -> String {
    let one = random.pick(sources);
    let other = random.pick(sources);
    let (number, column) = (random.below(7), column(random, one));
    let (left, right) = (value(one), value(other));
    match random.below(11) {
        0 => format!("{left} IS NULL"),
        1 => format!("coalesce({left}, 0) < {right}"),
        2 => format!("({left} IS DISTINCT FROM {right})"),
        3 => format!("({left} > {number} OR {right} <= {number})"),
        4 => format!("({column} = {number} OR {right} IS NULL)"),
        5 => format!("{column} IN (SELECT l FROM (VALUES ({number}), (3)) q(l))"),
        6 => format!("{column} IN (1, {number}, 3, 7)"),
        7 => format!("({left} > {number}) IS NOT TRUE"),
        8 => format!("{column} = (SELECT max(l) FROM (VALUES ({number}), (1)) q(l))"),
        9 => format!("EXISTS (SELECT 1 FROM (VALUES ({number}), (2)) q(l) WHERE q.l = {column})"),
        _ => format!("{column} >= {number}"),
    }
}

fn query(random: &mut Random) -> Template {
    let mut sources = vec![source(random, 'x')];
    let mut from = "{x}".to_string();
    let mut visible = vec![0];
    for alias in ['y', 'z'].into_iter().take(1 + random.below(2)) {
        let mut right = source(random, alias);
        if alias == 'z' && random.chance(50) {
            let row = random.below(6);
            right.table = format!("(VALUES ({row}, {}), (2, 5))", random.below(6));
            right.columns = vec!["lat", "value"];
        }
        let left = &sources[*random.pick(&visible)];
        let shared = left.columns.iter().filter(|c| right.columns.contains(c));
        let shared: Vec<_> = shared.copied().collect();
        let mut keys = random.some(&shared, 70);
        if keys == ["value"] && random.chance(70) {
            keys = vec!["lat"];
        }
        let on: Vec<_> = keys
            .iter()
            .map(|key| format!("{{{}.{key}}} = {{{alias}.{key}}}", left.alias))
            .collect();
        let kinds = [
            "JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "LEFT SEMI JOIN",
        ];
        let mut kind = *random.pick(&kinds);
        if alias == 'y' && kind == "LEFT SEMI JOIN" {
            kind = "JOIN";
        }
        if kind != "LEFT SEMI JOIN" {
            visible.push(sources.len());
        }
        sources.push(right);
        from = format!("{from} {kind} {{{alias}}} ON {}", on.join(" AND "));
    }
    let (shown, hidden): (Vec<_>, Vec<_>) = sources
        .into_iter()
        .enumerate()
        .partition(|(number, _)| visible.contains(number));
    let mut shown: Vec<_> = shown.into_iter().map(|(_, source)| source).collect();
    let conditions: Vec<_> = (0..random.below(4))
        .map(|_| condition(random, &shown))
        .collect();
    let filter = match conditions.as_slice() {
        [] => String::new(),
        all => format!(" WHERE {}", all.join(" AND ")),
    };
    let chosen: Vec<_> = (0..2 + random.below(3))
        .map(|_| {
            let source = random.pick(&shown);
            column(random, source)
        })
        .collect();
    let mut named: Vec<_> = Vec::new();
    for (number, column) in chosen.iter().enumerate() {
        named.push(format!("{column} AS c{number}"));
    }
    let order: Vec<_> = (1..=chosen.len()).map(|n| n.to_string()).collect();
    let order = order.join(", ");
    let sql = match random.below(4) {
        0 => {
            let groups = chosen.join(", ");
            format!(
                "SELECT {}, count(*) AS n FROM {from}{filter} GROUP BY {groups}",
                named.join(", ")
            )
        }
        1 => {
            let limit = 1 + random.below(9);
            format!(
                "SELECT {} FROM {from}{filter} ORDER BY {order} LIMIT {limit}",
                named.join(", ")
            )
        }
        // Groups by same-named columns, joined with another table.
        2 => {
            let (one, other) = (&chosen[0], &chosen[1]);
            let groups = match one == other {
                true => one.clone(),
                false => format!("{one}, {other}"),
            };
            format!(
                "SELECT n, w.k, {one} FROM (SELECT {groups}, count(*) AS n FROM {from}{filter} GROUP BY {groups}) \
                 JOIN (VALUES (1), (3), (4)) w(k) ON {other} = w.k"
            )
        }
        _ => format!("SELECT {} FROM {from}{filter}", named.join(", ")),
    };
    shown.extend(hidden.into_iter().map(|(_, source)| source));
    Template {
        sql,
        sources: shown,
    }
}

/// Runs a query, and returns how its answer differs from the expected rows, which are sorted.
pub(super) async fn difference(
    ctx: &SessionContext,
    sql: &str,
    expected: &[String],
) -> Option<String> {
    let answer = match ctx.sql(sql).await {
        Ok(frame) => frame.collect().await,
        Err(error) => Err(error),
    };
    match answer.map(|batches| texts(&batches)) {
        Ok(mut answer) => {
            answer.sort_unstable();
            let (found, count) = (answer.len(), expected.len());
            (answer != expected).then(|| format!("{found} rows, expected {count}\n{sql}"))
        }
        Err(error) => Some(format!("{}\n{sql}", error.strip_backtrace())),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_same_named_columns_answer_as_with_unique_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.tet");
    let parquet = folder.path().join("a.parquet");
    write_arrays(&path);
    let truth = reference_session();
    let copy = format!(
        "COPY (SELECT * FROM parquet ORDER BY time, lat, lon) TO '{}' STORED AS PARQUET OPTIONS ('format.max_row_group_size' '20')",
        parquet.display()
    );
    rows(&truth, &copy).await;
    let mut sessions = Vec::new();
    for setting in [0, 1, 3, 5, 9, 11, 19, 25, 27, 35, 41, 65, 83] {
        sessions.push((setting, session_under_test(&path, &parquet, setting).await));
    }
    let number = |name: &str, default: u64| {
        let text = std::env::var(name).ok();
        text.map_or(default, |text| text.parse().unwrap())
    };
    let first = number("TET_SQL_SEED", 0);
    let mut found = 0;
    let mut failures = Vec::new();
    for seed in first..first + number("TET_SQL_JOINS", 250) {
        let mut random = Random(seed);
        let template = query(&mut random);
        let mut expected = rows(&truth, &template.render(true)).await;
        expected.sort_unstable();
        found += usize::from(!expected.is_empty());
        let sql = template.render(false);
        for (setting, ctx) in [random.pick(&sessions), random.pick(&sessions)] {
            let difference = difference(ctx, &sql, &expected).await;
            failures
                .extend(difference.map(|text| format!("seed {seed}, setting {setting}: {text}")));
        }
        if failures.len() > 5 {
            break;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(found > 0);
}
