//! Written arrays read back, and arrays that cannot be written are refused.

use std::path::Path;

use tet_sql::format::tet::{Categories, Compression, DatasetSpec, Dtype};
use tet_sql::format::zarr::{ZarrHierarchy, ZarrVersion, ZarrWriteOptions, ZarrWriter};

use super::stores::{cells, texts};
use crate::tables::exploded::Random;

const VERSIONS: [ZarrVersion; 2] = [ZarrVersion::V2, ZarrVersion::V3];

fn create(
    path: &Path,
    version: ZarrVersion,
    specs: Vec<DatasetSpec>,
) -> tet_sql::error::Result<ZarrWriter> {
    ZarrWriter::create(path, specs, ZarrWriteOptions { version })
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn all_types_and_shapes_round_trip() {
    let mut random = Random(7);
    for version in VERSIONS {
        for dtype in Dtype::ALL {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.zarr");
            let shapes: [(&[u64], &[u64]); 5] = [
                (&[5, 7], &[2, 3]),
                (&[], &[]),
                (&[0, 2], &[1, 1]),
                (&[3], &[100]),
                (&[2, 3, 4], &[2, 1, 4]),
            ];
            let mut specs = Vec::new();
            for (number, (shape, chunk_shape)) in shapes.iter().enumerate() {
                let compression = match number % 2 {
                    0 => Compression::Zstd { level: 1 },
                    _ => Compression::Raw,
                };
                let names = ["x", "y", "z"].iter().take(shape.len()).copied();
                specs.push(
                    DatasetSpec::new(format!("group/of/a{number}"), dtype, shape, chunk_shape)
                        .with_compression(compression)
                        .with_dim_names(names)
                        .with_attribute("_FillValue", "7")
                        .with_attribute("scale_factor", "0.5")
                        .with_attribute("long_name", "1.5"),
                );
            }
            let mut writer = create(&path, version, specs).unwrap();
            let mut all = Vec::new();
            for (number, (shape, _)) in shapes.iter().enumerate() {
                let length = shape.iter().product::<u64>() * dtype.size();
                let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                writer.write_dataset(number, &bytes).unwrap();
                all.push(bytes);
            }
            writer.finish().unwrap();
            assert_eq!(entries(folder.path()), ["a.zarr"]);
            let opened = ZarrHierarchy::open(&path).unwrap();
            assert_eq!(opened.warnings(), [""; 0]);
            assert_eq!(opened.arrays().len(), shapes.len());
            for (number, array) in opened.arrays().iter().enumerate() {
                assert_eq!(array.name(), format!("group/of/a{number}"));
                assert_eq!((array.dtype(), array.shape()), (dtype, shapes[number].0));
                assert_eq!(
                    array.metadata().dim_names,
                    ["x", "y", "z"][..shapes[number].0.len()]
                );
                assert_eq!(
                    cells(&opened, number),
                    all[number],
                    "{version:?} {dtype} {number}"
                );
                let attributes = &array.metadata().attrs;
                assert_eq!(attributes["_FillValue"].parse::<f64>().unwrap(), 7.0);
                assert_eq!(
                    (
                        attributes["scale_factor"].as_str(),
                        attributes["long_name"].as_str()
                    ),
                    ("0.5", "1.5")
                );
                assert_eq!(attributes.len(), 3);
            }
        }
    }
}

#[test]
fn fill_values_round_trip() {
    for version in VERSIONS {
        for (dtype, text, expected) in [
            (
                Dtype::F32,
                "9.969209968386869e36",
                Some("9.969209968386869e+36"),
            ),
            (Dtype::F16, "-999.5", Some("-999.5")),
            (Dtype::F64, "-inf", Some("-inf")),
            (Dtype::F64, "NaN", None),
            (
                Dtype::I64,
                "-9223372036854775808",
                Some("-9223372036854775808"),
            ),
            (
                Dtype::U64,
                "18446744073709551615",
                Some("18446744073709551615"),
            ),
            (Dtype::I16, "none", None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.zarr");
            let spec = DatasetSpec::new("a", dtype, &[1], &[1]).with_attribute("_FillValue", text);
            let mut writer = create(&path, version, vec![spec]).unwrap();
            writer
                .write_dataset(0, &vec![0; dtype.size() as usize])
                .unwrap();
            writer.finish().unwrap();
            let opened = ZarrHierarchy::open(&path).unwrap();
            let found = opened.arrays()[0]
                .metadata()
                .attrs
                .get("_FillValue")
                .map(String::as_str);
            let same = |a: &str, b: &str| a == b || a.parse::<f64>() == b.parse::<f64>();
            assert!(
                match (found, expected) {
                    (Some(found), Some(expected)) => same(found, expected),
                    (None, None) => true,
                    _ => false,
                },
                "{version:?} {dtype} {text}: {found:?}"
            );
        }
    }
}

#[test]
fn strings_round_trip() {
    for version in VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zarr");
        let categories = r#"{"codes":{"rain":7,"Schnee \"ß\"":0},"missing":-1}"#;
        let spec = DatasetSpec::new("weather", Dtype::I64, &[5], &[2])
            .with_attribute(Categories::ATTRIBUTE, categories)
            .with_attribute("_FillValue", "-1")
            .with_dim_names(["time"]);
        let mut writer = create(&path, version, vec![spec.clone()]).unwrap();
        let codes: Vec<u8> = [7i64, 0, -1, 7, 0]
            .iter()
            .flat_map(|code| code.to_le_bytes())
            .collect();
        writer.write_dataset(0, &codes).unwrap();
        writer.finish().unwrap();
        let opened = ZarrHierarchy::open(&path).unwrap();
        assert_eq!(
            texts(&opened, 0),
            ["rain", "Schnee \"ß\"", "", "rain", "Schnee \"ß\""]
        );
        assert_eq!(opened.arrays()[0].metadata().attrs.len(), 1);
        let mut writer = create(&folder.path().join("b.zarr"), version, vec![spec]).unwrap();
        let message = writer
            .write_chunk(0, &[0], &[3; 16])
            .unwrap_err()
            .to_string();
        assert!(message.contains("has no text"), "{message}");
    }
}

#[test]
fn unsupported_datasets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let spec = |name: &str| DatasetSpec::new(name, Dtype::U8, &[3], &[2]);
    let refused = |specs: Vec<DatasetSpec>| {
        create(&path, ZarrVersion::V3, specs)
            .unwrap_err()
            .to_string()
    };
    for name in [
        "", "/", "a/", "/a", "a//b", "../a", "a/..", ".zgroup", "a/.b", "__a", "a\\b", "a:b", "a\0",
    ] {
        let message = refused(vec![spec(name)]);
        assert!(message.contains("cannot be a path"), "{name}: {message}");
    }
    for (specs, expected) in [
        (vec![spec("a"), spec("a")], "two datasets are called \"a\""),
        (
            vec![spec("a/b/c"), spec("a/b")],
            "dataset \"a/b\" cannot be a group as well",
        ),
        (
            vec![spec("a").with_labels("0", ["x", "y", "z"])],
            "cannot store labels",
        ),
        (
            vec![spec("a").with_dim_names(["x", "y"])],
            "expected 1 different ones",
        ),
        (
            vec![DatasetSpec::new("a", Dtype::U8, &[3], &[0])],
            "chunk extents above zero",
        ),
        (
            vec![DatasetSpec::new("a", Dtype::U8, &[3], &[3, 1])],
            "same number of dimensions",
        ),
        (
            vec![DatasetSpec::new("a", Dtype::F64, &[1 << 62], &[1])],
            "too large",
        ),
        (
            vec![DatasetSpec::new("a", Dtype::U8, &[1 << 40], &[1 << 40])],
            "larger than 2 GiB",
        ),
        (
            vec![DatasetSpec::new("a", Dtype::U8, &[1 << 60], &[1])],
            "no memory",
        ),
        (
            vec![spec("a/".repeat(40).as_str().trim_end_matches('/'))],
            "more than 32 groups",
        ),
        (
            vec![
                DatasetSpec::new("a", Dtype::I64, &[3], &[2])
                    .with_attribute(Categories::ATTRIBUTE, "x"),
            ],
            "JSON",
        ),
    ] {
        let message = refused(specs);
        assert!(message.contains(expected), "{message}");
    }
    let mut writer = create(&path, ZarrVersion::V3, vec![spec("a")]).unwrap();
    for (chunk, cells, expected) in [
        (&[2u64][..], &[0, 0][..], "outside the chunk grid"),
        (&[], &[0], "outside the chunk grid"),
        (&[1], &[0, 0], "2 bytes of cells, expected 1"),
    ] {
        let message = writer.write_chunk(0, chunk, cells).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    writer.write_chunk(0, &[1], &[5]).unwrap();
    let message = writer.write_chunk(0, &[1], &[5]).unwrap_err().to_string();
    assert!(message.contains("written twice"), "{message}");
    writer.write_chunk(1, &[0], &[]).unwrap_err();
    writer.write_dataset(0, &[0]).unwrap_err();
    let message = writer.finish().unwrap_err().to_string();
    assert!(
        message.contains("chunk number 0 of 2 was never written"),
        "{message}"
    );
    assert_eq!(entries(folder.path()), [""; 0]);
}

/// Readers reject longer documents. The consolidated metadata contains the attributes of all arrays.
#[test]
fn documents_that_are_too_long_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    // JSON needs six bytes for this character.
    let text = "\u{1}".repeat(6 << 20);
    for (version, document) in [
        (ZarrVersion::V2, ".zmetadata"),
        (ZarrVersion::V3, "zarr.json"),
    ] {
        let spec =
            |name| DatasetSpec::new(name, Dtype::U8, &[1], &[1]).with_attribute("comment", &text);
        let mut writer = create(&path, version, vec![spec("a"), spec("b")]).unwrap();
        for dataset in 0..2 {
            writer.write_dataset(dataset, &[1]).unwrap();
        }
        let told = writer.finish().unwrap_err().to_string();
        let expected = format!("the metadata document {document:?} would have ");
        assert!(told.contains(&expected), "{told}");
        assert_eq!(entries(folder.path()), [""; 0]);
    }
}

#[test]
fn only_zarr_folders_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let spec = |name: &str| vec![DatasetSpec::new(name, Dtype::U8, &[1], &[1])];
    for (name, version) in [("old", ZarrVersion::V2), ("new", ZarrVersion::V3)] {
        let mut writer = create(&path, version, spec(name)).unwrap();
        writer.write_chunk(0, &[0], &[1]).unwrap();
        writer.finish().unwrap();
        let opened = ZarrHierarchy::open(&path).unwrap();
        let names: Vec<&str> = opened.arrays().iter().map(|array| array.name()).collect();
        assert_eq!(names, [name]);
        assert_eq!(entries(folder.path()), ["a.zarr"]);
    }
    drop(create(&path, ZarrVersion::V3, spec("b")).unwrap());
    assert_eq!(entries(folder.path()), ["a.zarr"]);
    let other = folder.path().join("other");
    let mut writer = create(&other, ZarrVersion::V3, spec("a")).unwrap();
    writer.write_chunk(0, &[0], &[1]).unwrap();
    // The directory appears while the writer is writing.
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("precious"), "x").unwrap();
    let message = writer.finish().unwrap_err().to_string();
    assert!(message.contains("will not be replaced"), "{message}");
    create(&other, ZarrVersion::V3, spec("a")).unwrap_err();
    create(&other.join("precious"), ZarrVersion::V3, spec("a")).unwrap_err();
    assert_eq!(entries(&other), ["precious"]);
    let mut left = entries(folder.path());
    left.sort();
    assert_eq!(left, ["a.zarr", "other"]);
}
