//! Finds the arrays of a hierarchy by walking its directories.
//!
//! Consolidated metadata is a copy that may be out of date, and listing local directories is cheap.
//! The consolidated copy is therefore used only if there is no other metadata.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{GroupAttributes, Warnings};
use crate::format::zarr::images::{EnclosingGroup, enclosing_group};
use crate::format::zarr::metadata::attributes::texts;
use crate::format::zarr::metadata::json;
use crate::format::zarr::root::{OutwardLinks, Root, Source};

/// Maximum depth of nested groups.
pub(super) const MAX_DEPTH: usize = 32;
/// The file names of metadata documents.
pub(super) const DOCUMENTS: [&str; 5] =
    [".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"];
/// Maximum number of arrays in a hierarchy.
pub(super) const MAX_ARRAYS: usize = 100_000;
/// Maximum number of directories visited, including those of arrays and those without metadata.
pub(super) const MAX_DIRECTORIES: usize = 200_000;
/// Maximum number of directory entries within arrays that are checked for links.
const MAX_LINK_CHECKS: usize = 10_000;

/// An array with its metadata documents.
pub(super) struct Node {
    /// The path within the hierarchy, without a leading slash; empty if the hierarchy is one array.
    pub name: String,
    pub folder: PathBuf,
    pub documents: Documents,
    /// The files of the documents, absent ones included.
    pub sources: Vec<Source>,
}

/// The metadata documents of an array.
pub(super) enum Documents {
    V2 { array: Value, attributes: Value },
    V3(Value),
}

/// The arrays of a hierarchy, sorted by path, and the attributes of its groups.
#[derive(Default)]
pub(super) struct Nodes {
    pub arrays: Vec<Node>,
    pub groups: GroupAttributes,
    /// The group of images that the hierarchy is in, if the hierarchy is one array.
    pub enclosing: Option<EnclosingGroup>,
}

/// The kind of a directory.
pub(super) enum DirectoryKind {
    Array(Documents, Vec<Source>),
    /// A group, with its attributes if they can be read.
    Group(Result<Value>),
    /// A directory without metadata, which may still contain arrays.
    Plain,
}

/// Finds the arrays and groups below `root`. Adds a warning for each that is left out.
pub(super) fn find(root: &Root, warnings: &mut Warnings) -> Result<Nodes> {
    let folder = root.absolute();
    let mut walk = Walk {
        root,
        nodes: Nodes::default(),
        folders: 0,
        linked: HashSet::new(),
        looked_at: 0,
        warnings,
    };
    match kind(root, folder)? {
        DirectoryKind::Array(documents, sources) => {
            walk.push(String::new(), folder.to_path_buf(), documents, sources)?;
            walk.nodes.enclosing = enclosing_group(root);
        }
        DirectoryKind::Group(attributes) => {
            walk.add_group(String::new(), attributes);
            walk.enter(folder, "", 0)?;
        }
        DirectoryKind::Plain => walk.consolidated()?,
    }
    let mut nodes = walk.nodes;
    nodes.arrays.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

/// The documents of which the root of a hierarchy has at least one. The most likely ones come first.
pub(crate) const ROOT_DOCUMENTS: [&str; 4] = ["zarr.json", ".zmetadata", ".zarray", ".zgroup"];

/// Returns `true` if a directory is the root of a hierarchy, judging by its file names.
pub fn is_hierarchy(folder: &Path) -> bool {
    ROOT_DOCUMENTS
        .iter()
        .any(|name| folder.join(name).is_file())
}

/// Returns `true` if a directory is that of an array.
pub(crate) fn is_array(folder: &Path) -> bool {
    let kind = Root::open(folder, OutwardLinks::Follow).and_then(|root| kind(&root, folder));
    matches!(kind, Ok(DirectoryKind::Array(..)))
}

/// Returns the kind of a directory, and reads its metadata.
pub(super) fn kind(root: &Root, folder: &Path) -> Result<DirectoryKind> {
    let mut sources = Vec::new();
    let mut document = |name: &str| -> Result<Option<Value>> {
        let path = folder.join(name);
        let (bytes, identity) = json::read(root, &path)?.unzip();
        let value = bytes.map(|bytes| json::parse(&path, &bytes)).transpose()?;
        sources.push((path, identity));
        Ok(value)
    };
    if let Some(mut value) = document("zarr.json")? {
        let malformed = |field, expected| {
            let path = folder.join("zarr.json");
            let found = value
                .get(field)
                .map_or("absent".to_string(), Value::to_string);
            let found = json::clipped(&found);
            Err(Error::malformed(
                ErrorLocation::file(&path),
                field,
                found,
                expected,
            ))
        };
        if value.get("zarr_format").and_then(Value::as_u64) != Some(3) {
            return malformed("zarr_format", "3");
        }
        return match value.get("node_type").and_then(Value::as_str) {
            Some("array") => Ok(DirectoryKind::Array(Documents::V3(value), sources)),
            Some("group") => Ok(DirectoryKind::Group(Ok(value["attributes"].take()))),
            _ => malformed("node_type", "\"array\" or \"group\""),
        };
    }
    if let Some(array) = document(".zarray")? {
        let attributes = document(".zattrs")?.unwrap_or_default();
        return Ok(DirectoryKind::Array(
            Documents::V2 { array, attributes },
            sources,
        ));
    }
    if folder.join(".zgroup").is_file() {
        let attributes = document(".zattrs").map(Option::unwrap_or_default);
        return Ok(DirectoryKind::Group(attributes));
    }
    Ok(DirectoryKind::Plain)
}

struct Walk<'a> {
    root: &'a Root,
    nodes: Nodes,
    folders: usize,
    /// The targets of the links followed so far.
    linked: HashSet<PathBuf>,
    /// Number of directory entries within arrays checked for links so far.
    looked_at: usize,
    warnings: &'a mut Warnings,
}

impl Walk<'_> {
    /// Searches the subdirectories of `folder`, which is not the directory of an array.
    fn enter(&mut self, folder: &Path, name: &str, depth: usize) -> Result<()> {
        let mut found = Vec::new();
        for entry in folder.read_dir().map_err(Error::io(folder, "list"))? {
            let entry = entry.map_err(Error::io(folder, "list"))?;
            // Names of nodes are UTF-8 and do not start with a dot.
            let entry_name = entry.file_name().into_string();
            let Some(entry_name) = entry_name.ok().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let Ok(file_type) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            let is_folder = if file_type.is_symlink() {
                path.is_dir() && self.is_followed(folder, &path) && self.may_follow(&path)
            } else {
                file_type.is_dir()
            };
            if is_folder {
                found.push((entry_name, path));
                self.count_directory()?;
            }
        }
        found.sort_unstable();
        for (entry_name, path) in found {
            let name = match name {
                "" => entry_name,
                name => format!("{name}/{entry_name}"),
            };
            match kind(self.root, &path) {
                Ok(DirectoryKind::Array(documents, sources)) => {
                    self.push(name, path, documents, sources)?;
                }
                Ok(found) if depth + 1 < MAX_DEPTH => {
                    if let DirectoryKind::Group(attributes) = found {
                        self.add_group(name.clone(), attributes);
                    }
                    match self.enter(&path, &name, depth + 1) {
                        // The directories beside it can still be read.
                        Err(error @ Error::Io { .. }) => {
                            self.warnings
                                .push_damage(format!("{name:?} is left out: {error}"));
                        }
                        entered => entered?,
                    }
                }
                Ok(_) => self.warnings.push(format!(
                    "group {name:?} is left out: nested more than {MAX_DEPTH} groups deep"
                )),
                Err(error) => self
                    .warnings
                    .push_damage(format!("{name:?} is left out: {error}")),
            }
        }
        Ok(())
    }

    /// Returns `true` if following a link in `folder` cannot loop.
    ///
    /// A link must lead neither to a directory that contains it nor to a target already followed.
    fn is_followed(&mut self, folder: &Path, link: &Path) -> bool {
        match (folder.canonicalize(), link.canonicalize()) {
            (Ok(folder), Ok(target)) => !folder.starts_with(&target) && self.linked.insert(target),
            _ => false,
        }
    }

    /// Returns `true` if a link may be followed. Adds a warning if it leads out of the hierarchy.
    fn may_follow(&mut self, link: &Path) -> bool {
        if !self.root.is_outside(link) {
            return true;
        }
        let is_followed = self.root.links() == OutwardLinks::Follow;
        self.warnings.push(format!(
            "{}: the link leads out of the Zarr hierarchy; {}",
            link.display(),
            match is_followed {
                true => "it is followed",
                false => "it is left out",
            }
        ));
        is_followed
    }

    /// Adds a warning for the first link in an array's directory that leads out of the hierarchy.
    fn warn_about_links(&mut self, folder: &Path) {
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            // A directory that cannot be listed is reported when it is read.
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                self.looked_at += 1;
                if self.looked_at > MAX_LINK_CHECKS {
                    return;
                }
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                let path = entry.path();
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_symlink() && self.root.is_outside(&path) {
                    self.warnings.push(format!(
                        "{}: the link leads out of the Zarr hierarchy; chunks are read from there",
                        path.display()
                    ));
                    return;
                }
            }
        }
    }

    /// Adds a group. Its arrays can be read without its attributes.
    fn add_group(&mut self, name: String, attributes: Result<Value>) {
        match attributes {
            Ok(attributes) => {
                self.nodes.groups.insert(name, texts(&attributes));
            }
            Err(error) => self.warnings.push_damage(format!(
                "the attributes of the group {name:?} are left out: {error}"
            )),
        }
    }

    fn push(
        &mut self,
        name: String,
        folder: PathBuf,
        documents: Documents,
        sources: Vec<Source>,
    ) -> Result<()> {
        if self.nodes.arrays.len() == MAX_ARRAYS {
            return Err(self.too_many(MAX_ARRAYS, "arrays"));
        }
        if self.root.links() == OutwardLinks::Follow {
            self.warn_about_links(&folder);
        }
        self.nodes.arrays.push(Node {
            name,
            folder,
            documents,
            sources,
        });
        Ok(())
    }

    fn count_directory(&mut self) -> Result<()> {
        self.folders += 1;
        if self.folders > MAX_DIRECTORIES {
            return Err(self.too_many(MAX_DIRECTORIES, "directories"));
        }
        Ok(())
    }

    fn too_many(&self, most: usize, what: &str) -> Error {
        Error::malformed(
            ErrorLocation::file(self.root.path()),
            "hierarchy",
            format!("one of more than {most} {what}"),
            "fewer",
        )
    }

    /// Adds the arrays that `.zmetadata` lists, for a directory without other metadata.
    fn consolidated(&mut self) -> Result<()> {
        let path = self.root.absolute().join(".zmetadata");
        let Some((bytes, identity)) = json::read(self.root, &path)? else {
            return Err(Error::malformed(
                ErrorLocation::file(self.root.path()),
                "directory",
                "one without any of zarr.json, .zgroup, .zarray and .zmetadata",
                "a Zarr hierarchy",
            ));
        };
        let value = json::parse(&path, &bytes)?;
        let (arrays, groups) = consolidated(&path, value, self.warnings)?;
        self.nodes.groups = groups;
        for (name, documents) in arrays {
            let folder = self.root.absolute().join(&name);
            let sources = vec![(path.clone(), Some(identity.clone()))];
            self.push(name, folder, documents, sources)?;
        }
        Ok(())
    }
}

/// Returns the names and the documents of the arrays that a `.zmetadata` document lists, and the
/// attributes of the groups. Adds a warning for each array that is left out.
pub(super) fn consolidated(
    path: &Path,
    mut value: Value,
    warnings: &mut Warnings,
) -> Result<(Vec<(String, Documents)>, GroupAttributes)> {
    let Some(Value::Object(documents)) = value.get_mut("metadata").map(Value::take) else {
        let location = ErrorLocation::file(path);
        return Err(Error::malformed(
            location,
            "metadata",
            "absent",
            "an object",
        ));
    };
    let mut documents: BTreeMap<String, Value> = documents.into_iter().collect();
    let names = documents.keys();
    let names = names.filter_map(|key| key.strip_suffix(".zarray"));
    let prefixes = names.filter(|name| name.is_empty() || name.ends_with('/'));
    let prefixes: Vec<String> = prefixes.map(ToString::to_string).collect();
    let mut arrays = Vec::new();
    for prefix in prefixes {
        let name = prefix.trim_end_matches('/');
        let array = documents.remove(&format!("{prefix}.zarray"));
        let attributes = documents.remove(&format!("{prefix}.zattrs"));
        if !name.is_empty() && !is_path(name) {
            warnings.push(format!(
                "{name:?} is left out: its name is not a valid path"
            ));
            continue;
        }
        let documents = Documents::V2 {
            array: array.unwrap_or_default(),
            attributes: attributes.unwrap_or_default(),
        };
        arrays.push((name.to_string(), documents));
    }
    let groups = documents.iter().filter_map(|(key, attributes)| {
        let group = key.strip_suffix(".zattrs")?.trim_end_matches('/');
        Some((group.to_string(), texts(attributes)))
    });
    Ok((arrays, groups.collect()))
}

/// Returns `true` if a name is a path that stays within the hierarchy on every system.
pub(super) fn is_path(name: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    name.split('/').all(part) && !name.contains(['\\', ':', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directories of chunks are only searched for links, and only up to a maximum number of
    /// entries.
    #[test]
    fn opening_does_not_list_all_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
        std::fs::write(folder.path().join("zarr.json"), group).unwrap();
        for name in ["a", "b"] {
            let chunks = folder.path().join(name).join("c");
            std::fs::create_dir_all(&chunks).unwrap();
            let array = r#"{"zarr_format": 3, "node_type": "array"}"#;
            std::fs::write(folder.path().join(name).join("zarr.json"), array).unwrap();
            for chunk in 0..MAX_LINK_CHECKS {
                std::fs::File::create(chunks.join(chunk.to_string())).unwrap();
            }
        }
        for links in [OutwardLinks::Follow, OutwardLinks::Refuse] {
            let root = Root::open(folder.path(), links).unwrap();
            let mut walk = Walk {
                root: &root,
                nodes: Nodes::default(),
                folders: 0,
                linked: HashSet::new(),
                looked_at: 0,
                warnings: &mut Warnings::default(),
            };
            walk.enter(root.absolute(), "", 0).unwrap();
            assert_eq!((walk.nodes.arrays.len(), walk.folders), (2, 2));
            // The one entry of each array beyond the limit ends the search there.
            let most = match links {
                OutwardLinks::Follow => MAX_LINK_CHECKS + 2,
                OutwardLinks::Refuse => 0,
            };
            assert!(walk.looked_at <= most, "{}", walk.looked_at);
        }
    }
}
