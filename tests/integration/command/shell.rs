//! Meta-commands, and statements that the command implements itself.

use super::*;

/// Runs a query and splits its output into rows of cells, header included.
fn rows(sql: &str) -> Vec<Vec<String>> {
    let output = answer(&[WEATHER, "--format", "tsv", "-c", sql]);
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect();
    output.lines().map(cells).collect()
}

#[test]
fn tables_are_listed_with_types_and_sizes() {
    let output = answer(&[WEATHER, "-c", ".tables"]);
    let mut lines = output.lines();
    assert_eq!(lines.next(), Some("weather_small (weather_small.tet)"));
    let line = lines
        .find(|line| line.trim_start().starts_with("temperature "))
        .unwrap();
    assert!(line.contains("(time: 48, lat: 10, lon: 20)"), "{line}");
    // 48 x 10 x 20 cells of four bytes.
    assert!(
        line.contains("Float32") && line.ends_with("37.5 KiB"),
        "{line}"
    );
    let described = answer(&[WEATHER, "-c", "\\dt *.press*"]);
    assert_eq!(described.lines().count(), 2, "{described}");
    let none = run(&[WEATHER, "-c", ".tables other.*"]);
    assert_eq!((text(&none.stdout), none.status.code()), ("", Some(0)));
    let note = "no table matches other.*; .tables lists all\n";
    assert_eq!(text(&none.stderr), note);
    let rows = answer(&[WEATHER, "--format", "csv", "-c", "\\d"]);
    assert!(
        rows.starts_with("schema,table,dimensions,type,units,bytes\n"),
        "{rows}"
    );
    assert!(
        rows.contains("\nweather_small,temperature,\"(time: 48, lat: 10, lon: 20)\",Float32,"),
        "{rows}"
    );
    // Coordinate arrays are listed in a line of their own at the end.
    let output = answer(&["tests/data/coordvars.tet", "-c", ".tables"]);
    let last = output.lines().last().unwrap();
    assert!(last.starts_with("  coordinates: "), "{output}");
}

#[test]
fn listings_accept_patterns() {
    let schemas = answer(&[WEATHER, "--format", "csv", "-c", "\\dn w*"]);
    assert_eq!(schemas.lines().next(), Some("schema,tables"));
    assert!(schemas.contains("\nweather_small,"), "{schemas}");
    assert_eq!(schemas.lines().count(), 2);
    let files = answer(&[WEATHER, "--format", "csv", "-c", "\\l"]);
    assert!(
        files.starts_with("schema,format,tables,bytes,path\nweather_small,tet,"),
        "{files}"
    );
    let functions = answer(&[WEATHER, "--format", "csv", "-c", "\\df arg_m*"]);
    let arg_max = "\narg_max,AGGREGATE,\"arg_max(x, value)\",";
    assert!(functions.contains(arg_max), "{functions}");
    assert!(functions.contains("\narg_min,AGGREGATE,"), "{functions}");
    assert_eq!(functions.lines().count(), 3, "{functions}");
}

#[test]
fn tables_that_match_a_pattern_are_described() {
    let titles = |command: &str| -> Vec<String> {
        let output = answer(&[WEATHER, "-c", command]);
        let lines = output
            .lines()
            .filter(|line| line.starts_with("weather_small."));
        lines.map(str::to_owned).collect()
    };
    let (t, long) = ("weather_small.temperature", "weather_small.time_lat_lon");
    for command in [
        "\\d t*",
        "\\d+ t*",
        ".schema t*",
        ".schema T%",
        "\\d weather_small.t*",
    ] {
        assert_eq!(titles(command), [t, long], "{command}");
    }
    let all = titles("\\d weather_*.*");
    assert_eq!(all, titles(".schema"));
    assert_eq!(all.len(), 4);
    // A name is not a pattern.
    let one = answer(&[WEATHER, "-c", "\\d temperature"]);
    assert!(one.starts_with("temperature\n"), "{one}");
    for command in ["\\d x*", ".schema other.*"] {
        let told = complaint(&[WEATHER, "-c", command]);
        assert!(told.starts_with("error: no table matches "), "{told}");
    }
    assert!(complaint(&[WEATHER, "-c", "\\d x"]).contains("'x'"));
}

/// Only DataFusion's table functions have no documentation.
#[test]
fn functions_have_descriptions_and_examples() {
    let undocumented = rows(
        "SELECT function_name FROM tet_functions() WHERE description IS NULL OR description = '' \
         OR syntax_example LIKE '%(...)%' ORDER BY 1",
    );
    let names: Vec<_> = undocumented[1..]
        .iter()
        .map(|row| row[0].as_str())
        .collect();
    assert_eq!(names, ["generate_series", "range"]);
    let found = rows("SHOW FUNCTIONS LIKE 'nearest%'");
    assert_eq!(found[1][2], "nearest(dimension, target)");
    // An alias is described as its function.
    let found = rows("SHOW FUNCTIONS LIKE 'max_by'");
    assert_eq!(found[1][2..], rows("SHOW FUNCTIONS LIKE 'arg_max'")[1][2..]);
}

#[test]
fn functions_of_this_crate_are_shown() {
    let names: Vec<String> = rows("SHOW FUNCTIONS")
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    for name in [
        "arg_max",
        "histogram",
        "norm_l2",
        "quantile",
        "tet_chunks",
        "avg",
        "date_trunc",
        "lag",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
    let found = rows("SHOW FUNCTIONS LIKE 'tet\\_%'");
    assert!(
        found.len() >= 8 && found[1..].iter().all(|row| row[0].starts_with("tet_")),
        "{found:?}"
    );
}

#[test]
fn statements_can_end_with_backslash_g() {
    let expected = "-[ RECORD 1 ]\nx = 1\n";
    assert_eq!(answer(&["-c", "SELECT 1 AS x \\gx"]), expected);
    assert_eq!(
        answer(&[
            "--format",
            "csv",
            "-c",
            "SELECT 1 AS x;\n\\g\nSELECT 2 AS x;"
        ]),
        "x\n1\nx\n1\nx\n2\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.csv");
    let sql = format!("SELECT 1 AS x \\g {}\nSELECT 2 AS x", file.display());
    assert_eq!(answer(&["--format", "csv", "-c", &sql]), "x\n2\n");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n1\n");
    assert!(complaint(&["-c", "\\gx"]).contains("no query has been run yet"));
}

#[test]
fn texts_and_settings_are_printed() {
    assert_eq!(
        answer(&["-c", "\\echo 'it''s  here'", "-c", ".print x y"]),
        "it's  here\nx y\n"
    );
    let shown = answer(&["--format", "csv", "-c", ".bail off", "-c", ".show"]);
    for line in [
        "bail         off\n",
        "format       csv\n",
        "output       stdout\n",
        "timer        off\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let about = answer(&[
        "--threads",
        "3",
        "--memory-limit",
        "512M",
        "-c",
        "\\conninfo",
    ]);
    assert!(
        about.contains("threads    3\n") && about.contains("at most 512.0 MiB\n"),
        "{about}"
    );
}

#[test]
fn files_stay_open_in_another_directory() {
    let folder = tempfile::tempdir().unwrap();
    let copied = folder.path().join("p.zarr");
    let copy = "COPY (SELECT * FROM pressure)";
    let copy = format!("{copy} TO '{}' STORED AS ZARR", copied.display());
    answer(&[WEATHER, "-c", &copy]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let relative = format!(
        "{}/p.zarr",
        "../".repeat(root.components().count() - 1)
            + folder.path().strip_prefix("/").unwrap().to_str().unwrap()
    );
    let script = format!(
        ".cd {}\n.open p.zarr AS z\n.cd /\nSELECT sum(value) AS s FROM pressure;\nSELECT sum(value) AS s FROM z.pressure;\n\
                          SELECT sum(value) AS s FROM r.pressure;",
        folder.path().display()
    );
    let output = run_with_input(
        &[WEATHER, &format!("r={relative}"), "--format", "csv"],
        &script,
    );
    let sums = text(&output.stdout);
    let sum = rows("SELECT sum(value) FROM pressure")[1][0].clone();
    assert_eq!(
        sums,
        format!("s\n{sum}\ns\n{sum}\ns\n{sum}\n"),
        "{}",
        text(&output.stderr)
    );
    let script = ".cd /\nSELECT stored_bytes > 0 AS has_size, problem FROM tet_files() WHERE table_schema = 'r';";
    let output = run_with_input(&[&format!("r={relative}"), "--format", "csv"], script);
    assert_eq!(text(&output.stdout), "has_size,problem\ntrue,\n");
    assert!(complaint(&["-c", ".cd nowhere"]).contains("nowhere: "));
}

#[test]
fn wrong_usage_prints_the_options() {
    let output = run(&["--formt", "csv"]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(
        told.contains("--formt") && told.contains("\nOptions:\n  -c, --command SQL"),
        "{told}"
    );
    assert!(complaint(&["-c", ".once"]).contains(".once needs a file: .once FILE"));
}

#[test]
fn table_headers_are_shortened() {
    let sql = "SELECT avg(value), 1, count(*) + 1 FROM temperature";
    let table = answer(&[WEATHER, "-c", sql]);
    let cells: Vec<&str> = table
        .lines()
        .nth(1)
        .unwrap()
        .split('|')
        .map(str::trim)
        .collect();
    assert_eq!(cells[1..4], ["avg(value)", "1", "count(*) + 1"]);
    let markdown = answer(&[WEATHER, "--format", "markdown", "-c", sql]);
    assert!(
        markdown.starts_with("| avg(value) | 1 | count(\\*) + 1 |\n"),
        "{markdown}"
    );
    // Formats for programs keep the column names that other statements can refer to.
    let csv = answer(&[WEATHER, "--format", "csv", "-c", sql]);
    assert!(csv.starts_with("avg(temperature.value),Int64(1),"), "{csv}");
}

#[test]
fn columns_are_summarized() {
    let create =
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'b')) v(n, s)";
    let output = answer(&[
        "--quiet",
        "--format",
        "csv",
        "-c",
        create,
        "-c",
        "SUMMARIZE t",
    ]);
    assert_eq!(
        output,
        "column_name,column_type,min,max,approx_unique,avg,std,q25,q50,q75,count,null_percentage\n\
         n,Int64,1,4,4,2.5,1.2909944487358056,1.5,2.5,3.5,4,0.0\n\
         s,Utf8,a,b,2,,,,,,4,25.0\n"
    );
    let query = "-- a comment\nsummarize SELECT n * 2 AS double FROM t WHERE n < 3";
    let output = answer(&["--quiet", "--format", "csv", "-c", create, "-c", query]);
    assert!(output.contains("\ndouble,Int64,2,4,2,3.0,"), "{output}");
}

/// SUMMARIZE reads an array's axes and stored cells directly, and DataFusion summarizes a query's
/// rows. Both must agree.
#[test]
fn an_array_is_summarized_as_its_rows_are() {
    let array = rows("SUMMARIZE temperature");
    let rows = rows("SUMMARIZE SELECT * FROM temperature WHERE lat < 1000 OR random() < 0");
    assert_eq!(array[0], rows[0]);
    assert_eq!(array.len(), 5);
    for (array, rows) in array[1..].iter().zip(&rows[1..]) {
        // Names, types, min, max, count and nulls.
        for column in [0, 1, 2, 3, 10, 11] {
            assert_eq!(array[column], rows[column], "{array:?} {rows:?}");
        }
        for column in [5, 6] {
            let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
            let (one, other) = (number(&array[column]), number(&rows[column]));
            assert!(
                (one - other).abs() <= 1e-9 * other.abs().max(1.0),
                "{array:?} {rows:?}"
            );
        }
    }
    let unique: Vec<&str> = array[1..4].iter().map(|row| row[4].as_str()).collect();
    assert_eq!(unique, ["48", "10", "20"]);
}

/// Each coordinate counts as often as it occurs in rows.
#[test]
fn quantiles_of_dimensions_are_those_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ax.tet");
    let copy = format!(
        "COPY (SELECT y, x, 1.0 AS v FROM (VALUES (0), (1)) a(y), (VALUES (0.0), (4.5), (9.0)) b(x)) TO '{}' OPTIONS (dims 'y, x')",
        path.display()
    );
    let summarize = format!("SUMMARIZE '{}'", path.display());
    let output = answer(&["-q", "--format", "csv", "-c", &copy, "-c", &summarize]);
    let quantiles: Vec<Vec<&str>> = output
        .lines()
        .filter(|line| line.starts_with(['y', 'x']))
        .map(|line| line.split(',').skip(7).take(3).collect())
        .collect();
    assert_eq!(quantiles, [["0", "0.5", "1"], ["1.125", "4.5", "7.875"]]);
}

#[test]
fn summaries_can_be_formatted_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.parquet");
    let path = file.to_str().unwrap();
    answer(&[WEATHER, "-o", path, "-c", "SUMMARIZE temperature"]);
    let query = format!("SELECT column_name, \"max\" FROM '{path}' WHERE column_name = 'lat'");
    let largest = rows("SELECT max(lat) FROM temperature")[1][0].clone();
    assert_eq!(rows(&query)[1], ["lat".to_string(), largest]);
}

#[test]
fn ranges_follow_the_axis_order() {
    use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.tet");
    let spec = DatasetSpec::new("t", Dtype::U8, &[3, 2], &[3, 2])
        .with_dim_names(["lat", "lon"])
        .with_labels("lat", ["90", "0", "-90"])
        .with_labels("lon", ["0", "180"]);
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer.write_dataset(0, &[1, 2, 3, 4, 5, 6]).unwrap();
    writer.finish().unwrap();
    let described = answer(&[path.to_str().unwrap(), "-c", ".schema"]);
    assert!(described.contains(" 90 .. -90 "), "{described}");
    assert!(described.contains(" 0 .. 180 "), "{described}");
}
