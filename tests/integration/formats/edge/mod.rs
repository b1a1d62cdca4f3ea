//! Small files that are unusual, or broken in one way each.
//!
//! `tests/data/edge/reference-reactions.txt` records what `tetration` does with each file. Where
//! tet-sql differs, [`CASES`] says why.

mod table;

use std::collections::BTreeSet;

use datafusion::catalog::SchemaProvider;
use tet_sql::grid::Window;
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::provider::source::GridSource;
use tet_sql::{Access, ArrayOptions, ArraySessionExt};

use crate::support::cells::{ACCESS, OpenFile, data};
use table::{CASES, Outcome};

#[test]
fn every_file_is_in_the_table() {
    let files: BTreeSet<String> = data("edge")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".tet").map(String::from))
        .collect();
    let cases: BTreeSet<String> = CASES.iter().map(|case| case.0.to_string()).collect();
    assert_eq!(CASES.len(), cases.len());
    assert_eq!(files, cases);
    assert_eq!(files.len(), 59);
}

#[tokio::test]
async fn every_file_has_its_expected_outcome() {
    let mut failures = Vec::new();
    for (name, outcome, _reason) in CASES {
        for access in ACCESS {
            if let Err(failure) = check(name, outcome, access).await {
                failures.push(format!("{name}, {access}: {failure}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Opens a file and queries the sum of its first dataset.
async fn check(name: &str, outcome: &Outcome, access: Access) -> Result<(), String> {
    let path = data(&format!("edge/{name}.tet"));
    let opened = OpenFile::open(&path, ArrayOptions::new().with_access(access)).await;
    let file = match (opened, outcome) {
        (Ok(file), _) => file,
        (Err(error), Outcome::RefusedAtOpen(words)) => return error_has(&error, words),
        (Err(error), _) => return Err(format!("refused at open: {error}")),
    };
    let (names, first, rows, sum) = match outcome {
        Outcome::RefusedAtOpen(words) => return Err(format!("opens, expected: {words}")),
        Outcome::Empty => (&[][..], None, 0, Ok(None)),
        Outcome::LeftOut(words) => (&[][..], Some("a"), 0, Err(*words)),
        Outcome::RefusedWhenRead(rows, words) => (&["a"][..], Some("a"), *rows, Err(*words)),
        Outcome::Answers(names, rows, sum) => (*names, names.first().copied(), *rows, Ok(*sum)),
    };
    let found = file.schema.table_names();
    if found != names {
        return Err(format!("tables {found:?}, expected {names:?}"));
    }
    let Some(first) = first else {
        return Ok(());
    };
    // DataFusion has no table reference with an empty name. Such a dataset can be registered under
    // another name.
    let table = if first.is_empty() {
        let options = ArrayOptions::new().with_access(access);
        let registered = file.ctx.register_array("unnamed".into(), &path, options);
        registered.await.map_err(|error| error.to_string())?;
        "unnamed".to_string()
    } else {
        format!("f.\"{first}\"")
    };
    if !names.is_empty() {
        let sql = format!("SELECT count(*) FROM {table}");
        let count = file.answer(&sql).await;
        if count != rows.to_string() {
            return Err(format!("{count} rows, expected {rows}"));
        }
    }
    let sql = format!("SELECT sum(value) FROM {table}");
    match (file.query(&sql).await, sum) {
        (Err(error), Err(words)) => error_has(&error, words),
        (Err(error), Ok(_)) => Err(error.to_string()),
        (Ok(_), Err(words)) => Err(format!("answers, expected: {words}")),
        (Ok(_), Ok(sum)) => {
            let found = file.number(&sql).await;
            if found != sum {
                return Err(format!("sum {found:?}, expected {sum:?}"));
            }
            Ok(())
        }
    }
}

fn error_has(error: &impl std::fmt::Display, words: &str) -> Result<(), String> {
    let error = error.to_string();
    if error.contains(words) {
        return Ok(());
    }
    Err(format!("\"{error}\", expected: {words}"))
}

/// Names and labels that do not fit the shape are ignored, and the cells stay readable.
#[tokio::test]
async fn mismatched_names_and_labels_are_ignored() {
    for (name, words, columns) in [
        (
            "meta_wrong_dim_count",
            "dim_names is [\"x\", \"y\"], expected 1 distinct names",
            "dim_0",
        ),
        (
            "meta_dup_dim_names",
            "dim_names is [\"x\", \"x\"], expected 2 distinct names",
            "x,x_2",
        ),
        (
            "meta_wrong_label_count",
            "coords is 1 labels on dimension \"x\", expected 2, its extent",
            "x",
        ),
    ] {
        let path = data(&format!("edge/{name}.tet"));
        let file = OpenFile::open(&path, ArrayOptions::new()).await.unwrap();
        let warnings = file.schema.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(words), "{warnings:?}");
        assert!(warnings[0].contains("dataset \"a\""), "{warnings:?}");
        let table = file.schema.table("a").await.unwrap().unwrap();
        let schema = table.schema();
        let names: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(names.join(","), format!("{columns},value"));
    }
}

/// A query that does not touch the broken chunk succeeds, as in `tetration`.
#[tokio::test]
async fn one_bad_chunk_leaves_the_others_readable() {
    // The first chunk holds the first two columns, the second chunk the third.
    for (name, first_chunk, words) in [
        (
            "missing_chunk",
            1.0 + 2.0 + 3.0 + 4.0,
            "no row for this chunk",
        ),
        ("extra_row_same_coord", 1.0 + 2.0 + 3.0 + 4.0, "ambiguous"),
        (
            "full_size_edge_chunk",
            1.0 + 2.0 + 4.0 + 5.0,
            "raw_byte_len is 16",
        ),
    ] {
        for access in ACCESS {
            let path = data(&format!("edge/{name}.tet"));
            let options = ArrayOptions::new().with_access(access);
            let file = OpenFile::open(&path, options).await.unwrap();
            let sum = file
                .number("SELECT sum(value) FROM f.a WHERE dim_1 < 2")
                .await;
            assert_eq!(sum, Some(first_chunk), "{name}, {access}");
            let error = file
                .query("SELECT sum(value) FROM f.a WHERE dim_1 = 2")
                .await
                .unwrap_err();
            error_has(&error, words).unwrap();
            error_has(&error, "dataset \"a\", chunk [0, 1]").unwrap();
        }
    }
}

/// A file may claim a grid of 2^51 chunks, or a chunk that decompresses to 256 MiB. The claim alone
/// must not allocate memory.
#[tokio::test]
async fn claimed_sizes_allocate_no_memory() {
    for access in ACCESS {
        let options = ArrayOptions::new().with_access(access);
        let path = data("edge/huge_grid_ok_product.tet");
        let file = OpenFile::open(&path, options.clone()).await.unwrap();
        let first = "SELECT value FROM f.a WHERE dim_0 = 0 AND dim_1 = 0";
        assert_eq!(file.number(first).await, Some(1.0));
        let last = "SELECT value FROM f.a WHERE dim_0 = 2147483647 AND dim_1 = 1048575";
        error_has(
            &file.query(last).await.unwrap_err(),
            "no row for this chunk",
        )
        .unwrap();
        for (sql, expected) in [
            ("SELECT max(dim_0) FROM f.a", "2147483647"),
            (
                "SELECT count(*) FROM f.a WHERE dim_1 >= 524288",
                "1125899906842624",
            ),
        ] {
            assert_eq!(file.answer(sql).await, expected, "{sql}");
        }
        let read = ReadOptions {
            access,
            ..ReadOptions::default()
        };
        let all = Window::new(vec![0..1 << 31, 0..1 << 20]);
        let error = file.grid("a").read_window(&all, &[0], &read).unwrap_err();
        error_has(&error, "no row for this chunk").unwrap();
    }
}

/// If only the footer is broken, `ignore_footer` makes the data readable.
#[tokio::test]
async fn broken_footers_can_be_ignored() {
    let names = [
        "flags_bit0_no_footer",
        "footer_bad_json",
        "footer_json_array",
        "history_v3",
        "meta_attr_number",
        "meta_dup_dim_names",
        "meta_labels_65_numeric",
        "meta_wrong_dim_count",
        "meta_wrong_label_count",
    ];
    for name in names {
        let options = ArrayOptions::new().with_ignore_footer(true);
        let path = data(&format!("edge/{name}.tet"));
        let file = OpenFile::open(&path, options).await.unwrap();
        let sum = file.number("SELECT sum(value) FROM f.a").await;
        assert_eq!(sum, Some(1.0 + 2.0), "{name}");
    }
}
