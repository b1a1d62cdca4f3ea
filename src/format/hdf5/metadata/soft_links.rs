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
/// Maximum number of bytes of the names and paths of these members, and of the paths of datasets that soft
/// links add.
const MAX_TEXTS: usize = 64 << 20;

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
    text_bytes: usize,
    /// The number of members that were left out beyond the limits.
    left_out: usize,
    /// The group and the name of each soft link, in the order of the file.
    links: Vec<(usize, String)>,
}

impl SoftLinks {
    /// Adds a member of a group.
    pub fn add(&mut self, group: usize, name: String, step: Step) {
        let path = match &step {
            Step::Link(path) => path.as_str(),
            Step::Object(_) => "",
        };
        let text_bytes = self.text_bytes + name.len() + path.len();
        if self.count == MAX_STEPS || text_bytes > MAX_TEXTS {
            self.left_out += 1;
            return;
        }
        self.count += 1;
        self.text_bytes = text_bytes;
        if matches!(step, Step::Link(_)) && self.links.len() <= MAX_LINKS {
            self.links.push((group, name.clone()));
        }
        self.steps.entry(group).or_default().insert(name, step);
    }

    /// Adds the datasets that soft links name to the aliases of a tree. A link to a group adds the datasets in
    /// the group. Links that lead nowhere are unreadable.
    pub fn follow(mut self, tree: &mut Tree) {
        if self.left_out > 0 {
            tree.left_out.push(format!(
                "{} members of groups beyond {MAX_STEPS} members or {MAX_TEXTS} bytes of names and paths; soft \
                 links among them, and to them, are left out",
                self.left_out
            ));
        }
        let mut text_bytes = 0;
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
            let has_room = match target {
                Ok((Some(dataset), _)) => add_alias(tree, &mut text_bytes, path, *dataset),
                Ok((None, Some(target))) => {
                    let within = format!("{}/", tree.groups[*target].path);
                    if *target == 0 || path.starts_with(&within) {
                        let found = "a soft link to a group around it".to_string();
                        tree.unreadable.push((path, found));
                        continue;
                    }
                    (0..tree.datasets.len()).all(|number| {
                        let inner = tree.datasets[number].path.strip_prefix(&within);
                        let alias = inner.map(|inner| format!("{path}/{inner}"));
                        alias.is_none_or(|alias| add_alias(tree, &mut text_bytes, alias, number))
                    })
                }
                // The object is neither, or was left out.
                Ok((None, None)) => true,
                Err(found) => {
                    let found = format!("a soft link {found}");
                    tree.unreadable.push((path, found));
                    true
                }
            };
            if !has_room {
                tree.left_out.push(format!(
                    "more than {MAX_OBJECTS} datasets by all their names, or names of more than {MAX_TEXTS} bytes; \
                     other soft links are left out"
                ));
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

/// Adds a further name of a dataset. Returns `false` if the limits do not allow it.
fn add_alias(tree: &mut Tree, text_bytes: &mut usize, path: String, dataset: usize) -> bool {
    *text_bytes += path.len();
    let has_room = tree.datasets.len() + tree.aliases.len() < MAX_OBJECTS;
    if has_room && *text_bytes <= MAX_TEXTS {
        tree.aliases.push((path, dataset));
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hdf5::metadata::tree::Object;

    fn object(path: &str, address: u64) -> Object {
        Object {
            path: path.to_string(),
            address,
            group: 0,
            messages: Vec::new(),
        }
    }

    fn followed(links: SoftLinks, datasets: usize) -> Tree {
        let mut tree = Tree::default();
        tree.groups.push(object("", 1));
        tree.groups.push(object("group", 2));
        for number in 0..datasets {
            let dataset = object(&format!("group/{number}"), 3 + number as u64);
            tree.datasets.push(dataset);
        }
        links.follow(&mut tree);
        tree
    }

    #[test]
    fn members_beyond_the_limits_give_a_warning() {
        let mut links = SoftLinks::default();
        for number in 0..=MAX_STEPS {
            links.add(0, format!("{number}"), Step::Object(3));
        }
        let tree = followed(links, 1);
        let [found] = tree.left_out.as_slice() else {
            panic!("{:?}", tree.left_out);
        };
        assert!(found.starts_with("1 members"), "{found}");
        let mut links = SoftLinks::default();
        for number in 0..MAX_TEXTS >> 20 {
            let path = "x".repeat(1 << 20);
            links.add(0, format!("{number}"), Step::Link(path));
        }
        assert_eq!(links.left_out, 1);
        assert_eq!(followed(links, 1).left_out.len(), 1);
    }

    #[test]
    fn names_of_datasets_beyond_the_limits_give_a_warning() {
        let names = [
            (100, "x".repeat(1 << 20)),
            (MAX_OBJECTS - 2, "link".to_string()),
        ];
        for (datasets, name) in names {
            let mut links = SoftLinks::default();
            links.add(0, "group".to_string(), Step::Object(2));
            links.add(0, name, Step::Link("group".to_string()));
            let tree = followed(links, datasets);
            assert!(
                (1..datasets).contains(&tree.aliases.len()),
                "{}",
                tree.aliases.len()
            );
            let [found] = tree.left_out.as_slice() else {
                panic!("{:?}", tree.left_out);
            };
            assert!(found.contains("other soft links are left out"), "{found}");
        }
    }
}
