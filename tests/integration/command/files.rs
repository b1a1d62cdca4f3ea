//! Results written to files, and files that must not be overwritten.

use super::*;

#[test]
fn output_format_follows_the_extension() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let query = "SELECT lat, lon, value FROM temperature WHERE time = '2024-01-01T00:00:00'";
    for name in ["a.parquet", "a.arrow", "a.feather", "a.tet", "a.zarr"] {
        let file = path(name);
        assert_eq!(answer(&[WEATHER, "-o", &file, "-c", query]), "", "{name}");
        let sum = format!("SELECT count(*) AS n, round(sum(value)) AS s FROM '{file}'");
        let expected = format!("SELECT count(*) AS n, round(sum(value)) AS s FROM ({query})");
        assert_eq!(
            answer(&[WEATHER, "--format", "csv", "-c", &sum]),
            answer(&[WEATHER, "--format", "csv", "-c", &expected]),
            "{name}"
        );
        let left: Vec<_> = folder.path().read_dir().unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        if name == "a.zarr" {
            std::fs::remove_dir_all(left[0].path()).unwrap();
        } else {
            assert!(left[0].path().is_file(), "{name}");
            std::fs::remove_file(left[0].path()).unwrap();
        }
    }
    // Row formats replace an existing file, also with an empty result.
    for name in ["b.parquet", "b.arrow"] {
        let file = path(name);
        for (condition, expected) in [("true", "n\n1\n"), ("false", "n\n0\n")] {
            let query = format!("SELECT 1 AS x WHERE {condition}");
            answer(&["-o", &file, "-c", &query]);
            let count = format!("SELECT count(*) AS n FROM '{file}'");
            assert_eq!(
                answer(&["--format", "csv", "-c", &count]),
                expected,
                "{name}"
            );
        }
    }
    answer(&["-o", &path("a.csv"), "-c", "SELECT 1 AS x"]);
    assert_eq!(std::fs::read_to_string(path("a.csv")).unwrap(), "x\n1\n");
    answer(&[
        "-o",
        &path("b.csv"),
        "--format",
        "json",
        "-c",
        "SELECT 1 AS x",
    ]);
    assert_eq!(
        std::fs::read_to_string(path("b.csv")).unwrap(),
        "[{\"x\":1}]\n"
    );
    // Parquet and Arrow files hold a single result.
    let twice = complaint(&[
        "-o",
        &path("c.parquet"),
        "-c",
        "SELECT 1 AS x; SELECT 2 AS x",
    ]);
    assert!(twice.contains("already holds a result"), "{twice}");
    let once = format!(".once '{}'", path("d.csv"));
    let commands = [
        WEATHER,
        "--format",
        "csv",
        "-c",
        &once,
        "-c",
        "SELECT 1 AS x",
        "-c",
        "SELECT 2 AS x",
    ];
    assert_eq!(answer(&commands), "x\n2\n");
    assert_eq!(std::fs::read_to_string(path("d.csv")).unwrap(), "x\n1\n");
}

#[test]
fn the_line_below_a_result_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.csv", "a.parquet"] {
        let path = folder.path().join(name);
        let query = format!("SELECT 1 AS x \\g '{}'", path.display());
        let output = run(&["-c", ".timer on", "-c", &query]);
        assert_eq!((text(&output.stdout), output.status.code()), ("", Some(0)));
        let told = text(&output.stderr);
        assert!(told.starts_with("1 row written to "), "{told}");
        assert!(told.contains(&format!("{name} in ")), "{told}");
    }
}

#[test]
fn a_failed_query_keeps_the_previous_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keep.csv");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "precious").unwrap();
    let broken = "SELECT value, 1 / (value - 90000) AS x FROM range(100000)";
    let fails = |arguments: &[&str]| {
        let complaint = complaint(arguments);
        assert!(complaint.contains("Divide by zero"), "{complaint}");
    };
    fails(&["-o", path, "-c", broken]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    fails(&["-o", path, "-c", "SELECT 1 AS x", "-c", broken]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n1\n");
    // A result may replace the file it is computed from.
    let table = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{path}' OPTIONS (format.has_header true)"
    );
    answer(&["-o", path, "-c", &table, "-c", "SELECT x + 1 AS x FROM t"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n2\n");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn a_failed_statement_leaves_the_output_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keep.csv");
    std::fs::write(&file, "precious").unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(
        run(&["-o", path, "-c", "SELECT nonsense"]).status.code(),
        Some(1)
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(
        answer(&[
            "-o",
            path,
            "--format",
            "csv",
            "-c",
            "SELECT 1 AS x; SELECT 2 AS x"
        ]),
        ""
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n1\nx\n2\n");
}

#[test]
fn an_empty_result_replaces_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.ndjson");
    std::fs::write(&file, "{\"old\":1}\n").unwrap();
    let path = file.to_str().unwrap();
    let query = "SELECT * FROM temperature WHERE lat > 500";
    assert_eq!(
        answer(&[WEATHER, "-q", "--format", "ndjson", "-o", path, "-c", query]),
        ""
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
}

#[test]
fn array_files_are_not_overwritten_by_results() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.tet");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(WEATHER), &file).unwrap();
    let other_name = folder.path().join("other");
    std::fs::hard_link(&file, &other_name).unwrap();
    for path in [&file, &other_name] {
        let output = run(&["-o", path.to_str().unwrap(), "-c", "SELECT 1"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains("is an array file"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn other_array_formats_are_not_overwritten_by_results() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = vec![
        ("a.npy", "a.npy", &b"\x93NUMPY\x01\x00"[..]),
        ("a.npz", "a.npz", &b"PK\x03\x04 a member"[..]),
        ("a.csv", "a.csv", &b"PK\x05\x06 no member"[..]),
    ];
    if cfg!(feature = "zarr") {
        kept.push(("a.zarr", "a.zarr/zarr.json", b"{}"));
    }
    std::fs::create_dir(folder.path().join("a.zarr")).unwrap();
    for (name, file, bytes) in kept {
        let file = folder.path().join(file);
        std::fs::write(&file, bytes).unwrap();
        let path = folder.path().join(name);
        let output = run(&["-o", path.to_str().unwrap(), "-c", "SELECT 1"]);
        assert_eq!(output.status.code(), Some(1));
        let told = text(&output.stderr);
        assert!(told.contains("is an array file"), "{told}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

#[test]
fn nothing_is_written_in_a_read_only_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let path = path.to_str().unwrap();
    for statement in [
        format!("COPY (SELECT 1 AS x) TO '{path}'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1 AS x) TO '{path}'"),
        format!(".output {path}"),
        format!(".once {path}"),
        format!("\\! touch {path}"),
        format!(".edit {path}"),
    ] {
        let complaint = complaint(&["--read-only", "-c", &statement]);
        assert!(complaint.contains("--read-only"), "{complaint}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    assert_eq!(
        answer(&[
            "--read-only",
            "--format",
            "csv",
            "-c",
            "CREATE VIEW v AS SELECT 1 AS x; SELECT x FROM v"
        ]),
        "x\n1\n"
    );
}

#[test]
fn unknown_extensions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    for name in ["o.nc", "o.npz", "o.xlsx"] {
        let file = path(name);
        let output = format!(".output '{file}'");
        for arguments in [
            ["-o", &file, "-c", "SELECT 1"],
            ["-c", &output, "-c", "SELECT 1"],
        ] {
            let told = complaint(&arguments);
            assert!(told.contains(".csv") && told.contains(".zarr"), "{told}");
        }
        let copy = format!("COPY (SELECT 1 AS x) TO '{file}'");
        let told = complaint(&["-c", &copy]);
        assert!(told.contains("COPY cannot write"), "{told}");
        assert!(
            told.contains(".parquet") && told.contains(".zarr"),
            "{told}"
        );
    }
    let told = complaint(&["-c", &format!("COPY (SELECT 1 AS x) TO '{}'", path("o"))]);
    assert!(told.contains(", or STORED AS"), "{told}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    // An explicit format applies whatever the file's extension. Without a format or a known
    // extension, the result is a text table.
    let file = path("o.dat");
    answer(&["--format", "csv", "-o", &file, "-c", "SELECT 1 AS x"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n1\n");
    let mode = format!(".mode json\n.output '{}'\nSELECT 1 AS x;", path("p.dat"));
    run_with_input(&[], &mode);
    assert_eq!(
        std::fs::read_to_string(path("p.dat")).unwrap(),
        "[{\"x\":1}]\n"
    );
    for name in ["o", "o.txt"] {
        answer(&["-o", &path(name), "-c", "SELECT 1 AS x"]);
        assert!(
            std::fs::read_to_string(path(name))
                .unwrap()
                .contains("| x |")
        );
    }
}

#[test]
fn results_are_written_as_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let query = "SELECT lat, lon, avg(value) AS mean FROM temperature GROUP BY lat, lon";
    for (name, start) in [("map.png", b"\x89PNG".as_slice()), ("map.svg", b"<svg")] {
        let path = folder.path().join(name);
        let file = path.to_str().unwrap();
        answer(&[WEATHER, "-o", file, "-c", query]);
        let picture = std::fs::read(&path).unwrap();
        assert!(picture.starts_with(start), "{name}");
        let told = complaint(&[WEATHER, "-o", file, "-c", "SELECT 1 AS x WHERE false"]);
        assert!(told.contains("no rows"), "{told}");
        let told = complaint(&[WEATHER, "-o", file, "-c", query, "-c", query]);
        assert!(told.contains("already holds a result"), "{told}");
        assert_eq!(std::fs::read(&path).unwrap(), picture);
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}

/// The warnings of a file that a statement opens, once.
#[test]
fn files_in_statements_give_warnings() {
    let query = "SELECT count(*) FROM 'tests/data/netcdf/cut.nc#t2m'";
    let ran = run(&["-c", query, "-c", query]);
    let warning = "warning: tests/data/netcdf/cut.nc: the file has 1180 bytes, but its variables end at byte 1380; \
                   the missing cells cannot be read\n";
    assert_eq!(text(&ran.stderr), warning);
    answer(&["-q", "-c", query]);
    let create = "CREATE EXTERNAL TABLE t STORED AS NETCDF LOCATION 'tests/data/netcdf/cut.nc#t2m'";
    assert_eq!(text(&run(&["-c", create]).stderr), warning);
}

#[test]
fn geometries_are_not_written_to_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.parquet");
    let path = path.to_str().unwrap();
    let query = "SELECT ST_GeomFromText('POINT(3 4)') AS g";
    let copy = format!("COPY ({query}) TO '{path}'");
    for arguments in [["-o", path, "-c", query].as_slice(), &["-c", &copy]] {
        let message = complaint(arguments);
        assert!(message.contains("copy ST_AsBinary(g) instead"), "{message}");
    }
    assert!(!Path::new(path).exists());
}

/// Results are added to a file that standard output is redirected to.
#[cfg(unix)]
#[test]
fn standard_output_by_its_path_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let link = folder.path().join("link.csv");
    std::os::unix::fs::symlink("/dev/stdout", &link).unwrap();
    for path in ["/dev/stdout", "/dev/fd/1", link.to_str().unwrap()] {
        std::fs::write(&log, "before\n").unwrap();
        let file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(["--no-init", "--format", "csv", "-o", path])
            .args(["-c", "SELECT 1 AS a", "-c", "SELECT 2 AS a"])
            .stdout(file)
            .status();
        assert!(ran.unwrap().success(), "{path}");
        let written = std::fs::read_to_string(&log).unwrap();
        assert_eq!(written, "before\na\n1\na\n2\n", "{path}");
    }
}

#[test]
fn tabs_and_arrays_of_objects_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.tsv", "a.json"] {
        let path = folder.path().join(name);
        let path = path.to_str().unwrap();
        let query = "SELECT 1 AS x, 'a,b' AS y UNION ALL SELECT 2, 'c' ORDER BY x";
        answer(&["-o", path, "-c", query]);
        let read = format!("SELECT y, x FROM '{path}' ORDER BY x");
        let answer = answer(&["--format", "csv", "-c", &read]);
        assert_eq!(answer, "y,x\n\"a,b\",1\nc,2\n", "{name}");
    }
}
