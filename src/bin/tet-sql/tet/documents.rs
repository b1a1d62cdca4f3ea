//! `.tatami` files in `tet info` and `tet verify`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tet_sql::format::tatami::search::Segment;
use tet_sql::format::tatami::{TatamiFile, is_tatami, verify};
use tet_sql::{Access, Candidate};

use super::Failure;
use super::info::Sections;
use super::lines::{clean, counted, listed, row, table, write_json, write_problems};

/// Opens a `.tatami` file. Returns `None` for any other file.
pub fn open(path: &Path) -> Result<Option<Arc<TatamiFile>>, Failure> {
    match is_tatami(Candidate::new(path).start()) {
        true => Ok(Some(Arc::new(TatamiFile::open(path, Access::Pread)?))),
        false => Ok(None),
    }
}

/// Writes a description of a file, with at most `max_pages` pages.
pub fn info(
    file: &TatamiFile,
    sections: &Sections,
    max_pages: u64,
    is_json: bool,
    output: &mut dyn Write,
) -> Result<bool, Failure> {
    let pages = match sections.chunks {
        true => pages(file, max_pages)?,
        false => Vec::new(),
    };
    let segment = Segment::open(file)?;
    if is_json {
        let mut value = Map::new();
        let mut put = |key: &str, part: Value| value.insert(key.to_string(), part);
        put("path", json!(file.path().display().to_string()));
        put("format", json!("tatami"));
        put("rows", json!(file.rows()));
        put("row_groups", json!(file.row_groups().len()));
        if let Some(segment) = &segment {
            put(
                "search",
                json!({ "documents": segment.documents(), "terms": segment.terms() }),
            );
        }
        if sections.datasets {
            put("columns", listed(&columns(file)));
        }
        if sections.metadata {
            put("metadata", json!(file.footer().key_values));
        }
        if sections.chunks {
            put("pages", listed(&pages));
        }
        if sections.layout {
            put("regions", listed(&regions(file)?));
        }
        write_json(output, &Value::Object(value))?;
        return Ok(true);
    }
    let path = clean(&file.path().display().to_string());
    let size = size(file);
    writeln!(output, "{path}: tatami, {size}")?;
    if let Some(segment) = segment {
        let documents = counted(segment.documents(), "document");
        let terms = counted(segment.terms(), "term");
        writeln!(output, "search index: {documents}, {terms}")?;
    }
    if sections.datasets {
        table(output, &columns(file))?;
    }
    if sections.metadata {
        writeln!(output, "metadata")?;
        let pairs = file.footer().key_values.iter();
        let pairs: Vec<_> = pairs
            .map(|(key, value)| vec![clean(key), clean(value)])
            .collect();
        table(output, &pairs)?;
    }
    if sections.chunks {
        writeln!(output, "pages")?;
        table(output, &pages)?;
    }
    if sections.layout {
        writeln!(output, "regions")?;
        table(output, &regions(file)?)?;
    }
    Ok(true)
}

fn columns(file: &TatamiFile) -> Vec<Vec<String>> {
    let mut lines = vec![row([
        "column", "type", "nullable", "sorted", "bloom", "values", "nulls", "bytes",
    ])];
    let sort_key = file.schema().sort_key();
    for (column, field) in file.schema().fields.iter().enumerate() {
        let chunks = file
            .row_groups()
            .iter()
            .filter_map(|group| group.chunks.get(column));
        let mut sums = [0u64; 3];
        let mut has_bloom = false;
        for chunk in chunks {
            has_bloom |= chunk.bloom.is_some();
            for (sum, part) in sums
                .iter_mut()
                .zip([chunk.values, chunk.nulls, chunk.stored_bytes])
            {
                *sum = sum.saturating_add(part);
            }
        }
        let blobs = file
            .footer()
            .blobs
            .iter()
            .filter(|blobs| blobs.column == column);
        let blobs = blobs
            .flat_map(|blobs| &blobs.runs)
            .map(|run| run.stored_size);
        sums[2] = blobs.fold(sums[2], u64::saturating_add);
        let yes = |is_so| if is_so { "yes" } else { "" }.to_string();
        let mut line = vec![
            clean(&field.name),
            field.column_type.to_string(),
            yes(field.is_nullable()),
            yes(sort_key == Some(column)),
            yes(has_bloom),
        ];
        line.extend(sums.map(|sum| sum.to_string()));
        lines.push(line);
    }
    lines
}

fn pages(file: &TatamiFile, max_pages: u64) -> Result<Vec<Vec<String>>, Failure> {
    let mut lines = vec![row([
        "group",
        "column",
        "first_row",
        "rows",
        "nulls",
        "encoding",
        "codec",
        "offset",
        "stored",
        "raw",
    ])];
    for group in 0..file.row_groups().len() {
        for (column, field) in file.schema().fields.iter().enumerate() {
            for page in file.pages(group, column)? {
                if lines.len() as u64 > max_pages {
                    return Ok(lines);
                }
                let header = &page.header;
                lines.push(vec![
                    group.to_string(),
                    clean(&field.name),
                    page.first_row.to_string(),
                    header.values.to_string(),
                    header.nulls.to_string(),
                    header.encoding_name(),
                    header.codec_name(),
                    page.offset.to_string(),
                    header.stored_size.to_string(),
                    header.raw_size.to_string(),
                ]);
            }
        }
    }
    Ok(lines)
}

fn regions(file: &TatamiFile) -> Result<Vec<Vec<String>>, Failure> {
    let mut lines = vec![row(["offset", "bytes", "content"])];
    for region in file.regions()? {
        lines.push(vec![
            region.offset.to_string(),
            region.length.to_string(),
            region.kind.to_string(),
        ]);
    }
    Ok(lines)
}

/// Checks a file and writes the problems. Returns `true` if there are none.
pub fn check(
    file: &Arc<TatamiFile>,
    is_deep: bool,
    is_json: bool,
    output: &mut dyn Write,
) -> Result<bool, Failure> {
    let problems = verify(file, is_deep);
    let size = size(file);
    write_problems(output, file.path(), &problems, &size, is_deep, is_json)
}

/// Returns the numbers of rows and of row groups.
fn size(file: &TatamiFile) -> String {
    let (rows, groups) = (file.rows(), file.row_groups().len());
    format!("{}, {}", counted(rows, "row"), counted(groups, "row group"))
}
