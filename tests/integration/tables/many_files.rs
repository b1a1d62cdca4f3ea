//! Wide tables, and tables over many files.

use std::path::Path;

use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tet_sql::{Access, ArrayOptions, ArraySessionExt, open_location};

use crate::cells;
use crate::support::cells::data;
use crate::support::sql::{error, open, rows, run, sample, session, write};

fn on(name: &str, dtype: Dtype, shape: &[u64], chunks: &[u64]) -> DatasetSpec {
    DatasetSpec::new(name, dtype, shape, chunks)
}

/// Temperatures and dew points on the same axes in different chunks, with their coordinate arrays,
/// and a mask with one axis fewer.
fn atmosphere() -> Vec<(DatasetSpec, Vec<u8>)> {
    let named = |spec: DatasetSpec| spec.with_dim_names(["time", "lat"]);
    vec![
        (
            named(on("t2m", Dtype::F32, &[4, 3], &[2, 3])).with_attribute("units", "K"),
            cells!((0..12).map(|n| n as f32 + 270.5)),
        ),
        (
            named(on("d2m", Dtype::I16, &[4, 3], &[3, 2]))
                .with_compression(Compression::Zstd { level: 1 })
                .with_attribute("_FillValue", "-1"),
            cells!((0..12).map(|n| if n == 5 { -1i16 } else { 10 * n })),
        ),
        (
            on("time", Dtype::I32, &[4], &[4]).with_dim_names(["time"]),
            cells!([0i32, 6, 12, 18]),
        ),
        (
            on("lat", Dtype::F32, &[3], &[2]).with_dim_names(["lat"]),
            cells!([60.1f32, 50.0, 40.0]),
        ),
        (
            on("mask", Dtype::U8, &[3], &[3]).with_dim_names(["lat"]),
            vec![1, 0, 1],
        ),
    ]
}

#[tokio::test]
async fn datasets_on_the_same_axes_are_one_wide_table() {
    for access in [Access::Mmap, Access::Pread] {
        let options = ArrayOptions::new().with_access(access);
        let (_folder, _, ctx) = sample(&atmosphere(), options).await;
        let tables =
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'f' ORDER BY 1";
        assert_eq!(
            rows(&ctx, tables).await,
            ["d2m", "lat", "mask", "t2m", "time", "time_lat"]
        );
        let wide = rows(&ctx, "SELECT * FROM time_lat ORDER BY time, lat").await;
        let joined = rows(
            &ctx,
            "SELECT time, lat, t.value, d.value FROM t2m t JOIN d2m d USING (time, lat) ORDER BY time, lat",
        )
        .await;
        assert_eq!(wide.len(), 12);
        assert_eq!(wide, joined);
        assert_eq!(wide[3], "6 40.0 275.5 NULL");
        let found = rows(
            &ctx,
            "SELECT time, round(avg(t2m - d2m), 2) FROM time_lat WHERE lat < 60.1 GROUP BY time ORDER BY time",
        )
        .await;
        assert_eq!(found, ["0 257.0", "6 234.5", "12 203.0", "18 176.0"]);

        // Only the named columns are read: t2m has 2 chunks, d2m has 4. The blocks of both together
        // are 3 x 3, the larger chunk extent along each axis, so two of them cross chunks of t2m.
        let ran = run(&ctx, "SELECT t2m FROM time_lat").await;
        assert_eq!((ran.rows.len(), ran.metric("chunks_total")), (12, 2));
        assert_eq!(ran.metric("bytes_read"), 48);
        let ran = run(
            &ctx,
            "SELECT count(*), max(lat) FROM time_lat WHERE time > 5",
        )
        .await;
        assert_eq!((ran.reads(), ran.rows), (0, vec!["9 60.1".to_string()]));
    }
}

#[tokio::test]
async fn wide_table_names_in_groups_and_name_conflicts() {
    let on_xy = |name: &str| {
        let spec = on(name, Dtype::U8, &[2, 2], &[1, 2]).with_dim_names(["x", "y"]);
        (spec, vec![1, 2, 3, 4])
    };
    let apart = |name: &str| {
        // Equal dimension names, but another length.
        let spec = on(name, Dtype::U8, &[1, 2], &[1, 2]).with_dim_names(["x", "y"]);
        (spec, vec![8, 9])
    };
    let unnamed = |name: &str| (on(name, Dtype::U8, &[2, 2], &[2, 2]), vec![0; 4]);
    let (_folder, path, ctx) = sample(
        &[
            on_xy("g/a"),
            on_xy("g/b"),
            on_xy("x"),
            on_xy("x_y"),
            apart("p"),
            apart("q"),
            unnamed("u"),
            unnamed("v"),
        ],
        ArrayOptions::new(),
    )
    .await;
    assert_eq!(
        rows(&ctx, "SELECT * FROM \"g/x_y\" WHERE y = 1").await,
        ["0 1 2 2", "1 1 4 4"]
    );
    // A dataset of that name keeps it, and a column with the name of a dimension is renamed.
    assert_eq!(
        rows(&ctx, "SELECT * FROM x_y WHERE x = 0").await,
        ["0 0 1", "0 1 2"]
    );
    assert_eq!(
        rows(&ctx, "SELECT x, y, x_, x_y FROM x_y_ WHERE x = 1").await,
        ["1 0 3 3", "1 1 4 4"]
    );
    assert_eq!(
        rows(&ctx, "SELECT * FROM x_y__").await,
        ["0 0 8 8", "0 1 9 9"]
    );
    // Arrays without dimension names share no axes, unless an option names them.
    assert!(
        error(&ctx, "SELECT * FROM dim_0_dim_1")
            .await
            .contains("dim_0_dim_1")
    );
    let ctx = open(&path, ArrayOptions::new().with_dims(["i", "j"])).await;
    assert_eq!(
        rows(&ctx, "SELECT count(*), sum(u + v) FROM i_j").await,
        ["4 0"]
    );
}

/// Writes a year of three months, one file each. The last is shorter. Returns the glob pattern of
/// the files.
fn months(folder: &Path) -> String {
    for (number, days) in [(1u8, 3u64), (2, 3), (3, 2)] {
        let first = i32::from(number) * 100;
        let days = days as i32;
        write(
            &folder.join(format!("month{number}.tet")),
            &[
                (
                    on("t2m", Dtype::I16, &[days as u64, 2], &[2, 1])
                        .with_dim_names(["day", "lat"]),
                    cells!((0..days * 2).map(|n| (first + n) as i16)),
                ),
                (
                    on("day", Dtype::I32, &[days as u64], &[2]).with_dim_names(["day"]),
                    cells!((0..days).map(|day| first + day)),
                ),
            ],
        );
    }
    folder.join("*.tet").to_str().unwrap().to_string()
}

#[tokio::test]
async fn many_files_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let pattern = months(folder.path());
    let ctx = session();
    let create = format!(
        "CREATE EXTERNAL TABLE year STORED AS TET LOCATION '{pattern}' OPTIONS (dataset 't2m', file_column true)"
    );
    ctx.sql(&create).await.unwrap();
    assert_eq!(
        rows(&ctx, "SELECT count(*), sum(value) FROM year").await,
        ["16 3036"]
    );
    assert_eq!(
        rows(
            &ctx,
            "SELECT day, lat, value FROM year WHERE lat = 1 AND day >= 202 ORDER BY day"
        )
        .await,
        ["202 1 205", "300 1 301", "301 1 303"]
    );
    let by_file = rows(
        &ctx,
        "SELECT right(file, 10), count(*) FROM year GROUP BY file ORDER BY file",
    )
    .await;
    assert_eq!(by_file, ["month1.tet 6", "month2.tet 6", "month3.tet 4"]);

    // Files are pruned by their axes, or by their name, before any chunk is read.
    let ran = run(&ctx, "SELECT value FROM year WHERE day = 201").await;
    assert_eq!(ran.rows, ["202", "203"]);
    assert_eq!(
        (ran.metric("chunks_total"), ran.metric("chunks_read")),
        (10, 2)
    );
    let ran = run(
        &ctx,
        "SELECT value FROM year WHERE file LIKE '%3.tet' AND lat = 0",
    )
    .await;
    assert_eq!(ran.rows, ["300", "302"]);
    assert_eq!(ran.metric("chunks_read"), 1);
    let plan = rows(
        &ctx,
        "EXPLAIN FORMAT INDENT SELECT value FROM year WHERE day = 201",
    )
    .await;
    assert!(
        plan.join("\n")
            .contains("slice=[file: 1 of 3], chunks=2 of 10"),
        "{plan:?}"
    );
    let ran = run(&ctx, "SELECT min(day), max(day), count(*) FROM year").await;
    assert_eq!((ran.reads(), ran.rows), (0, vec!["100 301 16".to_string()]));
    // A predicate over the file column and a dimension.
    let sql = "SELECT value FROM year WHERE (file LIKE '%1.tet' AND day = 100) OR (file LIKE '%2.tet' AND lat = 1)";
    assert_eq!(rows(&ctx, sql).await, ["100", "101", "201", "203", "205"]);

    // A directory stands for its files, and a single file is a table by itself.
    let whole = folder.path().to_str().unwrap();
    let found = rows(&ctx, &format!("SELECT count(*) FROM '{whole}/month1.tet'")).await;
    assert_eq!(found, ["6"]);
    let found = rows(&ctx, &format!("SELECT count(*) FROM '{pattern}#t2m'")).await;
    assert_eq!(found, ["16"]);
    let found = rows(
        &ctx,
        &format!("SELECT max(value) FROM '{whole}/month2.tet#day'"),
    )
    .await;
    assert_eq!(found, ["202"]);
    let create = format!("CREATE EXTERNAL TABLE all_days STORED AS TET LOCATION '{whole}'");
    ctx.sql(&create).await.unwrap();
    assert_eq!(rows(&ctx, "SELECT count(*) FROM all_days").await, ["16"]);
}

#[tokio::test]
async fn files_that_differ_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pattern = months(folder.path());
    let odd = folder.path().join("odd.tet");
    let open = |location: &str, options: &ArrayOptions| match open_location(
        location,
        options,
        &Default::default(),
    ) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{location} was opened"),
    };
    let t2m = ArrayOptions::new().with_dataset("t2m");
    for (dtype, names, expected) in [
        (Dtype::F32, ["day", "lat"], "value Float32"),
        (
            Dtype::I16,
            ["lat", "day"],
            "(lat Int64, day Int64, value Int16)",
        ),
    ] {
        let spec = on("t2m", dtype, &[2, 2], &[2, 2]).with_dim_names(names);
        write(&odd, &[(spec, vec![0; 4 * dtype.size() as usize])]);
        let message = open(&pattern, &t2m);
        assert!(
            message.contains("odd.tet") && message.contains(expected),
            "{message}"
        );
        assert!(
            message.contains("day Int32, lat Int64, value Int16"),
            "{message}"
        );
        assert!(message.contains("month1.tet"), "{message}");
    }
    std::fs::write(&odd, b"no arrays here").unwrap();
    assert!(open(&pattern, &t2m).contains("odd.tet"));
    std::fs::remove_file(&odd).unwrap();
    assert!(open(&format!("{pattern}#day"), &t2m).contains("but the option dataset names \"t2m\""));
    assert!(open("/nowhere/at/all.tet", &t2m).contains("no such file"));
    let humidity = ArrayOptions::new().with_dataset("humidity");
    let message = open(&pattern, &humidity);
    assert!(
        message.contains("no dataset \"humidity\"; it has \"t2m\", \"day\""),
        "{message}"
    );
    let weather = data("weather_small.tet");
    let message = open(weather.to_str().unwrap(), &ArrayOptions::new());
    assert!(
        message.contains("name one with the option dataset"),
        "{message}"
    );
}

#[tokio::test]
async fn options_of_external_tables() {
    let ctx = session();
    let weather = data("weather_small.tet");
    let create = |options: &str| {
        format!(
            "CREATE EXTERNAL TABLE w STORED AS TET LOCATION '{}' OPTIONS ({options})",
            weather.display()
        )
    };
    for (options, expected) in [
        ("dataset 'snow'", "no dataset \"snow\""),
        (
            "datasets 'pressure'",
            "unknown option datasets, expected one of access, auxiliary_coordinates, dataset",
        ),
        (
            "dataset 'pressure', unpack 'maybe'",
            "option unpack is 'maybe', expected auto, always or never",
        ),
        (
            "dataset 'pressure', dims 'a,a'",
            "option dims is 'a,a', expected distinct names",
        ),
        (
            "dataset 'pressure', access 'guess'",
            "expected mmap or pread",
        ),
    ] {
        let message = error(&ctx, &create(options)).await;
        assert!(message.contains(expected), "{message}");
    }
    let sql = create("dataset 'Pressure', ignore_footer true, dims 'time,station'");
    ctx.sql(&sql).await.unwrap();
    let found = rows(&ctx, "SELECT max(time), max(station), min(value) FROM w").await;
    assert_eq!(found, ["47 4 -32768"]);
    let message = error(&ctx, "INSERT INTO w VALUES (1, 2, 3)").await;
    assert!(message.contains("tet files are read-only"), "{message}");
    let sql = format!(
        "CREATE EXTERNAL TABLE x (a INT) STORED AS TET LOCATION '{}'",
        weather.display()
    );
    assert!(
        error(&ctx, &sql)
            .await
            .contains("takes its columns from the files")
    );
    let message = error(&ctx, "SELECT * FROM 'nowhere.tet'").await;
    assert!(message.contains("nowhere.tet: no such file"), "{message}");
    // Quoted paths of other formats work as in any session with URL tables.
    let csv = data("stations.csv");
    let found = rows(
        &ctx,
        &format!("SELECT count(*) > 3 FROM '{}'", csv.display()),
    )
    .await;
    assert_eq!(found, ["true"]);
}

/// More files than a process may usually have open.
#[tokio::test]
async fn more_files_than_descriptors() {
    const FILES: i32 = 1200;
    let folder = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        let spec = on("v", Dtype::I32, &[2], &[2])
            .with_dim_names(["day"])
            .with_labels(
                "day",
                [(2 * number).to_string(), (2 * number + 1).to_string()],
            );
        write(
            &folder.path().join(format!("{number:05}.tet")),
            &[(spec, cells!([number, -number]))],
        );
    }
    let ctx = session();
    let create = format!(
        "CREATE EXTERNAL TABLE v STORED AS TET LOCATION '{}' OPTIONS (access 'pread')",
        folder.path().display()
    );
    ctx.sql(&create).await.unwrap();
    let open = || {
        Path::new("/proc/self/fd")
            .read_dir()
            .map_or(0, Iterator::count)
    };
    let found = rows(
        &ctx,
        "SELECT count(*), sum(value), max(value), max(day) FROM v",
    )
    .await;
    assert_eq!(found, ["2400 0 1199 2399"]);
    assert!(open() < 900, "{} descriptors", open());
    let ran = run(&ctx, "SELECT value FROM v WHERE day IN (0, 999, 2000)").await;
    assert_eq!(ran.rows, ["0", "-499", "1000"]);
    assert_eq!(ran.metric("chunks_read"), 3);
    // The table does not depend on open file handles, and batches backed by a memory map stay
    // valid.
    ctx.register_array_directory(folder.path(), ArrayOptions::new().with_access(Access::Mmap))
        .await
        .unwrap();
    assert_eq!(
        rows(&ctx, "SELECT sum(value) FROM \"01199\".v").await,
        ["0"]
    );
}

#[tokio::test]
async fn an_unreadable_dataset_does_not_hide_the_readable_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.tet");
    let one = |name: &str| on(name, Dtype::U8, &[2], &[2]);
    write(
        &path,
        &[(one("good"), vec![1, 2]), (one("odd"), vec![3, 4])],
    );
    let mut bytes = std::fs::read(&path).unwrap();
    // Corrupt the element type in the second record of the directory, which starts after the first
    // 40 bytes.
    let words = bytes[40..].chunks_exact(4).enumerate();
    let mut types = words.filter(|(_, word)| **word == [5, 0, 0, 0]);
    let dtype = 40 + 4 * types.nth(1).unwrap().0;
    bytes[dtype] = 77;
    std::fs::write(&path, bytes).unwrap();
    let ctx = session();
    let found = rows(&ctx, &format!("SELECT value FROM '{}'", path.display())).await;
    assert_eq!(found, ["1", "2"]);
}

/// The only variable of each file must be the same, and units that differ are left out.
#[tokio::test]
async fn files_of_one_table_have_the_same_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = |file: &str, variable: &str, units: &str, value: f32| {
        let spec = on(variable, Dtype::F32, &[2], &[2])
            .with_dim_names(["x"])
            .with_attribute("units", units)
            .with_attribute("long_name", "temperature");
        write(&folder.path().join(file), &[(spec, cells!([value, value]))]);
    };
    file("a.tet", "t2m", "K", 280.0);
    file("b.tet", "t2m", "degC", 7.0);
    let ctx = session();
    let path = folder.path().display();
    let query = format!(
        "SELECT count(*), arrow_metadata(max(value), 'units'), arrow_metadata(max(value), 'long_name') FROM '{path}/*.tet'"
    );
    assert_eq!(rows(&ctx, &query).await, ["4 NULL temperature"]);
    file("c.tet", "rain", "mm", 1.0);
    let message = error(&ctx, &query).await;
    let expected = format!("c.tet: dataset is \"rain\", expected \"t2m\" as in {path}/a.tet");
    assert!(message.contains(&expected), "{message}");
}

#[tokio::test]
async fn csv_files_of_one_table_have_the_same_header() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.csv", "station,t,p\n1,20,1000\n");
    write("b.csv", "station,t,p\n2,21,1001\n");
    write("empty.csv", "");
    let ctx = session();
    let path = folder.path().display();
    let sql = format!("SELECT sum(t), sum(p) FROM '{path}/*.csv'");
    assert_eq!(rows(&ctx, &sql).await, ["41 2001"]);
    write("c.csv", "station,p,t\n3,1002,22\n");
    // DataFusion keeps the list of files for the session.
    let ctx = session();
    let message = error(&ctx, &sql).await;
    let expected = "c.csv: the columns are station, p, t, expected station, t, p as in";
    assert!(message.contains(expected), "{message}");
    let table = format!("CREATE EXTERNAL TABLE s STORED AS CSV LOCATION '{path}/'");
    let message = error(&ctx, &table).await;
    assert!(message.contains(expected), "{message}");
}
