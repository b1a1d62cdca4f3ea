//! Filters of values that keep few rows, many rows, or now few and now many.

use std::sync::Arc;

use datafusion::arrow::array::Float32Array;
use datafusion::prelude::SessionContext;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tet_sql::{Access, ArrayOptions};

use crate::cells;
use crate::support::sql::{register_rows, rows, sample};

/// In one chunk of more cells than are tested at once.
const SHAPE: [usize; 3] = [70, 40, 50];

/// Noise from 0 to 1000 with a run of 2000. One cell in 97 is NaN.
fn value(cell: usize) -> f32 {
    match cell {
        _ if cell.is_multiple_of(97) => f32::NAN,
        60_000..69_000 => 2000.0,
        _ => (cell as u32).wrapping_mul(2_654_435_761) as f32 / u32::MAX as f32 * 1000.0,
    }
}

#[tokio::test]
async fn filters_of_any_density_keep_their_rows() {
    let values: Vec<f32> = (0..SHAPE.iter().product()).map(value).collect();
    let shape = SHAPE.map(|length| length as u64);
    let column = values
        .iter()
        .map(|value| (!value.is_nan()).then_some(*value));
    let column = Arc::new(column.collect::<Float32Array>());
    let axes = [("x", SHAPE[0]), ("y", SHAPE[1]), ("z", SHAPE[2])];
    for (access, compression) in [
        (Access::Mmap, Compression::Raw),
        (Access::Pread, Compression::Raw),
        (Access::Mmap, Compression::Zstd { level: 1 }),
    ] {
        let spec = DatasetSpec::new("a", Dtype::F32, &shape, &shape);
        let spec = spec.with_dim_names(["x", "y", "z"]);
        let spec = spec.with_compression(compression);
        let options = ArrayOptions::new().with_access(access);
        let cells = cells!(values.iter().copied());
        let (_folder, _, ctx) = sample(&[(spec, cells)], options).await;
        register_rows(&ctx, "r", &axes, Arc::clone(&column) as _);
        compare(&ctx, &format!("{access:?} {compression:?}")).await;
    }
}

/// Compares the answers of the array `a` and of its rows `r`.
async fn compare(ctx: &SessionContext, layout: &str) {
    for (batch_size, columns) in [(300, "x, y, z, value"), (8192, "value, y")] {
        let setting = format!("SET datafusion.execution.batch_size = {batch_size}");
        rows(ctx, &setting).await;
        for filter in [
            "value > 999",
            "value > 970",
            "value > 800 AND value < 1500",
            "value < 600",
            "value IN (2000, 3)",
            "value IS NULL",
            "value > 970 AND y BETWEEN 3 AND 30",
            "value > 900 AND z < 33 AND x % 3 = 1",
            "value + x > 1000 AND value > 950",
        ] {
            let sql = |table: &str| format!("SELECT {columns} FROM {table} WHERE {filter}");
            let [mut found, mut expected] =
                [rows(ctx, &sql("a")).await, rows(ctx, &sql("r")).await];
            found.sort();
            expected.sort();
            assert!(!found.is_empty());
            assert!(found == expected, "{layout}, {batch_size}: {}", sql("a"));
        }
    }
}
