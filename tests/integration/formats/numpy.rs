//! NumPy files as tables. `tests/data/npy/make.py` describes their contents.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::{Access, ArrayOptions};

use crate::support::cells::data;
use crate::support::sql::{error, open, rows, session};
use crate::tables::exploded::Random;

async fn ask(file: &str, sql: &str) -> Vec<String> {
    let path = data(&format!("npy/{file}"));
    let sql = sql.replace("FILE", &format!("'{}'", path.display()));
    rows(&session(), &sql).await
}

#[tokio::test]
async fn c_and_fortran_order_arrays() {
    // The values are 0 to 11.5 in steps of 0.5, in an array of shape 2 x 3 x 4.
    for file in ["c_order.npy", "fortran_order.npy"] {
        let sums = ask(
            file,
            "SELECT dim_0, dim_1, sum(value) FROM FILE WHERE dim_2 > 1 GROUP BY 1, 2 ORDER BY 1, 2",
        );
        let expected = [
            "0 0 2.5", "0 1 6.5", "0 2 10.5", "1 0 14.5", "1 1 18.5", "1 2 22.5",
        ];
        assert_eq!(sums.await, expected, "{file}");
        let rows = ask(file, "SELECT * FROM FILE LIMIT 2 OFFSET 13").await;
        assert_eq!(rows, ["1 0 1 6.5", "1 0 2 7.0"], "{file}");
    }
    let range = "SELECT min(value), max(value), sum(value), arrow_typeof(min(value)) FROM FILE";
    assert_eq!(
        ask("big_endian.npy", range).await,
        ["-1000 1300 3600 Int16"]
    );
    assert_eq!(ask("int8.npy", range).await, ["-6 5 -6 Int8"]);
    assert_eq!(ask("bool.npy", range).await, ["0 1 4 UInt8"]);
    assert_eq!(ask("scalar.npy", "SELECT * FROM FILE").await, ["1.5"]);
    assert_eq!(
        ask(
            "scalar.npy",
            "SELECT count(*), sum(value) FROM FILE WHERE value > 1"
        )
        .await,
        ["1 1.5"]
    );
    assert_eq!(ask("empty.npy", "SELECT count(*) FROM FILE").await, ["0"]);
}

/// A member name that leads out of the archive would also lead out of the target of a conversion.
#[test]
fn members_with_names_outside_the_archive_are_left_out() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    let array = std::fs::read(data("npy/c_order.npy")).unwrap();
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for name in ["a/b..c", "../x", "a/../../x", "/etc/x", "..\\x", ".."] {
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(&array).unwrap();
    }
    archive.finish().unwrap();
    let schema = tet_sql::ArraySchema::open("s", &path, ArrayOptions::new()).unwrap();
    let tables = schema.container().tables().iter();
    let names: Vec<_> = tables.map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a/b..c"]);
    assert_eq!(schema.warnings().len(), 5, "{:?}", schema.warnings());
    assert!(
        schema.warnings()[0].contains("its name leads out of the archive"),
        "{:?}",
        schema.warnings()
    );
}

/// Reads do not verify the CRC-32 of a stored member. `tet verify --deep` does.
#[test]
fn checksums_of_stored_members_are_verified() {
    use std::sync::Arc;

    use tet_sql::format::array::ArrayFile;
    use tet_sql::format::npy::NpyFile;
    use tet_sql::format::tet::verify::{VerifyOptions, verify_arrays};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    let array = std::fs::read(data("npy/c_order.npy")).unwrap();
    let mut broken = array.clone();
    *broken.last_mut().unwrap() ^= 1;
    let mut no_shape = array.clone();
    let shape = array.windows(5).position(|bytes| bytes == b"shape");
    no_shape[shape.unwrap() + 3] = b'q';
    let bytes = |array: &[u8]| {
        use std::io::Write;
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        archive.start_file("v.npy", options).unwrap();
        archive.write_all(array).unwrap();
        archive.finish().unwrap().into_inner()
    };
    let sound = bytes(&array);
    let start = sound.windows(array.len()).position(|found| found == array);
    let mut differs = sound.clone();
    differs[start.unwrap()..][..array.len()].copy_from_slice(&broken);
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(&sound)).unwrap();
    let listed = archive.by_index(0).unwrap().crc32();
    let mismatch = format!("CRC-32 is another value, expected {listed:#010x}");
    for (bytes, deep, expected) in [
        (&sound, true, ""),
        (&differs, false, ""),
        (&differs, true, &mismatch),
        (&bytes(&no_shape), false, "the array is left out"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let file: Arc<dyn ArrayFile> = Arc::new(NpyFile::open(&path, Access::Pread).unwrap());
        let options = VerifyOptions {
            deep,
            ..VerifyOptions::default()
        };
        let report = verify_arrays(&file, options, &|_, _| {});
        assert_eq!(report.ok, expected.is_empty(), "{report:?}");
        let mut found = report.findings.iter();
        assert!(
            report.ok || found.all(|one| one.message.contains(expected)),
            "{report:?}"
        );
    }
    // A type that is not supported is no damage.
    let stored = NpyFile::open(data("npy/stored.npz"), Access::Pread).unwrap();
    assert!(!stored.listing().is_damage(0), "{:?}", stored.warnings());
}

#[tokio::test]
async fn times_and_strings() {
    let times = ask("times.npy", "SELECT dim_0, value FROM FILE ORDER BY 1").await;
    assert_eq!(
        times,
        ["0 2024-01-01T00:00:00", "1 NULL", "2 2024-01-02T12:00:00"]
    );
    let earliest = "SELECT min(value), count(value) FROM FILE WHERE value < '2024-01-02'";
    assert_eq!(ask("times.npy", earliest).await, ["2024-01-01T00:00:00 1"]);
    let texts = "SELECT value, count(*) FROM FILE GROUP BY value ORDER BY value";
    assert_eq!(ask("texts.npy", texts).await, [" 1", "Köln 2", "Rome 1"]);
}

/// Once the dimensions are named, arrays of an archive serve as coordinates of other arrays.
#[tokio::test]
async fn archives_are_schemas() {
    for file in ["stored.npz", "compressed.npz"] {
        for access in [Access::Mmap, Access::Pread] {
            let options = ArrayOptions::new()
                .with_dims(["time", "lat", "station"])
                .with_access(access);
            let ctx = open(&data(&format!("npy/{file}")), options).await;
            let sql = "SELECT time, lat, sum(value) FROM t2m WHERE station IN ('a', 'c') AND lat >= 0 \
                       GROUP BY 1, 2 ORDER BY 1, 2";
            let expected = [
                "2024-01-01 0.0 5.0",
                "2024-01-01 45.0 9.0",
                "2024-01-02 0.0 17.0",
                "2024-01-02 45.0 21.0",
            ];
            assert_eq!(rows(&ctx, sql).await, expected, "{file}, {access}");
            let names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'f' ORDER BY 1";
            assert_eq!(rows(&ctx, names).await, ["lat", "station", "t2m", "time"]);
        }
        let sql = format!("SELECT * FROM '{}'", data(&format!("npy/{file}")).display());
        let error = error(&session(), &sql).await;
        assert!(error.contains("has 4 tables"), "{error}");
    }
}

#[tokio::test]
async fn unsupported_dtypes_are_refused() {
    for (file, expected) in [
        ("complex.npy", "descr is \"<c16\", expected numbers"),
        ("objects.npy", "descr is \"|O\", expected numbers"),
    ] {
        let sql = format!("SELECT * FROM '{}'", data(&format!("npy/{file}")).display());
        let error = error(&session(), &sql).await;
        assert!(error.contains(expected) && error.contains(file), "{error}");
    }
    let schema =
        tet_sql::ArraySchema::open("f", data("npy/stored.npz"), ArrayOptions::new()).unwrap();
    let [warning] = schema.warnings() else {
        panic!("{:?}", schema.warnings());
    };
    assert!(
        warning.contains("dataset \"imaginary\": descr"),
        "{warning}"
    );
}

/// Broken files end in an error or an answer.
#[tokio::test]
async fn mutated_files_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    for file in [
        "c_order.npy",
        "texts.npy",
        "fortran_order.npy",
        "stored.npz",
        "compressed.npz",
    ] {
        let whole = std::fs::read(data(&format!("npy/{file}"))).unwrap();
        for seed in 0..150 {
            let mut random = Random(seed);
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                // Half of the changes hit the first 128 bytes, where the header is.
                let place = match random.below(2) {
                    0 => random.below(bytes.len().min(128)),
                    _ => random.below(bytes.len()),
                };
                bytes[place] = match random.below(3) {
                    0 => random.next() as u8,
                    1 => b"0123456789(),'"[random.below(14)],
                    _ => *random.pick(&[0, 1, 0x7f, 0xff]),
                };
            }
            if random.below(4) == 0 {
                bytes.truncate(random.below(bytes.len()));
            }
            let path = folder.path().join(format!("{seed}-{file}"));
            std::fs::write(&path, bytes).unwrap();
            read(&path).await;
            std::fs::remove_file(&path).unwrap();
        }
    }
}

async fn read(path: &Path) {
    let options = ArrayOptions::new().with_access(Access::Pread);
    let Ok(schema) = tet_sql::ArraySchema::open("f", path, options) else {
        return;
    };
    let ctx = SessionContext::new();
    let catalog = ctx.catalog("datafusion").unwrap();
    let schema = std::sync::Arc::new(schema);
    let names = datafusion::catalog::SchemaProvider::table_names(schema.as_ref());
    catalog.register_schema("f", schema).unwrap();
    for name in names {
        let sql = format!(
            "SELECT * FROM f.\"{}\" LIMIT 1000",
            name.replace('"', "\"\"")
        );
        if let Ok(rows) = ctx.sql(&sql).await {
            rows.collect().await.ok();
        }
    }
}
