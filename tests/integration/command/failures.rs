//! Error messages, hints and exit statuses.

use super::*;

#[test]
fn a_failed_statement_stops_with_status_1() {
    let output = run(&[
        "--format",
        "csv",
        "-c",
        "SELECT 1; SELECT nonsense; SELECT 3",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "Int64(1)\n1\n");
    assert!(text(&output.stderr).starts_with("error: "));
    assert!(text(&output.stderr).contains("nonsense"));
    for wrong in [
        &["absent.tet", "-c", "SELECT 1"][..],
        &["tests/data/edge/bad_magic.tet", "-c", "SELECT 1"],
        &["-c", "SELECT 'unterminated"],
        &["-c", ".nonsense"],
        &["-f", "absent.sql"],
    ] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
        assert_eq!(text(&output.stdout), "", "{wrong:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{wrong:?}");
    }
}

#[test]
fn wrong_usage_has_status_2() {
    for wrong in [
        &["--nonsense"][..],
        &["--threads", "none", "-c", "SELECT 1"],
        &["--format", "papyrus"],
        &["--access", "telepathy"],
        &["--memory-limit", "lots"],
    ] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert_eq!(text(&output.stdout), "", "{wrong:?}");
    }
}

#[test]
fn errors_show_the_location_and_suggestions() {
    assert_eq!(
        complaint(&[WEATHER, "-c", "SELECT lon,\n  latt FROM temperature"]),
        "error: No field named latt. Did you mean 'temperature.lat'?\nLINE 2:   latt FROM temperature\n          ^^^^\n"
    );
    assert_eq!(
        complaint(&[WEATHER, "-c", "SELECT * FROM temprature"]),
        "error: table 'datafusion.weather_small.temprature' not found; did you mean 'temperature'?\n\
         LINE 1: SELECT * FROM temprature\n                      ^^^^^^^^^^\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.sql");
    std::fs::write(&file, "SELECT 1;\n\nSELECT 2 +;\n").unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(
        complaint(&["--format", "csv", "-f", path]),
        format!(
            "error: {path}:3: syntax error: Expected: an expression, found: EOF\nLINE 1: SELECT 2 +\n                  ^\n"
        )
    );
}

#[test]
fn damaged_files_of_rows_are_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let file = path.to_str().unwrap();
    for (bytes, expected) in [
        ("", "the file has 0 bytes, expected \"PAR1\" at its end"),
        (
            "PAR1 and no more",
            "not a Parquet file, or truncated: found \"more\", expected \"PAR1\" at its end",
        ),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let expected = format!("error: {file}: {expected}\n");
        assert_eq!(complaint(&[file, "-c", "SELECT 1"]), expected);
    }
}

#[test]
fn unknown_labels_get_a_hint() {
    let query = "SELECT count(*) AS n FROM pressure WHERE station = 'KSEE'";
    let output = run(&[WEATHER, "--format", "csv", "-c", query]);
    assert_eq!(text(&output.stdout), "n\n0\n");
    assert_eq!(
        text(&output.stderr),
        "hint: no label 'KSEE' on station; did you mean 'KSEA'?\n"
    );
    let output = run(&[WEATHER, "-q", "--format", "csv", "-c", query]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn unknown_coordinates_get_a_hint() {
    // Latitudes are -45, -35, ..., 45, longitudes 0, 18, ..., 342, and times the hours of two days.
    for (predicate, expected) in [
        ("lat = 47.6", "hint: lat has no 47.6; lat runs -45 .. 45\n"),
        (
            "lat IN (5, -7)",
            "hint: lat has no -7; nearest are -15 and -5 (nearest(lat, -7) selects the nearer one)\n",
        ),
        (
            "lon = -18",
            "hint: lon has no -18; lon runs 0 .. 342, where -18 is 342\n",
        ),
        (
            "lon BETWEEN -18 AND 18",
            "hint: lon runs 0 .. 342, where -18 is 342\n",
        ),
        (
            "lon < 0",
            "hint: lon < 0 selects nothing: lon runs 0 .. 342\n",
        ),
        (
            "lat BETWEEN 45 AND -45",
            "hint: lat BETWEEN 45 AND -45 selects nothing: BETWEEN takes the lower bound first\n",
        ),
        (
            "time BETWEEN '2024-01-02' AND '2023'",
            "hint: time BETWEEN '2024-01-02' AND '2023' selects nothing: BETWEEN takes the lower bound first\n",
        ),
        // The year ends after the first bound.
        ("time BETWEEN '2024-01-02 12:00' AND '2024'", ""),
        (
            "time > '2024'",
            "hint: time > '2024' selects nothing: time runs 2024-01-01T00:00:00 .. 2024-01-02T23:00:00\n",
        ),
        (
            "time = '2023-12'",
            "hint: time = '2023-12' selects nothing: time runs 2024-01-01T00:00:00 .. 2024-01-02T23:00:00\n",
        ),
        (
            "time = TIMESTAMP '2024-01-01 00:30'",
            "hint: time has no '2024-01-01 00:30'; nearest are 2024-01-01T00:00:00 and 2024-01-01T01:00:00 \
             (nearest(time, '2024-01-01 00:30') selects the nearer one)\n",
        ),
        (
            "nearest(lon, 359)",
            "hint: nearest(lon, 359) is 342; lon runs 0 .. 342\n",
        ),
        (
            "lat = 5 AND lon > 300 AND NOT lat = 6 AND time >= '2023'",
            "",
        ),
    ] {
        let query = format!("SELECT count(*) FROM temperature WHERE {predicate}");
        let output = run(&[WEATHER, "--format", "csv", "-c", &query]);
        assert_eq!(output.status.code(), Some(0), "{predicate}");
        assert_eq!(text(&output.stderr), expected, "{predicate}");
    }
    // Columns of tables that are not arrays have no coordinates, so they get no hint.
    let query = "SELECT count(*) FROM temperature AS t JOIN (VALUES (7.5)) AS s(lat) ON t.lat < s.lat WHERE s.lat = 8";
    let output = run(&[WEATHER, "--format", "csv", "-c", query]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn common_mistakes_get_specific_errors() {
    for (statement, expected) in [
        (
            "SELECT * FROM weather_small",
            "error: table 'datafusion.weather_small.weather_small' not found; weather_small is a schema with the tables \
             weather_small.humidity, weather_small.pressure, weather_small.temperature, weather_small.time_lat_lon\n",
        ),
        (
            "SELECT time_bucket('1 day', time) FROM temperature",
            "error: Invalid function 'time_bucket'; write date_bin(INTERVAL '6 hours', time)\n",
        ),
        (
            "SELECT mod(lat, 2), sign(lat) FROM temperature",
            "error: Invalid function 'mod'; write x % y\n",
        ),
        (
            "SELECT sign(lat) FROM temperature",
            "error: Invalid function 'sign'; write signum(x)\n",
        ),
        (
            "SELECT md5('x')",
            "error: Invalid function 'md5'; this program is built without DataFusion's hash functions\n",
        ),
        (
            "SELECT (time - TIMESTAMP '2024-01-01') / 3600 FROM temperature",
            "error: Cannot coerce arithmetic expression Duration(ns) / Int64 to valid types; write date_part('epoch', duration)",
        ),
        (
            "SELECT date_part('month', '2001-02-30T12:00:00')",
            "error: Parser error: Error parsing timestamp from '2001-02-30T12:00:00': error parsing date; for dates",
        ),
        (
            "SELECT xyzzy(lat) FROM temperature",
            "error: Invalid function 'xyzzy'; SHOW FUNCTIONS lists all that exist\n",
        ),
        (
            "SELECT avg(value) FROM temperature GROUP BY 1",
            "error: GROUP BY 1 stands for avg(value), which is an aggregate; group by the columns that are not aggregated, or \
             leave GROUP BY out for one row\n",
        ),
        (
            "SELECT avg(value) AS m FROM temperature GROUP BY m",
            "error: GROUP BY m stands for avg(value), which is an aggregate; ",
        ),
        (
            "DROP TABLE temperature",
            "error: 'temperature' belongs to a file and cannot be dropped; DROP TABLE only drops tables made by CREATE TABLE\n",
        ),
        (
            "SELECT variance(value) FROM temperature",
            "error: Invalid function 'variance'; write var(x), the same as var_samp(x), or var_pop(x)\n",
        ),
        (
            "SELECT max(temperature) FROM temperature AS a JOIN temperature AS b ON a.lat = b.lat",
            "error: 'temperature' is ambiguous: it could be any of a.temperature, b.temperature\n",
        ),
    ] {
        let told = complaint(&[WEATHER, "-c", statement]);
        assert!(told.starts_with(expected), "{told}");
    }
}

/// DataFusion turns most correlated subqueries into joins. The advice for the others is pinned here
/// together with statements that follow it.
#[test]
fn subqueries_that_cannot_be_joined_get_advice() {
    let value = "a subquery that refers to the query around it must return one value here";
    let condition = "EXISTS or IN with a subquery cannot be turned into a join here";
    let place = "a subquery that refers to the query around it must refer to one side only in the ON of an outer join";
    let of_t = "FROM humidity h WHERE h.lat = t.lat";
    for (statement, expected) in [
        (
            format!("SELECT lat FROM temperature t WHERE value > (SELECT value {of_t})"),
            value,
        ),
        (
            format!(
                "SELECT lat FROM temperature t WHERE value > (SELECT max(value) {of_t} GROUP BY lon)"
            ),
            value,
        ),
        (
            format!(
                "SELECT t.lat FROM temperature t LEFT JOIN humidity u ON u.value = (SELECT max(value) {of_t} AND h.lon = u.lon)"
            ),
            place,
        ),
        (
            format!(
                "SELECT t.lat FROM temperature t LEFT JOIN humidity u ON EXISTS (SELECT 1 {of_t} AND h.lon = u.lon)"
            ),
            condition,
        ),
        (
            format!(
                "SELECT lat FROM (SELECT lat, random() AS r FROM temperature) t WHERE r < (SELECT max(value) {of_t} LIMIT 1)"
            ),
            "a subquery refers to columns of a query with volatile functions, such as random()",
        ),
        (
            format!(
                "SELECT lat FROM temperature t WHERE value IN (SELECT max(value) {of_t} GROUP BY ROLLUP (lon))"
            ),
            "ROLLUP, CUBE and an empty grouping set are not possible in a subquery that refers to the query around it",
        ),
    ] {
        let told = complaint(&[WEATHER, "-c", &statement]);
        assert!(
            told.starts_with(&format!("error: {expected}")),
            "{statement}: {told}"
        );
    }
    for statement in [
        format!("SELECT lat FROM temperature t WHERE value > (SELECT first_value(value ORDER BY time) {of_t})"),
        "SELECT lat, h.found IS NOT NULL FROM temperature t LEFT JOIN (SELECT DISTINCT lat AS key, true AS found FROM humidity) h \
         ON h.key = t.lat"
            .to_owned(),
        format!("SELECT lat FROM (SELECT lat, (SELECT max(value) {of_t}) AS m FROM temperature t) ORDER BY m"),
    ] {
        answer(&[WEATHER, "-c", &statement]);
    }
}

#[test]
fn result_columns_are_named_as_written() {
    let query = "SELECT t.temperature, TEMPERATURE + 1, max(temperature) OVER () AS most \
                 FROM temperature AS t WHERE lat = 5 AND lon = 0 AND time = '2024-01-01'";
    let output = run(&[WEATHER, "--format", "csv", "-c", query]);
    assert_eq!(
        text(&output.stdout),
        "temperature,TEMPERATURE + 1,most\n15.0,16.0,15.0\n"
    );
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args([
            WEATHER,
            "--format",
            "csv",
            "-c",
            "SELECT * FROM temperature",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}
