//! Tables over TileDB arrays: overlays in other orders, pruning, groups, time travel and options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use super::arrays::LATE;
use super::refusals::{copy, files};
use super::{KEY, arrays};
use crate::support::sql::{error, rows, run, session, texts};

fn path_of(name: &str) -> String {
    arrays().join(name).display().to_string()
}

/// Creates the table `t` over a directory with options.
pub async fn create(ctx: &SessionContext, path: &Path, options: &str) {
    rows(ctx, "DROP TABLE IF EXISTS t").await;
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}' OPTIONS ({options})",
        path.display()
    );
    rows(ctx, &sql).await;
}

/// Returns the names of the fragments that are committed, in order.
fn fragments(array: &Path) -> Vec<String> {
    let commits = array.join("__commits").read_dir().unwrap();
    let names = commits.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter_map(|name| name.strip_suffix(".wrt").map(str::to_string))
        .collect();
    names.sort();
    names
}

/// Returns a function that draws numbers below a limit.
pub fn numbers_below(mut state: u64) -> impl FnMut(usize) -> usize {
    move |end| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % end
    }
}

/// Gives a fragment another timestamp.
fn stamp(array: &Path, fragment: &str, time: u64) {
    let unique = fragment.split('_').nth(4).unwrap();
    let name = format!("__{time}_{time}_{unique}_22");
    let moved = array.join("__fragments");
    std::fs::rename(moved.join(fragment), moved.join(&name)).unwrap();
    let commits = array.join("__commits");
    std::fs::rename(
        commits.join(format!("{fragment}.wrt")),
        commits.join(format!("{name}.wrt")),
    )
    .unwrap();
}

/// Returns the rows of the table `t` by coordinates; the values are texts.
async fn cells(ctx: &SessionContext, dimensions: usize) -> BTreeMap<String, Vec<String>> {
    let batches = ctx
        .sql("SELECT * FROM t")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let mut cells: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for batch in batches {
        let split = |columns: std::ops::Range<usize>| {
            let columns: Vec<usize> = columns.collect();
            texts(&[batch.project(&columns).unwrap()])
        };
        let coordinates = split(0..dimensions);
        let values = split(dimensions..batch.num_columns());
        for (coordinates, values) in coordinates.into_iter().zip(values) {
            cells.entry(coordinates).or_default().push(values);
        }
    }
    cells
}

/// Lays the fragments of arrays over each other in random orders, and compares the table with the
/// cells of each fragment, the newest of which wins.
#[tokio::test]
async fn fragments_overwrite_each_other_in_the_order_of_their_timestamps() {
    let ctx = session();
    let mut below = numbers_below(7);
    let mut overwritten = 0;
    for (name, dimensions, is_sparse) in [
        ("dense_overlapping_fragments", 2, false),
        ("dense_partial_with_fill", 2, false),
        ("dense_var_fragments", 2, false),
        ("sparse_row_major_col", 2, true),
        ("sparse_hilbert_row", 2, true),
        ("sparse_col_major_row", 2, true),
    ] {
        for _ in 0..6 {
            let folder = tempfile::tempdir().unwrap();
            let array = folder.path().join("array");
            copy(&arrays().join(name), &array);
            let mut names = fragments(&array);
            for index in (1..names.len()).rev() {
                names.swap(index, below(index + 1));
            }
            for (index, fragment) in names.iter().enumerate() {
                stamp(&array, fragment, 100 + index as u64);
            }
            let mut model: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for index in 0..names.len() as u64 {
                let time = 100 + index;
                let window = format!("timestamp '{time}', timestamp_start '{time}'");
                create(&ctx, &array, &format!("{window}, extent 'written'")).await;
                for (coordinates, values) in cells(&ctx, dimensions).await {
                    overwritten += usize::from(model.insert(coordinates, values).is_some());
                }
            }
            create(&ctx, &array, &format!("timestamp '{LATE}'")).await;
            let mut found = cells(&ctx, dimensions).await;
            if !is_sparse {
                let is_written = |coordinates: &String| model.contains_key(coordinates);
                for (coordinates, values) in &found {
                    let is_null = values[0].split(' ').all(|value| value == "NULL");
                    assert!(
                        is_written(coordinates) || is_null,
                        "{name}, {coordinates}: {values:?}"
                    );
                }
                found.retain(|coordinates, _| is_written(coordinates));
            }
            assert!(found == model, "{name}, {names:?}");
        }
    }
    assert!(overwritten > 1000, "{overwritten}");
}

#[tokio::test]
async fn boxes_of_fragments_and_tiles_prune() {
    let ctx = session();
    create(
        &ctx,
        &arrays().join("sparse_rtree_deep"),
        &format!("timestamp '{LATE}'"),
    )
    .await;
    let all = run(&ctx, "SELECT * FROM t").await;
    let columns = ctx.table("t").await.unwrap();
    let dimension = columns.schema().field(0).name().clone();
    let tiles = all.reads();
    assert!(tiles > 100, "{tiles}");
    let middle = rows(
        &ctx,
        &format!("SELECT \"{dimension}\" FROM t ORDER BY 1 LIMIT 1 OFFSET 500"),
    )
    .await;
    let sql = format!("SELECT * FROM t WHERE \"{dimension}\" = {}", middle[0]);
    let one = run(&ctx, &sql).await;
    assert!(
        one.reads() >= 1 && one.reads() * 5 < tiles,
        "{}",
        one.reads()
    );
    let pruned = one.metric("chunks_pruned_by_rtree");
    assert!(
        pruned + one.reads() >= tiles && pruned < tiles,
        "{pruned} of {tiles}"
    );
    let plan = rows(&ctx, &format!("EXPLAIN {sql}")).await.join("\n");
    assert!(
        plan.contains("fragments=1 of 1, ") && plan.contains("pruned_by_rtree="),
        "{plan}"
    );
    let plan = rows(
        &ctx,
        &format!("EXPLAIN SELECT * FROM t WHERE \"{dimension}\" < -1000000"),
    )
    .await;
    let plan = plan.join("\n");
    assert!(
        plan.contains("fragments=0 of 1") || plan.contains("EmptyExec"),
        "{plan}"
    );
}

#[tokio::test]
async fn statistics_of_tiles_prune_dense_and_sparse_arrays() {
    let ctx = session();
    for name in [
        "dense_from_numpy",
        "sparse_rtree_deep",
        "dense_overlapping_fragments",
    ] {
        create(&ctx, &arrays().join(name), &format!("timestamp '{LATE}'")).await;
        let table = ctx.table("t").await.unwrap();
        let fields = table.schema().fields();
        let value = fields
            .iter()
            .rev()
            .find(|field| field.data_type().is_numeric())
            .unwrap();
        let value = format!("\"{}\"", value.name());
        let all = run(&ctx, &format!("SELECT {value} FROM t")).await;
        let most = rows(&ctx, &format!("SELECT max({value}) FROM t")).await;
        let top = run(
            &ctx,
            &format!("SELECT {value} FROM t WHERE {value} >= {}", most[0]),
        )
        .await;
        assert!(!top.rows.is_empty(), "{name}");
        if all.reads() > 3 {
            assert!(
                top.reads() < all.reads(),
                "{name}: {} of {}",
                top.reads(),
                all.reads()
            );
        }
    }
}

#[tokio::test]
async fn tables_of_groups_arrays_and_paths() {
    let ctx = session();
    let count = rows(
        &ctx,
        &format!("SELECT count(*) FROM '{}'", path_of("filter_zstd")),
    )
    .await;
    assert_eq!(count, ["300"]);
    ctx.register_array_file_as("g", &arrays().join("group_of_two"), ArrayOptions::new())
        .await
        .unwrap();
    let tables = rows(
        &ctx,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'g' ORDER BY 1",
    )
    .await;
    assert_eq!(tables, ["first", "m2"]);
    for (table, path) in [("first", "m1"), ("m2", "m2")] {
        let found = rows(&ctx, &format!("SELECT * FROM g.{table}")).await;
        let direct = format!("SELECT * FROM '{}/{path}'", path_of("group_of_two"));
        assert_eq!(found, rows(&ctx, &direct).await);
        let member = format!("SELECT * FROM '{}#{table}'", path_of("group_of_two"));
        assert_eq!(found, rows(&ctx, &member).await);
        assert!(!found.is_empty());
    }
    ctx.register_array_file(&arrays().join("array_metadata"), ArrayOptions::new())
        .await
        .unwrap();
    let attributes = rows(
        &ctx,
        "SELECT key, value FROM tet_attributes() WHERE table_schema = 'array_metadata' AND column_name IS NULL ORDER \
         BY key",
    )
    .await;
    assert!(
        attributes.contains(&"s héllo".to_string()),
        "{attributes:?}"
    );
    assert!(attributes.contains(&"b 0001".to_string()), "{attributes:?}");
    assert!(
        attributes.contains(&"t 1, 2, 3".to_string()),
        "{attributes:?}"
    );
    let files = rows(&ctx, "SELECT format FROM tet_files()").await;
    assert_eq!(files, ["tiledb", "tiledb"]);
}

/// A group that contains itself is left out with a warning.
#[tokio::test]
async fn groups_in_groups() {
    let folder = tempfile::tempdir().unwrap();
    let outer = folder.path().join("outer");
    copy(&arrays().join("group_of_two"), &outer);
    // The second member becomes a group with the same members, one of which is the group itself.
    std::fs::remove_dir_all(outer.join("m1")).unwrap();
    copy(&arrays().join("group_of_two"), &outer.join("m1"));
    let ctx = session();
    let schema = ctx
        .register_array_file_as("g", &outer, ArrayOptions::new())
        .await
        .unwrap();
    // The member is listed as an array, but its directory is a group.
    let text = error(&ctx, "SELECT * FROM g.first").await;
    assert!(text.contains("m1"), "{text}");
    assert!(schema.warnings().is_empty());
    assert!(!rows(&ctx, "SELECT * FROM g.m2").await.is_empty());
}

#[tokio::test]
async fn functions_of_time_and_fragments() {
    let ctx = session();
    let path = arrays().join("dense_overlapping_fragments");
    create(&ctx, &path, &format!("timestamp '{LATE}'")).await;
    for time in [10, 20, 30, 40] {
        let at = rows(&ctx, &format!("SELECT * FROM tiledb_at('t', {time})")).await;
        let text = rows(&ctx, &format!("SELECT * FROM tiledb_at('t', '{time}')")).await;
        let sql = format!(
            "CREATE EXTERNAL TABLE t{time} STORED AS TILEDB LOCATION '{}' OPTIONS (timestamp '{time}')",
            path.display()
        );
        rows(&ctx, &sql).await;
        assert_eq!(at, rows(&ctx, &format!("SELECT * FROM t{time}")).await);
        assert_eq!(at, text);
        for expression in [
            format!("TIMESTAMP '1970-01-01T00:00:00.0{time}'"),
            format!("to_timestamp_millis({time} + 1000) - INTERVAL '1 second'"),
        ] {
            let sql = format!("SELECT * FROM tiledb_at('t', {expression})");
            assert_eq!(rows(&ctx, &sql).await, at, "{sql}");
        }
        let count = format!("SELECT count(*) FROM tiledb_fragments('t{time}')");
        assert_eq!(rows(&ctx, &count).await, [format!("{}", time / 10)]);
    }
    let yesterday = "SELECT count(*) FROM tiledb_at('t', now() - INTERVAL '1 day')";
    assert_eq!(
        rows(&ctx, yesterday).await,
        rows(&ctx, "SELECT count(*) FROM t").await
    );
    let found = rows(
        &ctx,
        "SELECT first_write, tiles > 0, cells > 0, stored_bytes > 0, has_deletes, domain LIKE '%: % to %' \
         FROM tiledb_fragments('t') ORDER BY first_write LIMIT 1",
    )
    .await;
    assert_eq!(
        found,
        ["1970-01-01T00:00:00.010Z true true true false true"]
    );
    for (sql, part) in [
        (
            "SELECT * FROM tiledb_at('t')",
            "takes the name of a table and a time",
        ),
        (
            "SELECT * FROM tiledb_at('t', 'soon')",
            "option timestamp is 'soon'",
        ),
        ("SELECT * FROM tiledb_at('t', 1.5)", "expected a timestamp"),
        ("SELECT * FROM tiledb_at('t', NULL)", "the time is NULL"),
        ("SELECT * FROM tiledb_at('none', 1)", "not found"),
        ("SELECT * FROM tiledb_fragments('tables')", "not found"),
    ] {
        let text = error(&ctx, sql).await;
        assert!(text.contains(part), "{text}");
    }
    rows(&ctx, "CREATE TABLE memory AS VALUES (1)").await;
    let text = error(&ctx, "SELECT * FROM tiledb_fragments('memory')").await;
    assert!(
        text.contains("memory is not a table of TileDB arrays"),
        "{text}"
    );
}

#[tokio::test]
async fn wrong_options_are_refused() {
    let ctx = session();
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short");
    std::fs::write(&short, &KEY[1..]).unwrap();
    let missing = folder.path().join("none");
    for (options, part) in [
        ("timestamp 'soon'".to_string(), "expected a time such as"),
        ("timestamp '-5'".to_string(), "option timestamp is '-5'"),
        (
            "timestamp '5', timestamp_start '9'".to_string(),
            "expected at least timestamp_start",
        ),
        ("extent 'all'".to_string(), "expected domain or written"),
        ("speed 'fast'".to_string(), "unknown option speed"),
        (
            format!("key_file '{}'", short.display()),
            "has 31 bytes, expected a key of 32 bytes",
        ),
        (
            format!("key_file '{}'", missing.display()),
            "read the key in",
        ),
    ] {
        let path: PathBuf = arrays().join("encrypted_dense");
        let sql = format!(
            "CREATE EXTERNAL TABLE w STORED AS TILEDB LOCATION '{}' OPTIONS ({options})",
            path.display()
        );
        let text = error(&ctx, &sql).await;
        assert!(text.contains(part), "{text}");
        assert!(!text.contains("123456789abcdeF0123"), "{text}");
    }
}

/// Plans are encoded, and decoded in another session, before they run.
#[cfg(feature = "proto")]
#[tokio::test]
async fn decoded_plans_have_the_same_rows() {
    let ctx = session();
    let decoding = session();
    crate::support::encoded::Encoded::add_to(&decoding, &[]);
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    for (name, more) in [
        ("dense_overlapping_fragments", String::new()),
        ("sparse_mixed_dims_hil", String::new()),
        ("enumerations", String::new()),
        ("sparse_consolidated_kept", String::new()),
        (
            "encrypted_sparse",
            format!(", key_file '{}'", key.display()),
        ),
    ] {
        let options = format!("timestamp '{LATE}'{more}");
        create(&ctx, &arrays().join(name), &options).await;
        create(&decoding, &arrays().join(name), &options).await;
        let table = ctx.table("t").await.unwrap();
        let first = table.schema().field(0).name().clone();
        for sql in [
            "SELECT * FROM t".to_string(),
            format!("SELECT count(*), min(\"{first}\") FROM t"),
            format!("SELECT * FROM t WHERE \"{first}\" >= (SELECT max(\"{first}\") FROM t)"),
        ] {
            assert_eq!(
                rows(&decoding, &sql).await,
                rows(&ctx, &sql).await,
                "{name}: {sql}"
            );
        }
    }
}

/// The key in the configuration of the session is used where no file with a key is given, and not for
/// arrays that are not encrypted.
#[tokio::test]
async fn a_session_has_a_key() {
    let config = SessionConfig::new().with_extension(Arc::new(super::key()));
    let ctx = SessionContext::new_with_config(config);
    let ctx = enable_arrays(ctx, ArrayOptions::new());
    for (name, count) in [("encrypted_dense", "300"), ("filter_none", "300")] {
        let sql = format!(
            "SELECT count(*), count(DISTINCT a) > 0 FROM '{}'",
            path_of(name)
        );
        assert_eq!(rows(&ctx, &sql).await, [format!("{count} true")], "{name}");
    }
    let plan = rows(
        &ctx,
        &format!("EXPLAIN SELECT * FROM '{}'", path_of("encrypted_dense")),
    )
    .await;
    assert!(!plan.join("\n").contains("0123456789"), "{plan:?}");
}

/// Queries over arrays with changed bytes give rows or an error.
#[tokio::test]
async fn changed_bytes_give_rows_or_errors() {
    let ctx = session();
    let mut below = numbers_below(3);
    let (mut errors, mut answers) = (0, 0);
    for name in [
        "enumerations",
        "nullable_dense",
        "sparse_mixed_dims_hil",
        "dtypes_multivalue",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let array = folder.path().join("array");
        copy(&arrays().join(name), &array);
        let mut paths = files(&array);
        paths.retain(|path| path.metadata().unwrap().len() > 0);
        for _ in 0..60 {
            let path = &paths[below(paths.len())];
            let original = std::fs::read(path).unwrap();
            let mut bytes = original.clone();
            let place = below(bytes.len());
            bytes[place] ^= 1 << below(8);
            std::fs::write(path, &bytes).unwrap();
            let sql = format!("SELECT * FROM '{}'", array.display());
            let result = match ctx.sql(&sql).await {
                Ok(frame) => frame.collect().await.map(drop),
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => answers += 1,
                Err(_) => errors += 1,
            }
            std::fs::write(path, &original).unwrap();
        }
    }
    assert!(errors > 50 && answers > 20, "{errors} {answers}");
}
