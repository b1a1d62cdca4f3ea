//! Attributes stay out of plans but reach results.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch};
use arrow::datatypes::Float64Type;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tet_sql::format::tet::{DatasetSpec, Dtype, OpenOptions, TetFile};
use tet_sql::{ArrayOptions, ArraySessionExt, annotated_schema, result_schema};

use crate::cells;
use crate::support::sql::{open, rows, sample, session};

/// Two arrays with different attributes, and a coordinate array with attributes.
fn arrays() -> [(DatasetSpec, Vec<u8>); 3] {
    let lat = DatasetSpec::new("lat", Dtype::F64, &[3], &[3])
        .with_dim_names(["lat"])
        .with_attribute("units", "degrees_north");
    let array = |name: &str, units: &str| {
        DatasetSpec::new(name, Dtype::F32, &[2, 3], &[1, 3])
            .with_dim_names(["step", "lat"])
            .with_attribute("units", units)
            .with_attribute("long_name", &format!("the {name}"))
            .with_attribute("_FillValue", "-9")
    };
    [
        (lat, cells!([10.0f64, 20.0, 30.0])),
        (
            array("t", "K"),
            cells!([271.15f32, 272.15, 273.15, 274.15, -9.0, 276.15]),
        ),
        (
            array("rain", "mm"),
            cells!([0.5f32, 0.0, 2.5, 1.0, 4.0, 3.0]),
        ),
    ]
}

#[tokio::test]
async fn aggregates_over_unions_of_different_arrays() {
    let (folder, path, ctx) = sample(&arrays(), ArrayOptions::new()).await;
    let plain = SessionContext::new();
    plain
        .register_array_file_as("f", &path, ArrayOptions::new())
        .await
        .unwrap();
    plain
        .sql("SET datafusion.catalog.default_schema = 'f'")
        .await
        .unwrap();
    let both = "(SELECT * FROM t UNION ALL SELECT * FROM rain)";
    for ctx in [&ctx, &plain] {
        let sql = format!("SELECT max(value), count(*) FROM {both}");
        assert_eq!(rows(ctx, &sql).await, ["276.15 12"]);
        let sql = format!("SELECT lat, min(value) FROM {both} GROUP BY lat ORDER BY lat");
        assert_eq!(rows(ctx, &sql).await, ["10.0 0.5", "20.0 0.0", "30.0 2.5"]);
        let sql = format!("SELECT count(*) FROM (SELECT DISTINCT lat FROM {both})");
        assert_eq!(rows(ctx, &sql).await, ["3"]);
    }
    // Tables in memory keep the attributes of the query that created them.
    for sql in [
        "CREATE TABLE datafusion.public.a AS SELECT * FROM t",
        "CREATE TABLE datafusion.public.b AS SELECT * FROM rain",
    ] {
        ctx.sql(sql).await.unwrap().collect().await.unwrap();
    }
    let sql = "SELECT max(value), count(*) FROM (SELECT * FROM datafusion.public.a UNION ALL SELECT * FROM datafusion.public.b)";
    assert_eq!(rows(&ctx, sql).await, ["276.15 12"]);
    assert_eq!(
        attribute(
            &ctx,
            "SELECT value FROM datafusion.public.a",
            "value",
            "units"
        )
        .await,
        "K"
    );
    // Files keep them too.
    for name in ["t", "rain"] {
        let sql = format!(
            "COPY {name} TO '{}/{name}.parquet'",
            folder.path().display()
        );
        rows(&ctx, &sql).await;
    }
    let sql = format!(
        "SELECT max(value), count(*) FROM (SELECT * FROM '{0}/t.parquet' UNION ALL SELECT * FROM '{0}/rain.parquet')",
        folder.path().display()
    );
    assert_eq!(rows(&ctx, &sql).await, ["276.15 12"]);
}

/// Returns an attribute of a result column, or an empty string if there is none.
async fn attribute(ctx: &SessionContext, sql: &str, column: &str, key: &str) -> String {
    let frame = ctx
        .sql(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let declared = result_schema(frame.logical_plan());
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = batches[0].schema();
    assert_eq!(schema.fields().len(), declared.fields().len(), "{sql}");
    let of = |schema: &arrow::datatypes::Schema| {
        let field = schema.field_with_name(column).unwrap();
        field.metadata().get(key).cloned().unwrap_or_default()
    };
    assert_eq!(of(&schema), of(&declared), "{sql}");
    of(&schema)
}

#[tokio::test]
async fn attributes_follow_expressions_that_preserve_meaning() {
    let (_folder, _, ctx) = sample(&arrays(), ArrayOptions::new()).await;
    for (expression, units, long_name) in [
        ("value", "K", "the t"),
        ("avg(value)", "K", "the t"),
        ("min(value)", "K", "the t"),
        ("round(max(value), 1)", "K", "the t"),
        ("first_value(value ORDER BY lat)", "K", "the t"),
        ("median(value)", "K", "the t"),
        ("CAST(avg(value) AS REAL)", "K", "the t"),
        ("value + 1", "K", "the t"),
        ("2.5 - value", "K", "the t"),
        ("avg(value) - 273.15", "degC", "the t"),
        ("coalesce(value, 0)", "K", "the t"),
        ("value - lag(value) OVER (ORDER BY lat)", "K", "the t"),
        (
            "CASE WHEN lat > 15 THEN value ELSE -value END",
            "K",
            "the t",
        ),
        ("(SELECT max(value) FROM t)", "K", "the t"),
        ("sum(value)", "K", ""),
        ("stddev(value)", "K", ""),
        ("value * 2", "", ""),
        ("var_pop(value)", "", ""),
        ("count(value)", "", ""),
        ("value / 10 + 1", "", ""),
        ("lat", "degrees_north", ""),
        ("max(lat)", "degrees_north", ""),
    ] {
        let sql = format!("SELECT {expression} AS x FROM t WHERE step = 0");
        assert_eq!(
            attribute(&ctx, &sql, "x", "units").await,
            units,
            "{expression}"
        );
        assert_eq!(
            attribute(&ctx, &sql, "x", "long_name").await,
            long_name,
            "{expression}"
        );
    }
    // Through subqueries, joins, unions and sorts.
    for (sql, units) in [
        (
            "SELECT lat, m AS x FROM (SELECT lat, avg(value) AS m FROM t GROUP BY lat) ORDER BY m LIMIT 1",
            "K",
        ),
        (
            "WITH a AS (SELECT * FROM t) SELECT a.value - r.value AS x FROM a JOIN rain r USING (step, lat)",
            "",
        ),
        (
            "SELECT r.value AS x, a.value FROM t AS a JOIN rain r USING (step, lat)",
            "mm",
        ),
        (
            "SELECT a.value - b.value AS x FROM t AS a JOIN t AS b USING (step, lat)",
            "K",
        ),
        (
            "SELECT value AS x FROM t UNION ALL SELECT max(value) FROM t",
            "K",
        ),
        (
            "SELECT value AS x FROM t UNION ALL SELECT value FROM rain",
            "",
        ),
        (
            "SELECT lat AS x, sum(value) FROM t GROUP BY ROLLUP (lat)",
            "degrees_north",
        ),
        ("SELECT t AS x, rain FROM step_lat", "K"),
        (
            "SELECT DISTINCT ON (lat) value AS x FROM t ORDER BY lat",
            "K",
        ),
    ] {
        assert_eq!(attribute(&ctx, sql, "x", "units").await, units, "{sql}");
    }
    // A mean is not a dimension and has no fill value.
    let sql = "SELECT lat, max(lat) AS north, avg(value) AS x FROM t GROUP BY lat";
    assert_eq!(attribute(&ctx, sql, "x", "_FillValue").await, "");
    let schema = result_schema(ctx.sql(sql).await.unwrap().logical_plan());
    let is_dimension = |index: usize| schema.field(index).metadata().contains_key("tet:dimension");
    assert_eq!([is_dimension(0), is_dimension(1)], [true, false]);
}

#[tokio::test]
async fn numbers_of_times_keep_no_unit_that_is_not_theirs() {
    let spec = DatasetSpec::new("t", Dtype::I32, &[3], &[3])
        .with_dim_names(["step"])
        .with_attribute("units", "days since 2000-01-01")
        .with_attribute("calendar", "noleap");
    let arrays = [(spec, cells!([58i32, 59, 60]))];
    let decoded = sample(&arrays, ArrayOptions::new()).await;
    let stored = sample(&arrays, ArrayOptions::new().with_decode_times(false)).await;
    let spec = DatasetSpec::new("t", Dtype::I32, &[1], &[1]);
    let spec = spec.with_attribute("units", "Days\tSince 2000-01-01");
    let capitals = sample(&[(spec, cells!([58i32]))], ArrayOptions::new()).await;
    let days = "days since 2000-01-01";
    for (ctx, expression, units, calendar) in [
        (&decoded.2, "value", days, "noleap"),
        (&decoded.2, "max(value)", days, "noleap"),
        (&decoded.2, "CAST(value AS BIGINT)", "", ""),
        (&decoded.2, "max(CAST(value AS DOUBLE))", "", ""),
        (&capitals.2, "CAST(value AS BIGINT)", "", ""),
        (&stored.2, "value + 1", days, "noleap"),
        (&stored.2, "CAST(value AS BIGINT)", days, "noleap"),
        (&stored.2, "value - step", "", ""),
        (&stored.2, "value - value", "", ""),
        (&stored.2, "-value", "", ""),
        (&stored.2, "100 - value", "", ""),
        (&stored.2, "abs(value)", "", ""),
        (&stored.2, "sum(value)", "", ""),
    ] {
        let sql = format!("SELECT {expression} AS x FROM t");
        assert_eq!(attribute(ctx, &sql, "x", "units").await, units, "{sql}");
        let found = attribute(ctx, &sql, "x", "calendar").await;
        assert_eq!(found, calendar, "{sql}");
    }
}

#[tokio::test]
async fn attribute_functions_in_queries() {
    let (_folder, path, ctx) = sample(&arrays(), ArrayOptions::new()).await;
    let sql = "SELECT DISTINCT arrow_metadata(value, 'units'), arrow_metadata(lat, 'units'), arrow_metadata(value, 'none') FROM t";
    assert_eq!(rows(&ctx, sql).await, ["K degrees_north NULL"]);
    let sql = "SELECT count(*) FROM t WHERE arrow_metadata(value, 'units') = 'K' AND lat > 10";
    assert_eq!(rows(&ctx, sql).await, ["4"]);
    let sql = "SELECT map_extract(arrow_metadata(avg(value)), 'long_name') FROM t";
    assert_eq!(rows(&ctx, sql).await, ["[the t]"]);
    // A table reports its attributes without a query, in any session.
    let plain = SessionContext::new();
    plain
        .register_array_file_as("f", &path, ArrayOptions::new())
        .await
        .unwrap();
    let table = plain.table_provider("f.t").await.unwrap();
    assert!(
        table
            .schema()
            .fields()
            .iter()
            .all(|field| field.metadata().is_empty())
    );
    let schema = annotated_schema(table.as_ref());
    assert_eq!(
        schema.field_with_name("value").unwrap().metadata()["units"],
        "K"
    );
}

#[tokio::test]
async fn parquet_reads_back_with_its_dimensions() {
    let (folder, _, ctx) = sample(&arrays(), ArrayOptions::new()).await;
    let at = |name: &str| folder.path().join(name).display().to_string();
    rows(&ctx, &format!("COPY rain TO '{}'", at("rain.parquet"))).await;
    let read = format!("SELECT * FROM '{}'", at("rain.parquet"));
    assert_eq!(attribute(&ctx, &read, "value", "units").await, "mm");
    assert_eq!(
        attribute(&ctx, &read, "lat", "units").await,
        "degrees_north"
    );
    // Without `dims`, `rain` is read back from the rows: `step` is an integer dimension, `lat` one
    // with fractions.
    rows(&ctx, &format!("COPY ({read}) TO '{}'", at("again.tet"))).await;
    let again = open(&folder.path().join("again.tet"), ArrayOptions::new()).await;
    let sql = "SELECT step, lat, value FROM rain ORDER BY step, lat";
    assert_eq!(rows(&again, sql).await, rows(&ctx, sql).await);
    let file = TetFile::open(folder.path().join("again.tet"), OpenOptions::default()).unwrap();
    let dataset = file.dataset("rain").unwrap();
    assert_eq!(file.metadata(dataset).unwrap().attrs["units"], "mm");
    // As an external table, also over several files that share some attributes.
    let sql = format!(
        "CREATE EXTERNAL TABLE datafusion.public.e STORED AS PARQUET LOCATION '{}'",
        at("rain.parquet")
    );
    rows(&ctx, &sql).await;
    let sql = "SELECT max(value) AS x FROM datafusion.public.e";
    assert_eq!(attribute(&ctx, sql, "x", "units").await, "mm");
    rows(&ctx, &format!("COPY t TO '{}/1.parquet'", at("many"))).await;
    rows(&ctx, &format!("COPY rain TO '{}/2.parquet'", at("many"))).await;
    let sql = format!("SELECT lat, value FROM '{}/'", at("many"));
    assert_eq!(attribute(&ctx, &sql, "lat", "units").await, "degrees_north");
    assert_eq!(attribute(&ctx, &sql, "value", "units").await, "");
}

/// Returns a batch with the given values in a column `x`.
fn batch(values: &[f64]) -> RecordBatch {
    let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    RecordBatch::try_from_iter([("x", values)]).unwrap()
}

async fn bits(ctx: &SessionContext, sql: &str) -> Vec<u64> {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let columns = batches
        .iter()
        .map(|batch| batch.column(0).as_primitive::<Float64Type>().clone());
    columns
        .flat_map(|column| column.values().to_vec())
        .map(f64::to_bits)
        .collect()
}

#[tokio::test]
async fn nan_in_parquet_stays_nan() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let values = [2.0, f64::NAN, f64::NAN];
    let expected: Vec<_> = values.iter().map(|value| value.to_bits()).collect();
    // DataFusion writes statistics with a min and a max of 2, which exclude NaN.
    let plain = SessionContext::new();
    let frame = plain.read_batch(batch(&values)).unwrap();
    let options = DataFrameWriteOptions::new().with_single_file_output(true);
    frame
        .write_parquet(&at("plain.parquet"), options, None)
        .await
        .unwrap();
    let ctx = session();
    let sql = format!("SELECT x FROM '{}'", at("plain.parquet"));
    assert_eq!(bits(&ctx, &sql).await, expected);
    let sql = format!(
        "SELECT count(*) FROM '{0}' WHERE x = 2 UNION ALL SELECT count(*) FROM '{0}'",
        at("plain.parquet")
    );
    let mut counts = rows(&ctx, &sql).await;
    counts.sort();
    assert_eq!(counts, ["1", "3"]);
    ctx.register_parquet("p", at("plain.parquet"), ParquetReadOptions::default())
        .await
        .unwrap();
    assert_eq!(bits(&ctx, "SELECT x FROM p").await, expected);
    assert_eq!(
        bits(&ctx, "SELECT max(x) FROM p").await,
        [f64::NAN.to_bits()]
    );
    // Files written by our session are correct in other sessions as well.
    rows(&ctx, &format!("COPY p TO '{}'", at("ours.parquet"))).await;
    plain
        .register_parquet("p", at("ours.parquet"), ParquetReadOptions::default())
        .await
        .unwrap();
    assert_eq!(bits(&plain, "SELECT x FROM p").await, expected);
    assert_eq!(
        rows(&plain, "SELECT count(*) FROM p WHERE x > 3").await,
        ["2"]
    );
}

#[tokio::test]
async fn the_declared_types_of_a_union_are_those_of_its_rows() {
    let (_folder, _, ctx) = sample(&arrays(), ArrayOptions::new()).await;
    ctx.sql("CREATE VIEW mixed AS SELECT CAST(1 AS INT) AS x UNION ALL SELECT 1.5")
        .await
        .unwrap();
    for sql in [
        "SELECT CAST(1 AS INT) AS x UNION ALL SELECT CAST(1.5 AS DOUBLE)",
        "SELECT x + 1 AS x FROM (SELECT CAST(1 AS SMALLINT) AS x UNION SELECT 2.5) ORDER BY x",
        "SELECT (SELECT max(x) FROM (SELECT CAST(1 AS INT) AS x UNION ALL SELECT 1.5) AS u) AS x",
        "SELECT lat AS x FROM t UNION ALL SELECT value FROM t UNION ALL SELECT 1",
        "SELECT x FROM mixed",
    ] {
        let frame = ctx.sql(sql).await.unwrap();
        let declared = result_schema(frame.logical_plan());
        let batches = frame.collect().await.unwrap();
        let types = |schema: &arrow::datatypes::Schema| schema.field(0).data_type().clone();
        assert_eq!(types(&declared), types(&batches[0].schema()), "{sql}");
    }
}
