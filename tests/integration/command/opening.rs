//! The files of a session.

use super::*;

#[test]
fn files_are_opened_and_closed() {
    let script =
        format!(".open {WEATHER} AS w\nSELECT count(*) AS n FROM w.pressure;\n.close w\n.tables\n");
    let output = run_with_input(&["--format", "csv"], &script);
    assert_eq!(text(&output.stdout), "n\n240\nschema,table\n");
    assert!(complaint(&["-c", ".close nothing"]).contains("no file is open as nothing"));
}

#[test]
fn several_files_are_schemas() {
    let other = "v1=tests/data/weather_small_v1footer.tet";
    let query = "SELECT count(*) AS n FROM temperature t \
                 JOIN v1.temperature u USING (time, lat, lon) WHERE t.value = u.value";
    assert_eq!(
        answer(&[WEATHER, other, "--format", "csv", "-c", query]),
        "n\n9598\n"
    );
    let output = run(&[WEATHER, WEATHER, "-c", "SELECT 1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("choose another name"),
        "{}",
        text(&output.stderr)
    );
    let tables = answer(&[WEATHER, other, "--format", "csv", "-c", ".tables"]);
    assert!(tables.contains("v1,pressure\n") && tables.contains("weather_small,pressure\n"));
}

#[test]
fn schemas_are_found_whatever_their_case() {
    let named = format!("My={WEATHER}");
    let query = "SELECT count(*) AS n FROM My.temperature; SELECT count(*) AS n FROM \"My\".PRESSURE; \
                 CREATE VIEW v AS SELECT 1 AS x; SELECT x FROM my.v";
    assert_eq!(
        answer(&[&named, "--format", "csv", "-c", query]),
        "n\n9600\nn\n240\nx\n1\n"
    );
}

#[test]
fn a_folder_is_all_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (from, to) in [
        ("weather_small.tet", "b.tet"),
        ("weather_small_v1footer.tet", "a.TET"),
        ("edge/bad_magic.tet", "c.tet"),
    ] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(from);
        std::fs::copy(from, folder.path().join(to)).unwrap();
    }
    let query = "SELECT count(*) AS n FROM temperature t JOIN b.temperature USING (time, lat, lon)";
    let output = run(&[path, "--format", "csv", "-c", query]);
    assert_eq!(text(&output.stdout), "n\n9600\n");
    assert!(
        text(&output.stderr).contains("c.tet: superblock magic"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn schema_tells_where_coordinates_come_from() {
    let schema = answer(&[WEATHER, "-c", ".schema pressure"]);
    for expected in [
        "time     48      Timestamp(µs)  2024-01-01T00:00:00 .. 2024-01-02T23:00:00  labels",
        "station  5       Utf8           EGLL .. YSSY",
        "value  i16     Int16  -32768",
        "codec        zstd",
    ] {
        assert!(schema.contains(expected), "{expected} in\n{schema}");
    }
    assert_eq!(schema, answer(&[WEATHER, "-c", "\\d pressure"]));
    let index = answer(&[
        "tests/data/weather_small_nofooter.tet",
        "-c",
        ".schema pressure",
    ]);
    assert!(
        index.contains("dim_0  48      Int64  0 .. 47  index"),
        "{index}"
    );
}

#[test]
fn options_of_opening_and_reading() {
    let types = "SELECT arrow_typeof(lat) AS t FROM temperature LIMIT 1";
    assert_eq!(
        answer(&[WEATHER, "--format", "csv", "-c", types]),
        "t\nInt64\n"
    );
    assert_eq!(
        answer(&[WEATHER, "--text-labels", "--format", "csv", "-c", types]),
        "t\nUtf8\n"
    );
    let count = "SELECT count(value) AS n FROM temperature";
    for (set, expected) in [("true", "n\n9598\n"), ("false", "n\n9600\n")] {
        let set = format!("SET tet.nan_as_null = {set}");
        for access in ["mmap", "pread"] {
            let arguments = [
                WEATHER, "--access", access, "--format", "csv", "-c", &set, "-c", count,
            ];
            assert_eq!(answer(&arguments), expected);
        }
    }
    // A file whose footer alone is broken.
    let broken = "tests/data/edge/footer_bad_json.tet";
    let output = run(&[broken, "-c", "SELECT 1"]);
    assert!(
        text(&output.stderr).contains("ignore_footer"),
        "{}",
        text(&output.stderr)
    );
    let sum = "SELECT sum(value) AS s FROM a";
    let arguments = [broken, "--ignore-footer", "--format", "csv", "-c", sum];
    assert_eq!(answer(&arguments), "s\n3.0\n");
}

#[test]
fn the_demo_needs_no_file_and_leaves_none() {
    let output = answer(&["--demo", "-c", ".schema temperature"]);
    let file = output
        .lines()
        .find_map(|line| line.trim().strip_prefix("file "))
        .and_then(|line| line.trim().strip_suffix(" (tet)"))
        .unwrap();
    assert!(file.ends_with("demo.tet"));
    assert!(!Path::new(file).exists(), "{file} is left behind");
    let rows = "SELECT count(*) AS n FROM temperature t JOIN humidity h USING (time, lat, lon)";
    assert_eq!(
        answer(&["--demo", "--format", "csv", "-c", rows]),
        "n\n32832\n"
    );
}
