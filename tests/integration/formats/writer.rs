//! `TetWriter`: a partly written file is never visible, and misuse is an error that names the
//! mistake.

use std::path::Path;

use tet_sql::Error;
use tet_sql::format::tet::{DatasetSpec, Dtype, OpenOptions, TetFile, TetWriter};

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn two_chunks() -> Vec<DatasetSpec> {
    vec![DatasetSpec::new("a", Dtype::U8, &[3], &[2])]
}

#[track_caller]
fn assert_says<T>(result: Result<T, Error>, words: &[&str]) {
    let error = result.err().expect("an error").to_string();
    for word in words {
        assert!(error.contains(word), "\"{error}\", expected: {word}");
    }
}

#[test]
fn a_dropped_writer_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let mut writer = TetWriter::create(&path, two_chunks()).unwrap();
    writer.write_chunk(0, &[0], &[1, 2]).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert_eq!(names_in(folder.path()), [] as [&str; 0]);
}

#[test]
fn target_is_replaced_only_by_finish() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    std::fs::write(&path, "what was there").unwrap();

    let mut writer = TetWriter::create(&path, two_chunks()).unwrap();
    writer.write_dataset(0, &[1, 2, 3]).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"what was there");
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), b"what was there");
    assert_eq!(names_in(folder.path()), ["a.tet"]);

    // Chunk 0 is never written.
    let mut writer = TetWriter::create(&path, two_chunks()).unwrap();
    writer.write_chunk(0, &[1], &[3]).unwrap();
    assert_says(
        writer.finish(),
        &[
            "a.tet",
            "dataset \"a\"",
            "chunk number 0 of 2",
            "never written",
        ],
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"what was there");
    assert_eq!(names_in(folder.path()), ["a.tet"]);

    let mut writer = TetWriter::create(&path, two_chunks()).unwrap();
    writer.write_dataset(0, &[1, 2, 3]).unwrap();
    writer.finish().unwrap();
    assert_eq!(names_in(folder.path()), ["a.tet"]);
    let file = TetFile::open(&path, OpenOptions::default()).unwrap();
    assert_eq!(file.dataset("a").unwrap().shape(), [3]);
}

#[test]
fn open_readers_keep_the_replaced_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let write = |specs, cells: &[u8]| {
        let mut writer = TetWriter::create(&path, specs).unwrap();
        writer.write_dataset(0, cells).unwrap();
        writer.finish().unwrap();
    };
    write(two_chunks(), &[1, 2, 3]);
    let before = TetFile::open(&path, OpenOptions::default()).unwrap();
    write(vec![DatasetSpec::new("b", Dtype::U8, &[1], &[1])], &[9]);
    let dataset = before.dataset("a").unwrap();
    let row = before.chunk_row(dataset, &[1], Default::default()).unwrap();
    assert_eq!(row.raw_bytes, 1);
    assert!(
        TetFile::open(&path, OpenOptions::default())
            .unwrap()
            .dataset("b")
            .is_some()
    );
}

#[test]
fn missing_directories_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent").join("a.tet");
    assert_says(
        TetWriter::create(&path, two_chunks()),
        &["absent", "cannot create"],
    );
}

#[test]
fn errors_name_misused_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let mut writer = TetWriter::create(&path, two_chunks()).unwrap();
    let place = "dataset \"a\", chunk [1]";
    assert_says(
        writer.write_chunk(0, &[1], &[1, 2]),
        &[place, "2 bytes of cells, expected 1"],
    );
    assert_says(
        writer.write_chunk(0, &[2], &[1]),
        &["chunk [2]", "outside the chunk grid"],
    );
    assert_says(
        writer.write_chunk(0, &[0, 0], &[1]),
        &["chunk [0, 0]", "outside the chunk grid"],
    );
    assert_says(
        writer.write_chunk(1, &[0], &[1]),
        &["no dataset with index 1"],
    );
    assert_says(
        writer.write_dataset(0, &[1, 2]),
        &["dataset \"a\"", "2 bytes of cells, expected 3"],
    );
    assert_says(writer.write_dataset(1, &[]), &["no dataset with index 1"]);
    writer.write_chunk(0, &[1], &[3]).unwrap();
    assert_says(writer.write_chunk(0, &[1], &[3]), &[place, "written twice"]);
    // None of these errors has damaged the file.
    writer.write_chunk(0, &[0], &[1, 2]).unwrap();
    writer.finish().unwrap();
    TetFile::open(&path, OpenOptions::default()).unwrap();
}

#[test]
fn errors_name_invalid_dataset_specs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let spec =
        |shape: &[u64], chunk_shape: &[u64]| DatasetSpec::new("a", Dtype::U8, shape, chunk_shape);
    let labels = |count: u32| (0..count).map(|label| label.to_string());
    for (specs, words) in [
        (
            vec![spec(&[65], &[65]).with_labels("0", labels(65))],
            ["65 labels on axis \"0\"", "the format allows 64"],
        ),
        (
            vec![spec(&[3], &[2]).with_labels("0", labels(2))],
            ["2 labels on axis \"0\"", "3"],
        ),
        (
            vec![spec(&[3], &[2]).with_labels("lat", labels(3))],
            ["3 labels on axis \"lat\"", "is not an axis of the dataset"],
        ),
        (
            vec![spec(&[3], &[2]).with_dim_names(["x", "y"])],
            ["2 dimension names", "1 dimensions"],
        ),
        (
            vec![spec(&[3, 3], &[2, 2]).with_dim_names(["x", "x"])],
            ["two dimensions", "\"x\""],
        ),
        (
            vec![spec(&[1 << 50], &[1])],
            ["no memory", "1125899906842624 chunks"],
        ),
        (
            vec![spec(&[3, 3], &[2])],
            ["shape [3, 3]", "chunk shape [2]"],
        ),
        (vec![spec(&[], &[])], ["shape []", "1 to 8 dimensions"]),
        (
            vec![spec(&[1; 9], &[1; 9])],
            ["shape [1, 1", "1 to 8 dimensions"],
        ),
        (vec![spec(&[0], &[1])], ["shape [0]", "above zero"]),
        (vec![spec(&[1], &[0])], ["chunk shape [0]", "above zero"]),
        (
            vec![spec(&[1 << 40, 1 << 40], &[1, 1])],
            ["shape [", "too large"],
        ),
        (
            vec![spec(&[1], &[1]), spec(&[1], &[1])],
            ["two datasets", "\"a\""],
        ),
        (
            vec![DatasetSpec::new("", Dtype::U8, &[1], &[1])],
            ["name", "empty"],
        ),
    ] {
        assert_says(TetWriter::create(&path, specs), &words);
        assert_eq!(names_in(folder.path()), [] as [&str; 0]);
    }
    let most = spec(&[64], &[64]).with_labels("0", labels(64));
    assert!(TetWriter::create(&path, vec![most]).is_ok());
}
