//! TileDB arrays and groups in `tet info` and `tet verify`.

use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tet_sql::format::tiledb::{
    EncryptionKey, Interval, MetadataValue, OpenOptions, Schema, TileDbArray, TileDbGroup,
    Verification, verify,
};
use tet_sql::{Access, Error};

use super::Failure;
use super::info::Sections;
use super::lines::{clean, counted, listed, row, table, write_json};

/// The maximum number of arrays of a group.
const MAX_ARRAYS: usize = 1 << 16;
/// The maximum number of characters of a metadata value.
const MAX_TEXT: usize = 60;
/// The maximum number of nested groups.
const MAX_DEPTH: usize = 32;

/// An array or the arrays of a group.
pub struct Arrays {
    path: PathBuf,
    arrays: Vec<TileDbArray>,
    groups: Vec<TileDbGroup>,
    /// The directories of the groups, without links.
    known: HashSet<PathBuf>,
    /// Members that cannot be opened.
    problems: Vec<String>,
}

/// Opens an array or a group, which may be encrypted with the key in a file. Returns `None` for any
/// other path.
pub fn open(path: &Path, key_file: Option<&Path>) -> Result<Option<Arrays>, Failure> {
    let is_array = TileDbArray::recognises(path);
    if !is_array && !TileDbGroup::recognises(path) {
        return Ok(None);
    }
    let options = OpenOptions {
        key: key_file.map(EncryptionKey::read).transpose()?,
        ..OpenOptions::default()
    };
    let mut arrays = Arrays {
        path: path.to_path_buf(),
        arrays: Vec::new(),
        groups: Vec::new(),
        known: HashSet::new(),
        problems: Vec::new(),
    };
    match is_array {
        true => arrays
            .arrays
            .push(TileDbArray::open(path, &options, Access::Pread)?),
        false => {
            let group = TileDbGroup::open(path, &options)?;
            arrays.add(group, &options, 0);
        }
    }
    Ok(Some(arrays))
}

impl Arrays {
    /// Adds the arrays of a group and of the groups below it, of each group once: groups may contain
    /// each other.
    fn add(&mut self, group: TileDbGroup, options: &OpenOptions, depth: usize) {
        let directory = group.path().canonicalize();
        let directory = directory.unwrap_or_else(|_| group.path().to_path_buf());
        if !self.known.insert(directory) {
            return;
        }
        for member in group.members() {
            let path = group.member_path(member);
            let Some(path) = path.filter(|_| self.arrays.len() < MAX_ARRAYS) else {
                let location = &member.location;
                self.problems.push(format!("{location}: not opened"));
                continue;
            };
            let opened: Result<(), Error> = match member.is_group {
                true if depth < MAX_DEPTH => TileDbGroup::open(&path, options)
                    .map(|inner| self.add(inner, options, depth + 1)),
                true => Ok(()),
                false => TileDbArray::open(&path, options, Access::Pread)
                    .map(|array| self.arrays.push(array)),
            };
            if let Err(error) = opened {
                self.problems.push(error.to_string());
            }
        }
        self.groups.push(group);
    }

    /// Writes a description. Returns `true` if all arrays could be opened.
    pub fn info(
        &self,
        sections: &Sections,
        max_rows: u64,
        is_json: bool,
        output: &mut dyn Write,
    ) -> Result<bool, Failure> {
        let (mut described, mut groups) = (Vec::new(), Vec::new());
        for group in &self.groups {
            let path = group.path().display().to_string();
            let (members, values) = (members(group), metadata(&group.metadata()?));
            if is_json {
                groups.push(json!({
                    "path": path,
                    "members": listed(&members),
                    "metadata": listed(&values),
                }));
                continue;
            }
            let count = counted(group.members().len(), "member");
            writeln!(output, "{}: TileDB group, {count}", clean(&path))?;
            table(output, &members)?;
            if sections.metadata {
                writeln!(output, "metadata")?;
                table(output, &values)?;
            }
        }
        for array in &self.arrays {
            // The key in JSON, the title and the rows of each section.
            let mut parts = Vec::new();
            if sections.datasets {
                parts.push(("columns", None, columns(array)));
            }
            if sections.metadata {
                let values = metadata(&array.metadata()?);
                parts.push(("metadata", Some("metadata"), values));
            }
            if sections.chunks || sections.layout {
                let fragments = fragments(array, max_rows);
                parts.push(("fragment_list", Some("fragments"), fragments));
            }
            let schema = array.schema();
            let version = schema.version;
            let path = array.path().display().to_string();
            let kind = if schema.is_sparse { "sparse" } else { "dense" };
            let count = array.fragments().len();
            if is_json {
                let mut value = json!({
                    "path": path,
                    "format": "tiledb",
                    "kind": kind,
                    "version": version,
                    "fragments": count,
                    "tile_order": schema.tile_order.to_string(),
                    "cell_order": schema.cell_order.to_string(),
                    "capacity": schema.capacity,
                    "duplicates": schema.allows_duplicates,
                });
                for (key, _, rows) in parts {
                    value[key] = listed(&rows);
                }
                described.push(value);
                continue;
            }
            writeln!(
                output,
                "{}: TileDB {kind} array, format version {version}, {}",
                clean(&path),
                counted(count, "fragment")
            )?;
            writeln!(output, "{}", layout(schema))?;
            for (_, title, rows) in parts {
                if let Some(title) = title {
                    writeln!(output, "{title}")?;
                }
                table(output, &rows)?;
            }
        }
        if is_json {
            let path = self.path.display().to_string();
            let problems = &self.problems;
            let value = json!({
                "path": path, "groups": groups, "arrays": described, "problems": problems
            });
            write_json(output, &value)?;
        }
        output.flush()?;
        for problem in &self.problems {
            // There is no way to report a failure of standard error.
            let _ = writeln!(std::io::stderr(), "error: {}", clean(problem));
        }
        Ok(self.problems.is_empty())
    }

    /// Checks all arrays and writes the problems. Returns `true` if there are none.
    pub fn check(
        &self,
        is_deep: bool,
        is_json: bool,
        output: &mut dyn Write,
    ) -> Result<bool, Failure> {
        let is_shown = std::io::stderr().is_terminal();
        let progress = |done: u64, all: u64| {
            if is_shown {
                // There is no way to report a failure of standard error.
                let _ = write!(std::io::stderr(), "\r{done} of {all} fragments");
            }
        };
        let of_groups = self
            .groups
            .iter()
            .filter_map(|group| group.metadata().err());
        let of_groups = of_groups.map(|error| error.to_string());
        let problems: Vec<String> = self.problems.iter().cloned().chain(of_groups).collect();
        let mut reports = Vec::new();
        let mut is_sound = problems.is_empty();
        for array in &self.arrays {
            let report = verify(array, is_deep, &progress);
            is_sound &= report.problem_count == 0;
            reports.push((array, report));
        }
        if is_shown {
            // There is no way to report a failure of standard error.
            let _ = writeln!(std::io::stderr());
        }
        if is_json {
            let arrays = reports.iter().map(|(array, report)| {
                json!({
                    "path": array.path().display().to_string(),
                    "fragments": report.fragments,
                    "tiles": report.tiles,
                    "findings": report.problems,
                })
            });
            let path = self.path.display().to_string();
            let arrays: Vec<Value> = arrays.collect();
            let value = json!({
                "path": path, "ok": is_sound, "deep": is_deep, "arrays": arrays, "findings": problems
            });
            write_json(output, &value)?;
            return Ok(is_sound);
        }
        for problem in &problems {
            writeln!(output, "  error: {}", clean(problem))?;
        }
        for (array, report) in &reports {
            summary(array, report, output)?;
        }
        Ok(is_sound)
    }
}

fn summary(
    array: &TileDbArray,
    report: &Verification,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    for problem in &report.problems {
        writeln!(output, "  error: {}", clean(problem))?;
    }
    let more = report.problem_count - report.problems.len() as u64;
    if more > 0 {
        writeln!(output, "  and {more} more")?;
    }
    let verdict = match report.problem_count {
        0 => "sound",
        _ => "NOT SOUND",
    };
    let path = clean(&array.path().display().to_string());
    let fragments = counted(report.fragments, "fragment");
    let tiles = counted(report.tiles, "tile");
    writeln!(output, "{path}: {verdict}; {fragments}, {tiles}")?;
    Ok(())
}

/// Returns the orders of tiles and cells and, of a sparse array, the capacity of tiles and whether
/// duplicates are allowed.
fn layout(schema: &Schema) -> String {
    let (tiles, cells) = (schema.tile_order, schema.cell_order);
    let orders = format!("tile order {tiles}, cell order {cells}");
    match (schema.is_sparse, schema.allows_duplicates) {
        (false, _) => orders,
        (true, true) => format!("{orders}, capacity {}, duplicates", schema.capacity),
        (true, false) => format!("{orders}, capacity {}, no duplicates", schema.capacity),
    }
}

/// Returns the bounds of an interval.
fn bounds(interval: &Interval) -> String {
    clean(&format!("{} to {}", interval.low, interval.high))
}

/// Lists the members of a group.
fn members(group: &TileDbGroup) -> Vec<Vec<String>> {
    let mut lines = vec![row(["member", "kind", "location"])];
    for member in group.members() {
        lines.push(vec![
            clean(member.name.as_deref().unwrap_or_default()),
            if member.is_group { "group" } else { "array" }.to_string(),
            clean(&member.location),
        ]);
    }
    lines
}

/// Lists the dimensions, the attributes and the labels of dimensions. Domains are in stored units.
fn columns(array: &TileDbArray) -> Vec<Vec<String>> {
    let schema = array.schema();
    let mut lines = vec![row([
        "column", "kind", "type", "nullable", "filters", "domain", "extent",
    ])];
    for (index, dimension) in schema.dimensions.iter().enumerate() {
        let current = schema.current_domain.as_ref();
        let current = current.and_then(|current| current.get(index));
        let domain = match (dimension.domain.as_ref().map(bounds), current.map(bounds)) {
            (domain, None) => domain.unwrap_or_default(),
            (None, Some(current)) => format!("current {current}"),
            (Some(domain), Some(current)) => format!("{domain}, current {current}"),
        };
        let extent = dimension.extent.as_ref().map(|extent| extent.to_string());
        lines.push(vec![
            clean(&dimension.name),
            "dimension".to_string(),
            dimension.datatype.to_string(),
            "no".to_string(),
            match schema.is_sparse {
                true => dimension.filters.to_string(),
                false => String::new(),
            },
            domain,
            extent.unwrap_or_default(),
        ]);
    }
    for attribute in &schema.attributes {
        let kind = match &attribute.enumeration {
            Some(name) => format!("attribute, enumeration {}", clean(name)),
            None => "attribute".to_string(),
        };
        lines.push(vec![
            clean(&attribute.name),
            kind,
            attribute.datatype.to_string(),
            if attribute.is_nullable { "yes" } else { "no" }.to_string(),
            attribute.filters.to_string(),
            String::new(),
            String::new(),
        ]);
    }
    for label in &schema.labels {
        let dimension = schema.dimensions.get(label.dimension);
        let dimension = dimension.map_or("", |dimension| dimension.name.as_str());
        lines.push(vec![
            clean(&label.name),
            format!("label of {}", clean(dimension)),
            label.datatype.to_string(),
            "yes".to_string(),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    lines
}

/// Lists metadata with the type, the size and the text of each value.
fn metadata(values: &BTreeMap<String, MetadataValue>) -> Vec<Vec<String>> {
    let mut lines = vec![row(["key", "type", "bytes", "value"])];
    for (key, value) in values {
        let bytes = value.bytes.len().to_string();
        let text = shortened(&clean(&value.text()));
        lines.push(vec![clean(key), value.datatype.to_string(), bytes, text]);
    }
    lines
}

/// Returns the start of a text that is too long for a table.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

fn fragments(array: &TileDbArray, max_rows: u64) -> Vec<Vec<String>> {
    let mut lines = vec![row([
        "fragment", "first", "last", "version", "tiles", "bytes",
    ])];
    let most = usize::try_from(max_rows).unwrap_or(usize::MAX);
    for fragment in array.fragments().iter().take(most) {
        let (first, last) = fragment.timestamps();
        lines.push(vec![
            clean(fragment.name()),
            first.to_string(),
            last.to_string(),
            fragment.version().to_string(),
            fragment.tiles().to_string(),
            fragment.stored_bytes().to_string(),
        ]);
    }
    lines
}
