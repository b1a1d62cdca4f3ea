//! Introspection agrees with the `tetration` crate on the same files.

use std::fs;

use tet_sql::ArrayOptions;
use tet_sql::format::tet::Dtype;

use super::quoted;
use crate::formats::reference::Reference;
use crate::support::cells::data;
use crate::support::sql::{open, rows};

/// Files that the reference implementation can read: both codecs, clipped chunks, and several
/// datasets.
const FILES: [&str; 6] = [
    "weather_small.tet",
    "coordvars.tet",
    "specials_f64.tet",
    "converted/era.h5.tet",
    "dtypes/dtype_f16_zstd.tet",
    "dtypes/dtype_u64_raw.tet",
];

#[tokio::test]
async fn chunks_match_the_reference() {
    for name in FILES {
        let ctx = open(&data(name), ArrayOptions::new()).await;
        let reference = Reference::open(&data(name));
        for (id, dataset) in reference.summary.datasets.iter().enumerate() {
            let rank = dataset.shape.len();
            let mut expected: Vec<_> = reference
                .summary
                .chunks
                .iter()
                .filter(|row| row.dataset_id == id as u64)
                .map(|row| {
                    let chunk = &row.chunk_index[..rank];
                    let start: Vec<_> = chunk
                        .iter()
                        .zip(&dataset.chunk_shape)
                        .map(|(position, size)| position * size)
                        .collect();
                    let extent: Vec<_> = start
                        .iter()
                        .zip(dataset.shape.iter().zip(&dataset.chunk_shape))
                        .map(|(start, (length, size))| (length - start).min(*size))
                        .collect();
                    let codec = if row.codec == 0 { "raw" } else { "zstd" };
                    format!(
                        "{} {chunk:?} {start:?} {extent:?} {} {codec} {} {} {} NULL",
                        dataset.name,
                        extent.iter().product::<u64>(),
                        row.payload_offset,
                        row.stored_byte_len,
                        row.raw_byte_len
                    )
                })
                .collect();
            let sql = format!(
                "SELECT dataset, chunk, start, extent, cells, codec, payload_offset, stored_bytes, raw_bytes, problem \
                 FROM tet_chunks('{}')",
                quoted(&dataset.name)
            );
            let mut found = rows(&ctx, &sql).await;
            assert_eq!(found.len(), expected.len(), "{name} {}", dataset.name);
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn datasets_match_the_reference() {
    for name in FILES {
        let ctx = open(&data(name), ArrayOptions::new()).await;
        let reference = Reference::open(&data(name));
        let expected: Vec<_> = reference
            .summary
            .datasets
            .iter()
            .enumerate()
            .map(|(id, dataset)| {
                let chunks: Vec<_> = reference
                    .summary
                    .chunks
                    .iter()
                    .filter(|row| row.dataset_id == id as u64)
                    .collect();
                let stored: u64 = chunks.iter().map(|row| row.stored_byte_len).sum();
                let raw: u64 = chunks.iter().map(|row| row.raw_byte_len).sum();
                let attributes = reference.summary.metadata.datasets.get(&dataset.name);
                let attribute = |key: &str| {
                    let text = attributes.and_then(|metadata| metadata.attrs.get(key));
                    text.map_or("NULL", String::as_str).to_string()
                };
                format!(
                    "{0} {0} {1} {2:?} {3:?} {4} {stored} {raw} {5} {6} []",
                    dataset.name,
                    Dtype::from_tag(dataset.dtype).unwrap(),
                    dataset.shape,
                    dataset.chunk_shape,
                    chunks.len(),
                    attribute("units"),
                    attribute("long_name"),
                )
            })
            .collect();
        let sql = "SELECT table_name, dataset, stored_type, shape, chunk_shape, chunks, stored_bytes, raw_bytes, units, \
                   long_name, problems FROM tet_datasets() WHERE dataset IS NOT NULL";
        assert_eq!(rows(&ctx, sql).await, expected, "{name}");
        let summed = "SELECT datasets, chunks, stored_bytes, problem FROM tet_files()";
        let length = fs::metadata(data(name)).unwrap().len();
        let (datasets, chunks) = (expected.len(), reference.summary.chunks.len());
        assert_eq!(
            rows(&ctx, summed).await,
            [format!("{datasets} {chunks} {length} NULL")]
        );
    }
}

#[tokio::test]
async fn history_and_attributes_match_the_reference() {
    for name in FILES {
        let ctx = open(&data(name), ArrayOptions::new()).await;
        let reference = Reference::open(&data(name));
        let history = reference.summary.history.iter().enumerate();
        let expected: Vec<_> = history
            .map(|(position, step)| format!("{position} {} {} {}", step.op, step.source, step.at))
            .collect();
        let sql = "SELECT position, op, source, at FROM tet_history() ORDER BY position";
        assert_eq!(rows(&ctx, sql).await, expected, "{name}");
        let mut expected = Vec::new();
        for dataset in reference.names() {
            let metadata = reference.summary.metadata.datasets.get(&dataset);
            for (key, value) in metadata.iter().flat_map(|metadata| &metadata.attrs) {
                expected.push(format!("{dataset} {key} {value}"));
            }
        }
        expected.sort();
        let sql = "SELECT dataset, key, value FROM tet_attributes() WHERE dataset = table_name";
        let mut found = rows(&ctx, sql).await;
        found.sort();
        assert_eq!(found, expected, "{name}");
    }
    // `time` and the seconds in `at` are the same instants.
    let ctx = open(&data("weather_small.tet"), ArrayOptions::new()).await;
    let sql = "SELECT count(*), bool_and(at::BIGINT = to_unixtime(time)) FROM tet_history()";
    assert!(rows(&ctx, sql).await[0].ends_with(" true"));
}
