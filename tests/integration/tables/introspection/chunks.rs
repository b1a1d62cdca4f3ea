//! Introspection of the chunks of a table.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::physical_plan::displayable;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArrayTable};

use super::{days, quoted};
use crate::support::cells::data;
use crate::support::sql::{error, open, rows, session, write};

#[tokio::test]
async fn chunks_show_zone_map_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path);
    let ctx = open(&path, ArrayOptions::new()).await;
    let sql = "SELECT chunk, day_first, day_last, place_first, place_last, minimum, maximum, nulls FROM tet_chunks('v')";
    let expected: Vec<_> = (0..10)
        .map(|day| {
            let label = 100 - day;
            let values = match day {
                4 => "NULL NULL 10".to_string(),
                _ => format!("{}.0 {}.0 0", 10 * day, 10 * day + 9),
            };
            format!("[{day}, 0] {label} {label} 0 9 {values}")
        })
        .collect();
    assert_eq!(rows(&ctx, sql).await, expected);
    let zones = "SELECT has_zone_maps FROM tet_files()";
    assert_eq!(rows(&ctx, zones).await, ["true"]);
    // A wide table lists the chunks of each of its datasets. The common type of their values is a
    // double.
    let sql = "SELECT dataset, count(*), min(minimum), max(maximum), arrow_typeof(min(minimum)) \
               FROM tet_chunks('day_place') GROUP BY dataset ORDER BY dataset";
    assert_eq!(
        rows(&ctx, sql).await,
        ["v 10 0.0 99.0 Float64", "w 6 0.0 99.0 Float64"]
    );
    // Zone maps are not used where missing cells are read as values, nor where they are switched
    // off.
    let counts = "SELECT count(minimum), count(nulls) FROM tet_chunks('v')";
    assert_eq!(rows(&ctx, counts).await, ["9 10"]);
    for (setting, expected) in [("fill_as_null", "9 9"), ("zone_maps", "0 0")] {
        let set = |value| format!("SET tet.{setting} = {value}");
        ctx.sql(&set(false)).await.unwrap();
        assert_eq!(rows(&ctx, counts).await, [expected], "{setting}");
        ctx.sql(&set(true)).await.unwrap();
    }
}

#[tokio::test]
async fn several_files_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..3u8 {
        let labels = (0..4).map(|day| (4 * number + day).to_string());
        let spec = DatasetSpec::new("v", Dtype::U8, &[4, 2], &[2, 2])
            .with_dim_names(["day", "place"])
            .with_labels("day", labels);
        let path = folder.path().join(format!("{number}.tet"));
        write(&path, &[(spec, vec![number; 8])]);
    }
    let ctx = session();
    let create = format!(
        "CREATE EXTERNAL TABLE v STORED AS TET LOCATION '{}' OPTIONS (file_column true)",
        folder.path().display()
    );
    ctx.sql(&create).await.unwrap();
    let sql = "SELECT regexp_replace(path, '.*/', ''), chunk, day_first, day_last, stored_bytes FROM tet_chunks('v')";
    let mut expected = Vec::new();
    for number in 0..3 {
        for chunk in 0..2 {
            let first = 4 * number + 2 * chunk;
            expected.push(format!("{number}.tet [{chunk}, 0] {first} {} 4", first + 1));
        }
    }
    assert_eq!(rows(&ctx, sql).await, expected);
    let sql = "SELECT table_schema, table_name, files, shape, chunks, cells, stored_bytes FROM tet_datasets()";
    assert_eq!(rows(&ctx, sql).await, ["public v 3 [4, 2] 6 24 24"]);
    let sql = "SELECT dimension, extent, min, max FROM tet_dimensions() ORDER BY position";
    assert_eq!(rows(&ctx, sql).await, ["day 12 0 11", "place 2 0 1"]);
    // A table registered on its own is not listed as a file of a schema.
    assert_eq!(rows(&ctx, "SELECT count(*) FROM tet_files()").await, ["0"]);
}

#[tokio::test]
async fn extents_of_tiled_files_are_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..4u8 {
        let labels = |first: u8| (0..3).map(move |label| (3 * first + label).to_string());
        let spec = DatasetSpec::new("v", Dtype::U8, &[3, 3], &[3, 3])
            .with_dim_names(["day", "place"])
            .with_labels("day", labels(number % 2))
            .with_labels("place", labels(number / 2));
        let path = folder.path().join(format!("{number}.tet"));
        write(&path, &[(spec, vec![number; 9])]);
    }
    let ctx = session();
    let create = format!(
        "CREATE EXTERNAL TABLE v STORED AS TET LOCATION '{}'",
        folder.path().display()
    );
    ctx.sql(&create).await.unwrap();
    let sql = "SELECT dimension, extent, min, max FROM tet_dimensions() ORDER BY position";
    assert_eq!(rows(&ctx, sql).await, ["day 6 0 5", "place 6 0 5"]);
    let table = ctx.table_provider("v").await.unwrap();
    let described = table.downcast_ref::<ArrayTable>().unwrap().describe();
    let extents = described.unwrap().dimensions.into_iter();
    assert_eq!(extents.map(|one| one.extent).collect::<Vec<_>>(), [6, 6]);
}

#[tokio::test]
async fn a_limit_stops_the_chunk_look_ups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.tet");
    let spec = DatasetSpec::new("v", Dtype::U8, &[100_000], &[1]);
    write(&path, &[(spec, vec![7; 100_000])]);
    let ctx = open(&path, ArrayOptions::new()).await;
    let sql = "SELECT sum(stored_bytes), sum(raw_bytes), count(DISTINCT payload_offset), sum(cells) FROM tet_chunks('v')";
    assert_eq!(rows(&ctx, sql).await, ["100000 100000 100000 100000"]);
    let plan = ctx
        .sql("SELECT chunk, codec FROM tet_chunks('v') LIMIT 3")
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    let text = displayable(plan.as_ref()).indent(false).to_string();
    assert!(
        text.contains("tet_chunks(v), columns=[chunk, codec], fetch=3"),
        "{text}"
    );
    let sql = "SELECT chunk FROM tet_chunks('v') LIMIT 2 OFFSET 99999";
    assert_eq!(rows(&ctx, sql).await, ["[99999]"]);
    // Batches follow the session's batch size, and are smaller where chunks are looked up.
    let batches = ctx.sql("SELECT chunk, codec FROM tet_chunks('v')").await;
    let batches = batches.unwrap().collect().await.unwrap();
    assert!(batches.len() > 90);
    let mut position = 0;
    for batch in &batches {
        assert!(batch.num_rows() <= 8192);
        let chunks = batch.column(0).as_list::<i32>();
        for chunk in chunks.values().as_primitive::<UInt64Type>().values() {
            assert_eq!(*chunk, position);
            position += 1;
        }
        assert_eq!(batch.column(1).null_count(), 0);
    }
    assert_eq!(position, 100_000);
}

#[tokio::test]
async fn unprojected_columns_need_no_look_up() {
    // One of the two chunks has no entry in the index.
    let ctx = open(&data("edge/missing_chunk.tet"), ArrayOptions::new()).await;
    let table = rows(&ctx, "SELECT table_name FROM tet_datasets()")
        .await
        .remove(0);
    let of = |columns: &str| format!("SELECT {columns} FROM tet_chunks('{}')", quoted(&table));
    let count = rows(&ctx, &of("count(*)")).await;
    assert_eq!(rows(&ctx, &of("count(chunk)")).await, count);
    let problems = rows(&ctx, &of("problem")).await;
    let missing: Vec<_> = problems.iter().filter(|text| *text != "NULL").collect();
    assert_eq!(missing.len(), 1, "{problems:?}");
    assert!(missing[0].contains("missing_chunk.tet"), "{problems:?}");
    assert!(
        missing[0].contains("has no row for this chunk"),
        "{problems:?}"
    );
    let sql = of("count(*) - count(stored_bytes), count(problem)");
    assert_eq!(rows(&ctx, &sql).await, ["1 1"]);
    let problems = rows(&ctx, "SELECT problems FROM tet_datasets()").await;
    let expected = "fewer than the dataset has chunks";
    assert!(problems[0].contains(expected), "{problems:?}");
    // A grid of far more chunks than the file has. Counting them needs no look-up, and looking them
    // up fails early.
    let ctx = open(&data("edge/huge_grid_ok_product.tet"), ArrayOptions::new()).await;
    let table = rows(&ctx, "SELECT table_name FROM tet_datasets()")
        .await
        .remove(0);
    let of = |columns: &str| format!("SELECT {columns} FROM tet_chunks('{}')", quoted(&table));
    let chunks = "SELECT chunks FROM tet_datasets()";
    assert_eq!(rows(&ctx, &of("count(*)")).await, rows(&ctx, chunks).await);
    let message = error(&ctx, &of("sum(stored_bytes)")).await;
    assert!(message.contains("has no row for this chunk"), "{message}");
}
