//! Finds the arrays of a hierarchy in an object store, with few requests.
//!
//! ```text
//! zarr.json      an array, or a group with consolidated metadata: one request
//! .zmetadata     the consolidated metadata of version 2: one more request
//! otherwise      .zarray or .zgroup, then the groups level by level, if the store lists directories
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
use crate::format::zarr::walk::{
    Documents, MAX_ARRAYS, MAX_DEPTH, MAX_DIRECTORIES, Node, Nodes, ROOT_DOCUMENTS, consolidated,
    is_path,
};

/// Advice for a hierarchy whose arrays cannot be found.
const ADVICE: &str = "name one array by its path (store.zarr/t2m), or consolidate the metadata with Python: \
                      zarr.consolidate_metadata";

/// Finds the arrays and groups of a hierarchy. Adds a warning for each array that is left out. The
/// attributes of groups are known from their documents of version 3, and from consolidated metadata.
pub(in crate::format::zarr) fn find(
    directory: &RemoteDirectory,
    warnings: &mut Warnings,
) -> Result<Nodes> {
    let mut walk = Walk {
        directory,
        nodes: Nodes::default(),
        directories: 0,
        warnings,
    };
    // Documents are read one by one, because stores may answer 403 for those that do not exist.
    let mut denied = None;
    let mut found = None;
    for name in ROOT_DOCUMENTS {
        match walk.documents([name]) {
            Ok([Some(bytes)]) => {
                found = Some((name, bytes));
                break;
            }
            Ok([None]) => {}
            Err(error) if is_denied(&error) => denied = denied.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
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
            let documents = walk.version_2("", &bytes)?;
            walk.push(String::new(), documents)?;
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
    directories: usize,
    warnings: &'a mut Warnings,
}

impl Walk<'_> {
    fn path(&self, key: &str) -> PathBuf {
        self.directory.place(key).path().to_path_buf()
    }

    fn parse(&self, key: &str, bytes: &[u8]) -> Result<Value> {
        json::parse(&self.path(key), bytes)
    }

    fn documents<const N: usize>(&self, keys: [&str; N]) -> Result<[Option<Bytes>; N]> {
        let keys = keys.map(str::to_string);
        let mut found = self
            .directory
            .documents(&keys, json::MAX_BYTES)?
            .into_iter();
        Ok(std::array::from_fn(|_| found.next().flatten()))
    }

    /// Adds the arrays of a hierarchy of version 3, whose root has this document.
    fn version_3(&mut self, bytes: &[u8]) -> Result<()> {
        let value = self.parse("zarr.json", bytes)?;
        match value.get("node_type").and_then(Value::as_str) {
            Some("array") => self.push(String::new(), Documents::V3(value)),
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

    /// Returns the documents of an array of version 2, whose attributes are still to be read.
    fn version_2(&self, name: &str, array: &[u8]) -> Result<Documents> {
        let [attributes] = self.documents([&join(name, ".zattrs")])?;
        Ok(Documents::V2 {
            array: self.parse(&join(name, ".zarray"), array)?,
            attributes: match attributes {
                Some(bytes) => self.parse(&join(name, ".zattrs"), &bytes)?,
                None => Value::default(),
            },
        })
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
        let names = self.directory.directories(group).map_err(|error| {
            let message = format!("the arrays of this group are not known: {error}; {ADVICE}");
            Error::invalid(self.directory.path(), message)
        })?;
        let names = names.into_iter().filter(|name| !name.starts_with('.'));
        let names: Vec<String> = names.map(|name| join(group, &name)).collect();
        self.directories += names.len();
        if self.directories > MAX_DIRECTORIES {
            return Err(self.too_many(MAX_DIRECTORIES, "directories"));
        }
        // One round of requests for all documents, then one for the attributes of version 2.
        let keys = |document: &str| -> Vec<String> {
            names.iter().map(|name| join(name, document)).collect()
        };
        let all = [keys("zarr.json"), keys(".zarray")].concat();
        let found = self.directory.documents(&all, json::MAX_BYTES)?;
        let (version_3, version_2) = found.split_at(names.len());
        let of_arrays = names
            .iter()
            .zip(version_2)
            .filter(|(_, array)| array.is_some());
        let attributes: Vec<_> = of_arrays.map(|(name, _)| join(name, ".zattrs")).collect();
        self.directory.documents(&attributes, json::MAX_BYTES)?;
        for (number, name) in names.iter().enumerate() {
            let documents = match (&version_3[number], &version_2[number]) {
                (Some(bytes), _) => self.parse(&join(name, "zarr.json"), bytes).map(|value| {
                    let kind = value.get("node_type").and_then(Value::as_str);
                    if kind == Some("array") {
                        return Some(Documents::V3(value));
                    }
                    self.add_group(name, &value);
                    None
                }),
                (None, Some(bytes)) => self.version_2(name, bytes).map(Some),
                (None, None) => Ok(None),
            };
            match documents {
                Ok(Some(documents)) => self.push(name.clone(), documents)?,
                Ok(None) => self.enter(name, depth + 1)?,
                Err(error) => self
                    .warnings
                    .push_damage(format!("{name:?} is left out: {error}")),
            }
        }
        Ok(())
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

/// Returns the key of an entry of a directory.
fn join(directory: &str, entry: &str) -> String {
    match directory {
        "" => entry.to_string(),
        directory => format!("{directory}/{entry}"),
    }
}
