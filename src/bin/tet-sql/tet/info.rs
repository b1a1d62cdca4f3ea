//! `tet info`.

use std::io::Write;

use serde_json::{Map, Value, json};
use tet_sql::Access;
use tet_sql::format::tet::Dataset;
use tet_sql::format::tet::repair::anatomy::Anatomy;

use super::Failure;
use super::arguments::InfoArguments;
use super::lines::{clean, counted, row, table, write_json};
use super::listing::{ChunkLine, chunk_table, chunk_values, dataset_table, dataset_values};
use super::other;
#[cfg(feature = "tiledb")]
use super::tiledb;
#[cfg(feature = "tatami")]
use super::{collection, documents};

/// The maximum number of labels shown for an axis.
const SOME_LABELS: usize = 8;

/// The sections to show.
pub struct Sections {
    pub layout: bool,
    pub datasets: bool,
    pub metadata: bool,
    pub chunks: bool,
    history: bool,
}

impl Sections {
    fn of(arguments: &InfoArguments) -> Self {
        let any = arguments.layout
            || arguments.datasets
            || arguments.metadata
            || arguments.chunks
            || arguments.history;
        Self {
            layout: arguments.layout || arguments.all,
            datasets: arguments.datasets || arguments.all || !any,
            metadata: arguments.metadata || arguments.all,
            chunks: arguments.chunks || arguments.all,
            history: arguments.history || arguments.all,
        }
    }
}

/// Shows the content of a file. Returns `true` if all of it could be read.
pub fn run(arguments: &InfoArguments, output: &mut dyn Write) -> Result<bool, Failure> {
    let sections = Sections::of(arguments);
    let most = match arguments.rows {
        0 => u64::MAX,
        rows => rows,
    };
    #[cfg(feature = "tatami")]
    if let Some(file) = documents::open(&arguments.file)? {
        return documents::info(&file, &sections, most, arguments.json, output);
    }
    #[cfg(feature = "tatami")]
    if let Some(members) = collection::open(&arguments.file)? {
        return collection::info(&members, arguments.json, output);
    }
    #[cfg(feature = "tiledb")]
    if let Some(arrays) = tiledb::open(&arguments.file, arguments.key_file.as_deref())? {
        return arrays.info(&sections, most, arguments.json, output);
    }
    if let Some(file) = other::open(&arguments.file, "info")? {
        return other::info(&file, &sections, most, arguments.json, output);
    }
    let anatomy = Anatomy::of(&arguments.file, Access::Pread)?;
    let mut problems: Vec<String> = anatomy.problems.iter().map(ToString::to_string).collect();
    let chunks = match (&anatomy.opened, sections.chunks) {
        (Some(_), true) => match chunk_rows(&anatomy, most) {
            Ok(rows) => rows,
            Err(error) => {
                problems.push(error.to_string());
                Vec::new()
            }
        },
        _ => Vec::new(),
    };
    if arguments.json {
        let value = as_json(&anatomy, &sections, &chunks, &problems);
        write_json(output, &value)?;
    } else {
        as_text(&anatomy, &sections, &chunks, output)?;
        output.flush()?;
        for problem in &problems {
            // There is no way to report a failure of standard error.
            let _ = writeln!(std::io::stderr(), "error: {}", clean(problem));
        }
    }
    Ok(problems.is_empty())
}

fn chunk_rows(anatomy: &Anatomy, most: u64) -> Result<Vec<ChunkLine>, tet_sql::Error> {
    let mut lines = Vec::new();
    let Some(file) = &anatomy.opened else {
        return Ok(lines);
    };
    file.stored_rows(Access::Pread, most, |_, row| {
        let dataset = usize::try_from(row.dataset_id).ok();
        let dataset = dataset.and_then(|id| file.datasets().get(id));
        let rank = dataset.map_or(row.chunk.len(), |dataset| dataset.shape().len());
        lines.push(ChunkLine {
            dataset: match dataset {
                Some(dataset) => dataset.name().to_string(),
                None => format!("unknown dataset {}", row.dataset_id),
            },
            position: row.chunk[..rank].to_vec(),
            raw: row.raw_bytes,
            stored: row.stored_bytes,
            codec: match row.codec {
                0 => "raw".to_string(),
                1 => "zstd".to_string(),
                other => format!("unknown: {other}"),
            },
            offset: Some(row.payload_offset),
        });
    })?;
    Ok(lines)
}

fn as_text(
    anatomy: &Anatomy,
    sections: &Sections,
    chunks: &[ChunkLine],
    output: &mut dyn Write,
) -> Result<(), Failure> {
    write!(output, "{}", clean(&anatomy.path.display().to_string()))?;
    if let Some(generation) = anatomy.generation {
        write!(output, ", generation {generation}")?;
    }
    let rows = anatomy.opened.as_ref().map(|file| file.chunk_rows());
    writeln!(
        output,
        ": {} bytes, {}, {}",
        anatomy.length,
        counted(anatomy.datasets.len(), "dataset"),
        counted(
            rows.map_or("unknown".to_string(), |rows| rows.to_string()),
            "chunk"
        )
    )?;
    if sections.layout {
        layout(anatomy, output)?;
    }
    if sections.datasets {
        let names = |dataset: &Dataset| {
            let footer = anatomy.footer.as_ref();
            let metadata = footer.and_then(|footer| footer.metadata.datasets.get(dataset.name()));
            metadata.map_or(&[][..], |metadata| &metadata.dim_names)
        };
        let datasets = anatomy.datasets.iter();
        dataset_table(output, datasets.map(|dataset| (dataset, names(dataset))))?;
    }
    if sections.metadata {
        metadata(anatomy, output)?;
    }
    if sections.chunks {
        chunk_table(output, chunks, true)?;
        let more = rows.unwrap_or(0).saturating_sub(chunks.len() as u64);
        if more > 0 {
            writeln!(output, "  and {more} more; -n 0 shows all")?;
        }
    }
    if sections.history {
        writeln!(output, "history")?;
        let mut lines = vec![row(["op", "source", "at"])];
        for step in anatomy.footer.iter().flat_map(|footer| &footer.history) {
            let at = date(&step.at).unwrap_or_else(|| step.at.clone());
            lines.push(
                [&step.op, &step.source, &at]
                    .map(|text| clean(text))
                    .to_vec(),
            );
        }
        table(output, &lines)?;
    }
    Ok(())
}

/// Formats decimal seconds since 1970 as a date and time. Returns `None` for any other text.
fn date(seconds: &str) -> Option<String> {
    let instant = chrono::DateTime::from_timestamp(seconds.trim().parse().ok()?, 0)?;
    Some(instant.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn layout(anatomy: &Anatomy, output: &mut dyn Write) -> Result<(), Failure> {
    writeln!(output, "layout")?;
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push(vec![name.to_string(), value]);
    line("file", clean(&anatomy.file.display().to_string()));
    match &anatomy.superblock {
        None => line("superblock", "unreadable".to_string()),
        Some(superblock) => {
            line("layout version", superblock.layout_version.to_string());
            line("flags", format!("{:#x}", superblock.flags));
            let start = superblock.chunk_index_offset;
            let end = start + superblock.chunk_index_length;
            line("chunk index", format!("bytes {start} to {end}"));
            line(
                "payloads",
                format!("bytes {end} to {}", anatomy.payload_end),
            );
        }
    }
    line(
        "footer",
        match &anatomy.footer {
            None => "none".to_string(),
            Some(footer) => {
                let mut parts = vec![format!(
                    "bytes {} to {}",
                    anatomy.payload_end, anatomy.length
                )];
                if footer.has_zone_maps() {
                    parts.push("zone maps".to_string());
                }
                if footer.has_secondary_index() {
                    parts.push("secondary index".to_string());
                }
                parts.join(", ")
            }
        },
    );
    if let Some(file) = &anatomy.opened {
        let budget = file.memory_budget();
        let text = match (budget.bytes, budget.basis_points) {
            (0, 0) => "a quarter of the memory".to_string(),
            (0, basis_points) => format!("{} % of the memory", f64::from(basis_points) / 100.0),
            (bytes, _) => format!("{bytes} bytes"),
        };
        line("memory budget", text);
    }
    table(output, &lines)?;
    Ok(())
}

fn metadata(anatomy: &Anatomy, output: &mut dyn Write) -> Result<(), Failure> {
    writeln!(output, "metadata")?;
    let Some(footer) = &anatomy.footer else {
        writeln!(output, "  none")?;
        return Ok(());
    };
    let mut lines = Vec::new();
    if let Some(file) = &footer.metadata.file {
        for (key, value) in [
            ("tool", &file.tool),
            ("library_version", &file.library_version),
            ("created_at", &file.created_at),
        ] {
            if let Some(value) = value {
                lines.push(vec!["(file)".to_string(), key.to_string(), clean(value)]);
            }
        }
    }
    for (name, metadata) in &footer.metadata.datasets {
        let name = clean(name);
        if !metadata.dim_names.is_empty() {
            let names = clean(&metadata.dim_names.join(", "));
            lines.push(vec![name.clone(), "dimensions".to_string(), names]);
        }
        for (axis, labels) in &metadata.coords {
            let some = labels
                .labels
                .iter()
                .take(SOME_LABELS)
                .map(|label| clean(label));
            let mut text = some.collect::<Vec<_>>().join(", ");
            if labels.labels.len() > SOME_LABELS {
                text.push_str(&format!(", ... ({} in all)", labels.labels.len()));
            }
            lines.push(vec![
                name.clone(),
                format!("labels of {}", clean(axis)),
                text,
            ]);
        }
        for (key, value) in &metadata.attrs {
            lines.push(vec![name.clone(), clean(key), clean(value)]);
        }
    }
    table(output, &lines)?;
    Ok(())
}

fn as_json(
    anatomy: &Anatomy,
    sections: &Sections,
    chunks: &[ChunkLine],
    problems: &[String],
) -> Value {
    let mut value = Map::new();
    let mut put = |key: &str, part: Value| value.insert(key.to_string(), part);
    put("path", json!(anatomy.path.display().to_string()));
    put("generation", json!(anatomy.generation));
    put("length", json!(anatomy.length));
    let rows = anatomy.opened.as_ref().map(|file| file.chunk_rows());
    put("chunk_rows", json!(rows));
    if sections.layout {
        let budget = anatomy.opened.as_ref().map(|file| file.memory_budget());
        put(
            "layout",
            json!({
                "file": anatomy.file.display().to_string(),
                "superblock": anatomy.superblock,
                "payload_end": anatomy.payload_end,
                "has_footer": anatomy.footer.is_some(),
                "has_zone_maps": anatomy.footer.as_ref().is_some_and(|footer| footer.has_zone_maps()),
                "has_secondary_index": anatomy.footer.as_ref().is_some_and(|footer| footer.has_secondary_index()),
                "memory_budget": budget.map(|budget| json!({
                    "bytes": budget.bytes,
                    "basis_points": budget.basis_points,
                })),
            }),
        );
    }
    if sections.datasets {
        put("datasets", dataset_values(&anatomy.datasets));
    }
    if sections.metadata {
        put(
            "metadata",
            json!(anatomy.footer.as_ref().map(|footer| &footer.metadata)),
        );
    }
    if sections.chunks {
        put("chunks", chunk_values(chunks));
    }
    if sections.history {
        put(
            "history",
            json!(anatomy.footer.as_ref().map(|footer| &footer.history)),
        );
    }
    put("problems", json!(problems));
    Value::Object(value)
}
