//! The cells, dimensions and attributes of files, without SQL.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tet_sql::Access;
use tet_sql::format::array::{ArrayFile, Categories, ChunkReader, Dataset, Payload};
use tet_sql::format::hdf5::Hdf5File;
use tet_sql::format::npy::NpyFile;

use crate::support::cells::data;

/// The files with expected values.
pub const FILES: [&str; 14] = [
    "blosc_snappy.h5",
    "curvilinear.nc",
    "filters.h5",
    "groups_earliest.h5",
    "groups_latest.h5",
    "layouts_earliest.h5",
    "layouts_latest.h5",
    "linked_coordinates.h5",
    "links_earliest.h5",
    "links_latest.h5",
    "netcdf.nc",
    "phony.h5",
    "scales.h5",
    "types.h5",
];

/// Returns the path of a file in `tests/data/hdf5`.
pub fn path(name: &str) -> PathBuf {
    data(&format!("hdf5/{name}"))
}

/// Opens a file in `tests/data/hdf5`.
pub fn open(name: &str, access: Access) -> Arc<dyn ArrayFile> {
    Arc::new(Hdf5File::open(path(name), access).unwrap())
}

/// Reads the cells of a dataset in row-major order.
pub fn cells(file: &Arc<dyn ArrayFile>, dataset: &Dataset, access: Access) -> Vec<u8> {
    let size = dataset.dtype().unwrap().size() as usize;
    let shape = dataset.shape();
    let mut cells = vec![0xaa; shape.iter().product::<u64>() as usize * size];
    let mut reader = ChunkReader::new(Arc::clone(file), access);
    for chunk in chunks(dataset) {
        let stored = reader.open(dataset, &chunk).unwrap();
        while !reader.advance().unwrap() {}
        let found = reader.cells(0..stored.raw_bytes as usize).unwrap().to_vec();
        let axes = chunk.iter().zip(dataset.chunk_shape());
        let from: Vec<u64> = axes.map(|(index, size)| index * size).collect();
        let extents: Vec<u64> = (from.iter().zip(shape).zip(dataset.chunk_shape()))
            .map(|((from, extent), size)| (extent - from).min(*size))
            .collect();
        assert_eq!(
            found.len(),
            extents.iter().product::<u64>() as usize * size,
            "{}",
            dataset.name()
        );
        for (number, cell) in found.chunks_exact(size).enumerate() {
            let (mut rest, mut target, mut step) = (number as u64, 0, 1);
            for axis in (0..shape.len()).rev() {
                target += (from[axis] + rest % extents[axis]) * step;
                rest /= extents[axis];
                step *= shape[axis];
            }
            cells[target as usize * size..][..size].copy_from_slice(cell);
        }
    }
    cells
}

/// Returns the indices of all chunks of a dataset.
pub fn chunks(dataset: &Dataset) -> Vec<Vec<u64>> {
    let mut chunks = vec![Vec::new()];
    for count in dataset.chunk_grid() {
        let longer = chunks
            .iter()
            .flat_map(|chunk| (0..count).map(move |index| [chunk.as_slice(), &[index]].concat()));
        chunks = longer.collect();
    }
    chunks
}

#[test]
fn cells_are_those_of_the_reference_programs() {
    let mut compared = 0;
    for name in FILES {
        let expected = NpyFile::open(path(name).with_extension("npz"), Access::Pread).unwrap();
        assert_eq!(expected.warnings(), [] as [&str; 0]);
        let expected: Arc<dyn ArrayFile> = Arc::new(expected);
        for access in [Access::Mmap, Access::Pread] {
            let file = open(name, access);
            assert_eq!(file.datasets().len(), expected.datasets().len(), "{name}");
            for wanted in expected.datasets() {
                let what = format!("{name}, {}, {access}", wanted.name());
                let found = file.dataset(wanted.name()).expect(&what);
                assert_eq!(found.dtype(), wanted.dtype(), "{what}");
                assert_eq!(found.shape(), wanted.shape(), "{what}");
                let same = cells(&file, found, access) == cells(&expected, wanted, Access::Pread);
                assert!(same, "{what}");
                // Both assign codes in the order of first appearance.
                let texts = |file: &Arc<dyn ArrayFile>, dataset: &Dataset| {
                    let attributes = &file.metadata(dataset).unwrap().attrs;
                    attributes.get(Categories::ATTRIBUTE).cloned()
                };
                assert_eq!(texts(&file, found), texts(&expected, wanted), "{what}");
                compared += 1;
            }
        }
    }
    assert!(compared > 450, "{compared}");
}

#[test]
fn dimensions_are_those_of_the_netcdf_library() {
    for name in ["netcdf.nc", "phony.h5"] {
        let text = std::fs::read_to_string(path(name).with_extension("json")).unwrap();
        let expected: Value = serde_json::from_str(&text).unwrap();
        let file = open(name, Access::Mmap);
        let variables = expected["variables"].as_object().unwrap();
        assert_eq!(file.datasets().len(), variables.len());
        for (variable, about) in variables {
            let dataset = file.dataset(variable).expect(variable);
            let mut names: Vec<_> = about["dimensions"].as_array().unwrap().iter().collect();
            if variable == "station" {
                // The characters of strings.
                assert_eq!(names.pop().unwrap(), "strlen");
            }
            let metadata = file.metadata(dataset).unwrap();
            assert_eq!(
                metadata.dim_names.iter().collect::<Vec<_>>(),
                names,
                "{variable}"
            );
        }
    }
    let file = open("scales.h5", Access::Mmap);
    let names = |name: &str| {
        let dataset = file.dataset(name).unwrap();
        file.metadata(dataset).unwrap().dim_names.clone()
    };
    assert_eq!(names("t"), ["lat", "lon"]);
    assert_eq!(names("lat"), ["lat"]);
    assert_eq!(names("labelled"), ["a", "b"]);
}

#[test]
fn attributes_become_text() {
    for name in ["groups_earliest.h5", "groups_latest.h5"] {
        let file = open(name, Access::Pread);
        let about = file.group_attributes("").unwrap();
        assert_eq!(about["title"], "Groups");
        assert_eq!(about["numbers"], "[1.5,-2.0]");
        let dataset = file.dataset("attributes").unwrap();
        let attributes = &file.metadata(dataset).unwrap().attrs;
        for (key, text) in [
            ("text", "plain"),
            ("text_fixed", "fixed"),
            ("texts", r#"["a","b c"]"#),
            ("int8", "-3"),
            ("uint64", "18446744073709551615"),
            ("float32", "0.1"),
            ("float64", "1e300"),
            ("big_endian", "[1,258]"),
            ("list", "[0,1,2,3]"),
            ("boolean", "1"),
            ("more_19", "19"),
        ] {
            assert_eq!(attributes[key], text, "{key}");
        }
        assert!(!attributes.contains_key("reference") && !attributes.contains_key("empty"));
        let [warning] = file.warnings() else {
            panic!("{:?}", file.warnings());
        };
        let link = "\"external\": has an external link to \"/x\" in the file \"other.h5\", which is not followed";
        assert!(warning.contains(link), "{warning}");
    }
    let file = open("netcdf.nc", Access::Pread);
    let attributes = |name: &str| {
        let dataset = file.dataset(name).unwrap();
        &file.metadata(dataset).unwrap().attrs
    };
    let packed = attributes("packed");
    assert_eq!(packed["_FillValue"], "-32767");
    assert_eq!(packed["missing_value"], "[-32766,-32765]");
    assert_eq!(packed["scale_factor"], "0.5");
    // The fill value -1 of the signed bytes is 255 as an unsigned byte.
    assert_eq!(attributes("unsigned")["_FillValue"], "255");
    assert!(!attributes("unsigned").contains_key("_Unsigned"));
    // The default of the NetCDF library is no attribute.
    assert!(!attributes("wind").contains_key("_FillValue"));
    let wind = file.metadata(file.dataset("wind").unwrap()).unwrap();
    assert_eq!(wind.default_fill.as_deref(), Some("9.969209968386869e36"));
    assert!(!attributes("sky").contains_key("_FillValue"));
    assert!(!attributes("lat").contains_key("_FillValue"));
    assert_eq!(attributes("sky")["flag_meanings"], "clear cloudy");
    assert_eq!(attributes("sky")["flag_values"], "[0,1]");
    assert!(!attributes("time").contains_key("_Netcdf4Dimid"));
}

/// Which datasets links lead to is checked with their cells.
#[test]
fn links_that_lead_nowhere_are_named() {
    for name in ["links_earliest.h5", "links_latest.h5"] {
        let file = open(name, Access::Mmap);
        let mut expected = vec![
            "\"bad_circle\": has a soft link to \"/bad_circle\", which leads through more than 16 links",
            "\"bad_dangling\": has a soft link to \"/group/nothing\", which does not exist",
            "\"bad_dataset\": has a soft link to \"/group/data/x\", which does not exist",
            "\"bad_external\": has an external link to \"/there\" in the file \"other.h5\"",
            "\"bad_one\": has a soft link to \"/bad_other\", which leads through more than 16 links",
            "\"bad_other\": has a soft link to \"/bad_one\", which leads through more than 16 links",
            "\"group/bad_root\": has a soft link to a group around it",
            "\"group/inner/bad_above\": has a soft link to a group around it",
        ];
        for warning in file.warnings() {
            let position = expected.iter().position(|text| warning.contains(text));
            expected.remove(position.unwrap_or_else(|| panic!("{warning}")));
        }
        assert_eq!(expected, [] as [&str; 0], "{name}");
        let attribute = |group: &str, key: &str| file.group_attributes(group).unwrap()[key].clone();
        assert_eq!(attribute("group", "title"), "The group");
        assert_eq!(attribute("group/inner", "version"), "2");
        assert_eq!(attribute("", "title"), "Links");
    }
}

#[test]
fn plain_cells_are_used_in_place() {
    let is_raw = |name: &str, dataset: &str, chunk: &[u64]| {
        let file = open(name, Access::Mmap);
        let dataset = file.dataset(dataset).unwrap();
        let stored = file.chunk(dataset, chunk, Access::Mmap).unwrap();
        matches!(stored.payload, Payload::Raw(_))
    };
    assert!(is_raw("layouts_latest.h5", "contiguous", &[0, 0]));
    assert!(is_raw("layouts_latest.h5", "fixed", &[1, 1]));
    // Clipped along the first axis, the cells still follow one another.
    assert!(is_raw("layouts_latest.h5", "unlimited_twice", &[0, 0]));
    assert!(!is_raw("layouts_latest.h5", "fixed", &[2, 2]));
    assert!(!is_raw("layouts_latest.h5", "fixed_deflated", &[0, 0]));
    assert!(!is_raw(
        "layouts_latest.h5",
        "contiguous_big_endian",
        &[0, 0]
    ));
    assert!(!is_raw("layouts_latest.h5", "never_written", &[0, 0]));
    assert!(is_raw("types.h5", "i1_little", &[0, 0]));
    assert!(is_raw("types.h5", "bool", &[0]));
    let file = open("layouts_latest.h5", Access::Mmap);
    let has_chunks = |name: &str| file.has_chunks(file.dataset(name).unwrap());
    assert!(has_chunks("fixed") && !has_chunks("contiguous"));
}

#[test]
fn datasets_that_cannot_be_read_are_named() {
    for (name, reasons) in [
        (
            "types.h5",
            &[
                "\"unsupported_array\": has elements of an array type",
                "\"unsupported_complex\": has elements of a compound type",
                "\"unsupported_compound\": has elements of a compound type",
                "\"unsupported_long_double\": has floats of 16 bytes",
                "\"unsupported_null\": has no elements",
                "\"unsupported_opaque\": has elements of an opaque type",
                "\"unsupported_reference\": has elements of a reference type",
                "\"unsupported_sequence\": has elements of variable length",
            ][..],
        ),
        (
            "filters.h5",
            &[
                "\"unsupported_bitshuffle\": has the filter bitshuffle (32008), which is not supported",
                "\"unsupported_blosc2\": has the filter blosc2 (32026), which is not supported",
                "\"unsupported_zfp\": has the filter zfp (32013), which is not supported",
            ],
        ),
    ] {
        let file = open(name, Access::Mmap);
        let mut warnings = file.warnings().to_vec();
        warnings.sort();
        assert_eq!(warnings.len(), reasons.len(), "{warnings:?}");
        warnings.sort_by_key(|warning| warning.split("unsupported_").nth(1).map(str::to_string));
        for (warning, reason) in warnings.iter().zip(reasons) {
            assert!(warning.contains(reason), "{warning}");
            assert!(warning.ends_with("; the dataset is left out"), "{warning}");
        }
    }
}

#[test]
fn errors_name_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("a.h5");
    std::fs::write(&copy, b"\x89HDF\r\n\x1a\n\x09").unwrap();
    let error = Hdf5File::open(&copy, Access::Mmap).unwrap_err().to_string();
    assert!(error.contains("a.h5: superblock is unreadable"), "{error}");
    // A changed byte within a chunk with a checksum.
    let mut bytes = std::fs::read(path("filters.h5")).unwrap();
    let file = open("filters.h5", Access::Pread);
    let dataset = file.dataset("fletcher32").unwrap();
    let mut reader = ChunkReader::new(Arc::clone(&file), Access::Pread);
    reader.open(dataset, &[1, 1]).unwrap();
    while !reader.advance().unwrap() {}
    let size = 16 * 10 * 4;
    let cells = reader.cells(0..size).unwrap().to_vec();
    let place = bytes.windows(size).position(|window| window == cells);
    bytes[place.unwrap() + 5] ^= 1;
    let copy = folder.path().join("b.h5");
    std::fs::write(&copy, bytes).unwrap();
    let file: Arc<dyn ArrayFile> = Arc::new(Hdf5File::open(&copy, Access::Pread).unwrap());
    let mut reader = ChunkReader::new(Arc::clone(&file), Access::Pread);
    let dataset = file.dataset("fletcher32").unwrap();
    reader.open(dataset, &[1, 1]).unwrap();
    let error = reader.advance().unwrap_err().to_string();
    assert!(
        error.contains("b.h5, dataset \"fletcher32\", chunk [1, 1]: chunk is undecodable (fletcher32: the checksum is"),
        "{error}"
    );
}
