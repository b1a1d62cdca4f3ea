//! Aggregates that run DataFusion's accumulators row by row: their memory accounting and their
//! errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use crate::cells;
use crate::support::sql::{error, rows, rows_without, sample};

static ASKED: AtomicUsize = AtomicUsize::new(0);

/// A count that records how often DataFusion asks for its size.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Counting(Signature);

#[derive(Debug, Default)]
struct Count(i64);

impl AggregateUDFImpl for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::<Count>::default())
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = Field::new(arguments.name, DataType::Int64, true);
        Ok(vec![Arc::new(field)])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

impl Accumulator for Count {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0 += values[0].len() as i64;
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.0)))
    }

    fn size(&self) -> usize {
        ASKED.fetch_add(1, Ordering::Relaxed);
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = states[0].as_primitive::<Int64Type>();
        self.0 += states.values().iter().sum::<i64>();
        Ok(())
    }
}

/// `size` is expensive for many groups, so it is not called after every chunk.
#[tokio::test]
async fn accumulators_are_seldom_asked_for_their_size() {
    let spec = DatasetSpec::new("v", Dtype::F32, &[900, 10], &[1, 10]);
    let (_folder, _, ctx) = sample(&[(spec, vec![0; 36_000])], ArrayOptions::new()).await;
    let signature = Signature::any(1, Volatility::Immutable);
    ctx.register_udaf(AggregateUDF::from(Counting(signature)));
    assert_eq!(rows(&ctx, "SELECT counting(value) FROM v").await, ["9000"]);
    let asked = ASKED.load(Ordering::Relaxed);
    assert!((1..10).contains(&asked), "{asked} times");
}

#[tokio::test]
async fn accumulators_that_outgrow_memory_are_an_error() {
    let numbers = (0..1 << 20).map(|n| n as f32);
    for chunk in [[2, 1 << 19], [2, 1 << 10]] {
        let spec = DatasetSpec::new("v", Dtype::F32, &[2, 1 << 19], &chunk);
        let (folder, path, _) =
            sample(&[(spec, cells!(numbers.clone()))], ArrayOptions::new()).await;
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(3 << 20, 1.0);
        let config = SessionConfig::new().with_target_partitions(1);
        let runtime = Arc::new(runtime.build().unwrap());
        let ctx = SessionContext::new_with_config_rt(config, runtime);
        let ctx = enable_arrays(ctx, ArrayOptions::new());
        ctx.register_array("v".into(), &path, ArrayOptions::new())
            .await
            .unwrap();
        for groups in ["", "GROUP BY dim_0"] {
            let sql = format!("SELECT median(value) FROM v {groups}");
            // The fallback to DataFusion has the same memory limit and fails too.
            let message = error(&ctx, &sql).await;
            assert!(message.contains("Resources exhausted"), "{message}");
        }
        drop(folder);
    }
}

/// An expression that fails on a coordinate fails the query only if rows remain there.
#[tokio::test]
async fn groups_fail_only_where_there_are_rows() {
    let spec = DatasetSpec::new("v", Dtype::F32, &[3, 2], &[3, 2])
        .with_dim_names(["station", "x"])
        .with_labels("station", ["2024-05-01", "a pier", "2024-05-02"]);
    let numbers = [1.0, 2.0, f32::NAN, f32::NAN, 5.0, f32::NAN];
    let (_folder, _, ctx) = sample(&[(spec, cells!(numbers))], ArrayOptions::new()).await;
    for (sql, is_taken, expected) in [
        (
            "SELECT to_date(station), count(*) FROM v WHERE value IS NOT NULL GROUP BY 1 ORDER BY 1",
            false,
            vec!["2024-05-01 2", "2024-05-02 1"],
        ),
        (
            "SELECT to_date(station), count(*) FROM v WHERE value IS NOT NULL AND station <> 'a pier' GROUP BY 1 ORDER BY 1",
            true,
            vec!["2024-05-01 2", "2024-05-02 1"],
        ),
        (
            "SELECT upper(station), count(*) FROM v WHERE value > 1 GROUP BY 1 ORDER BY 1",
            true,
            vec!["2024-05-01 1", "2024-05-02 1"],
        ),
    ] {
        let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
        let found = plan.iter().any(|row| row.contains("ArrayAggregateExec"));
        assert_eq!(found, is_taken, "{sql}");
        assert_eq!(rows(&ctx, sql).await, expected, "{sql}");
    }
    let failing = "SELECT to_date(station), count(*) FROM v GROUP BY 1";
    let message = error(&ctx, failing).await;
    assert!(message.contains("Date32"), "{message}");
}

/// Parts of expressions that use one dimension are evaluated on its coordinates, unless they fail on
/// coordinates without rows, or are null.
#[tokio::test]
async fn expressions_over_one_dimension_among_others() {
    let spec = |name: &str| {
        let lat = (0..4).map(|lat| (lat - 1).to_string());
        DatasetSpec::new(name, Dtype::F32, &[3, 4, 2], &[2, 3, 2])
            .with_dim_names(["time", "lat", "lon"])
            .with_labels("lat", lat)
    };
    let numbers = (0..24).map(|n| n as f32);
    let (_folder, _, ctx) = sample(&[(spec("v"), cells!(numbers))], ArrayOptions::new()).await;
    for (argument, filter) in [
        ("value * cos(lat) + sin(lat)", ""),
        (
            "value * cos(lat) + cos(lat) * time % 2",
            "WHERE value * (lat + 2) > time",
        ),
        ("CASE WHEN lat <> 0 THEN value / (6 / lat) END", ""),
        ("value / (6 / lat)", "WHERE value % 8 > 3 AND lat <> 0"),
        ("value * nullif(lat, 0)", ""),
        (
            "value * coalesce(nullif(lat, 0), 7)",
            "WHERE lon = 1 AND value > 3",
        ),
    ] {
        let sql = format!(
            "SELECT time, round(sum({argument}), 4), max({argument}) FILTER (WHERE value > lat * 3) \
             FROM v {filter} GROUP BY time ORDER BY time"
        );
        let answer = rows(&ctx, &sql).await;
        assert_eq!(
            answer,
            rows_without(&ctx, "tet.array_aggregates", &sql).await,
            "{sql}"
        );
        assert_eq!(answer.len(), 3, "{sql}");
    }
    let message = error(&ctx, "SELECT sum(value / (6 / lat)) FROM v").await;
    assert!(message.contains("Divide by zero"), "{message}");
}

/// Groups of many consecutive rows, of which one has no value.
#[tokio::test]
async fn long_runs_of_a_group() {
    let spec = DatasetSpec::new("v", Dtype::F64, &[5, 20, 30], &[2, 20, 30])
        .with_dim_names(["time", "lat", "lon"]);
    let numbers = (0..3000).map(|n| match n / 600 {
        2 => f64::NAN,
        _ => f64::from(n * 7 % 113 - 50) / 4.0,
    });
    let (_folder, _, ctx) = sample(&[(spec, cells!(numbers))], ArrayOptions::new()).await;
    for argument in [
        "value * value",
        "CAST(value * lat AS DECIMAL(12, 2))",
        "CAST(value * lat AS BIGINT)",
        "value * (v.time + 1)",
    ] {
        for filter in [
            "",
            "FILTER (WHERE value > lat)",
            "FILTER (WHERE value > 1e9)",
        ] {
            let functions = ["avg", "sum", "min", "max", "count"];
            let functions = functions.map(|name| format!("{name}({argument}) {filter}"));
            for from in [
                "v",
                "v JOIN (VALUES (0, 1), (3, 2), (7, 3), (11, 4)) k(y, n) ON v.lat = k.y",
            ] {
                let sql = format!(
                    "SELECT v.time, {} FROM {from} GROUP BY v.time ORDER BY v.time",
                    functions.join(", ")
                );
                let answer = rows(&ctx, &sql).await;
                let mut expected = rows_without(&ctx, "tet.array_aggregates", &sql).await;
                if from != "v" {
                    expected = rows_without(&ctx, "tet.lookup_joins", &sql).await;
                }
                assert_eq!(answer.len(), 5, "{sql}");
                let same = answer.iter().zip(&expected);
                let mut same =
                    same.map(|(one, other)| crate::windows::generated::is_same(one, other));
                assert!(same.all(|same| same), "{sql}\n{answer:?}\n{expected:?}");
                assert!(
                    answer[2].starts_with("2 NULL NULL NULL NULL 0"),
                    "{answer:?}"
                );
            }
        }
    }
}
