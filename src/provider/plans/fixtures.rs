//! Plans before and after a rule, and the arrays that they read, for the tests of rules.

use arrow::array::AsArray;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;

use crate::format::tet::{DatasetSpec, Dtype, TetWriter};
use crate::{ArrayOptions, ArraySessionExt, enable_arrays};

/// Creates a session of three partitions with arrays of 4 times, 5 latitudes and 6 longitudes. `a`
/// and `b` have the same axes and different chunks; `c` has other latitudes.
pub(crate) async fn arrays() -> (TempDir, SessionContext) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.tet");
    let arrays = [
        ("a", [3, 2, 4], ["-20", "-10", "0", "10", "20"]),
        ("b", [2, 5, 3], ["-20", "-10", "0", "10", "20"]),
        ("c", [3, 2, 4], ["-10", "0", "10", "20", "30"]),
    ];
    let specs = arrays.map(|(name, chunks, lats)| {
        DatasetSpec::new(name, Dtype::F32, &[4, 5, 6], &chunks)
            .with_dim_names(["time", "lat", "lon"])
            .with_labels("lat", lats)
    });
    let cells: Vec<u8> = (0..120).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let mut writer = TetWriter::create(&path, specs.to_vec()).unwrap();
    for number in 0..arrays.len() {
        writer.write_dataset(number, &cells).unwrap();
    }
    writer.finish().unwrap();
    let config = SessionConfig::new()
        .with_target_partitions(3)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    let options = ArrayOptions::new();
    ctx.register_array_file_as("f", &path, options)
        .await
        .unwrap();
    set(&ctx, "datafusion.catalog.default_schema", "'f'").await;
    (folder, ctx)
}

/// Changes a setting.
pub(crate) async fn set(ctx: &SessionContext, setting: &str, value: &str) {
    let set = format!("SET {setting} = {value}");
    ctx.sql(&set).await.unwrap().collect().await.unwrap();
}

/// Returns the physical plan of a query without and with the rule that `setting` turns on.
pub(crate) async fn before_and_after(ctx: &SessionContext, setting: &str, sql: &str) -> String {
    let mut text = String::new();
    for (state, is_wanted) in [("before", "false"), ("after", "true")] {
        set(ctx, setting, is_wanted).await;
        let explain = format!("EXPLAIN FORMAT INDENT {sql}");
        let batches = ctx.sql(&explain).await.unwrap().collect().await.unwrap();
        let rows = batches.iter().flat_map(|batch| {
            let [kinds, plans] = [0, 1].map(|column| batch.column(column).as_string::<i32>());
            kinds.iter().zip(plans.iter())
        });
        let plan = rows.filter(|(kind, _)| *kind == Some("physical_plan"));
        let plan: String = plan.filter_map(|(_, plan)| plan).collect();
        text += &format!("-- {state}\n{}\n", plan.trim_end());
    }
    text
}
