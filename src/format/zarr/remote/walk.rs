//! Finds the arrays of a hierarchy in an object store, with few requests.
//!
//! ```text
//! zarr.json      an array, or a group with consolidated metadata: one request
//! .zmetadata     the consolidated metadata of version 2: one more request
//! otherwise      .zarray or .zgroup, then the groups level by level, if the store lists directories,
//!                else the arrays that the attributes of an OME-Zarr image name
//! ```

use std::io::ErrorKind;
use std::path::PathBuf;

use bytes::Bytes;
use serde_json::Value;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::Warnings;
use crate::format::io::remote::RemoteDirectory;
use crate::format::zarr::metadata::attributes::texts;
use crate::format::zarr::metadata::json;
use crate::format::zarr::metadata::ome::paths;
use crate::format::zarr::remote::images::enclosing_group;
use crate::format::zarr::walk::{
    Documents, MAX_ARRAYS, MAX_DEPTH, MAX_DIRECTORIES, Node, Nodes, ROOT_DOCUMENTS, consolidated,
    is_path,
};

/// Advice for a hierarchy whose arrays cannot be found.
const ADVICE: &str = "name one array by its path (store.zarr/t2m), or consolidate the metadata with Python: \
                      zarr.consolidate_metadata";

/// Finds the arrays and groups of a hierarchy. Adds a warning for each array that is left out.
pub(in crate::format::zarr) fn find(
    directory: &RemoteDirectory,
    warnings: &mut Warnings,
) -> Result<Nodes> {
    let mut walk = Walk {
        directory,
        nodes: Nodes::default(),
        unread_groups: Vec::new(),
        directories: 0,
        denies_absent: false,
        warnings,
    };
    // Documents are read one by one, because stores may answer 403 for those that do not exist.
    let mut denied = None;
    let mut found = None;
    for name in ROOT_DOCUMENTS {
        match directory.documents(&[name.to_string()], json::MAX_BYTES) {
            Ok(documents) => {
                if let Some(bytes) = documents.into_iter().flatten().next() {
                    found = Some((name, bytes));
                    break;
                }
            }
            Err(error) if is_denied(&error) => denied = denied.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    walk.denies_absent = denied.is_some();
    match found {
        Some(("zarr.json", bytes)) => walk.version_3(&bytes)?,
        Some((".zmetadata", bytes)) => {
            let value = walk.parse(".zmetadata", &bytes)?;
            let path = walk.path(".zmetadata");
            let (arrays, groups) = consolidated(&path, value, walk.warnings)?;
            walk.nodes.groups = groups;
            for (name, documents) in arrays {
                walk.push(name, documents)?;
            }
        }
        Some((".zarray", bytes)) => {
            let attributes = walk.attributes(&[String::new()])?.pop();
            let attributes = attributes.unwrap_or_else(|| Ok(Value::default()))?;
            let array = walk.parse(".zarray", &bytes)?;
            walk.push_alone(Documents::V2 { array, attributes })?;
        }
        Some(_) => walk.enter("", 0)?,
        None => {
            return Err(denied.unwrap_or_else(|| {
                Error::malformed(
                    ErrorLocation::file(directory.path()),
                    "directory",
                    format!("one without any of {}", ROOT_DOCUMENTS.join(", ")),
                    "a Zarr hierarchy",
                )
            }));
        }
    }
    let unread = std::mem::take(&mut walk.unread_groups);
    walk.read_groups(unread)?;
    let mut nodes = walk.nodes;
    nodes.arrays.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

/// Returns `true` if a store refused a request (403 Forbidden).
fn is_denied(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied)
}

struct Walk<'a> {
    directory: &'a RemoteDirectory,
    nodes: Nodes,
    /// The groups of version 2 with attributes, which are read at the end, several at a time.
    unread_groups: Vec<String>,
    directories: usize,
    /// `true` if the store has denied a document of the root, as some stores do for absent objects.
    denies_absent: bool,
    warnings: &'a mut Warnings,
}

impl Walk<'_> {
    fn path(&self, key: &str) -> PathBuf {
        self.directory.place(key).path().to_path_buf()
    }

    fn parse(&self, key: &str, bytes: &[u8]) -> Result<Value> {
        json::parse(&self.path(key), bytes)
    }

    /// Reads documents that may be absent, several at a time.
    fn documents(&self, keys: &[String]) -> Result<Vec<Result<Option<Bytes>>>> {
        let found = self.directory.each_document(keys, json::MAX_BYTES)?;
        let found = found.into_iter().map(|document| match document {
            Err(error) if self.denies_absent && is_denied(&error) => Ok(None),
            document => document,
        });
        Ok(found.collect())
    }

    /// Reads the attributes of arrays and groups of version 2; null for those without.
    fn attributes(&self, names: &[String]) -> Result<Vec<Result<Value>>> {
        let keys = keys(names, ".zattrs");
        let found = self.documents(&keys)?.into_iter().zip(&keys);
        let parsed = found.map(|(document, key)| match document? {
            Some(bytes) => self.parse(key, &bytes),
            None => Ok(Value::default()),
        });
        Ok(parsed.collect())
    }

    /// Adds the arrays of a hierarchy of version 3, whose root has this document.
    fn version_3(&mut self, bytes: &[u8]) -> Result<()> {
        let value = self.parse("zarr.json", bytes)?;
        match value.get("node_type").and_then(Value::as_str) {
            Some("array") => self.push_alone(Documents::V3(value)),
            Some("group") => {
                self.add_group("", &value);
                match value.pointer("/consolidated_metadata/metadata") {
                    Some(Value::Object(nodes)) => self.inline(nodes),
                    _ => self.enter("", 0),
                }
            }
            other => Err(Error::malformed(
                ErrorLocation::file(&self.path("zarr.json")),
                "node_type",
                format!("{other:?}"),
                "\"array\" or \"group\"",
            )),
        }
    }

    /// Adds a group with the attributes in its document of version 3.
    fn add_group(&mut self, name: &str, document: &Value) {
        let attributes = texts(&document["attributes"]);
        self.nodes.groups.insert(name.to_string(), attributes);
    }

    /// Adds groups of version 2 with their attributes. The arrays can be read without them.
    fn read_groups(&mut self, groups: Vec<String>) -> Result<()> {
        let attributes = self.attributes(&groups)?;
        for (group, attributes) in groups.into_iter().zip(attributes) {
            match attributes {
                Ok(attributes) => {
                    self.nodes.groups.insert(group, texts(&attributes));
                }
                Err(error) => self.warnings.push_damage(format!(
                    "the attributes of the group {group:?} are left out: {error}"
                )),
            }
        }
        Ok(())
    }

    /// Adds the array that the hierarchy consists of.
    fn push_alone(&mut self, documents: Documents) -> Result<()> {
        self.nodes.enclosing = enclosing_group(self.directory, &documents);
        self.push(String::new(), documents)
    }

    fn push(&mut self, name: String, documents: Documents) -> Result<()> {
        if self.nodes.arrays.len() == MAX_ARRAYS {
            return Err(self.too_many(MAX_ARRAYS, "arrays"));
        }
        self.nodes.arrays.push(Node {
            folder: PathBuf::from(&name),
            name,
            documents,
            sources: Vec::new(),
        });
        Ok(())
    }

    /// Adds the arrays and groups that the consolidated metadata of version 3 lists.
    fn inline(&mut self, documents: &serde_json::Map<String, Value>) -> Result<()> {
        for (name, document) in documents {
            let name = name.trim_matches('/');
            match document.get("node_type").and_then(Value::as_str) {
                Some("array") => {}
                Some("group") => {
                    self.add_group(name, document);
                    continue;
                }
                _ => continue,
            }
            if !is_path(name) {
                self.warnings.push(format!(
                    "{name:?} is left out: its name is not a valid path"
                ));
                continue;
            }
            self.push(name.to_string(), Documents::V3(document.clone()))?;
        }
        Ok(())
    }

    /// Searches the directories in a group, which the store has to list.
    fn enter(&mut self, group: &str, depth: usize) -> Result<()> {
        if depth == MAX_DEPTH {
            self.warnings.push(format!(
                "group {group:?} is left out: nested more than {MAX_DEPTH} groups deep"
            ));
            return Ok(());
        }
        let entries = match self.directory.entries(group) {
            Ok(entries) => entries,
            Err(_) if group.is_empty() && self.image()? => return Ok(()),
            Err(error) => {
                let message = format!("the arrays of this group are not known: {error}; {ADVICE}");
                return Err(Error::invalid(self.directory.path(), message));
            }
        };
        // A server that does not know the request may answer that nothing is there, even though the root has
        // a document.
        if group.is_empty() && entries.directories.is_empty() && entries.objects.is_empty() {
            self.image()?;
            return Ok(());
        }
        let has = |name: &str| entries.objects.iter().any(|object| object == name);
        if has(".zgroup") && !self.nodes.groups.contains_key(group) {
            match has(".zattrs") {
                true => self.unread_groups.push(group.to_string()),
                false => self.add_group(group, &Value::default()),
            }
        }
        let names = entries.directories.iter();
        let names = names.filter(|name| !name.starts_with('.'));
        let names: Vec<String> = names.map(|name| join(group, name)).collect();
        self.directories += names.len();
        if self.directories > MAX_DIRECTORIES {
            return Err(self.too_many(MAX_DIRECTORIES, "directories"));
        }
        // One round of requests for all documents, then one for the attributes of version 2.
        let all = [keys(&names, "zarr.json"), keys(&names, ".zarray")].concat();
        let found = self.directory.documents(&all, json::MAX_BYTES)?;
        let (version_3, version_2) = found.split_at(names.len());
        let nodes = self.nodes_in(&names, version_3, version_2)?;
        for (name, documents) in names.into_iter().zip(nodes) {
            match documents {
                Ok(Some(documents)) => self.push(name, documents)?,
                Ok(None) => self.enter(&name, depth + 1)?,
                Err(error) => self
                    .warnings
                    .push_damage(format!("{name:?} is left out: {error}")),
            }
        }
        Ok(())
    }

    /// Returns the documents of the arrays in these directories; `None` for directories without an array. Adds
    /// the groups of version 3. The slices have the documents `zarr.json` and `.zarray` of each directory.
    fn nodes_in(
        &mut self,
        names: &[String],
        version_3: &[Option<Bytes>],
        version_2: &[Option<Bytes>],
    ) -> Result<Vec<Result<Option<Documents>>>> {
        let of_arrays = names.iter().zip(version_2);
        let of_arrays = of_arrays.filter(|(_, array)| array.is_some());
        let of_arrays: Vec<String> = of_arrays.map(|(name, _)| name.clone()).collect();
        let mut attributes = self.attributes(&of_arrays)?.into_iter();
        let mut nodes = Vec::new();
        for ((name, group_or_array), array) in names.iter().zip(version_3).zip(version_2) {
            let attributes = array.as_ref().and_then(|_| attributes.next());
            // An array is left out because of what its documents contain, not because a request failed.
            let attributes = match attributes {
                Some(Err(error @ Error::Io { .. })) => return Err(error),
                attributes => attributes.unwrap_or_else(|| Ok(Value::default())),
            };
            nodes.push(match (group_or_array, array) {
                (Some(bytes), _) => self.parse(&join(name, "zarr.json"), bytes).map(|value| {
                    let kind = value.get("node_type").and_then(Value::as_str);
                    if kind == Some("array") {
                        return Some(Documents::V3(value));
                    }
                    self.add_group(name, &value);
                    None
                }),
                (None, Some(bytes)) => attributes.and_then(|attributes| {
                    let array = self.parse(&join(name, ".zarray"), bytes)?;
                    Ok(Some(Documents::V2 { array, attributes }))
                }),
                (None, None) => Ok(None),
            });
        }
        Ok(nodes)
    }

    /// Adds the arrays that the metadata of an OME-Zarr image in the root names. Returns `false` if it names
    /// none.
    fn image(&mut self) -> Result<bool> {
        let is_version_3 = self.nodes.groups.contains_key("");
        if !is_version_3 {
            self.read_groups(vec![String::new()])?;
        }
        let names = self.nodes.groups.get("").map(paths).unwrap_or_default();
        let names: Vec<String> = names.into_iter().filter(|name| is_path(name)).collect();
        let document = if is_version_3 { "zarr.json" } else { ".zarray" };
        let found = self.documents(&keys(&names, document))?;
        let found = found.into_iter().collect::<Result<Vec<_>>>()?;
        let none = vec![None; names.len()];
        let nodes = match is_version_3 {
            true => self.nodes_in(&names, &found, &none)?,
            false => self.nodes_in(&names, &none, &found)?,
        };
        let is_image = !names.is_empty();
        for (name, documents) in names.into_iter().zip(nodes) {
            match documents {
                Ok(Some(documents)) => self.push(name, documents)?,
                Ok(None) => self.warnings.push(format!(
                    "array {name:?} is left out: the metadata of the image names it, but it does not exist"
                )),
                Err(error) => self
                    .warnings
                    .push_damage(format!("{name:?} is left out: {error}")),
            }
        }
        Ok(is_image)
    }

    fn too_many(&self, most: usize, what: &str) -> Error {
        Error::malformed(
            ErrorLocation::file(self.directory.path()),
            "hierarchy",
            format!("one of more than {most} {what}"),
            "fewer",
        )
    }
}

/// Returns the keys of an entry of each directory.
fn keys(directories: &[String], entry: &str) -> Vec<String> {
    let keys = directories.iter().map(|directory| join(directory, entry));
    keys.collect()
}

/// Returns the key of an entry of a directory.
fn join(directory: &str, entry: &str) -> String {
    match directory {
        "" => entry.to_string(),
        directory => format!("{directory}/{entry}"),
    }
}
