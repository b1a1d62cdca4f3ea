//! TileDB arrays and groups in `tet info` and `tet verify`.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tet_sql::format::tiledb::{
    EncryptionKey, OpenOptions, TileDbArray, TileDbGroup, Verification, verify,
};
use tet_sql::{Access, Error};

use super::Failure;
use super::info::Sections;
use super::lines::{clean, listed, row, table, write_json};

/// The maximum number of arrays of a group.
const MAX_ARRAYS: usize = 1 << 16;
/// The maximum number of nested groups.
const MAX_DEPTH: usize = 32;

/// An array or the arrays of a group.
pub struct Arrays {
    path: PathBuf,
    arrays: Vec<TileDbArray>,
    /// The directories of the groups, without links.
    groups: HashSet<PathBuf>,
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
        groups: HashSet::new(),
        problems: Vec::new(),
    };
    match is_array {
        true => arrays
            .arrays
            .push(TileDbArray::open(path, &options, Access::Pread)?),
        false => {
            let group = TileDbGroup::open(path, &options)?;
            arrays.add(&group, &options, 0);
        }
    }
    Ok(Some(arrays))
}

impl Arrays {
    /// Adds the arrays of a group and of the groups below it, of each group once: groups may contain
    /// each other.
    fn add(&mut self, group: &TileDbGroup, options: &OpenOptions, depth: usize) {
        let directory = group.path().canonicalize();
        let directory = directory.unwrap_or_else(|_| group.path().to_path_buf());
        if !self.groups.insert(directory) {
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
                    .map(|inner| self.add(&inner, options, depth + 1)),
                true => Ok(()),
                false => TileDbArray::open(&path, options, Access::Pread)
                    .map(|array| self.arrays.push(array)),
            };
            if let Err(error) = opened {
                self.problems.push(error.to_string());
            }
        }
    }

    /// Writes a description. Returns `true` if all arrays could be opened.
    pub fn info(
        &self,
        sections: &Sections,
        max_rows: u64,
        is_json: bool,
        output: &mut dyn Write,
    ) -> Result<bool, Failure> {
        let mut described = Vec::new();
        for array in &self.arrays {
            // The key in JSON, the title and the rows of each section.
            let mut parts = Vec::new();
            if sections.datasets {
                parts.push(("columns", None, columns(array)));
            }
            if sections.metadata {
                parts.push(("metadata", Some("metadata"), metadata(array)?));
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
                });
                for (key, _, rows) in parts {
                    value[key] = listed(&rows);
                }
                described.push(value);
                continue;
            }
            writeln!(
                output,
                "{}: TileDB {kind} array, format version {version}, {count} fragments",
                clean(&path)
            )?;
            for (_, title, rows) in parts {
                if let Some(title) = title {
                    writeln!(output, "{title}")?;
                }
                table(output, &rows)?;
            }
        }
        if is_json {
            let path = self.path.display().to_string();
            let value = json!({ "path": path, "arrays": described, "problems": self.problems });
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
        let mut reports = Vec::new();
        let mut is_sound = self.problems.is_empty();
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
            let problems = &self.problems;
            let value = json!({
                "path": path, "ok": is_sound, "deep": is_deep, "arrays": arrays, "findings": problems
            });
            write_json(output, &value)?;
            return Ok(is_sound);
        }
        for problem in &self.problems {
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
    let (fragments, tiles) = (report.fragments, report.tiles);
    writeln!(
        output,
        "{path}: {verdict}; {fragments} fragments, {tiles} tiles"
    )?;
    Ok(())
}

/// Lists the dimensions and attributes.
fn columns(array: &TileDbArray) -> Vec<Vec<String>> {
    let schema = array.schema();
    let mut lines = vec![row(["column", "kind", "type", "nullable", "filters"])];
    for dimension in &schema.dimensions {
        lines.push(vec![
            clean(&dimension.name),
            "dimension".to_string(),
            dimension.datatype.to_string(),
            "no".to_string(),
            match schema.is_sparse {
                true => dimension.filters.to_string(),
                false => String::new(),
            },
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
        ]);
    }
    lines
}

/// Lists the metadata with the type and the size of each value.
fn metadata(array: &TileDbArray) -> Result<Vec<Vec<String>>, Failure> {
    let mut lines = vec![row(["key", "type", "bytes"])];
    for (key, value) in array.metadata()? {
        let bytes = value.bytes.len().to_string();
        lines.push(vec![clean(&key), value.datatype.to_string(), bytes]);
    }
    Ok(lines)
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
