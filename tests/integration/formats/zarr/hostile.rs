//! Zarr directories with invalid metadata or chunks.

use std::path::Path;

use serde_json::{Value, json};
use tet_sql::format::zarr::ZarrHierarchy;

use super::stores::cells;
use crate::support::memory::measure;

const MAX_BYTES: usize = 64 << 20;

fn array_v3() -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": ["bytes"],
    })
}

fn array_v2() -> Value {
    json!({
        "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|u1", "compressor": null, "fill_value": 0,
        "order": "C", "filters": null,
    })
}

fn sharding(chunk_shape: Value) -> Value {
    json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": chunk_shape, "codecs": ["bytes"], "index_codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}}, "crc32c",
        ],
    }}])
}

fn set(document: &Value, pointer: &str, value: Value) -> Value {
    let mut document = document.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap()[key] = value;
    document
}

/// Writes a hierarchy with a valid array `a` and an array `b` with the given metadata document.
fn hierarchy(folder: &Path, b: &Value) {
    let (name, sound) = match b.get("zarr_format").and_then(Value::as_u64) {
        Some(2) => (".zarray", array_v2()),
        _ => ("zarr.json", array_v3()),
    };
    std::fs::write(folder.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    for (array, document) in [("a", &sound), ("b", b)] {
        std::fs::create_dir(folder.join(array)).unwrap();
        std::fs::write(folder.join(array).join(name), document.to_string()).unwrap();
    }
}

/// Returns the warning with which an array with this metadata document is left out.
fn warning(b: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    hierarchy(folder.path(), b);
    let (opened, allocated) = measure(|| ZarrHierarchy::open(folder.path()).unwrap());
    assert!(allocated.most_held < MAX_BYTES, "{b}");
    assert_eq!(opened.arrays().len(), 1, "{b}");
    assert_eq!(opened.arrays()[0].name(), "a");
    assert_eq!(opened.warnings().len(), 1, "{b}");
    opened.warnings()[0].clone()
}

#[test]
fn arrays_with_broken_metadata_are_left_out() {
    let (v2, v3) = (array_v2(), array_v3());
    let grid = "/chunk_grid/configuration/chunk_shape";
    for (document, expected) in [
        (set(&v3, "/shape", json!([-1])), "shape is [-1]"),
        (set(&v3, "/shape", json!(["4"])), "shape is [\"4\"]"),
        (set(&v3, "/shape", json!([4.5])), "shape is [4.5]"),
        (set(&v3, "/shape", Value::Null), "shape is null"),
        (
            set(&v3, "/shape", json!(vec![1; 65])),
            "expected up to 64 whole numbers",
        ),
        (
            set(&v3, "/shape", json!([u64::MAX, 2])),
            "above zero for each dimension",
        ),
        (
            set(&v3, "/data_type", json!({"name": "structured"})),
            "data_type is",
        ),
        (set(&v3, "/data_type", json!(7)), "data_type is 7"),
        (set(&v3, grid, json!([0])), "chunk_shape is [0]"),
        (set(&v3, grid, json!([-2])), "chunk_shape is [-2]"),
        (
            set(&v3, grid, json!([2, 2])),
            "above zero for each dimension",
        ),
        (
            set(&v3, "/chunk_grid/name", json!("rectilinear")),
            "expected a regular one",
        ),
        (
            set(&v3, "/chunk_key_encoding", json!({"name": "secret"})),
            "secret",
        ),
        (set(&v3, "/fill_value", json!(300)), "fill"),
        (
            set(&v3, "/codecs", json!([])),
            "no codec between cells and bytes",
        ),
        (
            set(&v3, "/codecs", json!(["bytes", "bytes"])),
            "two codecs between cells and bytes",
        ),
        (set(&v3, "/codecs", json!(["secret"])), "secret"),
        (set(&v3, "/codecs", json!([{}])), "has no name"),
        (
            set(&v3, "/codecs", json!(vec!["crc32c"; 100])),
            "more than 32 codecs",
        ),
        (set(&v3, "/codecs", sharding(json!([0]))), "above zero"),
        (
            set(&v3, "/codecs", sharding(json!([3]))),
            "expected divisors of [2]",
        ),
        (
            set(&v3, "/codecs", sharding(json!([1, 1]))),
            "expected divisors of [2]",
        ),
        (
            set(&v3, "/storage_transformers", json!([{"name": "x"}])),
            "expected none",
        ),
        (
            set(&v3, "/node_type", json!("thing")),
            "expected \"array\" or \"group\"",
        ),
        (set(&v3, "/zarr_format", json!(4)), "zarr_format is 4"),
        (set(&v2, "/shape", json!([-1])), "shape is [-1]"),
        (set(&v2, "/chunks", json!([0])), "chunks is [0]"),
        (set(&v2, "/dtype", json!("<c8")), "dtype is \"<c8\""),
        (set(&v2, "/dtype", json!([["x", "<f4"]])), "dtype is"),
        (set(&v2, "/dtype", json!("|O")), "expected vlen-utf8"),
        (set(&v2, "/order", json!("Z")), "Z"),
        (set(&v2, "/compressor", json!({"id": "secret"})), "secret"),
        (set(&v2, "/compressor", json!("zlib")), "left out"),
        (
            set(&v2, "/filters", json!([{"id": "delta", "dtype": "|u1"}])),
            "delta",
        ),
        (set(&v2, "/dimension_separator", json!("x")), "left out"),
    ] {
        let warning = warning(&document);
        assert!(warning.contains("\"b\" is left out"), "{warning}");
        assert!(warning.contains(expected), "{document}: {warning}");
        assert!(warning.len() < 1000);
    }
}

#[test]
fn huge_chunks_are_refused_before_allocation() {
    for document in [
        set(
            &set(&array_v2(), "/chunks", json!([1u64 << 62])),
            "/shape",
            json!([1u64 << 62]),
        ),
        set(&array_v2(), "/chunks", json!([u64::MAX])),
        set(&array_v2(), "/chunks", json!([1u64 << 40])),
    ] {
        let folder = tempfile::tempdir().unwrap();
        hierarchy(folder.path(), &document);
        let opened = ZarrHierarchy::open(folder.path()).unwrap();
        let (message, allocated) = measure(|| {
            opened
                .read_chunk(1, &[0], &mut Vec::new())
                .unwrap_err()
                .to_string()
        });
        assert!(allocated.most_held < MAX_BYTES);
        assert!(
            message.contains("dataset \"b\", chunk [0]: chunk shape is"),
            "{message}"
        );
        assert!(message.contains("at most 2147483648 bytes"), "{message}");
    }
    // The size of strings is checked before they are read.
    for dtype in ["<U1000000", "|S1000000"] {
        let document = set(&array_v2(), "/shape", json!([1u64 << 16]));
        let document = set(&document, "/chunks", json!([1u64 << 16]));
        let warning = warning(&set(&document, "/dtype", json!(dtype)));
        assert!(warning.contains("at most 2147483648 bytes"), "{warning}");
    }
    let document = set(
        &set(&array_v2(), "/shape", json!([65_537])),
        "/dtype",
        json!("<U1"),
    );
    assert!(warning(&document).contains("65537 strings, more than 65536"));
}

#[test]
fn errors_of_broken_chunks_name_dataset_and_chunk() {
    let zstd = zstd_frame(&[1, 2, 3]);
    let sharded = set(&array_v3(), "/codecs", sharding(json!([1])));
    let entry = |offset: u64, length: u64| [offset.to_le_bytes(), length.to_le_bytes()].concat();
    let shard = |entries: [Vec<u8>; 2]| [&[5, 6][..], &with_checksum(&entries.concat())].concat();
    let compressed = set(
        &array_v3(),
        "/codecs",
        json!(["bytes", {"name": "zstd", "configuration": {"level": 1, "checksum": false}}]),
    );
    for (document, chunk, expected) in [
        (array_v3(), vec![1], "1 bytes, expected 2"),
        (array_v3(), vec![1, 2, 3], "3 bytes, expected 2"),
        (array_v3(), vec![], "0 bytes, expected 2"),
        (compressed.clone(), zstd, "room for"),
        (compressed, b"no zstd".to_vec(), "undecodable"),
        (sharded.clone(), vec![1, 2, 3], "too short for its index"),
        (
            sharded.clone(),
            shard([entry(0, 1), entry(1, u64::MAX - 1)]),
            "at 1 of a shard of 38 bytes",
        ),
        (
            sharded.clone(),
            shard([entry(0, 1), entry(u64::MAX, 3)]),
            "of a shard of 38 bytes",
        ),
        (
            sharded.clone(),
            shard([entry(0, 1), entry(0, 2)]),
            "2 bytes, expected 1",
        ),
        (
            sharded,
            [vec![5, 6], entry(0, 1), entry(1, 1), vec![0; 4]].concat(),
            "shard index is broken",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        hierarchy(folder.path(), &document);
        std::fs::create_dir(folder.path().join("b/c")).unwrap();
        std::fs::write(folder.path().join("b/c/0"), chunk).unwrap();
        let opened = ZarrHierarchy::open(folder.path()).unwrap();
        let last = opened.arrays()[1].chunk_grid()[0] / 2 - 1;
        let message = opened
            .read_chunk(1, &[last], &mut Vec::new())
            .unwrap_err()
            .to_string();
        assert!(message.contains("dataset \"b\""), "{message}");
        assert!(message.contains(expected), "{message}");
        // The other chunk is absent, so its cells are fill values.
        let mut cells = Vec::new();
        opened
            .read_chunk(1, &[opened.arrays()[1].chunk_grid()[0] - 1], &mut cells)
            .unwrap();
        assert!(cells.iter().all(|cell| *cell == 0));
    }
    let folder = tempfile::tempdir().unwrap();
    hierarchy(folder.path(), &array_v3());
    std::fs::create_dir_all(folder.path().join("b/c/0")).unwrap();
    let opened = ZarrHierarchy::open(folder.path()).unwrap();
    let message = opened
        .read_chunk(1, &[0], &mut Vec::new())
        .unwrap_err()
        .to_string();
    assert!(message.contains("chunk is not a file"), "{message}");
}

/// Each codec of a long chain may expand its input, but no step may produce much more than the
/// bytes of a chunk.
#[test]
fn stacked_codecs_are_bounded_by_the_chunk() {
    use std::io::Write;
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    const COUNT: usize = 20;
    let mut codecs = vec![json!("bytes")];
    let one = json!({"name": "gzip", "configuration": {"level": 1}});
    codecs.extend(std::iter::repeat_n(one, COUNT));
    let document = set(&array_v3(), "/codecs", json!(codecs));
    let sound = (0..COUNT).fold(vec![1, 2], |bytes, _| gzip(&bytes));
    // A step that expands to 64 MiB: the first one, or one in the middle.
    let bomb = |outer: usize| (0..outer).fold(gzip(&vec![0; 64 << 20]), |bytes, _| gzip(&bytes));
    for (stored, is_sound) in [(sound, true), (bomb(0), false), (bomb(10), false)] {
        let folder = tempfile::tempdir().unwrap();
        hierarchy(folder.path(), &document);
        std::fs::create_dir(folder.path().join("b/c")).unwrap();
        std::fs::write(folder.path().join("b/c/0"), &stored).unwrap();
        let opened = ZarrHierarchy::open(folder.path()).unwrap();
        let mut cells = Vec::new();
        let (read, allocated) = measure(|| opened.read_chunk(1, &[0], &mut cells));
        match is_sound {
            true => assert_eq!(read.map(|()| cells).unwrap(), [1, 2]),
            false => {
                let error = read.unwrap_err().to_string();
                assert!(error.contains("room for"), "{error}");
            }
        }
        assert!(allocated.most_held < 2 << 20, "{}", allocated.most_held);
    }
}

fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
    // Magic number, frame header with a one-byte content size, and one raw block marked as the
    // last.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, bytes.len() as u8];
    frame.extend_from_slice(&((bytes.len() as u32) << 3 | 1).to_le_bytes()[..3]);
    frame.extend_from_slice(bytes);
    frame
}

/// Returns the bytes followed by their CRC-32C.
fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut checksum = !0u32;
    for byte in bytes {
        checksum ^= u32::from(*byte);
        for _ in 0..8 {
            checksum = checksum >> 1 ^ if checksum & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    [bytes, &(!checksum).to_le_bytes()].concat()
}

#[test]
fn paths_that_are_not_hierarchies_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| ZarrHierarchy::open(path).unwrap_err().to_string();
    let message = open(folder.path());
    assert!(message.contains("expected a Zarr hierarchy"), "{message}");
    assert!(open(&folder.path().join("absent")).contains("cannot open"));
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert!(open(&file).contains("path is not a directory"));
    for (content, expected) in [
        ("", "unreadable"),
        ("[1]", "expected a JSON object"),
        (r#"{"zarr_format": 3}"#, "node_type is absent"),
        (
            r#"{"zarr_format": 3, "node_type": "array"}"#,
            "unusable (data_type is null",
        ),
    ] {
        std::fs::write(folder.path().join("zarr.json"), content).unwrap();
        let message = open(folder.path());
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn deep_groups_and_link_cycles_terminate() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".zgroup"), "{}").unwrap();
    let mut path = folder.path().to_path_buf();
    for depth in 0..40 {
        path.push("g");
        std::fs::create_dir(&path).unwrap();
        if depth % 10 == 0 {
            std::fs::create_dir(path.join("a")).unwrap();
            std::fs::write(path.join("a/.zarray"), array_v2().to_string()).unwrap();
        }
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), folder.path().join("g/loop")).unwrap();
    let opened = ZarrHierarchy::open(folder.path()).unwrap();
    assert_eq!(opened.arrays().len(), 4);
    assert_eq!(cells(&opened, 0), [0; 4]);
    assert_eq!(opened.warnings().len(), 1, "{:?}", opened.warnings());
    assert!(
        opened.warnings()[0].contains("more than 32 groups"),
        "{:?}",
        opened.warnings()
    );
}

#[test]
fn damaged_attributes_of_groups_hide_no_arrays() {
    let directory = tempfile::tempdir().unwrap();
    for group in ["", "g"] {
        let group = directory.path().join(group);
        std::fs::create_dir_all(group.join("a")).unwrap();
        std::fs::write(group.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
        std::fs::write(group.join(".zattrs"), r#"{"title": "#).unwrap();
        std::fs::write(group.join("a/.zarray"), array_v2().to_string()).unwrap();
    }
    let opened = ZarrHierarchy::open(directory.path()).unwrap();
    let names: Vec<&str> = opened.arrays().iter().map(|array| array.name()).collect();
    assert_eq!(names, ["a", "g/a"]);
    assert_eq!(opened.warnings().len(), 2, "{:?}", opened.warnings());
    for (warning, group) in opened.warnings().iter().zip(["", "g"]) {
        let expected = format!("the attributes of the group {group:?} are left out");
        assert!(
            warning.contains(&expected) && warning.contains(".zattrs"),
            "{warning}"
        );
    }
}

#[test]
fn consolidated_names_outside_the_store_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = json!({
        "../out/.zarray": array_v2(), "/etc/.zarray": array_v2(), "a//b/.zarray": array_v2(),
        "fine/.zarray": array_v2(), "fine/.zattrs": 3, ".zgroup": {},
    });
    std::fs::write(
        folder.path().join(".zmetadata"),
        json!({"metadata": metadata}).to_string(),
    )
    .unwrap();
    let opened = ZarrHierarchy::open(folder.path()).unwrap();
    let names: Vec<&str> = opened.arrays().iter().map(|array| array.name()).collect();
    assert_eq!((names, opened.warnings().len()), (vec!["fine"], 3));
}
