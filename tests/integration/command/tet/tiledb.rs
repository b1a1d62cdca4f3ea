//! TileDB arrays and groups in `tet convert`, `tet info` and `tet verify`, and as patterns.

use std::path::Path;
use std::process::Command;

use super::{tet, text};
use crate::formats::tiledb::arrays;
use crate::formats::tiledb::refusals::{copy, files};

fn array(name: &str) -> String {
    arrays().join(name).display().to_string()
}

/// Converts an array. Returns the messages of the command.
fn convert(from: &str, to: &Path, more: &[&str]) -> String {
    let to = to.display().to_string();
    let arguments = [&["convert", from, &to], more].concat();
    let output = tet(&arguments);
    assert!(output.status.success(), "{output:?}");
    text(&output.stderr)
}

/// Returns the rows of a query as lines.
fn query(sql: &str) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tet-sql"));
    command.env("XDG_CONFIG_HOME", "/nowhere");
    let output = command
        .args(["--format", "csv", "-c", sql])
        .output()
        .unwrap();
    assert!(output.status.success(), "{sql}: {output:?}");
    let lines = text(&output.stdout);
    lines.lines().skip(1).map(str::to_string).collect()
}

fn sorted(sql: &str) -> Vec<String> {
    let mut lines = query(sql);
    lines.sort();
    lines
}

#[test]
fn sparse_arrays_become_files_of_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let from = array("sparse_rtree_deep");
    for to in ["points.tet", "points.zarr"] {
        let to = folder.path().join(to);
        convert(&from, &to, &[]);
        let found = sorted(&format!(
            "SELECT x, value FROM '{}' WHERE value IS NOT NULL",
            to.display()
        ));
        let expected = sorted(&format!("SELECT x, a FROM '{from}'"));
        assert_eq!(found.len(), expected.len());
        assert!(found == expected, "{}", to.display());
    }
    // COPY of a sparse array finds the dimensions as well.
    let copy = folder.path().join("copy");
    let sql = format!(
        "COPY (SELECT * FROM '{from}') TO '{}' STORED AS TILEDB OPTIONS (sparse 'true')",
        copy.display()
    );
    query(&sql);
    let all = |path: &str| sorted(&format!("SELECT * FROM '{path}'"));
    assert!(all(&copy.display().to_string()) == all(&from));
}

#[test]
fn dense_arrays_and_arrays_of_groups_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("nullable.parquet");
    convert(&array("nullable_dense"), &to, &[]);
    let all = |path: &str| sorted(&format!("SELECT * FROM '{path}'"));
    let path = to.display().to_string();
    assert!(all(&path) == all(&array("nullable_dense")));

    let group = array("group_of_two");
    let tables = ["first", "m2"];
    for (number, table) in tables.iter().enumerate() {
        let to = folder.path().join(format!("member_{number}.parquet"));
        let messages = convert(&group, &to, &["--dataset", table]);
        assert!(!messages.contains("no effect"), "{messages}");
        let path = to.display().to_string();
        assert!(all(&path) == all(&format!("{group}#{table}")), "{table}");
    }
    let to = folder.path().join("all.parquet").display().to_string();
    let output = tet(&["convert", &group, &to]);
    assert!(!output.status.success());
    let message = text(&output.stderr);
    assert!(
        tables.iter().all(|table| message.contains(table)),
        "{message}"
    );

    let to = folder.path().join("metadata.tet");
    let messages = convert(&array("array_metadata"), &to, &[]);
    assert!(messages.contains("metadata is not converted"), "{messages}");
}

#[test]
fn patterns_match_directories_of_arrays() {
    let pattern = array("dense_row_cells_*_tiles");
    let found = query(&format!("SELECT count(*) FROM '{pattern}'"));
    let names = ["dense_row_cells_row_tiles", "dense_row_cells_col_tiles"];
    let counts = names.map(|name| query(&format!("SELECT count(*) FROM '{}'", array(name))));
    let sum: u64 = counts
        .iter()
        .flatten()
        .map(|count| count.parse::<u64>().unwrap())
        .sum();
    assert_eq!(found, [sum.to_string()]);
}

#[test]
fn info_describes_arrays_and_groups() {
    let show = |name: &str, more: &[&str]| {
        let output = tet(&[&["info", &array(name)], more].concat());
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    for (name, parts) in [
        (
            "dimension_labels",
            &["0 to 9", "label of x", "label of y", "tile order row-major"][..],
        ),
        (
            "current_domain_sparse",
            &["current ", "capacity ", "no duplicates"],
        ),
        ("sparse_dups", &[", duplicates"]),
        ("group_of_two", &["TileDB group, 2 members", "first", "m2"]),
    ] {
        let shown = show(name, &[]);
        for part in parts {
            assert!(shown.contains(part), "{name}, {part}: {shown}");
        }
    }
    let shown = show("array_metadata", &["--all"]);
    assert!(shown.contains("value"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&show("group_of_two", &["--json"])).unwrap();
    assert_eq!(json["groups"][0]["members"].as_array().unwrap().len(), 2);
    assert_eq!(json["arrays"][0]["duplicates"], false);
}

#[test]
fn verify_finds_wrong_statistics_and_damaged_labels() {
    let folder = tempfile::tempdir().unwrap();
    let verify = |path: &Path| {
        let output = tet(&["verify", "--deep", &path.display().to_string()]);
        (output.status.success(), text(&output.stdout))
    };
    for (name, is_expected) in [
        ("dense_partial_with_fill", true),
        ("dimension_labels", true),
        ("group_of_two", true),
        ("corrupt_md5", false),
        ("corrupt_truncated", false),
    ] {
        let (is_sound, messages) = verify(&arrays().join(name));
        assert_eq!(is_sound, is_expected, "{messages}");
    }
    // The last tile has two written cells, the second of which is changed, and two cells of padding.
    let squares = folder.path().join("squares");
    query(&format!(
        "COPY (SELECT n AS x, n AS v FROM generate_series(0, 5) AS g(n)) TO '{}' STORED AS TILEDB OPTIONS (dims 'x', \
         tile '4', filters 'none')",
        squares.display()
    ));
    assert!(verify(&squares).0);
    let data = files(&squares);
    let data = data.iter().find(|path| path.ends_with("a0.tdb")).unwrap();
    let mut bytes = std::fs::read(data).unwrap();
    let five = bytes
        .windows(8)
        .rposition(|word| word == 5u64.to_le_bytes());
    bytes[five.unwrap()] = 99;
    std::fs::write(data, bytes).unwrap();
    let (is_sound, messages) = verify(&squares);
    assert!(!is_sound, "{messages}");
    for part in [
        "field \"v\", tile 1: 99 is outside of the stored bounds",
        "the sum is 103, but the stored sum is 9",
    ] {
        assert!(messages.contains(part), "{part}: {messages}");
    }
    // A label whose values are cut short.
    let labels = folder.path().join("labels");
    copy(&arrays().join("dimension_labels"), &labels);
    let damaged = files(&labels.join("__labels"));
    let damaged = damaged
        .iter()
        .find(|path| path.ends_with("a0.tdb"))
        .unwrap();
    std::fs::write(damaged, b"short").unwrap();
    let (is_sound, messages) = verify(&labels);
    assert!(!is_sound && messages.contains("__labels"), "{messages}");
    // Metadata of a group that is cut short.
    let group = folder.path().join("group");
    copy(&arrays().join("group_of_two"), &group);
    let damaged = &files(&group.join("__meta"))[0];
    std::fs::write(damaged, b"short").unwrap();
    let (is_sound, messages) = verify(&group);
    assert!(!is_sound && messages.contains("__meta"), "{messages}");
}
