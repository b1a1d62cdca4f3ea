//! Array files other than `.tet` files: Zarr directories, `.npy`, `.npz`, NetCDF and HDF5.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tet_sql::Access;
use tet_sql::format::array::{ArrayFile, Dataset, next_indices};
use tet_sql::format::foreign;
use tet_sql::format::tet::{MAGIC, is_package};
use tet_sql::provider::adapters::arrays::ArrayContainer;
use tet_sql::{ArrayOptions, ArraySchema, FormatRegistry};

use super::Failure;
use super::info::Sections;
use super::lines::{clean, counted, table, write_json};
use super::listing::{ChunkLine, chunk_table, chunk_values, dataset_table, dataset_values};

/// The inputs of `tet info` and `tet verify`.
const TAKEN: &str = ".tet files, packages (X.tet.d), Zarr directories, NetCDF, HDF5, .npy, .npz and .tatami files, \
                     tatami.manifest files, and TileDB arrays and groups";

/// Opens an array file of another format. Returns `None` for a package, and for a file with the
/// content or the extension of a `.tet` file, even if it is damaged.
pub fn open(path: &Path, command: &str) -> Result<Option<Arc<dyn ArrayFile>>, Failure> {
    if is_package(path) || starts_as_tet(path) {
        return Ok(None);
    }
    if is_array_file(path) {
        let options = ArrayOptions::new().with_access(Access::Pread);
        let schema = ArraySchema::open("file", path, options)?;
        if let Some(arrays) = schema.container().downcast_ref::<ArrayContainer>() {
            return Ok(Some(Arc::clone(arrays.file())));
        }
    }
    if let Some(advice) = foreign(path) {
        return Err(Failure::Message(format!("{}: {advice}", path.display())));
    }
    // Opening the file as `.tet` reports that it is damaged or missing.
    if is_called_tet(path) || !path.exists() {
        return Ok(None);
    }
    Err(Failure::Message(format!(
        "{}: is not an array file; tet {command} accepts {TAKEN}",
        path.display()
    )))
}

/// Fails for anything but `.tet` files and packages, for commands that change files.
pub fn refuse(path: &Path, command: &str) -> Result<(), Failure> {
    // Opening the file as `.tet` reports that it is damaged or missing.
    let is_broken = || (is_called_tet(path) && !is_array_file(path)) || !path.exists();
    match is_package(path) || starts_as_tet(path) || is_broken() {
        true => Ok(()),
        false => Err(Failure::Message(format!(
            "{}: tet {command} accepts only .tet files and packages (X.tet.d)",
            path.display()
        ))),
    }
}

fn is_called_tet(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("tet"))
}

fn is_array_file(path: &Path) -> bool {
    FormatRegistry::default().recognise(path).is_some()
}

fn starts_as_tet(path: &Path) -> bool {
    let mut start = [0; 4];
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut file = match is_file.then(|| File::open(path)) {
        Some(Ok(file)) => file,
        _ => return false,
    };
    file.read_exact(&mut start).is_ok() && start == MAGIC[..]
}

/// Shows the content of a file.
pub fn info(
    file: &Arc<dyn ArrayFile>,
    sections: &Sections,
    most: u64,
    is_json: bool,
    output: &mut dyn Write,
) -> Result<bool, Failure> {
    let chunks = match sections.chunks {
        true => chunk_lines(file, most)?,
        false => Vec::new(),
    };
    match is_json {
        true => write_json(output, &as_json(file, sections, &chunks))?,
        false => as_text(file, sections, &chunks, output)?,
    }
    output.flush()?;
    for warning in file.warnings() {
        // There is no way to report a failure of standard error.
        let _ = writeln!(std::io::stderr(), "warning: {}", clean(warning));
    }
    Ok(true)
}

fn chunk_lines(file: &Arc<dyn ArrayFile>, most: u64) -> Result<Vec<ChunkLine>, Failure> {
    let mut lines = Vec::new();
    for dataset in file.datasets() {
        if dataset.check(file.path()).is_err() {
            continue;
        }
        let grid = dataset.chunk_grid();
        let mut position = vec![0; grid.len()];
        let mut is_there = !grid.contains(&0);
        while is_there && (lines.len() as u64) < most {
            let stored = file.chunk(dataset, &position, Access::Pread)?;
            lines.push(ChunkLine {
                dataset: dataset.name().to_string(),
                position: position.clone(),
                raw: stored.raw_bytes,
                stored: stored.stored_bytes,
                codec: file.codec(dataset, stored.payload),
                offset: None,
            });
            is_there = next_indices(&mut position, &grid);
        }
    }
    Ok(lines)
}

fn names<'a>(file: &'a Arc<dyn ArrayFile>, dataset: &Dataset) -> &'a [String] {
    let metadata = file.metadata(dataset);
    metadata.map_or(&[], |metadata| &metadata.dim_names)
}

fn as_text(
    file: &Arc<dyn ArrayFile>,
    sections: &Sections,
    chunks: &[ChunkLine],
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let path = clean(&file.path().display().to_string());
    let (format, datasets) = (file.format(), file.datasets());
    write!(output, "{path}: {format}")?;
    if let Some(version) = file.layout_version() {
        write!(output, " version {version}")?;
    }
    writeln!(output, ", {}", counted(datasets.len(), "dataset"))?;
    if sections.datasets {
        let datasets = datasets.iter();
        dataset_table(
            output,
            datasets.map(|dataset| (dataset, names(file, dataset))),
        )?;
    }
    if sections.metadata {
        writeln!(output, "metadata")?;
        let mut lines = Vec::new();
        for dataset in datasets {
            let attributes = file.metadata(dataset).into_iter();
            for (key, value) in attributes.flat_map(|metadata| &metadata.attrs) {
                lines.push(vec![clean(dataset.name()), clean(key), clean(value)]);
            }
        }
        table(output, &lines)?;
    }
    if sections.chunks {
        chunk_table(output, chunks, false)?;
        let readable = datasets
            .iter()
            .filter(|dataset| dataset.check(file.path()).is_ok());
        let count = readable
            .map(|dataset| match dataset.chunk_grid() {
                grid if grid.contains(&0) => 0,
                grid => grid
                    .iter()
                    .fold(1, |count, along| u64::saturating_mul(count, *along)),
            })
            .fold(0, u64::saturating_add);
        let more = count.saturating_sub(chunks.len() as u64);
        if more > 0 {
            writeln!(output, "  and {more} more; -n 0 shows all")?;
        }
    }
    Ok(())
}

fn as_json(file: &Arc<dyn ArrayFile>, sections: &Sections, chunks: &[ChunkLine]) -> Value {
    let mut value = Map::new();
    let mut put = |key: &str, part: Value| value.insert(key.to_string(), part);
    put("path", json!(file.path().display().to_string()));
    put("format", json!(file.format()));
    put("format_version", json!(file.layout_version()));
    let datasets = file.datasets();
    if sections.datasets {
        put("datasets", dataset_values(datasets));
    }
    if sections.metadata {
        let metadata = datasets.iter().map(|dataset| {
            let attributes = file.metadata(dataset).map(|metadata| &metadata.attrs);
            let described = json!({ "attrs": attributes, "dim_names": names(file, dataset) });
            (dataset.name().to_string(), described)
        });
        let metadata: Map<String, Value> = metadata.collect();
        put("metadata", json!({ "datasets": metadata }));
    }
    if sections.chunks {
        put("chunks", chunk_values(chunks));
    }
    put("problems", json!(file.warnings()));
    Value::Object(value)
}
