//! Tests of whole files, which are built byte by byte.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::format::array::{ArrayFile, Categories, ChunkReader, Dataset, Payload, next_indices};
use crate::format::io::storage::Access;
use crate::format::netcdf::NetcdfFile;
use crate::format::netcdf::element::NcType;
use crate::format::netcdf::testing::{NewFile, NewVariable, attribute};

fn open(path: &Path) -> Arc<dyn ArrayFile> {
    Arc::new(NetcdfFile::open(path, Access::Mmap).unwrap())
}

fn refused(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.nc");
    std::fs::write(&path, bytes).unwrap();
    let error = NetcdfFile::open(&path, Access::Mmap).unwrap_err();
    error
        .to_string()
        .replace(&path.display().to_string(), "test.nc")
}

fn variable<'a>(
    name: &'a str,
    dimensions: &'a [usize],
    nc_type: NcType,
    cells: &[u8],
) -> NewVariable<'a> {
    NewVariable {
        name,
        dimensions,
        attributes: Vec::new(),
        nc_type,
        cells: cells.to_vec(),
    }
}

fn file<'a>(dimensions: &'a [(&'a str, u64)], variables: Vec<NewVariable<'a>>) -> NewFile<'a> {
    NewFile {
        version: 1,
        records: 0,
        is_stream: false,
        dimensions,
        attributes: Vec::new(),
        variables,
    }
}

/// Reads one chunk.
fn chunk(file: &Arc<dyn ArrayFile>, name: &str, chunk: &[u64]) -> Result<Vec<u8>, Error> {
    let dataset = file.dataset(name).unwrap();
    let mut reader = ChunkReader::new(Arc::clone(file), file.access());
    let bytes = reader.open(dataset, chunk)?.raw_bytes as usize;
    while !reader.advance()? {}
    Ok(reader.cells(0..bytes)?.to_vec())
}

/// Reads a dataset with a single chunk.
fn cells(file: &Arc<dyn ArrayFile>, name: &str) -> Vec<u8> {
    let rank = file.dataset(name).unwrap().shape().len();
    chunk(file, name, &vec![0; rank]).unwrap()
}

fn texts(file: &Arc<dyn ArrayFile>, name: &str) -> Vec<String> {
    let metadata = file.metadata(file.dataset(name).unwrap()).unwrap();
    let categories = Categories::of(&metadata.attrs).unwrap().unwrap();
    let cells = cells(file, name);
    let codes = cells.as_chunks::<8>().0.iter();
    let texts = codes.map(|code| categories.text(i64::from_le_bytes(*code)).unwrap());
    texts.map(ToString::to_string).collect()
}

#[test]
fn every_type_of_every_version() {
    for version in [1, 2, 5] {
        let types = match version {
            5 => &NcType::ALL[..],
            _ => &NcType::ALL[..NcType::OF_CDF_1],
        };
        let names: Vec<_> = types.iter().map(|one| format!("{one:?}")).collect();
        let stored: Vec<u8> = (1..=24).collect();
        let variables = types.iter().zip(&names).map(|(nc_type, name)| {
            let cells = &stored[..3 * nc_type.size() as usize];
            variable(name, &[0], *nc_type, cells)
        });
        let new = NewFile {
            version,
            attributes: vec![attribute("title", NcType::Char, b"a title")],
            ..file(&[("x", 3)], variables.collect())
        };
        let (_folder, path) = new.write();
        let file = open(&path);
        assert_eq!(file.warnings(), [] as [String; 0]);
        assert_eq!(file.layout_version(), Some(version.into()));
        assert_eq!(file.group_attributes("").unwrap()["title"], "a title");
        assert_eq!(file.datasets().len(), types.len());
        for (nc_type, name) in types.iter().zip(&names) {
            let dataset = file.dataset(name).unwrap();
            assert_eq!(dataset.shape(), [3]);
            assert_eq!(file.metadata(dataset).unwrap().dim_names, ["x"]);
            let size = nc_type.size() as usize;
            let swapped = stored[..3 * size].chunks(size);
            let swapped: Vec<u8> = swapped.flat_map(|one| one.iter().rev().copied()).collect();
            match nc_type {
                NcType::Char => assert_eq!(texts(&file, name), ["\u{1}", "\u{2}", "\u{3}"]),
                _ => assert_eq!(cells(&file, name), swapped, "{name}"),
            }
            let stored = file.chunk(dataset, &[0], Access::Mmap).unwrap();
            let is_raw = matches!(stored.payload, Payload::Raw(_));
            assert_eq!(is_raw, matches!(nc_type, NcType::Byte | NcType::Ubyte));
        }
    }
}

#[test]
fn records_alternate_between_variables() {
    for (is_stream, is_alone) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut variables = vec![
            variable("fixed", &[1], NcType::Short, &[0, 1, 0, 2, 0, 3]),
            variable("bytes", &[0, 1], NcType::Byte, &[1, 2, 3, 4, 5, 6]),
        ];
        if !is_alone {
            variables.push(variable("shorts", &[0], NcType::Short, &[0, 7, 0, 8]));
        }
        let new = NewFile {
            records: 2,
            is_stream,
            ..file(&[("time", 0), ("x", 3)], variables)
        };
        let (_folder, path) = new.write();
        let file = open(&path);
        assert_eq!(file.dataset("bytes").unwrap().shape(), [2, 3]);
        assert_eq!(cells(&file, "fixed"), [1, 0, 2, 0, 3, 0]);
        assert_eq!(cells(&file, "bytes"), [1, 2, 3, 4, 5, 6]);
        if !is_alone {
            assert_eq!(cells(&file, "shorts"), [7, 0, 8, 0]);
        }
    }
}

#[test]
fn a_file_without_records_has_empty_datasets() {
    for is_stream in [false, true] {
        let new = NewFile {
            is_stream,
            ..file(
                &[("time", 0), ("x", 3)],
                vec![
                    variable("a", &[0, 1], NcType::Int, &[]),
                    variable("text", &[0, 1], NcType::Char, &[]),
                ],
            )
        };
        let (_folder, path) = new.write();
        let file = open(&path);
        assert_eq!(file.dataset("a").unwrap().shape(), [0, 3]);
        assert_eq!(file.dataset("a").unwrap().chunk_count(), Some(0));
        assert_eq!(file.warnings(), [] as [String; 0]);
    }
    let (_folder, path) = file(&[], Vec::new()).write();
    assert_eq!(open(&path).datasets(), []);
}

#[test]
fn only_dimensions_of_characters_hold_strings() {
    let dimensions = [("x", 2), ("strlen", 3), ("level", 3)];
    let new = file(
        &dimensions,
        vec![
            variable("name", &[0, 1], NcType::Char, b"ab\0cde"),
            variable("title", &[1], NcType::Char, b"x\0\0"),
            variable("flag", &[0, 2], NcType::Char, b"112\0\xb03"),
            variable("pressure", &[2], NcType::Byte, &[1, 2, 3]),
            variable("letter", &[], NcType::Char, b"q"),
        ],
    );
    let (_folder, path) = new.write();
    let file = open(&path);
    let shape = |name| file.dataset(name).unwrap().shape().to_vec();
    assert_eq!([shape("name"), shape("flag")], [vec![2], vec![2, 3]]);
    assert_eq!(shape("title").len() + shape("letter").len(), 0);
    assert_eq!(texts(&file, "name"), ["ab", "cde"]);
    assert_eq!(texts(&file, "title"), ["x"]);
    assert_eq!(texts(&file, "flag"), ["1", "1", "2", "", "\u{b0}", "3"]);
    assert_eq!(texts(&file, "letter"), ["q"]);
    assert_eq!(
        file.metadata(file.dataset("name").unwrap())
            .unwrap()
            .dim_names,
        ["x"]
    );
}

/// Reads all chunks of a dataset, each of which continues the one before.
fn all_cells(file: &Arc<dyn ArrayFile>, dataset: &Dataset) -> Vec<u8> {
    let mut all = Vec::new();
    let mut position = vec![0; dataset.shape().len()];
    loop {
        all.extend(chunk(file, dataset.name(), &position).unwrap());
        if !next_indices(&mut position, &dataset.chunk_grid()) {
            return all;
        }
    }
}

#[test]
fn large_variables_have_several_chunks() {
    let stored: Vec<u8> = (0..6 * 1_000_003u32).map(|at| (at % 251) as u8).collect();
    let swapped: Vec<u8> = stored
        .chunks(2)
        .flat_map(|cell| [cell[1], cell[0]])
        .collect();
    let dimensions = [("time", 0), ("x", 1_000_003), ("y", 3)];
    for (records, dimensions_of, is_alone) in [
        (3, &[0, 1][..], false),
        (3, &[0, 1], true),
        (1, &[0, 1, 2], false),
        (0, &[1, 2], true),
    ] {
        let mut variables = vec![variable("v", dimensions_of, NcType::Short, &stored)];
        if !is_alone {
            let other = vec![1; records as usize];
            variables.push(variable("other", &[0], NcType::Byte, &other));
        }
        let new = NewFile {
            records,
            ..file(&dimensions, variables)
        };
        let (_folder, path) = new.write();
        for access in [Access::Mmap, Access::Pread] {
            let file: Arc<dyn ArrayFile> = Arc::new(NetcdfFile::open(&path, access).unwrap());
            let dataset = file.dataset("v").unwrap();
            assert!(dataset.chunk_count() > Some(1), "{dataset:?}");
            assert!(
                all_cells(&file, dataset) == swapped,
                "{dimensions_of:?} {is_alone}"
            );
        }
    }
}

#[test]
fn the_missing_end_of_a_truncated_file_cannot_be_read() {
    let stored = vec![7; 12 << 20];
    let dimensions = [("time", 0), ("x", 3 << 20)];
    let variables = vec![
        variable("v", &[0, 1], NcType::Short, &stored),
        variable("time", &[0], NcType::Byte, &[1, 2]),
    ];
    let new = NewFile {
        records: 2,
        ..file(&dimensions, variables)
    };
    let (_folder, path) = new.write();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    let file = open(&path);
    assert!(file.warnings()[0].contains("the missing cells cannot be read"));
    assert_eq!(file.dataset("v").unwrap().chunk_shape(), [1, 2 << 20]);
    assert!(chunk(&file, "v", &[1, 0]).is_ok());
    let error = chunk(&file, "v", &[1, 1]).unwrap_err().to_string();
    let expected = format!(
        "test.nc, dataset \"v\", chunk [1, 1]: file length is {} bytes, expected at least {} bytes, \
         the end of this chunk",
        bytes.len() - 10,
        bytes.len() - 4
    );
    assert!(error.ends_with(&expected), "{error}");
    // Every prefix of a file can be opened, or is an error.
    let header = 160;
    for length in 0..header {
        refused(&bytes[..length.min(100)]);
    }
}

#[test]
fn malformed_headers_are_refused() {
    let new = || {
        let mut a = variable("a", &[0], NcType::Int, &[0; 12]);
        a.attributes.push(attribute("units", NcType::Char, b"K"));
        file(&[("x", 3)], vec![a])
    };
    let bytes = new().bytes();
    let find = |text: &[u8]| {
        bytes
            .windows(text.len())
            .position(|found| found == text)
            .unwrap()
    };
    let changed = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        refused(&bytes)
    };
    assert_eq!(
        changed(3, &[3]),
        "test.nc: magic is \"CDF\\x03\", expected \"CDF\" followed by the byte 1, 2 or 5"
    );
    assert_eq!(refused(b"CD"), refused(b"CD"));
    assert_eq!(
        changed(8, &[0, 0, 0, 12]),
        "test.nc: dim_list is a list with tag 12, expected the tag 10, or 0 for an absent list"
    );
    let many = changed(12, &[0x7f; 4]);
    assert!(
        many.contains("nelems is 2139062143 of at least 12 bytes each"),
        "{many}"
    );
    let name = changed(16, &[0x7f; 4]);
    assert!(
        name.contains("name length is 2139062143, expected 1 to 1024"),
        "{name}"
    );
    let variable = find(b"a\0\0\0");
    let dimension = changed(variable + 8, &[0, 0, 0, 9]);
    assert!(
        dimension
            .ends_with("dataset \"a\": dimid is 9, expected below 1, the number of dimensions"),
        "{dimension}"
    );
    let units = find(b"units");
    let kind = changed(units + 8, &[0, 0, 0, 7]);
    assert!(
        kind.ends_with(
            "dataset \"a\", attribute \"units\": nc_type is 7, expected a type from 1 (byte) to 6 in CDF-1"
        ),
        "{kind}"
    );
    let length = changed(units + 12, &[0, 0, 1, 0]);
    assert!(
        length.contains("nelems is 256 of at least 1 bytes each"),
        "{length}"
    );
    assert_eq!(
        refused(&bytes[..6]),
        "test.nc: numrecs is cut off, since the file has 6 bytes, expected 4 bytes at offset 4"
    );
}

#[test]
fn unusable_variables_are_left_out() {
    let dimensions = [("time", 0), ("x", 2), ("long", 2000)];
    let deep = [1; 65];
    let new = NewFile {
        records: 1,
        ..file(
            &dimensions,
            vec![
                variable("late", &[1, 0], NcType::Int, &[]),
                variable("deep", &deep, NcType::Int, &[]),
                variable("wide", &[1, 2], NcType::Char, &[b'a'; 4000]),
                variable("good", &[1], NcType::Short, &[0, 1, 0, 2]),
            ],
        )
    };
    let (_folder, path) = new.write();
    let file = open(&path);
    let names: Vec<_> = file.datasets().iter().map(Dataset::name).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(cells(&file, "good"), [1, 0, 2, 0]);
    for (warning, expected) in file.warnings().iter().zip([
        "dataset \"late\": dimids is the record dimension at index 1",
        "dataset \"deep\": dimids is a list of 65, expected at most 64 dimensions",
        "dataset \"wide\": length of strings is 2000, expected at most 1024",
    ]) {
        assert!(warning.contains(expected), "{warning}");
        assert!(warning.ends_with("the variable is left out"), "{warning}");
    }
}

/// A short header can claim any size, and can repeat a long name many times.
#[test]
fn claims_of_a_header_cost_nothing() {
    let dimensions = [("time", 0), ("x", u64::from(u32::MAX))];
    let new = NewFile {
        records: 4_000_000_000,
        ..file(
            &dimensions,
            vec![
                variable("v", &[0, 1, 1, 1], NcType::Double, &[]),
                variable("w", &[0], NcType::Double, &[]),
                variable("name", &[0, 1], NcType::Char, &[]),
            ],
        )
    };
    let error = refused(&new.bytes_of_header());
    assert!(error.contains("record size is too large"), "{error}");
    let long = "n".repeat(1000);
    let dimensions = [(long.as_str(), 1)];
    let deep = [0; 60];
    let variables = (0..40).map(|_| variable("v", &deep, NcType::Byte, &[0]));
    let error = refused(&file(&dimensions, variables.collect()).bytes());
    assert!(error.contains("makes 1049000 bytes in all"), "{error}");
}

/// Variables of a short file can all claim the same strings.
#[test]
fn strings_are_read_within_a_budget_for_the_file() {
    let length = 1 << 20;
    let dimensions = [("x", length)];
    let names: Vec<_> = (0..300).map(|number| format!("v{number}")).collect();
    // The variables without cells start where the last variable does.
    let mut variables = vec![variable("x", &[0], NcType::Byte, &[])];
    variables.extend(
        names
            .iter()
            .map(|name| variable(name, &[0], NcType::Char, &[])),
    );
    variables.push(variable(
        "cells",
        &[0],
        NcType::Byte,
        &vec![b'a'; length as usize],
    ));
    let (_folder, path) = file(&dimensions, variables).write();
    let file = open(&path);
    assert_eq!(file.datasets().len(), 1 + 32 + 256 + 1);
    let categories = |name| {
        let metadata = file.metadata(file.dataset(name).unwrap()).unwrap();
        let categories = Categories::of(&metadata.attrs).unwrap().unwrap();
        categories.len()
    };
    assert_eq!([categories("v31"), categories("v32")], [1, 256]);
    let warning = &file.warnings()[0];
    let expected = "size of strings is 1048576, expected at most 0; the variable is left out";
    assert!(warning.ends_with(expected), "{warning}");
}
