//! Results with very many rows.

use std::io::{BufRead, BufReader};

use super::*;

/// A query with a trillion rows.
const ENDLESS: &str =
    "SELECT a.value AS n, b.value AS m FROM range(1000000) a CROSS JOIN range(1000000) b";

#[test]
fn tables_are_streamed() {
    for format in ["table", "box"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args([
                "--no-init",
                "--memory-limit",
                "256M",
                "--format",
                format,
                "-c",
                ENDLESS,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Far more lines than the command buffers to compute column widths.
        let lines: Vec<String> = lines.take(50_000).map(Result::unwrap).collect();
        assert!(
            lines[1].contains(" n ") && lines[1].contains(" m "),
            "{}",
            lines[1]
        );
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{format}");
        assert_eq!(text(&output.stderr), "");
    }
}

/// An array of a trillion cells, none of which is stored, could not be read to its end.
#[cfg(feature = "zarr")]
#[test]
fn a_closed_pipe_ends_the_scan_of_an_array() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.zarr");
    std::fs::create_dir(&path).unwrap();
    let metadata = serde_json::json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": [1_000_000, 1_000_000],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1000, 1000]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 1.5,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "dimension_names": ["y", "x"],
    });
    std::fs::write(path.join("zarr.json"), metadata.to_string()).unwrap();
    for (format, header) in [("csv", 0), ("table", 1)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(["--no-init", "--memory-limit", "64M", "--format", format])
            .args(["-c", &format!("SELECT * FROM '{}'", path.display())])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines: Vec<String> = lines.take(3).map(Result::unwrap).collect();
        let names = lines[header].split(['|', ',']).map(str::trim);
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        assert_eq!(names, ["y", "x", "value"]);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{format}");
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn truncated_results_show_first_and_last_rows() {
    let shown = |sql: &str| {
        // With one thread, the rows come in order.
        let arguments = [WEATHER, "--threads", "1"];
        let output = run_with_input(&arguments, &format!(".maxrows 4\n{sql};"));
        assert_eq!(output.status.code(), Some(0));
        (
            text(&output.stdout).to_owned(),
            text(&output.stderr).to_owned(),
        )
    };
    let numbers = |table: &str| -> Vec<String> {
        let rows = table.lines().filter(|line| line.starts_with('|')).skip(1);
        rows.map(|row| row.trim_matches(['|', ' ']).to_owned())
            .collect()
    };
    let (table, told) = shown("SELECT value FROM range(100000) WHERE value % 2 = 1");
    assert_eq!(numbers(&table), ["1", "3", "...", "99997", "99999"]);
    assert!(told.contains("50,000 rows (4 shown)"), "{told}");
    // The last rows of an array are read from its last chunks.
    let (table, told) = shown("SELECT value FROM temperature");
    let csv = answer(&[
        WEATHER,
        "--threads",
        "1",
        "--format",
        "csv",
        "-c",
        "SELECT value FROM temperature",
    ]);
    let all: Vec<&str> = csv.lines().skip(1).collect();
    let ends = [
        all[0],
        all[1],
        "...",
        all[all.len() - 2],
        all[all.len() - 1],
    ];
    assert_eq!(numbers(&table), ends);
    assert!(told.contains("9,600 rows (4 shown)"), "{told}");
    let (table, told) = shown(ENDLESS);
    assert_eq!(numbers(&table).len(), 4);
    assert!(
        told.contains("more than ") && told.contains(" rows (4 shown)"),
        "{told}"
    );
}
