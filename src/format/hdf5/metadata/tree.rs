//! The groups and datasets of a file.

use std::collections::HashSet;

use hdf5_reader::messages::{MSG_DATA_LAYOUT, MSG_DATASPACE};

use crate::format::hdf5::metadata::header::{self, Message, NOT_SUPPORTED};
use crate::format::hdf5::metadata::links::{self, LinkTarget, is_of_group};
use crate::format::hdf5::metadata::soft_links::{SoftLinks, Step};
use crate::format::hdf5::source::{Found, Source};

/// Maximum depth of groups within groups.
const MAX_DEPTH: usize = 64;
/// Maximum number of groups and datasets.
pub(super) const MAX_OBJECTS: usize = 1 << 16;
/// Maximum number of external links that are named one by one.
const MAX_EXTERNAL: usize = 16;
/// Maximum number of bytes of all object headers together.
const MAX_HEADERS: usize = 256 << 20;

/// A group or a dataset.
#[derive(Debug)]
pub(in crate::format::hdf5) struct Object {
    /// The path without a leading slash: `group/name`, and empty for the root group.
    pub path: String,
    /// The address of the object header, by which references name the object.
    pub address: u64,
    /// The index of the group that the object is in.
    pub group: usize,
    pub messages: Vec<Message>,
}

impl Object {
    /// Returns the path without the groups.
    pub fn base_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The groups and datasets of a file, each group before its members.
#[derive(Debug, Default)]
pub(in crate::format::hdf5) struct Tree {
    /// The root group is the first.
    pub groups: Vec<Object>,
    pub datasets: Vec<Object>,
    /// Further names of datasets, by soft links: the path, and the index of the dataset.
    pub aliases: Vec<(String, usize)>,
    /// Objects with damaged metadata: the path, and what was found.
    pub damaged: Vec<(String, String)>,
    /// Further objects that cannot be read: the path, and the reason.
    pub unreadable: Vec<(String, String)>,
    /// Texts about links that are left out together.
    pub left_out: Vec<String>,
}

impl Tree {
    /// Reads the headers of all objects. Objects that cannot be read are left out.
    ///
    /// An object with several hard links has the path of the first one.
    ///
    /// # Errors
    /// Returns a message if the root group cannot be read.
    pub fn read(source: &Source) -> Found<Self> {
        let messages = header::read(source, source.root)?;
        let mut tree = Self::default();
        let mut bytes = 0;
        let mut seen = HashSet::from([source.root]);
        tree.groups.push(Object {
            path: String::new(),
            address: source.root,
            group: 0,
            messages,
        });
        // Depth first, so that the datasets of a group and of its groups follow one another.
        let mut soft_links = SoftLinks::default();
        let mut external = 0;
        let mut pending = vec![(0, 0)];
        while let Some((group, depth)) = pending.pop() {
            let members = match links::members(source, &tree.groups[group].messages) {
                Ok(members) => members,
                Err(found) if group == 0 => return Err(found),
                Err(found) => {
                    tree.damaged.push((tree.groups[group].path.clone(), found));
                    continue;
                }
            };
            let above = pending.len();
            for member in members {
                let path = match tree.groups[group].path.as_str() {
                    "" => member.name.clone(),
                    above => format!("{above}/{}", member.name),
                };
                let address = match member.target {
                    LinkTarget::Hard { address } => {
                        soft_links.add(group, member.name, Step::Object(address));
                        address
                    }
                    LinkTarget::Soft { path } => {
                        soft_links.add(group, member.name, Step::Link(path));
                        continue;
                    }
                    LinkTarget::External {
                        filename,
                        path: inner,
                    } => {
                        external += 1;
                        if external > MAX_EXTERNAL {
                            continue;
                        }
                        let found = format!(
                            "an external link to {inner:?} in the file {filename:?}, which is not followed"
                        );
                        tree.unreadable.push((path, found));
                        continue;
                    }
                };
                if !seen.insert(address) {
                    continue;
                }
                let full = tree.groups.len() + tree.datasets.len() >= MAX_OBJECTS;
                let messages = match header::read(source, address) {
                    _ if full || bytes > MAX_HEADERS => {
                        let found = format!("more than {MAX_OBJECTS} objects in the file");
                        tree.unreadable.push((path, found));
                        return Ok(tree);
                    }
                    Ok(messages) => messages,
                    Err(found) if found.ends_with(NOT_SUPPORTED) => {
                        tree.unreadable.push((path, found));
                        continue;
                    }
                    Err(found) => {
                        tree.damaged.push((path, found));
                        continue;
                    }
                };
                bytes += messages
                    .iter()
                    .map(|message| message.body.len())
                    .sum::<usize>();
                let has = |kinds: &dyn Fn(u16) -> bool| {
                    messages.iter().any(|message| kinds(message.kind))
                };
                let is_group = has(&is_of_group);
                let is_dataset = has(&|kind| [MSG_DATA_LAYOUT, MSG_DATASPACE].contains(&kind));
                let object = Object {
                    path,
                    address,
                    group,
                    messages,
                };
                if is_group && depth < MAX_DEPTH {
                    pending.push((tree.groups.len(), depth + 1));
                    tree.groups.push(object);
                } else if is_group {
                    let found = format!("more than {MAX_DEPTH} groups within groups");
                    tree.unreadable.push((object.path, found));
                } else if is_dataset {
                    tree.datasets.push(object);
                }
            }
            pending[above..].reverse();
        }
        if external > MAX_EXTERNAL {
            let others = external - MAX_EXTERNAL;
            let found = format!("{others} more external links, which are not followed");
            tree.left_out.push(found);
        }
        soft_links.follow(&mut tree);
        Ok(tree)
    }
}
