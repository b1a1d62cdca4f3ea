//! Chunks of large files are read through a memory map, with the same results as positioned reads.

use std::path::Path;
use std::sync::Arc;

use tet_sql::format::array::{ArrayFile, ChunkReader};
use tet_sql::format::io::storage::Access;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tet_sql::format::zarr::{OutwardLinks, ZarrFile, ZarrVersion, ZarrWriteOptions, ZarrWriter};

use crate::tables::exploded::Random;

/// Cells per chunk: 400,000 random bytes, which zstd cannot make small.
const CHUNK: u64 = 100_000;

fn write(path: &Path, version: ZarrVersion, compression: Compression, cells: &[u8]) {
    let extent = cells.len() as u64 / 4;
    let spec = DatasetSpec::new("a", Dtype::U32, &[extent], &[CHUNK]).with_compression(compression);
    let mut writer = ZarrWriter::create(path, vec![spec], ZarrWriteOptions { version }).unwrap();
    writer.write_dataset(0, cells).unwrap();
    writer.finish().unwrap();
}

fn random_bytes(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.next() as u8).collect()
}

fn open(path: &Path, access: Access) -> Arc<dyn ArrayFile> {
    Arc::new(ZarrFile::open(path, access, OutwardLinks::Follow).unwrap())
}

/// Reads all chunks, one after another with the same reader.
fn read(reader: &mut ChunkReader, file: &Arc<dyn ArrayFile>) -> tet_sql::error::Result<Vec<u8>> {
    let dataset = &file.datasets()[0];
    let mut cells = Vec::new();
    for chunk in 0..dataset.chunk_grid()[0] {
        let stored = reader.open(dataset, &[chunk])?;
        while !reader.advance()? {}
        cells.extend_from_slice(reader.cells(0..stored.raw_bytes as usize)?);
    }
    Ok(cells)
}

#[test]
fn mapped_chunks_have_the_cells_of_read_ones() {
    let mut random = Random(3);
    // Two whole chunks, and one that is clipped and so decoded in a buffer.
    let cells = random_bytes(&mut random, 4 * (2 * CHUNK as usize + 5));
    let others = random_bytes(&mut random, cells.len());
    for version in [ZarrVersion::V2, ZarrVersion::V3] {
        for compression in [Compression::Raw, Compression::ZSTD] {
            let folder = tempfile::tempdir().unwrap();
            let [path, other] = ["a.zarr", "b.zarr"].map(|name| folder.path().join(name));
            write(&path, version, compression, &cells);
            write(&other, version, compression, &others);
            let first_chunk = match version {
                ZarrVersion::V2 => "a/0",
                ZarrVersion::V3 => "a/c/0",
            };
            let stored = std::fs::read(path.join(first_chunk)).unwrap();
            for access in [Access::Mmap, Access::Pread] {
                std::fs::write(path.join(first_chunk), &stored).unwrap();
                let file = open(&path, access);
                let mut reader = ChunkReader::new(Arc::clone(&file), access);
                assert!(read(&mut reader, &file).unwrap() == cells);
                let dataset = &file.datasets()[0];
                reader.open(dataset, &[0]).unwrap();
                let is_mapped = access == Access::Mmap && compression == Compression::Raw;
                assert_eq!(reader.mapped().is_some(), is_mapped);

                // A chunk file that another one replaces is read anew.
                let replacement = folder.path().join("replacement");
                std::fs::copy(other.join(first_chunk), &replacement).unwrap();
                std::fs::rename(&replacement, path.join(first_chunk)).unwrap();
                let first = 4 * CHUNK as usize;
                let expected = [&others[..first], &cells[first..]].concat();
                assert!(read(&mut reader, &file).unwrap() == expected);

                // A truncated chunk file is read anew as well, and its cells are incomplete.
                let short = &stored[..300_000];
                std::fs::write(&replacement, short).unwrap();
                std::fs::rename(&replacement, path.join(first_chunk)).unwrap();
                let error = read(&mut reader, &file).unwrap_err().to_string();
                assert!(error.contains("dataset \"a\", chunk [0]"), "{error}");
            }
        }
    }
}

#[test]
fn big_endian_cells_are_converted_and_not_mapped() {
    let mut random = Random(4);
    let cells = random_bytes(&mut random, 4 * CHUNK as usize);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    write(&path, ZarrVersion::V2, Compression::Raw, &cells);
    let document = path.join("a/.zarray");
    let text = std::fs::read_to_string(&document).unwrap();
    std::fs::write(&document, text.replace("<u4", ">u4")).unwrap();
    let file = open(&path, Access::Mmap);
    let mut reader = ChunkReader::new(Arc::clone(&file), Access::Mmap);
    let swapped: Vec<u8> = cells
        .chunks_exact(4)
        .flat_map(|cell| cell.iter().rev().copied())
        .collect();
    assert!(read(&mut reader, &file).unwrap() == swapped);
}

/// Chunks of a shard are read at their offset in the shard's map, which need not be aligned.
#[test]
fn chunks_of_shards_are_mapped() {
    let mut random = Random(5);
    let cells = random_bytes(&mut random, 4 * 4 * CHUNK as usize);
    let bytes = serde_json::json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zstd =
        serde_json::json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    for codecs in [vec![bytes.clone()], vec![bytes.clone(), zstd]] {
        let folder = tempfile::tempdir().unwrap();
        let is_raw = codecs.len() == 1;
        let document = serde_json::json!({
            "zarr_format": 3, "node_type": "array",
            "shape": [4 * CHUNK], "data_type": "uint32", "fill_value": 7,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2 * CHUNK]}},
            "chunk_key_encoding": {"name": "default"},
            "codecs": [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": [CHUNK], "codecs": codecs, "index_codecs": [bytes],
            }}],
        });
        std::fs::write(folder.path().join("zarr.json"), document.to_string()).unwrap();
        std::fs::create_dir(folder.path().join("c")).unwrap();
        // The second chunk of the last shard is absent.
        let chunks: Vec<&[u8]> = cells.chunks(4 * CHUNK as usize).take(3).collect();
        for (shard, chunks) in chunks.chunks(2).enumerate() {
            let mut file = vec![1, 2, 3];
            let mut index = Vec::new();
            for chunk in chunks {
                let stored = match is_raw {
                    true => chunk.to_vec(),
                    false => zstd::bulk::compress(chunk, 1).unwrap(),
                };
                index.extend([file.len() as u64, stored.len() as u64]);
                file.extend(stored);
            }
            index.resize(4, u64::MAX);
            file.extend(index.iter().flat_map(|number| number.to_le_bytes()));
            std::fs::write(folder.path().join(format!("c/{shard}")), file).unwrap();
        }
        let mut expected = cells[..3 * 4 * CHUNK as usize].to_vec();
        expected.extend(7u32.to_le_bytes().repeat(CHUNK as usize));
        for access in [Access::Mmap, Access::Pread] {
            let file = open(folder.path(), access);
            let mut reader = ChunkReader::new(Arc::clone(&file), access);
            assert!(read(&mut reader, &file).unwrap() == expected);
            reader.open(&file.datasets()[0], &[1]).unwrap();
            assert_eq!(reader.mapped().is_some(), is_raw && access == Access::Mmap);
        }
    }
}
