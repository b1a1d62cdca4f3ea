//! The sections of `tet info` that all formats have: datasets and chunks.

use std::io::{self, Write};

use serde_json::{Value, json};
use tet_sql::format::array::Dataset;

use super::lines::{clean, row, shape, table};

/// One chunk in the listing of `tet info --chunks`.
pub struct ChunkLine {
    pub dataset: String,
    pub position: Vec<u64>,
    pub raw: u64,
    pub stored: u64,
    pub codec: String,
    /// The offset of the payload, in formats with a chunk index.
    pub offset: Option<u64>,
}

/// Writes the table of datasets, each with its dimension names.
pub fn dataset_table<'a>(
    output: &mut dyn Write,
    datasets: impl Iterator<Item = (&'a Dataset, &'a [String])>,
) -> io::Result<()> {
    writeln!(output, "datasets")?;
    let header = row([
        "name",
        "type",
        "shape",
        "chunk shape",
        "chunks",
        "dimensions",
    ]);
    let lines = datasets.map(|(dataset, names)| {
        let dtype = dataset.dtype().map(|dtype| dtype.to_string());
        vec![
            clean(dataset.name()),
            dtype.unwrap_or_else(|| "unknown".to_string()),
            shape(dataset.shape()),
            shape(dataset.chunk_shape()),
            chunk_count(dataset),
            clean(&names.join(", ")),
        ]
    });
    let lines: Vec<_> = std::iter::once(header).chain(lines).collect();
    table(output, &lines)
}

/// Returns the number of chunks of a dataset as text.
fn chunk_count(dataset: &Dataset) -> String {
    if dataset.chunk_shape().contains(&0) {
        return "?".to_string();
    }
    let grid = dataset.chunk_grid();
    let count = grid
        .iter()
        .try_fold(1u64, |count, along| count.checked_mul(*along));
    count.map_or("2^64 or more".to_string(), |count| count.to_string())
}

/// Returns the datasets as JSON.
pub fn dataset_values(datasets: &[Dataset]) -> Value {
    let datasets = datasets.iter().map(|dataset| {
        json!({
            "name": dataset.name(),
            "dtype": dataset.dtype().map(|dtype| dtype.to_string()),
            "shape": dataset.shape(),
            "chunk_shape": dataset.chunk_shape(),
        })
    });
    datasets.collect()
}

/// Writes the table of chunks, with row numbers and offsets if the format has a chunk index.
pub fn chunk_table(
    output: &mut dyn Write,
    chunks: &[ChunkLine],
    is_indexed: bool,
) -> io::Result<()> {
    writeln!(output, "chunks")?;
    let mut lines = vec![row(["dataset", "chunk", "raw", "stored", "codec"])];
    lines.extend(chunks.iter().map(|line| {
        vec![
            clean(&line.dataset),
            shape(&line.position),
            line.raw.to_string(),
            line.stored.to_string(),
            line.codec.clone(),
        ]
    }));
    if is_indexed {
        lines[0].insert(0, "row".to_string());
        lines[0].push("offset".to_string());
        for (number, (cells, chunk)) in lines[1..].iter_mut().zip(chunks).enumerate() {
            cells.insert(0, number.to_string());
            cells.extend(chunk.offset.map(|offset| offset.to_string()));
        }
    }
    table(output, &lines)
}

/// Returns the chunks as JSON.
pub fn chunk_values(chunks: &[ChunkLine]) -> Value {
    let chunks = chunks.iter().map(|line| {
        let mut value = json!({
            "dataset": line.dataset,
            "chunk": line.position,
            "raw_bytes": line.raw,
            "stored_bytes": line.stored,
            "codec": line.codec,
        });
        if let Some(offset) = line.offset {
            value["offset"] = json!(offset);
        }
        value
    });
    chunks.collect()
}
