//! `tet info`, `tet verify` and `tet convert` of documents.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::tet::{tet, text};

/// Writes documents as JSON lines.
fn lines(path: &Path) {
    let line = |id: u32| {
        let body = format!("The text of document {id}. ").repeat(1 + id as usize % 5);
        let url = format!("https://example.org/{}", id * 7 % 1000);
        serde_json::json!({ "id": id, "url": url, "body": body }).to_string() + "\n"
    };
    fs::write(path, (0..1000).map(line).collect::<String>()).unwrap();
}

fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = tet(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    text(&output.stdout)
}

#[test]
fn documents_are_converted_to_rows_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (source, documents) = (path("source.jsonl"), path("pages.tatami"));
    lines(Path::new(&source));
    succeeds(&[
        "convert",
        &source,
        &documents,
        "--option",
        "sort_key=url",
        "--option",
        "bloom=id",
        "--option",
        "blob=body",
        "--option",
        "search=body",
        "--option",
        "row_group_rows=400",
        "--codec",
        "zstd",
        "--level",
        "7",
    ]);
    let mut expected = json_lines(Path::new(&source));
    expected.sort_by_key(|row| row["url"].as_str().unwrap().to_string());
    for name in ["back.jsonl", "back.parquet", "back.csv"] {
        let back = path(name);
        succeeds(&[
            "convert",
            &documents,
            &back,
            "--read-option",
            "blobs=strict",
        ]);
        // Parquet and CSV are compared as the JSON lines they are converted to.
        let rows = match name {
            "back.jsonl" => back,
            _ => {
                let rows = path(&format!("{name}.jsonl"));
                succeeds(&["convert", &back, &rows]);
                rows
            }
        };
        assert_eq!(json_lines(Path::new(&rows)), expected, "{name}");
    }
    let info: Value =
        serde_json::from_str(&succeeds(&["info", &documents, "--all", "--json"])).unwrap();
    assert_eq!(info["rows"], 1000);
    assert_eq!(info["row_groups"], 3);
    assert_eq!(info["search"]["documents"], 1000);
    let shown = succeeds(&["info", &documents]);
    assert!(shown.contains("tatami, 1000 rows, 3 row groups"), "{shown}");
    assert!(shown.contains("search index: 1000 documents"), "{shown}");
}

#[test]
fn options_that_are_wrong_or_have_no_effect_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let source = path("source.jsonl");
    lines(Path::new(&source));
    for (option, expected) in [
        ("sort_key", "expected NAME=VALUE"),
        ("pages=1", "unknown option pages"),
        ("page_rows=0", "expected a number from 1"),
    ] {
        let output = tet(&[
            "convert",
            &source,
            &path("pages.tatami"),
            "--option",
            option,
        ]);
        assert!(!output.status.success(), "{option}");
        assert!(text(&output.stderr).contains(expected), "{output:?}");
    }
    let given = [
        "convert",
        "weather_small.tet",
        &path("a.zarr"),
        "--option",
        "level=1",
    ];
    let warned = text(&tet(&given).stderr);
    assert!(warned.contains("--option has no effect"), "{warned}");
}

#[test]
fn every_wrong_byte_of_a_page_is_found_by_deep_verification() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages.tatami");
    let (source, documents) = (folder.path().join("a.jsonl"), path.to_str().unwrap());
    lines(&source);
    let given = ["convert", source.to_str().unwrap(), documents];
    succeeds(
        &[
            &given[..],
            &["--option", "bloom=url", "--option", "search=body"],
        ]
        .concat(),
    );
    assert!(succeeds(&["verify", documents, "--deep"]).contains("sound; 1000 rows"));
    let bytes = fs::read(&path).unwrap();
    for at in (100..bytes.len() - 100).step_by(bytes.len() / 20) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x10;
        fs::write(&path, wrong).unwrap();
        let checked = tet(&["verify", documents, "--deep", "--json"]);
        assert_eq!(checked.status.code(), Some(1), "byte {at}: {checked:?}");
    }
}

/// Copies the collection of the corpus. Returns the path of its manifest.
fn collection(folder: &Path) -> String {
    for entry in crate::command::tet::data("tatami/collection")
        .read_dir()
        .unwrap()
    {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    folder.join("tatami.manifest").to_str().unwrap().to_string()
}

#[test]
fn collections_are_described_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = collection(folder.path());
    let live = fs::read(folder.path().join("live.json")).unwrap();
    let live: Vec<Value> = serde_json::from_slice(&live).unwrap();
    let info: Value = serde_json::from_str(&succeeds(&["info", &manifest, "--json"])).unwrap();
    assert_eq!(info["rows"], 300);
    let members = info["members"].as_array().unwrap();
    assert_eq!(members.len(), live.len());
    for (member, live) in members.iter().zip(&live) {
        assert_eq!(member["member"], live["path"]);
        assert_eq!(member["rows"], live["rows"].to_string());
        assert_eq!(member["live"], live["rows"].to_string());
        assert_eq!(member["deleted"], "0");
        assert_eq!(member["sort_key"], live["sort_column"]);
    }
    let shown = succeeds(&["info", &manifest]);
    assert!(
        shown.contains(": tatami collection, 3 members, 300 rows\n"),
        "{shown}"
    );
    for arguments in [&["verify", &manifest][..], &["verify", "--deep", &manifest]] {
        let shown = succeeds(arguments);
        assert!(shown.ends_with(": sound; 3 members, 300 rows\n"), "{shown}");
    }

    // A member with a wrong byte, one that the manifest does not describe, and one that is missing.
    let part = |number: u32| folder.path().join(format!("part-{number}.tatami"));
    let names: Vec<_> = live
        .iter()
        .map(|member| member["path"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["part-0.tatami", "part-1.tatami", "part-3.tatami"]);
    let mut bytes = fs::read(part(0)).unwrap();
    bytes[100] ^= 0x10;
    fs::write(part(0), bytes).unwrap();
    fs::copy(part(2), part(1)).unwrap();
    fs::remove_file(part(3)).unwrap();
    let checked = tet(&["verify", "--deep", &manifest]);
    assert_eq!(checked.status.code(), Some(1));
    let told = text(&checked.stdout);
    for (name, expected) in [
        ("part-0.tatami", "checksum"),
        ("part-1.tatami", "as the manifest states"),
        ("part-3.tatami", "cannot open"),
    ] {
        let mut lines = told.lines();
        let is_found = lines.any(|line| line.contains(name) && line.contains(expected));
        assert!(is_found, "{name}: {told}");
    }
    assert!(
        told.ends_with(": NOT SOUND; 3 members, 300 rows\n"),
        "{told}"
    );
    let described = tet(&["info", &manifest]);
    assert_eq!(described.status.code(), Some(1));
    assert!(text(&described.stderr).contains("part-3.tatami"));
}

#[test]
fn a_torn_manifest_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    collection(folder.path());
    let torn = folder.path().join("torn.manifest");
    let expected = "torn.manifest, manifest: record is cut off or has a wrong checksum, ";
    let checked = tet(&["verify", torn.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked.stdout).contains(expected), "{checked:?}");
    let described = tet(&["info", torn.to_str().unwrap()]);
    assert_eq!(described.status.code(), Some(1));
    assert!(
        text(&described.stdout).contains("tatami collection, "),
        "{described:?}"
    );
    assert!(text(&described.stderr).contains(expected), "{described:?}");
}

/// The min and the max of a column in the manifest decide which members a query opens.
#[test]
fn zones_of_a_manifest_that_miss_values_are_found() {
    use tet_sql::format::tatami::{Collection, CollectionChange};

    let folder = tempfile::tempdir().unwrap();
    let manifest = collection(folder.path());
    let members = Collection::open(&manifest).unwrap().members().to_vec();
    let mut narrowed = members[1].clone();
    let zone = narrowed
        .zones
        .iter_mut()
        .find(|zone| zone.column == "k")
        .unwrap();
    zone.bounds.max = zone.bounds.min.clone();
    Collection::append(&manifest, &[CollectionChange::Add(narrowed)]).unwrap();
    let checked = tet(&["verify", &manifest]);
    assert_eq!(checked.status.code(), Some(1));
    let told = text(&checked.stdout);
    assert!(
        told.contains(
            "part-1.tatami: zone is a zone of column \"k\" in the manifest without all values"
        ),
        "{told}"
    );
}
