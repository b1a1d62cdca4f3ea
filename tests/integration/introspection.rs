//! The functions that tell what is in files, against the `tetration` crate, the file system and arithmetic.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{TetOptions, TetSessionExt, enable_tet};
use tetration::catalog::{TetPackage, embed_indexes_in_tet};

use crate::cells;
use crate::cells::data;
use crate::packages::publish;
use crate::reference::Reference;
use crate::sql::{error, open, rows, session, write};

/// Files that the reference can read, with chunks of both codecs, clipped ones, and of several datasets.
const FILES: [&str; 6] = [
    "weather_small.tet",
    "coordvars.tet",
    "specials_f64.tet",
    "converted/era.h5.tet",
    "dtypes/dtype_f16_zstd.tet",
    "dtypes/dtype_u64_raw.tet",
];

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

#[tokio::test]
async fn chunks_are_those_of_the_reference() {
    for name in FILES {
        let ctx = open(&data(name), TetOptions::new()).await;
        let reference = Reference::open(&data(name));
        for (id, dataset) in reference.summary.datasets.iter().enumerate() {
            let rank = dataset.shape.len();
            let mut expected: Vec<_> = reference
                .summary
                .chunks
                .iter()
                .filter(|row| row.dataset_id == id as u64)
                .map(|row| {
                    let chunk = &row.chunk_index[..rank];
                    let start: Vec<_> = chunk
                        .iter()
                        .zip(&dataset.chunk_shape)
                        .map(|(position, size)| position * size)
                        .collect();
                    let extent: Vec<_> = start
                        .iter()
                        .zip(dataset.shape.iter().zip(&dataset.chunk_shape))
                        .map(|(start, (length, size))| (length - start).min(*size))
                        .collect();
                    let codec = if row.codec == 0 { "raw" } else { "zstd" };
                    format!(
                        "{} {chunk:?} {start:?} {extent:?} {} {codec} {} {} {} NULL",
                        dataset.name,
                        extent.iter().product::<u64>(),
                        row.payload_offset,
                        row.stored_byte_len,
                        row.raw_byte_len
                    )
                })
                .collect();
            let sql = format!(
                "SELECT dataset, chunk, start, extent, cells, codec, payload_offset, stored_bytes, raw_bytes, problem \
                 FROM tet_chunks('{}')",
                quoted(&dataset.name)
            );
            let mut found = rows(&ctx, &sql).await;
            assert_eq!(found.len(), expected.len(), "{name} {}", dataset.name);
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn datasets_are_those_of_the_reference() {
    for name in FILES {
        let ctx = open(&data(name), TetOptions::new()).await;
        let reference = Reference::open(&data(name));
        let expected: Vec<_> = reference
            .summary
            .datasets
            .iter()
            .enumerate()
            .map(|(id, dataset)| {
                let chunks: Vec<_> = reference
                    .summary
                    .chunks
                    .iter()
                    .filter(|row| row.dataset_id == id as u64)
                    .collect();
                let stored: u64 = chunks.iter().map(|row| row.stored_byte_len).sum();
                let raw: u64 = chunks.iter().map(|row| row.raw_byte_len).sum();
                let attributes = reference.summary.metadata.datasets.get(&dataset.name);
                let attribute = |key: &str| {
                    let text = attributes.and_then(|metadata| metadata.attrs.get(key));
                    text.map_or("NULL", String::as_str).to_string()
                };
                format!(
                    "{0} {0} {1} {2:?} {3:?} {4} {stored} {raw} {5} {6} []",
                    dataset.name,
                    Dtype::from_tag(dataset.dtype).unwrap(),
                    dataset.shape,
                    dataset.chunk_shape,
                    chunks.len(),
                    attribute("units"),
                    attribute("long_name"),
                )
            })
            .collect();
        let sql = "SELECT table_name, dataset, stored_type, shape, chunk_shape, chunks, stored_bytes, raw_bytes, units, \
                   long_name, problems FROM tet_datasets() WHERE dataset IS NOT NULL";
        assert_eq!(rows(&ctx, sql).await, expected, "{name}");
        let summed = "SELECT datasets, chunks, stored_bytes, problem FROM tet_files()";
        let length = fs::metadata(data(name)).unwrap().len();
        let (datasets, chunks) = (expected.len(), reference.summary.chunks.len());
        assert_eq!(
            rows(&ctx, summed).await,
            [format!("{datasets} {chunks} {length} NULL")]
        );
    }
}

#[tokio::test]
async fn history_and_attributes_are_those_of_the_reference() {
    for name in FILES {
        let ctx = open(&data(name), TetOptions::new()).await;
        let reference = Reference::open(&data(name));
        let history = reference.summary.history.iter().enumerate();
        let expected: Vec<_> = history
            .map(|(position, step)| format!("{position} {} {} {}", step.op, step.source, step.at))
            .collect();
        let sql = "SELECT position, op, source, at FROM tet_history() ORDER BY position";
        assert_eq!(rows(&ctx, sql).await, expected, "{name}");
        let mut expected = Vec::new();
        for dataset in reference.names() {
            let metadata = reference.summary.metadata.datasets.get(&dataset);
            for (key, value) in metadata.iter().flat_map(|metadata| &metadata.attrs) {
                expected.push(format!("{dataset} {key} {value}"));
            }
        }
        expected.sort();
        let sql = "SELECT dataset, key, value FROM tet_attributes() WHERE dataset = table_name";
        let mut found = rows(&ctx, sql).await;
        found.sort();
        assert_eq!(found, expected, "{name}");
    }
    // Seconds are times as well.
    let ctx = open(&data("weather_small.tet"), TetOptions::new()).await;
    let sql = "SELECT count(*), bool_and(at::BIGINT = to_unixtime(time)) FROM tet_history()";
    assert!(rows(&ctx, sql).await[0].ends_with(" true"));
}

/// Ten days of ten cells in a chunk each: day d holds 10 d to 10 d + 9. Day 4 is all missing.
fn days(path: &Path) {
    let numbers = (0..100).map(|n| if n / 10 == 4 { -999.0 } else { n as f32 });
    let labels = (0..10).map(|day| (100 - day).to_string());
    let spec = DatasetSpec::new("v", Dtype::F32, &[10, 10], &[1, 10])
        .with_dim_names(["day", "place"])
        .with_labels("day", labels)
        .with_attribute("_FillValue", "-999");
    let wide = DatasetSpec::new("w", Dtype::I64, &[10, 10], &[4, 6])
        .with_dim_names(["day", "place"])
        .with_labels("day", (0..10).map(|day| (100 - day).to_string()));
    write(path, &[(spec, cells!(numbers)), (wide, cells!(0..100i64))]);
    embed_indexes_in_tet(path, 0).unwrap();
}

#[tokio::test]
async fn zone_maps_are_part_of_the_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path);
    let ctx = open(&path, TetOptions::new()).await;
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
    // Of the wide table each dataset has its own chunks; what their values have in common is a double.
    let sql = "SELECT dataset, count(*), min(minimum), max(maximum), arrow_typeof(min(minimum)) \
               FROM tet_chunks('day_place') GROUP BY dataset ORDER BY dataset";
    assert_eq!(
        rows(&ctx, sql).await,
        ["v 10 0.0 99.0 Float64", "w 6 0.0 99.0 Float64"]
    );
    // Not to be trusted where missing values are none, nor wanted.
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
async fn dimensions_say_how_far_they_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.tet");
    days(&path);
    let ctx = open(&path, TetOptions::new()).await;
    let sql = "SELECT position, dimension, extent, data_type, least, greatest, coordinates, direction, is_unique, problem \
               FROM tet_dimensions() WHERE table_name = 'v' ORDER BY position";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "0 day 10 Int64 91 100 labels descending true NULL",
            "1 place 10 Int64 0 9 index ascending true NULL"
        ]
    );
    let labels = ["b", "a", "b", "c"];
    let spec = DatasetSpec::new("t", Dtype::U8, &[4, 1], &[4, 1])
        .with_dim_names(["name", "one"])
        .with_labels("name", labels)
        .with_labels("one", ["2024-05-01"]);
    let path = folder.path().join("texts.tet");
    write(&path, &[(spec, vec![1, 2, 3, 4])]);
    let ctx = open(&path, TetOptions::new()).await;
    let sql = "SELECT dimension, data_type, least, greatest, direction, is_unique FROM tet_dimensions() ORDER BY position";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "name Utf8 a c none false",
            "one Date32 2024-05-01 2024-05-01 NULL true"
        ]
    );
    // Coordinates in a dataset of their own, with its attributes.
    let ctx = open(&data("coordvars.tet"), TetOptions::new()).await;
    let sql = "SELECT DISTINCT dimension, units FROM tet_dimensions() WHERE units IS NOT NULL ORDER BY dimension";
    let reference = Reference::open(&data("coordvars.tet"));
    let metadata = &reference.summary.metadata.datasets;
    let expected: Vec<_> = metadata
        .iter()
        .filter(|(name, _)| ["lat", "lon"].contains(&name.as_str()))
        .map(|(name, metadata)| format!("{name} {}", metadata.attrs["units"]))
        .collect();
    assert!(!expected.is_empty());
    assert_eq!(rows(&ctx, sql).await, expected);
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
    let sql = "SELECT dimension, extent, least, greatest FROM tet_dimensions() ORDER BY position";
    assert_eq!(rows(&ctx, sql).await, ["day 12 0 11", "place 2 0 1"]);
    // It is no schema.
    assert_eq!(rows(&ctx, "SELECT count(*) FROM tet_files()").await, ["0"]);
}

#[tokio::test]
async fn a_limit_ends_the_look_ups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.tet");
    let spec = DatasetSpec::new("v", Dtype::U8, &[100_000], &[1]);
    write(&path, &[(spec, vec![7; 100_000])]);
    let ctx = open(&path, TetOptions::new()).await;
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
    // A batch is as long as the session wants it, and no longer where chunks are looked up.
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
async fn what_is_not_asked_for_is_not_looked_up() {
    // Of the two chunks one has no row in the index.
    let ctx = open(&data("edge/missing_chunk.tet"), TetOptions::new()).await;
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
    let expected = "fewer than this dataset has chunks";
    assert!(problems[0].contains(expected), "{problems:?}");
    // A grid of far more chunks than the file has: counting them needs none, looking them up ends.
    let ctx = open(&data("edge/huge_grid_ok_product.tet"), TetOptions::new()).await;
    let table = rows(&ctx, "SELECT table_name FROM tet_datasets()")
        .await
        .remove(0);
    let of = |columns: &str| format!("SELECT {columns} FROM tet_chunks('{}')", quoted(&table));
    let chunks = "SELECT chunks FROM tet_datasets()";
    assert_eq!(rows(&ctx, &of("count(*)")).await, rows(&ctx, chunks).await);
    let message = error(&ctx, &of("sum(stored_bytes)")).await;
    assert!(message.contains("has no row for this chunk"), "{message}");
}

#[tokio::test]
async fn no_edge_case_is_too_odd() {
    for entry in data("edge").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let ctx = session();
        let registered = ctx.register_tet_file_as("f", &path, TetOptions::new());
        if registered.await.is_err() {
            continue;
        }
        for function in [
            "tet_files",
            "tet_datasets",
            "tet_dimensions",
            "tet_attributes",
            "tet_history",
        ] {
            rows(&ctx, &format!("SELECT * FROM {function}()")).await;
        }
        for table in rows(&ctx, "SELECT table_name FROM tet_datasets()").await {
            // An answer, or an error that names the file.
            let sql = format!("SELECT * FROM tet_chunks('f.{}') LIMIT 10", quoted(&table));
            rows(&ctx, &sql).await;
        }
    }
}

#[tokio::test]
async fn names_are_those_of_sql() {
    let ctx = open(&data("weather_small.tet"), TetOptions::new()).await;
    let count = async |name: &str| {
        let sql = format!("SELECT count(*) FROM tet_chunks('{name}')");
        rows(&ctx, &sql).await.remove(0)
    };
    let expected = count("temperature").await;
    let path = data("weather_small.tet").display().to_string();
    let by_path = format!("{path}#temperature");
    for name in [
        "f.temperature",
        "datafusion.f.temperature",
        "Temperature",
        "\"temperature\"",
        &by_path,
    ] {
        assert_eq!(count(name).await, expected, "{name}");
    }
    for (name, expected) in [
        (
            "g.temperature",
            "table 'datafusion.g.temperature' not found",
        ),
        ("nowhere.tet#t", "nowhere.tet: no such file"),
        (&path, "has 4 tables"),
    ] {
        let sql = format!("SELECT * FROM tet_chunks('{name}')");
        let message = error(&ctx, &sql).await;
        assert!(message.contains(expected), "{message}");
    }
    for arguments in ["", "'a', 'b'", "NULL"] {
        let message = error(&ctx, &format!("SELECT * FROM tet_chunks({arguments})")).await;
        assert!(message.contains("takes the name of a table"), "{message}");
    }
}

#[tokio::test]
async fn a_file_that_is_gone_and_a_package() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone.tet");
    fs::copy(data("weather_small.tet"), &path).unwrap();
    let ctx = open(&path, TetOptions::new()).await;
    fs::remove_file(&path).unwrap();
    let sql = "SELECT datasets, stored_bytes, modified, problem FROM tet_files()";
    let found = rows(&ctx, sql).await.remove(0);
    assert!(found.starts_with("3 NULL NULL "), "{found}");
    assert!(found.contains("gone.tet: cannot look at"), "{found}");

    let path = folder.path().join("weather.tet.d");
    let package = TetPackage::create(&path).unwrap();
    publish(&package, 1, &data("specials_f64.tet"));
    publish(&package, 2, &data("weather_small.tet"));
    let ctx = open(&path, TetOptions::new()).await;
    let sql = "SELECT generation, datasets, stored_bytes FROM tet_files()";
    let both = ["specials_f64.tet", "weather_small.tet"];
    let both = both.map(|name| fs::metadata(data(name)).unwrap().len());
    let found = rows(&ctx, sql).await.remove(0);
    let (start, bytes) = found.rsplit_once(' ').unwrap();
    assert_eq!(start, "2 3");
    assert!(bytes.parse::<u64>().unwrap() >= both.iter().sum());
}

#[tokio::test]
async fn the_standard_tables_are_described() {
    let ctx = open(&data("weather_small.tet"), TetOptions::new()).await;
    let reference = Reference::open(&data("weather_small.tet"));
    let metadata = &reference.summary.metadata.datasets;
    let mut expected: Vec<_> = metadata
        .iter()
        .filter_map(|(name, metadata)| {
            let units = metadata.attrs.get("units")?;
            Some(format!("{name} value {units}"))
        })
        .collect();
    expected.sort();
    let sql = "SELECT table_name, column_name, units FROM information_schema.columns WHERE units IS NOT NULL AND \
               table_name <> 'time_lat_lon' ORDER BY table_name";
    assert_eq!(rows(&ctx, sql).await, expected);
    // Through a view, by an alias, with the catalog, and beside a table that is no array.
    ctx.sql("CREATE VIEW warm AS SELECT lat, value FROM temperature WHERE value > 20")
        .await
        .unwrap();
    ctx.sql("CREATE TABLE plain AS SELECT 1 AS a")
        .await
        .unwrap();
    let units = &metadata["temperature"].attrs["units"];
    let sql = "SELECT c.column_name, c.units FROM datafusion.information_schema.columns AS c \
               WHERE c.table_name IN ('warm', 'plain') ORDER BY c.column_name";
    assert_eq!(
        rows(&ctx, sql).await,
        ["a NULL", "lat NULL", &format!("value {units}")]
    );
    let sql = "SELECT units FROM information_schema.tables WHERE table_name = 'temperature'";
    assert_eq!(rows(&ctx, sql).await, [units.as_str()]);
    // The engine's own columns are as they were, and those of its other tables.
    let plain = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
    for table in ["columns", "tables", "views", "schemata"] {
        let sql = format!("SELECT * FROM information_schema.{table}");
        let names = async |ctx: &SessionContext| -> Vec<String> {
            let frame = ctx.sql(&sql).await.unwrap();
            let fields = frame.schema().fields().iter();
            fields.map(|field| format!("{field:?}")).collect()
        };
        let (own, with) = (names(&plain).await, names(&ctx).await);
        assert_eq!(with[..own.len()], own, "{table}");
        let added = if ["columns", "tables"].contains(&table) {
            2
        } else {
            0
        };
        assert_eq!(with.len(), own.len() + added, "{table}");
    }
    // A common table expression may be called so.
    let sql = "WITH tables AS (SELECT 1 AS a) SELECT * FROM tables";
    assert_eq!(rows(&ctx, sql).await, ["1"]);
    // Switched off, they are not there.
    let ctx = enable_tet(SessionContext::new(), TetOptions::new());
    let message = error(&ctx, "SELECT * FROM information_schema.tables").await;
    assert!(message.contains("not found"), "{message}");
}

#[tokio::test]
async fn views_over_the_functions_do_not_keep_the_session() {
    let ctx = open(&data("weather_small.tet"), TetOptions::new()).await;
    let catalogs = Arc::downgrade(ctx.state_ref().read().catalog_list());
    ctx.sql("CREATE VIEW files AS SELECT * FROM tet_files()")
        .await
        .unwrap();
    ctx.sql("CREATE VIEW chunks AS SELECT * FROM tet_chunks('temperature')")
        .await
        .unwrap();
    let sql = "SELECT (SELECT count(*) FROM files), (SELECT count(*) > 1 FROM chunks)";
    assert_eq!(rows(&ctx, sql).await, ["1 true"]);
    drop(ctx);
    assert!(catalogs.upgrade().is_none());
}
