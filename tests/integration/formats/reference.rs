//! The `tetration` crate as an independent reader of `.tet` files.

use std::path::Path;

use tet_sql::format::tet::Dtype;
use tetration::catalog::{CHUNK_PAYLOAD_CODEC_V1, TetFile, TetFileSummaryV1};
use tetration::query::{ExecuteQueryOptions, QueryExecutionPreview, execute_query_json};
use tetration::verify::{TetVerifyReport, VerifyOptions, verify_tet_file_with_options};

use crate::support::npy::slice_indices;

/// A file opened by the `tetration` crate.
pub struct Reference {
    file: TetFile,
    pub summary: TetFileSummaryV1,
}

/// A dataset as decoded by the `tetration` crate, row-major.
pub struct ReferenceArray {
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

impl Reference {
    pub fn open(path: &Path) -> Self {
        let file = TetFile::open(path).unwrap();
        let summary = file.summary().unwrap();
        Self { file, summary }
    }

    pub fn names(&self) -> Vec<String> {
        let datasets = self.summary.datasets.iter();
        datasets.map(|dataset| dataset.name.clone()).collect()
    }

    /// Returns all cells of a dataset.
    ///
    /// The crate decodes the chunks and reports their indices. They are assembled here because the
    /// crate cannot assemble an array that contains NaN.
    pub fn array(&self, dataset: &str) -> ReferenceArray {
        let id = self
            .names()
            .iter()
            .position(|name| name == dataset)
            .unwrap();
        let record = &self.summary.datasets[id];
        let dtype = Dtype::from_tag(record.dtype).unwrap();
        let size = dtype.size() as usize;
        let cells: u64 = record.shape.iter().product();
        let mut bytes = vec![0; cells as usize * size];
        for row in self
            .summary
            .chunks
            .iter()
            .filter(|row| row.dataset_id == id as u64)
        {
            let start = row.payload_offset as usize;
            let stored = &self.file.mmap()[start..start + row.stored_byte_len as usize];
            let decoded = CHUNK_PAYLOAD_CODEC_V1
                .decode_tile_payload(stored, row.raw_byte_len, row.stored_byte_len, row.codec)
                .unwrap();
            let ranges: Vec<_> = row.chunk_index[..record.shape.len()]
                .iter()
                .zip(record.shape.iter().zip(&record.chunk_shape))
                .map(|(chunk, (extent, size))| chunk * size..((chunk + 1) * size).min(*extent))
                .collect();
            let positions = slice_indices(&record.shape, &ranges);
            assert_eq!(decoded.len(), positions.len() * size);
            for (cell, position) in decoded.chunks_exact(size).zip(positions) {
                bytes[position * size..(position + 1) * size].copy_from_slice(cell);
            }
        }
        ReferenceArray {
            dtype,
            shape: record.shape.clone(),
            bytes,
        }
    }

    /// Executes one of the crate's own JSON queries.
    pub fn query(&self, json: &str) -> QueryExecutionPreview {
        let options = ExecuteQueryOptions::execute_no_preview();
        let response =
            execute_query_json(json, self.file.path(), self.file.mmap(), options, None).unwrap();
        assert!(response.accepted, "{json}: {}", response.message);
        response.execution.unwrap()
    }
}

/// Returns the crate's verification report for a file, with every chunk decoded.
pub fn verify(path: &Path) -> TetVerifyReport {
    verify_tet_file_with_options(path, VerifyOptions { deep_decode: true }).unwrap()
}
