//! The commits of an array, which list its valid fragments and deletes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::place::Place;
use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::codecs::{Codecs, EncryptionKey};
use crate::format::tiledb::directory::{Condition, Stamp, TimeWindow, files};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::MIN_VERSION;
use crate::format::tiledb::tile;

/// The first format version that keeps fragments and commits in separate directories.
const MIN_FRAGMENTS_VERSION: u32 = 12;

/// A committed fragment.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    pub name: String,
    pub stamp: Stamp,
    pub directory: Place,
}

impl Committed {
    /// Returns the place of the metadata.
    pub fn metadata(&self) -> Place {
        self.directory.join("__fragment_metadata.tdb")
    }
}

/// A delete: cells for which the condition is false are deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// The path of the commit relative to the array, such as `__commits/__10_10_..._22.del`. A fragment
    /// lists the paths of the deletes that were applied when it was written.
    pub marker: String,
    /// The time of the delete, in milliseconds since 1970.
    pub timestamp: u64,
    /// The condition that the remaining cells satisfy.
    pub condition: Condition,
}

/// The fragments and deletes of a window of time.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// In the order of time, then name: later fragments overwrite earlier ones.
    pub fragments: Vec<Committed>,
    /// In the order of time, then name.
    pub deletes: Vec<Delete>,
}

/// A commit in a file of consolidated commits.
struct Entry<'a> {
    path: &'a str,
    /// The content of the commit's file, for deletes and updates.
    content: &'a [u8],
}

impl Commits {
    /// Reads the commits of the array in a directory.
    pub fn read(
        root: &Place,
        window: TimeWindow,
        is_sparse: bool,
        key: Option<&EncryptionKey>,
    ) -> Result<Self> {
        let directory = root.join("__commits");
        let names = directory.list()?;
        let with = |suffix: &'static str| {
            names
                .iter()
                .filter_map(move |name| name.strip_suffix(suffix))
        };
        let mut ignored = HashSet::new();
        for stem in with(".ign") {
            let path = directory.join(format!("{stem}.ign"));
            for line in text(&path)?.lines() {
                ignored.insert(last_part(line).to_string());
            }
        }
        let mut fragments: BTreeSet<String> = with(".wrt").map(str::to_string).collect();
        let mut deletes = BTreeMap::new();
        for stem in with(".con") {
            let path = directory.join(format!("{stem}.con"));
            let bytes = files::read(&path)?;
            let entries =
                consolidated(&bytes).map_err(|fault| fault.at(ErrorLocation::file(path.path())))?;
            for entry in entries {
                let name = last_part(entry.path);
                if ignored.contains(name) {
                    continue;
                }
                if let Some(stem) = name.strip_suffix(".wrt").or(name.strip_suffix(".ok")) {
                    fragments.insert(stem.to_string());
                } else if let Some(stem) = name.strip_suffix(".del") {
                    deletes.insert(stem.to_string(), (path.clone(), entry.content.to_vec()));
                }
            }
        }
        for stem in with(".del") {
            let path = directory.join(format!("{stem}.del"));
            let bytes = files::read(&path)?;
            deletes.insert(stem.to_string(), (path, bytes));
        }
        let mut vacuumed = HashSet::new();
        read_vacuumed(&directory, &names, window, is_sparse, &mut vacuumed)?;
        // Versions before 12 keep fragments and their commits in the array's directory.
        let old = root.list()?;
        fragments.extend(
            old.iter()
                .filter_map(|name| name.strip_suffix(".ok"))
                .map(str::to_string),
        );
        read_vacuumed(root, &old, window, is_sparse, &mut vacuumed)?;

        let mut commits = Self::default();
        for name in fragments {
            let Some(stamp) = Stamp::parse(&name) else {
                return Err(no_name(root.path(), "fragment name", &name));
            };
            if vacuumed.contains(&name) || !window.selects(&stamp, is_sparse) {
                continue;
            }
            let version = stamp.version.unwrap_or(0);
            if version < MIN_VERSION {
                let expected = format!("a format version of at least {MIN_VERSION}");
                let location = ErrorLocation::file(root.path());
                return Err(Error::malformed(
                    location,
                    "fragment name",
                    format!("{name:?}"),
                    expected,
                ));
            }
            let directory = match version {
                ..MIN_FRAGMENTS_VERSION => root.join(&name),
                _ => root.join("__fragments").join(&name),
            };
            commits.fragments.push(Committed {
                name,
                stamp,
                directory,
            });
        }
        commits
            .fragments
            .sort_by(|a, b| (a.stamp.first, &a.name).cmp(&(b.stamp.first, &b.name)));
        for (stem, (path, bytes)) in deletes {
            let Some(stamp) = Stamp::parse(&stem) else {
                return Err(no_name(root.path(), "name of a delete", &stem));
            };
            if window.contains(&stamp) {
                let parse = || {
                    let (payload, _) = tile::decode_generic(&mut Codecs::default(), key, &bytes)?;
                    Condition::parse(&payload)
                };
                let location = |fault: Fault| {
                    fault.at(ErrorLocation::part(path.path(), format!("delete {stem}")))
                };
                commits.deletes.push(Delete {
                    marker: format!("__commits/{stem}.del"),
                    timestamp: stamp.first,
                    condition: parse().map_err(location)?,
                });
            }
        }
        commits
            .deletes
            .sort_by(|a, b| (a.timestamp, &a.marker).cmp(&(b.timestamp, &b.marker)));
        Ok(commits)
    }
}

fn no_name(root: &Path, field: &'static str, name: &str) -> Error {
    let expected = "__<first>_<last>_<unique>_<version>";
    Error::malformed(
        ErrorLocation::file(root),
        field,
        format!("{name:?}"),
        expected,
    )
}

/// Adds the fragments that consolidated fragments of the window replace.
fn read_vacuumed(
    directory: &Place,
    names: &BTreeSet<String>,
    window: TimeWindow,
    is_sparse: bool,
    vacuumed: &mut HashSet<String>,
) -> Result<()> {
    for stem in names.iter().filter_map(|name| name.strip_suffix(".vac")) {
        let is_selected = |stamp: Stamp| window.selects(&stamp, is_sparse);
        if Stamp::parse(stem).is_some_and(is_selected) {
            // Versions before 19 store absolute locations.
            let text = text(&directory.join(format!("{stem}.vac")))?;
            vacuumed.extend(text.lines().map(|line| last_part(line).to_string()));
        }
    }
    Ok(())
}

/// Returns the last part of a path, or of the URI of a directory.
fn last_part(path: &str) -> &str {
    let path = path.trim_end_matches(['/', '\r']);
    path.rsplit('/').next().unwrap_or(path)
}

fn text(file: &Place) -> Result<String> {
    let bytes = files::read(file)?;
    String::from_utf8(bytes).map_err(|_| {
        let location = ErrorLocation::file(file.path());
        Error::malformed(location, "commit file", "not UTF-8", "lines of text")
    })
}

/// Parses a file of consolidated commits: lines, and the content of deletes and updates after their
/// lines.
fn consolidated(bytes: &[u8]) -> Decoded<Vec<Entry<'_>>> {
    let field = "consolidated commits";
    let mut fields = Fields::new(bytes);
    let mut entries = Vec::new();
    while fields.remaining() > 0 {
        let end = fields.rest().iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            return Err(Fault::new(field, "cut off within a line", "whole lines"));
        };
        let line = fields.take(field, end)?;
        fields.take(field, 1)?;
        let Ok(path) = std::str::from_utf8(line) else {
            return Err(Fault::new(field, "not UTF-8", "lines of text"));
        };
        let mut content: &[u8] = &[];
        if path.ends_with(".del") || path.ends_with(".upd") {
            let length = fields.u64("length of a delete")?;
            content = fields.take_u64("delete", length)?;
        }
        entries.push(Entry { path, content });
    }
    Ok(entries)
}
