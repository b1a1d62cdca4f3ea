//! Conversions from one file format to another, and back.

use std::path::{Path, PathBuf};

#[cfg(all(feature = "hdf5", feature = "zarr"))]
use tet_sql::format::array::ArrayWriter;
use tet_sql::format::array::Compression;
use tet_sql::format::tet::{Codec, DatasetSpec, Dtype, OpenOptions, TetFile};
#[cfg(all(feature = "hdf5", feature = "zarr"))]
use tet_sql::format::zarr::{ZarrVersion, ZarrWriteOptions, ZarrWriter};
use tet_sql::provider::adapters::arrays::ArrayContainer;
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, Converted, convert};
use tet_sql::provider::error::describe;
use tet_sql::{Access, ArrayOptions, ArraySchema};

use crate::support::cells::data;
use crate::support::npy::NpyArray;
use crate::support::sql::{open, rows, session, write};
use crate::tables::exploded::Random;

async fn converted(from: &Path, to: &Path, options: &ConvertOptions) -> Result<Converted, String> {
    let progress = ConvertProgress::default();
    let result = convert(from, to, options, &progress).await;
    result.map_err(|error| describe(&error))
}

async fn done(from: &Path, to: &Path) -> Converted {
    let result = converted(from, to, &ConvertOptions::default()).await;
    result.unwrap_or_else(|error| panic!("{} to {}: {error}", from.display(), to.display()))
}

/// Returns the name, the column types and the rows of every dataset.
async fn tables(path: &Path, names: &[String]) -> Vec<(String, Vec<String>, Vec<String>)> {
    let ctx = open(path, ArrayOptions::new()).await;
    let mut tables = Vec::new();
    for name in names {
        let types = format!(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'f' AND \
             table_name = '{name}' ORDER BY ordinal_position"
        );
        let all = format!("SELECT * FROM f.\"{name}\"");
        let mut found = rows(&ctx, &all).await;
        found.sort();
        tables.push((name.clone(), rows(&ctx, &types).await, found));
    }
    tables
}

fn datasets(path: &Path) -> Vec<String> {
    let schema = ArraySchema::open("f", path, ArrayOptions::new()).unwrap();
    let arrays = schema.container().downcast_ref::<ArrayContainer>().unwrap();
    let names = arrays.file().datasets().iter().map(|one| one.name());
    names.map(str::to_string).collect()
}

fn files() -> Vec<PathBuf> {
    let mut files = vec![
        data("weather_small_v1footer.tet"),
        data("coordvars.tet"),
        data("fill_1e20.tet"),
    ];
    for folder in ["dtypes", "converted"] {
        let entries = data(folder).read_dir().unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_one = |path: &PathBuf| {
            let name = path.to_str().unwrap();
            name.ends_with(".tet") && !name.ends_with("_zstd.tet")
        };
        files.extend(paths.filter(is_one));
    }
    files
}

#[cfg(feature = "zarr")]
#[tokio::test]
async fn arrays_round_trip_through_zarr() {
    let folder = tempfile::tempdir().unwrap();
    let (zarr, tet) = (folder.path().join("a.zarr"), folder.path().join("a.tet"));
    for path in files() {
        let names = datasets(&path);
        let expected = tables(&path, &names).await;
        let options = ConvertOptions {
            overwrite: true,
            ..ConvertOptions::default()
        };
        for (from, to) in [(&path, &zarr), (&zarr, &tet)] {
            let result = converted(from, to, &options).await;
            assert_eq!(result.unwrap().warnings, [""; 0], "{}", path.display());
            assert_eq!(tables(to, &names).await, expected, "{}", path.display());
        }
        let report = tet_sql::format::tet::verify::verify(&tet, Default::default(), &|_, _| {});
        assert!(report.unwrap().ok, "{}", path.display());
    }
}

#[cfg(all(feature = "hdf5", feature = "zarr"))]
#[tokio::test]
async fn attributes_of_files_and_groups_are_kept() {
    let read = |path: &Path| -> serde_json::Value {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let title = serde_json::json!({"title": "NetCDF-4 conventions"});
    done(&data("hdf5/netcdf.nc"), &path("a.zarr")).await;
    let root = read(&path("a.zarr/zarr.json"));
    assert_eq!(root["attributes"], title);

    // Both versions of Zarr. Lists stay lists.
    let ocean = path("a.zarr/ocean/zarr.json");
    let mut group = read(&ocean);
    group["attributes"] = serde_json::json!({"basin": "Pacific", "levels": [1, 2]});
    std::fs::write(&ocean, group.to_string()).unwrap();
    done(&path("a.zarr"), &path("c.zarr")).await;
    let of_ocean = serde_json::json!({"basin": "Pacific", "levels": [1, 2]});
    for name in ["a.zarr", "c.zarr"] {
        let file = ArraySchema::open("f", path(name), ArrayOptions::new()).unwrap();
        let arrays = file.container().downcast_ref::<ArrayContainer>().unwrap();
        let groups = ["", "ocean"].map(|group| {
            let attributes = arrays.file().group_attributes(group).unwrap();
            (group.to_string(), attributes.clone())
        });
        let spec = DatasetSpec::new("ocean/a", Dtype::U8, &[1], &[1]).with_dim_names(["x"]);
        let options = ZarrWriteOptions {
            version: ZarrVersion::V2,
        };
        let second = path("b.zarr");
        let writer = ZarrWriter::create(&second, vec![spec], options).unwrap();
        let mut writer = writer.with_group_attributes(groups.into());
        writer.write_dataset(0, &[7]).unwrap();
        writer.finish().unwrap();
        let consolidated = read(&path("b.zarr/.zmetadata"));
        for (group, attributes) in [(".zattrs", &title), ("ocean/.zattrs", &of_ocean)] {
            assert_eq!(read(&path("b.zarr").join(group)), *attributes);
            assert_eq!(consolidated["metadata"][group], *attributes);
        }
        let third = path("d.zarr");
        let options = ConvertOptions {
            overwrite: true,
            ..ConvertOptions::default()
        };
        converted(&second, &third, &options).await.unwrap();
        assert_eq!(read(&third.join("zarr.json"))["attributes"], title);
        assert_eq!(read(&third.join("ocean/zarr.json"))["attributes"], of_ocean);
    }
    let ctx = open(&path("c.zarr"), ArrayOptions::new()).await;
    let sql = "SELECT key, value FROM tet_attributes() WHERE table_name IS NULL AND key = 'title'";
    assert_eq!(rows(&ctx, sql).await, ["title NetCDF-4 conventions"]);

    // There is no place for them in a `.tet` file.
    let warnings = done(&path("c.zarr"), &path("d.tet")).await.warnings;
    let lost: Vec<_> = warnings
        .iter()
        .filter_map(|warning| warning.split_once("c.zarr"))
        .collect();
    let reason = ".tet files keep attributes of arrays only";
    assert_eq!(
        lost.iter().map(|(_, lost)| *lost).collect::<Vec<_>>(),
        [
            format!(": 1 attribute of the file is left out (\"title\"): {reason}"),
            format!(
                ": 2 attributes of groups are left out (\"ocean/basin\", \"ocean/levels\"): {reason}"
            ),
        ]
    );
}

#[cfg(all(feature = "hdf5", feature = "zarr"))]
#[tokio::test]
async fn groups_without_arrays_keep_their_attributes() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let input = data("hdf5/links_latest.h5");
    done(&input, &path("a.zarr")).await;
    let file = ArraySchema::open("f", path("a.zarr"), ArrayOptions::new()).unwrap();
    let arrays = file.container().downcast_ref::<ArrayContainer>().unwrap();
    let group = arrays.file().group_attributes("without_arrays").unwrap();
    assert_eq!(group["note"], "nothing here");
    // Soft links would write the same arrays again.
    assert_eq!(datasets(&path("a.zarr")), ["group/data", "group/inner/x"]);
    // A selected array has the attributes of its own groups, also by another name.
    let named = format!("{}#to_dataset", input.display());
    done(Path::new(&named), &path("b.zarr")).await;
    assert_eq!(datasets(&path("b.zarr")), ["to_dataset"]);
    assert!(!path("b.zarr/without_arrays").exists());

    // Names that cannot be directories beside the arrays are not followed out of the hierarchy.
    for (version, document) in [(ZarrVersion::V2, ".zattrs"), (ZarrVersion::V3, "zarr.json")] {
        let spec = DatasetSpec::new("a", Dtype::U8, &[1], &[1]).with_dim_names(["x"]);
        let writer = ZarrWriter::create(path("c.zarr"), vec![spec], ZarrWriteOptions { version });
        let note = std::collections::BTreeMap::from([("note".to_string(), "a note".to_string())]);
        let names = ["", "../out", "a", "a/in", ".hidden", "fine/within"];
        let groups = names.map(|name| (name.to_string(), note.clone()));
        let mut writer = writer.unwrap().with_group_attributes(groups.into());
        writer.write_dataset(0, &[7]).unwrap();
        let warnings = ArrayWriter::warnings(&writer);
        assert_eq!(warnings.len(), 4, "{warnings:?}");
        writer.finish().unwrap();
        assert!(!path("out").exists() && path("c.zarr/fine/within").join(document).exists());
        assert_eq!(datasets(&path("c.zarr")), ["a"]);
    }
}

/// A conversion can change any chunk shape to any other, in however little memory.
#[tokio::test]
async fn arrays_are_rechunked() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for seed in 0..40 {
        let mut random = Random(seed);
        let rank = 1 + random.below(4);
        let extents = |random: &mut Random, most: usize| -> Vec<u64> {
            (0..rank).map(|_| 1 + random.below(most) as u64).collect()
        };
        let shape = extents(&mut random, 12);
        let chunks = [extents(&mut random, 14), extents(&mut random, 14)];
        let count = shape.iter().product::<u64>();
        let cells: Vec<u8> = (0..count)
            .flat_map(|_| (random.next() as i16).to_le_bytes())
            .collect();
        let compression = *random.pick(&[Compression::Raw, Compression::ZSTD]);
        let spec =
            DatasetSpec::new("a", Dtype::I16, &shape, &chunks[0]).with_compression(compression);
        write(&at("a.tet"), &[(spec, cells.clone())]);
        let options = ConvertOptions {
            chunk: Some(chunks[1].clone()),
            compression: Some(Compression::ZSTD),
            memory: random.below(5000),
            overwrite: true,
            ..ConvertOptions::default()
        };
        let whole = ConvertOptions {
            memory: random.below(5000),
            overwrite: true,
            ..ConvertOptions::default()
        };
        converted(&at("a.tet"), &at("b.tet"), &options)
            .await
            .unwrap();
        converted(&at("b.tet"), &at("c.npy"), &whole).await.unwrap();
        let array = NpyArray::open(&at("c.npy"));
        assert_eq!((array.shape, array.bytes), (shape, cells), "seed {seed}");
        let file = TetFile::open(at("b.tet"), OpenOptions::default()).unwrap();
        let dataset = file.dataset("a").unwrap();
        let row = file
            .chunk_row(dataset, &vec![0; rank], Access::Pread)
            .unwrap();
        assert_eq!(row.codec, Codec::Zstd);
        let expected: Vec<u64> = dataset
            .shape()
            .iter()
            .zip(&chunks[1])
            .map(|(a, b)| *a.min(b))
            .collect();
        assert_eq!(dataset.chunk_shape(), expected);
    }
}

#[tokio::test]
async fn rows_round_trip_through_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let options = ConvertOptions {
        dims: Some(vec!["station".to_string()]),
        ..ConvertOptions::default()
    };
    let sql = |path: &Path| {
        format!(
            "SELECT station, name, lat, elevation FROM '{}' ORDER BY station",
            path.display()
        )
    };
    let expected = rows(&session(), &sql(&data("stations.csv"))).await;
    assert!(expected.len() > 3);
    let result = converted(&data("stations.csv"), &at("a.tet"), &options)
        .await
        .unwrap();
    assert_eq!(result.cells, expected.len() as u64);
    let one = ConvertOptions {
        dataset: Some("station".to_string()),
        ..ConvertOptions::default()
    };
    for (from, to) in [
        ("a.tet", "a.parquet"),
        ("a.parquet", "a.ndjson"),
        ("a.ndjson", "a.arrow"),
        ("a.arrow", "a.jsonl"),
        ("a.jsonl", "a.csv"),
    ] {
        converted(&at(from), &at(to), &one).await.unwrap();
        assert_eq!(rows(&session(), &sql(&at(to))).await, expected, "{to}");
    }
    // `#` selects a dataset, as in quoted paths.
    let named = format!("{}#elevation", at("a.tet").display());
    let result = done(Path::new(&named), &at("b.parquet")).await;
    assert_eq!(result.cells, expected.len() as u64);
    assert_eq!(folder.path().read_dir().unwrap().count(), 7);
}

#[tokio::test]
async fn selected_dataset_keeps_its_coordinates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    let options = ConvertOptions {
        dataset: Some("t2m".to_string()),
        dims: Some(["time", "lat", "station"].map(str::to_string).to_vec()),
        ..ConvertOptions::default()
    };
    let result = converted(&data("npy/compressed.npz"), &path, &options)
        .await
        .unwrap();
    assert_eq!(result.arrays, 4);
    assert_eq!(datasets(&path), ["t2m", "time", "lat", "station"]);
    let tet = folder.path().join("a.tet");
    let result = converted(&data("npy/stored.npz"), &tet, &options)
        .await
        .unwrap();
    assert_eq!(result.arrays, 4);
    let ctx = open(&tet, ArrayOptions::new()).await;
    let sql = "SELECT sum(value) FROM t2m WHERE time = '2024-01-02' AND lat > 10 AND station < 'c'";
    assert_eq!(rows(&ctx, sql).await, ["20.5"]);
}

#[tokio::test]
async fn failed_conversions_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let weather = data("weather_small_v1footer.tet");
    std::fs::write(at("there.tet"), "old").unwrap();
    for (from, to, expected) in [
        (weather.clone(), "there.tet", "exists already; --overwrite"),
        (weather.clone(), "a.xyz", "unknown file extension"),
        (weather.clone(), "a.npy", "holds one array, not 6"),
        (weather.clone(), "none/a.tet", "none does not exist"),
        (weather.clone(), "a.csv", "has 2 tables"),
        (at("none.tet"), "a.npz", "No such file"),
        (at("none"), "a.npz", "no such file or directory"),
        (
            data("stations.csv"),
            "a.npy",
            "rows cannot be written to NumPy",
        ),
        (
            data("stations.csv"),
            "a.tet",
            "dimension name is NULL in a row",
        ),
        (
            data("npy/empty.npy"),
            "a.tet",
            "there is no array to convert",
        ),
    ] {
        let error = converted(&from, &at(to), &ConvertOptions::default()).await;
        let error = error.unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "{to}");
    }
    let progress = ConvertProgress::default();
    progress.cancel();
    for to in ["a.tet", "a.npz"] {
        let error = convert(&weather, &at(to), &ConvertOptions::default(), &progress).await;
        let error = describe(&error.unwrap_err());
        assert!(error.contains("cancelled"), "{error}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    assert_eq!(std::fs::read(at("there.tet")).unwrap(), b"old");
}

#[tokio::test]
async fn options_must_fit_an_array() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let grid = data("coordvars.tet");
    let with_chunk = |chunk: &[u64]| ConvertOptions {
        chunk: Some(chunk.to_vec()),
        ..ConvertOptions::default()
    };
    // Coordinates have one dimension, but a chunk shape is meant for the arrays with values.
    for chunk in [&[1, 1][..], &[5]] {
        let error = converted(&grid, &at("a.tet"), &with_chunk(chunk)).await;
        let error = error.unwrap_err();
        let expected = format!(
            "--chunk has {} extents, expected one for each of the 3 dimensions",
            chunk.len()
        );
        assert!(error.contains(&expected), "{error}");
    }
    let result = converted(&grid, &at("a.tet"), &with_chunk(&[50, 73, 72])).await;
    assert_eq!(result.unwrap().warnings, [""; 0]);
    let with_dims = ConvertOptions {
        dims: Some(["a", "b", "c"].map(str::to_string).to_vec()),
        ..ConvertOptions::default()
    };
    let result = converted(&grid, &at("b.tet"), &with_dims).await;
    let expected = "--dims has no effect: no array has 3 dimensions without names";
    assert_eq!(result.unwrap().warnings, [expected]);
    let one = PathBuf::from(format!(
        "{}#temperature",
        data("weather_small.tet").display()
    ));
    let result = converted(&one, &at("b.csv"), &with_dims).await.unwrap();
    assert!(
        result.warnings[0].contains("--dims has no effect"),
        "{result:?}"
    );
    let unnamed = data("npy/c_order.npy");
    let result = converted(&unnamed, &at("c.tet"), &with_dims).await;
    assert_eq!(result.unwrap().warnings, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_command_line_flags() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    std::fs::write(&rows, "lat,lon,t\n1.5,2.5,3.5\n1.5,2.5,4.5\n").unwrap();
    let target = folder.path().join("rows.tet");
    let with = |dims: &str, chunk: Option<Vec<u64>>| ConvertOptions {
        dims: Some(dims.split(',').map(str::to_string).collect()),
        chunk,
        ..ConvertOptions::default()
    };
    for (options, expected) in [
        (
            ConvertOptions::default(),
            "say which are dimensions: --dims ...",
        ),
        (
            with("lat,lon", None),
            "add the missing dimensions: --dims ...",
        ),
        (with("lat,height", None), "--dims names \"height\""),
        (with("lat,lon", Some(vec![1])), "--chunk has 1 extents"),
    ] {
        let error = converted(&rows, &target, &options).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("OPTIONS"), "{error}");
        assert!(!target.exists());
    }
}
