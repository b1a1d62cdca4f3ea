//! The layout of results in each output format.

use super::*;

#[test]
fn mean_by_time_in_a_latitude_band() {
    let query = "SELECT time, avg(value) FROM temperature \
                 WHERE lat BETWEEN -20 AND 20 GROUP BY time ORDER BY time";
    let output = answer(&[WEATHER, "--format", "csv", "-c", query]);
    let mut lines = output.lines();
    assert_eq!(lines.next(), Some("time,avg(temperature.value)"));
    assert_eq!(lines.next(), Some("2024-01-01T00:00:00,11.0"));
    assert_eq!(lines.count(), 47);
}

#[test]
fn formats() {
    let query = "SELECT station, nullif(value, 10132) AS v FROM pressure \
                 WHERE time = '2024-01-01T00:00:00' AND station IN ('KSEA', 'KPDX')";
    for (format, expected) in [
        ("csv", "station,v\nKSEA,\nKPDX,10166\n"),
        ("tsv", "station\tv\nKSEA\t\nKPDX\t10166\n"),
        (
            "json",
            "[{\"station\":\"KSEA\",\"v\":null},{\"station\":\"KPDX\",\"v\":10166}]\n",
        ),
        (
            "ndjson",
            "{\"station\":\"KSEA\",\"v\":null}\n{\"station\":\"KPDX\",\"v\":10166}\n",
        ),
        (
            "markdown",
            "| station | v |\n| --- | ---: |\n| KSEA | NULL |\n| KPDX | 10166 |\n",
        ),
        (
            "table",
            "+---------+-------+\n| station | v     |\n+---------+-------+\n\
             | KSEA    | NULL  |\n| KPDX    | 10166 |\n+---------+-------+\n",
        ),
    ] {
        assert_eq!(
            answer(&[WEATHER, "--format", format, "-c", query]),
            expected
        );
        let mode = format!(".mode {format}");
        assert_eq!(answer(&[WEATHER, "-c", &mode, "-c", query]), expected);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.csv");
    let path = file.to_str().unwrap();
    assert_eq!(
        answer(&[WEATHER, "--format", "csv", "-o", path, "-c", query]),
        ""
    );
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "station,v\nKSEA,\nKPDX,10166\n"
    );
}

#[test]
fn json_renames_duplicate_columns() {
    let twice = "SELECT a.x, b.x FROM (SELECT 1 AS x) a, (SELECT 2 AS x) b";
    assert_eq!(
        answer(&["--format", "json", "-c", twice]),
        "[{\"x\":1,\"x_1\":2}]\n"
    );
}

#[test]
fn settings_change_how_results_look() {
    let look = |settings: &str| {
        let sql = format!("{settings}\nSELECT 1 AS x, NULL AS y;");
        let output = run_with_input(&[], &sql);
        assert_eq!(output.status.code(), Some(0), "{settings}");
        text(&output.stdout).to_string()
    };
    assert_eq!(look(".mode csv\n.headers off\n.nullvalue -"), "1,-\n");
    assert_eq!(look("\\pset format csv\n\\pset tuples_only on"), "1,\n");
    assert_eq!(look("\\x on"), "-[ RECORD 1 ]\nx = 1\ny = NULL\n");
    assert_eq!(look(".mode line"), "x = 1\ny = NULL\n");
    assert_eq!(
        look(".mode box"),
        "┌───┬──────┐\n│ x │ y    │\n├───┼──────┤\n│ 1 │ NULL │\n└───┴──────┘\n"
    );
}
