//! Opening and closing the files of a session.

use super::*;

#[test]
fn files_are_opened_and_closed() {
    let script =
        format!(".open {WEATHER} AS w\nSELECT count(*) AS n FROM w.pressure;\n.close w\n.tables\n");
    let output = run_with_input(&["--format", "csv"], &script);
    assert_eq!(
        text(&output.stdout),
        "n\n240\nschema,table,dimensions,type,units,bytes\n"
    );
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
    assert!(tables.contains("\nv1,pressure,") && tables.contains("\nweather_small,pressure,"));
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
fn a_directory_opens_all_its_files() {
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
fn schema_shows_the_source_of_coordinates() {
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
fn open_and_read_options() {
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
    // A file in which only the footer is broken.
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

#[test]
fn files_of_all_formats_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let stations = path("stations.csv");
    std::fs::write(&stations, "station,name\nKSEA,Seattle\nEGLL,London\n").unwrap();
    let means = path("means.parquet");
    let query = "SELECT station, avg(value) AS mean FROM pressure GROUP BY station";
    answer(&[WEATHER, "-o", &means, "-c", query]);
    let lines = path("lines.jsonl");
    std::fs::write(&lines, "{\"n\":1}\n{\"n\":2}\n").unwrap();
    let query = "SELECT s.name, round(m.mean) AS mean, count(p.value) AS n FROM pressure p \
                 JOIN stations s USING (station) JOIN means m USING (station) GROUP BY 1, 2 ORDER BY 1";
    let joined = answer(&[
        &stations, &means, WEATHER, &lines, "--format", "csv", "-c", query,
    ]);
    let direct = "SELECT CASE station WHEN 'KSEA' THEN 'Seattle' ELSE 'London' END AS name, \
                  round(avg(value)) AS mean, count(value) AS n FROM pressure \
                  WHERE station IN ('KSEA', 'EGLL') GROUP BY 1 ORDER BY 1";
    assert_eq!(joined, answer(&[WEATHER, "--format", "csv", "-c", direct]));
    let count = ["--format", "csv", "-c", "SELECT count(*) AS n FROM lines"];
    assert_eq!(answer(&[&[lines.as_str()], &count[..]].concat()), "n\n2\n");
    let named = format!("other={lines}");
    let count = ["--format", "csv", "-c", "SELECT sum(n) AS n FROM other"];
    assert_eq!(answer(&[&[named.as_str()], &count[..]].concat()), "n\n3\n");
    // Files of lines can be opened at the prompt, and `.output` never overwrites an open input.
    let script = format!(
        ".open {lines}\n.open {lines} AS b\nSELECT count(*) AS n FROM lines, b;\n.output {lines}\n"
    );
    let output = run_with_input(&["--format", "csv"], &script);
    assert_eq!(text(&output.stdout), "n\n4\n");
    assert!(text(&output.stderr).contains("is open as an input"));
    let twice = complaint(&[&lines, &lines, "-c", "SELECT 1"]);
    assert!(twice.contains("choose another name: NAME=FILE"), "{twice}");
}

#[cfg(feature = "zarr")]
#[test]
fn arrays_of_a_hierarchy_are_reached_by_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.zarr");
    let store = store.to_str().unwrap();
    let copy = format!("COPY (SELECT * FROM temperature) TO '{store}'");
    let csv = ["--format", "csv", "-c"];
    answer(&[&[WEATHER], &csv[..], &[copy.as_str()]].concat());
    // Coordinate arrays beside an array of a store are found.
    for location in [
        format!("{store}/temperature"),
        format!("{store}/temperature/"),
        format!("{}/*.zarr/temperature", folder.path().display()),
    ] {
        let query = format!("SELECT max(lat) AS north, count(*) AS n FROM '{location}'");
        let answer = answer(&[&csv[..], &[query.as_str()]].concat());
        assert_eq!(answer, "north,n\n45,9600\n", "{location}");
    }
    let told = complaint(&["-c", &format!("SELECT * FROM '{store}/humidity'")]);
    assert!(told.contains("\"temperature\""), "{told}");
}

#[test]
fn unsupported_formats_and_locations_get_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    for (name, bytes, expected) in [
        // Formats that are supported have errors of their own.
        (
            "a.nc",
            b"\x89HDF\r\n\x1a\n".as_slice(),
            "a.nc: superblock is unreadable",
        ),
        ("b.nc", b"CDF\x01", "b.nc: "),
        ("a.grib2", b"GRIB", "engine='cfgrib'"),
        (
            "noext",
            b"II*\0",
            "open_dataset('noext', engine='rasterio').to_zarr('noext.zarr')",
        ),
    ] {
        let file = path(name);
        std::fs::write(&file, bytes).unwrap();
        for arguments in [
            vec![file.as_str(), "-c", "SELECT 1"],
            vec!["-c", &format!("SELECT * FROM '{file}'")],
            vec!["-c", &format!(".open {file}")],
        ] {
            let told = complaint(&arguments);
            assert!(told.contains(expected), "{arguments:?}: {told}");
        }
    }
    for place in [
        "s3://bucket/era5.zarr",
        "s3://bucket/a.parquet",
        "gs://bucket/a.nc",
    ] {
        for arguments in [
            vec![place, "-c", "SELECT 1"],
            vec!["-c", &format!("SELECT * FROM '{place}'")],
        ] {
            let told = complaint(&arguments);
            assert!(
                told.contains("copy the file to a local file system first"),
                "{arguments:?}: {told}"
            );
        }
    }
}
