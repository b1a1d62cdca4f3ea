//! Every array that zarr-python and xarray wrote, against NumPy.

use serde_json::Value;
use tet_sql::format::zarr::{ZarrArray, ZarrHierarchy};

use super::stores::{Number, cells, document, for_each_chunk, numbers, texts, unpacked};

fn opened(name: &str) -> (tempfile::TempDir, ZarrHierarchy) {
    let (folder, path) = unpacked(name);
    let opened = ZarrHierarchy::open(path).unwrap();
    (folder, opened)
}

fn names(folder: &ZarrHierarchy) -> Vec<&str> {
    folder.arrays().iter().map(ZarrArray::name).collect()
}

fn extents(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|extent| extent.as_u64().unwrap())
        .collect()
}

fn check(folder: &ZarrHierarchy, number: usize, expected: &Value) {
    let array = &folder.arrays()[number];
    let what = format!("{}: {}", folder.path().display(), array.name());
    assert_eq!(array.shape(), extents(&expected["shape"]), "{what}");
    if let Some(shape) = expected.get("chunk_shape") {
        assert_eq!(array.chunk_shape(), extents(shape), "{what}");
    }
    let dims: Vec<&str> = match expected.get("dims") {
        Some(dims) => dims
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect(),
        None => Vec::new(),
    };
    assert_eq!(array.metadata().dim_names, dims, "{what}");
    for (key, value) in expected["attrs"].as_object().into_iter().flatten() {
        let found = array.metadata().attrs.get(key).map(String::as_str);
        assert_eq!(found, value.as_str(), "{what}: {key}");
    }
    assert!(
        !array.metadata().attrs.contains_key("_ARRAY_DIMENSIONS"),
        "{what}"
    );
    let mut stored = 0;
    for_each_chunk(&array.chunk_grid(), |chunk| {
        stored += folder.stored_bytes(number, chunk).unwrap()
    });
    match expected.get("stored_bytes") {
        Some(bytes) => assert_eq!(stored, bytes.as_u64().unwrap(), "{what}"),
        None => assert_eq!(
            stored > 0,
            array.name() != "texts/absent" && !array.shape().contains(&0),
            "{what}"
        ),
    }
    if expected["dtype"] == "text" {
        let expected: Vec<&str> = expected["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap())
            .collect();
        assert_eq!(texts(folder, number), expected, "{what}");
        return;
    }
    assert_eq!(array.dtype().to_string(), expected["dtype"], "{what}");
    let found = numbers(array.dtype(), &cells(folder, number));
    for (position, text) in expected["cells"].as_object().unwrap() {
        let text = text.as_str().unwrap();
        match found[position.parse::<usize>().unwrap()] {
            Number::Integer(value) => assert_eq!(value.to_string(), text, "{what}"),
            Number::Float(value) => {
                let expected: f64 = text.parse().unwrap();
                assert!(
                    value == expected || value.is_nan() && expected.is_nan(),
                    "{what}: {value} {text}"
                );
            }
        }
    }
    let sum: f64 = found
        .iter()
        .map(|number| match number {
            Number::Integer(value) => *value as f64,
            Number::Float(value) => *value,
        })
        .filter(|value| !value.is_nan())
        .sum();
    let expected: f64 = expected["sum"].as_str().unwrap().parse().unwrap();
    assert!(
        (sum - expected).abs() <= 1e-9 * expected.abs(),
        "{what}: {sum} {expected}"
    );
}

#[test]
fn arrays_match_numpy() {
    let expected = document("expected.json");
    let mut count = 0;
    for (store, arrays) in expected.as_object().unwrap() {
        let (_guard, folder) = opened(store);
        let arrays = arrays.as_object().unwrap();
        let mut expected_names: Vec<&str> = arrays.keys().map(String::as_str).collect();
        expected_names.sort_unstable();
        assert_eq!(
            names(&folder),
            expected_names,
            "{store}: {:?}",
            folder.warnings()
        );
        for (number, array) in folder.arrays().iter().enumerate() {
            check(&folder, number, &arrays[array.name()]);
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}

#[test]
fn unsupported_arrays_are_left_out_with_a_warning() {
    for (store, expected) in [
        (
            "types_v2.zarr",
            "array \"complex\" is left out: dtype is \"<c8\"",
        ),
        (
            "types_v3.zarr",
            "array \"complex\" is left out: data_type is \"complex64\"",
        ),
    ] {
        let (_guard, folder) = opened(store);
        assert_eq!(folder.warnings().len(), 1, "{:?}", folder.warnings());
        assert!(
            folder.warnings()[0].contains(expected),
            "{:?}",
            folder.warnings()
        );
    }
    let (_guard, folder) = opened("layouts_v2.zarr");
    assert_eq!(folder.warnings().len(), 1);
    assert!(
        folder.warnings()[0].contains("lz4"),
        "{:?}",
        folder.warnings()
    );
}

#[test]
fn chunks_outside_the_grid_are_refused() {
    let (_guard, folder) = opened("single_v3.zarr");
    let mut cells = Vec::new();
    for chunk in [&[2u64, 0][..], &[0], &[], &[0, 0, 0], &[u64::MAX, 0]] {
        let message = folder
            .read_chunk(0, chunk, &mut cells)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("outside the chunk grid [2, 2]"),
            "{message}"
        );
        folder.stored_bytes(0, chunk).unwrap_err();
    }
    folder.read_chunk(1, &[0, 0], &mut cells).unwrap_err();
}

#[test]
fn threads_share_an_open_store() {
    let (_guard, folder) = opened("layouts_v3.zarr");
    let number = names(&folder)
        .iter()
        .position(|name| *name == "shards")
        .unwrap();
    let expected = cells(&folder, number);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(cells(&folder, number), expected));
        }
    });
}
