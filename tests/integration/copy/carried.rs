//! Metadata that COPY carries along with the cells: attributes of coordinates, and times as values.

use tet_sql::format::tet::{DatasetSpec, Dtype, OpenOptions, TetFile};
use tet_sql::{ArrayOptions, annotated_schema};

use crate::support::cells;
use crate::support::sql::{open, rows, sample, session};

#[tokio::test]
async fn coordinate_attributes_are_kept() {
    let lat = DatasetSpec::new("lat", Dtype::F32, &[3], &[3])
        .with_dim_names(["lat"])
        .with_attribute("units", "degrees_north")
        .with_attribute("standard_name", "latitude");
    let time = DatasetSpec::new("time", Dtype::I32, &[2], &[2])
        .with_dim_names(["time"])
        .with_attribute("units", "hours since 2000-01-01")
        .with_attribute("long_name", "time of day");
    let value = DatasetSpec::new("t", Dtype::U8, &[2, 3], &[2, 3]).with_dim_names(["time", "lat"]);
    let (folder, _, ctx) = sample(
        &[
            (lat, crate::cells!([-45.5f32, 0.0, 45.5])),
            (time, crate::cells!([0i32, 6])),
            (value, vec![1, 2, 3, 4, 5, 6]),
        ],
        ArrayOptions::new(),
    )
    .await;
    for format in ["tet", "zarr"] {
        if format == "zarr" && !cfg!(feature = "zarr") {
            continue;
        }
        let target = folder.path().join(format!("copy.{format}"));
        let sql = format!(
            "COPY (SELECT * FROM t WHERE lat >= 0) TO '{}'",
            target.display()
        );
        rows(&ctx, &sql).await;
        let copied = open(&target, ArrayOptions::new()).await;
        let table = copied.table_provider("f.t").await.unwrap();
        let schema = annotated_schema(table.as_ref());
        let attribute = |column: &str, key: &str| {
            let field = schema.field_with_name(column).unwrap();
            field.metadata().get(key).cloned()
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(attribute("lat", "units"), some("degrees_north"), "{format}");
        assert_eq!(
            attribute("lat", "standard_name"),
            some("latitude"),
            "{format}"
        );
        assert_eq!(
            attribute("time", "long_name"),
            some("time of day"),
            "{format}"
        );
        // The column holds timestamps, so `units` no longer applies.
        assert_eq!(attribute("time", "units"), None, "{format}");
        let all = rows(&copied, "SELECT * FROM t ORDER BY 1, 2").await;
        assert_eq!(all[3], "2000-01-01T06:00:00 45.5 6", "{format}");
    }
}

#[tokio::test]
async fn timestamps_can_be_values() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("times.tet");
    let source = cells::data("npy/times.npy");
    let sql = format!(
        "COPY (SELECT dim_0 AS n, value AS seen, CAST(value AS DATE) AS day FROM '{}') TO '{}' OPTIONS (dims 'n')",
        source.display(),
        target.display()
    );
    rows(&session(), &sql).await;
    let ctx = open(&target, ArrayOptions::new()).await;
    let all = "SELECT n, seen, day, arrow_typeof(day) FROM f.n ORDER BY n";
    let expected = [
        "0 2024-01-01T00:00:00 2024-01-01 Date32",
        "1 NULL NULL Date32",
        "2 2024-01-02T12:00:00 2024-01-02 Date32",
    ];
    assert_eq!(rows(&ctx, all).await, expected);
    let later = "SELECT n FROM f.seen WHERE value > '2024-01-01T12:00:00'";
    assert_eq!(rows(&ctx, later).await, ["2"]);
    // Readers that do not decode times see numbers with `units`.
    let file = TetFile::open(&target, OpenOptions::default()).unwrap();
    let dataset = file.dataset("seen").unwrap();
    assert_eq!(dataset.dtype(), Some(Dtype::I64));
    let units = &file.metadata(dataset).unwrap().attrs["units"];
    assert_eq!(units, "microseconds since 1970-01-01 00:00:00");
    let raw = open(&target, ArrayOptions::new().with_decode_times(false)).await;
    let first = "SELECT value FROM f.day WHERE n = 0";
    assert_eq!(rows(&raw, first).await, ["19723"]);
}

/// A reader applies `scale_factor` and `add_offset` to floats, too. A copy of floats that were not unpacked
/// keeps the attributes; a computed column, and a copy of a `.tet` file, in which they may be stale, do not.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn floats_that_are_still_packed_keep_their_attributes() {
    use tet_sql::format::zarr::{ZarrWriteOptions, ZarrWriter};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let spec = |name: &str, dtype| {
        DatasetSpec::new(name, dtype, &[2], &[2])
            .with_dim_names(["x"])
            .with_attribute("scale_factor", "0.1")
            .with_attribute("add_offset", "273.15")
    };
    let specs = vec![spec("floats", Dtype::F32), spec("shorts", Dtype::I16)];
    let mut writer =
        ZarrWriter::create(at("source.zarr"), specs, ZarrWriteOptions::default()).unwrap();
    writer
        .write_dataset(0, &crate::cells!([0f32, 10.0]))
        .unwrap();
    writer.write_dataset(1, &crate::cells!([0i16, 10])).unwrap();
    writer.finish().unwrap();
    let ctx = open(&at("source.zarr"), ArrayOptions::new()).await;
    for (query, target, is_kept) in [
        ("SELECT * FROM floats", "a.zarr", true),
        ("SELECT * FROM floats WHERE value >= 0", "a.tet", true),
        ("SELECT x, value * 1 AS floats FROM floats", "b.zarr", false),
        (
            "SELECT x, max(value) AS floats FROM floats GROUP BY x",
            "c.zarr",
            false,
        ),
        ("SELECT x, value AS floats FROM shorts", "d.zarr", false),
        ("SELECT * FROM f.floats", "e.zarr", false),
    ] {
        let ctx = match target {
            "e.zarr" => &open(&at("a.tet"), ArrayOptions::new()).await,
            _ => &ctx,
        };
        rows(
            ctx,
            &format!("COPY ({query}) TO '{}'", at(target).display()),
        )
        .await;
        let copied = open(&at(target), ArrayOptions::new()).await;
        let table = copied.table_provider("f.floats").await.unwrap();
        let schema = annotated_schema(table.as_ref());
        let attributes = schema.field_with_name("value").unwrap().metadata();
        for key in ["scale_factor", "add_offset"] {
            assert_eq!(
                attributes.contains_key(key),
                is_kept,
                "{query}, {target}: {key}"
            );
        }
    }
}
