//! Soft links: members of a group that name the path of another object.

use std::collections::HashMap;

use crate::format::hdf5::metadata::links::MAX_TARGET;
use crate::format::hdf5::metadata::tree::{MAX_OBJECTS, Tree};
use crate::format::hdf5::source::Found;

/// Maximum number of soft links on the way to an object.
const MAX_HOPS: usize = 16;
/// Maximum number of soft links that are followed.
const MAX_LINKS: usize = 1 << 12;
/// Maximum number of members of all groups that soft links can name.
const MAX_STEPS: usize = 1 << 18;

/// A member of a group, as a step on the way to an object.
#[derive(Debug)]
pub(super) enum Step {
    /// The address of the object.
    Object(u64),
    /// The path of a soft link.
    Link(String),
}

/// The soft links of a file, and the members of groups that they may lead through.
#[derive(Debug, Default)]
pub(super) struct SoftLinks {
    /// The members of each group, by the index of the group.
    steps: HashMap<usize, HashMap<String, Step>>,
    count: usize,
    /// The group and the name of each soft link, in the order of the file.
    links: Vec<(usize, String)>,
}

impl SoftLinks {
    /// Adds a member of a group.
    pub fn add(&mut self, group: usize, name: String, step: Step) {
        if self.count == MAX_STEPS {
            return;
        }
        self.count += 1;
        if matches!(step, Step::Link(_)) && self.links.len() <= MAX_LINKS {
            self.links.push((group, name.clone()));
        }
        self.steps.entry(group).or_default().insert(name, step);
    }

    /// Adds the datasets that soft links name to the aliases of a tree. A link to a group adds the datasets in
    /// the group. Links that lead nowhere are unreadable.
    pub fn follow(mut self, tree: &mut Tree) {
        let groups = tree.groups.iter().enumerate();
        let groups: HashMap<u64, usize> = groups
            .map(|(number, group)| (group.address, number))
            .collect();
        let datasets = tree.datasets.iter().enumerate();
        let datasets: HashMap<u64, usize> = datasets
            .map(|(number, dataset)| (dataset.address, number))
            .collect();
        for (number, (group, name)) in std::mem::take(&mut self.links).into_iter().enumerate() {
            let path = match tree.groups[group].path.as_str() {
                "" => name.clone(),
                above => format!("{above}/{name}"),
            };
            if number == MAX_LINKS {
                let found = format!("more than {MAX_LINKS} soft links before");
                tree.unreadable.push((path, found));
                return;
            }
            let address = self.resolve(tree, &groups, group, &name, &mut 0);
            let target = address.map(|address| (datasets.get(&address), groups.get(&address)));
            match target {
                Ok((Some(dataset), _)) => tree.aliases.push((path, *dataset)),
                Ok((None, Some(target))) => {
                    let within = format!("{}/", tree.groups[*target].path);
                    if *target == 0 || path.starts_with(&within) {
                        let found = "a soft link to a group around it".to_string();
                        tree.unreadable.push((path, found));
                        continue;
                    }
                    let inner = tree.datasets.iter().enumerate();
                    let inner = inner.filter_map(|(number, dataset)| {
                        let rest = dataset.path.strip_prefix(&within)?;
                        Some((format!("{path}/{rest}"), number))
                    });
                    tree.aliases.extend(inner);
                }
                // The object is neither, or was left out.
                Ok((None, None)) => {}
                Err(found) => {
                    let found = format!("a soft link {found}");
                    tree.unreadable.push((path, found));
                }
            }
            if tree.datasets.len() + tree.aliases.len() > MAX_OBJECTS {
                tree.aliases
                    .truncate(MAX_OBJECTS.saturating_sub(tree.datasets.len()));
                return;
            }
        }
    }

    /// Returns the address of a member of a group, following soft links.
    fn resolve(
        &self,
        tree: &Tree,
        groups: &HashMap<u64, usize>,
        group: usize,
        name: &str,
        hops: &mut usize,
    ) -> Found<u64> {
        let step = self.steps.get(&group).and_then(|steps| steps.get(name));
        let path = match step {
            Some(Step::Object(address)) => return Ok(*address),
            Some(Step::Link(path)) => path,
            None => return Err(format!("to {name:?}, which does not exist")),
        };
        *hops += 1;
        if *hops > MAX_HOPS {
            return Err(format!(
                "to {path:?}, which leads through more than {MAX_HOPS} links"
            ));
        }
        if path.len() > MAX_TARGET {
            return Err(format!("with a path of {} bytes", path.len()));
        }
        let start = if path.starts_with('/') { 0 } else { group };
        let mut address = tree.groups[start].address;
        for name in path.split('/').filter(|name| !["", "."].contains(name)) {
            let inner = groups.get(&address);
            let inner = inner.ok_or_else(|| format!("to {path:?}, which does not exist"))?;
            address = self
                .resolve(tree, groups, *inner, name, hops)
                .map_err(|found| match self.has(*inner, name) {
                    true => found,
                    false => format!("to {path:?}, which does not exist"),
                })?;
        }
        Ok(address)
    }

    fn has(&self, group: usize, name: &str) -> bool {
        let steps = self.steps.get(&group);
        steps.is_some_and(|steps| steps.contains_key(name))
    }
}
