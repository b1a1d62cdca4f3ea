//! The attributes of a file and of its groups, and those that the output cannot hold.

use std::collections::BTreeSet;
use std::path::Path;

use crate::format::array::{ArrayFile, DatasetSpec, GroupAttributes, groups_of};

/// The attributes of OME-Zarr images, which describe arrays by their paths.
const IMAGES: [&str; 2] = ["multiscales", "ome"];
/// The maximum number of attributes or reasons that a message names.
pub(super) const MAX_SHOWN: usize = 8;
/// The maximum number of characters of a name in a message.
const MAX_CHARS: usize = 64;

/// Returns the attributes of the file and of its groups. If some arrays are selected, returns only those of
/// their groups, without the metadata of images, which describes arrays that are not selected. Its coordinates
/// become arrays.
pub(super) fn group_attributes(
    file: &dyn ArrayFile,
    selected: Option<&Vec<DatasetSpec>>,
) -> GroupAttributes {
    let names = selected.map(|specs| {
        let groups = specs.iter().flat_map(|spec| groups_of(spec.name()));
        groups.chain([""]).collect::<BTreeSet<_>>()
    });
    let is_wanted = |group: &str| names.as_ref().is_none_or(|names| names.contains(group));
    let all = file.groups().into_iter().flatten();
    let wanted = all.filter(|(group, _)| is_wanted(group));
    let wanted = wanted.map(|(group, attributes)| {
        let mut attributes = attributes.clone();
        if selected.is_some() {
            attributes.retain(|key, _| !IMAGES.contains(&key.as_str()));
        }
        (group.clone(), attributes)
    });
    wanted
        .filter(|(_, attributes)| !attributes.is_empty())
        .collect()
}

/// Returns the warnings for attributes that the output cannot hold: those of the file, and those of groups.
pub(super) fn lost_attributes(
    groups: &GroupAttributes,
    path: &Path,
    extension: &str,
) -> Vec<String> {
    let (of_file, of_groups): (Vec<_>, Vec<_>) =
        groups.iter().partition(|(group, _)| group.is_empty());
    let kinds = [("the file", of_file), ("groups", of_groups)];
    let warnings = kinds.into_iter().filter_map(|(place, groups)| {
        let names = groups.iter().flat_map(|(group, attributes)| {
            let slash = if group.is_empty() { "" } else { "/" };
            attributes.keys().map(move |name| format!("{group}{slash}{name}"))
        });
        let names: Vec<String> = names.collect();
        let shown = names.iter().take(MAX_SHOWN);
        let mut shown: Vec<_> = shown
            .map(|name| format!("{:?}", name.chars().take(MAX_CHARS).collect::<String>()))
            .collect();
        if names.len() > MAX_SHOWN {
            shown.push("...".to_string());
        }
        let (path, shown) = (path.display(), shown.join(", "));
        let attributes = match names.len() {
            0 => return None,
            1 => "1 attribute".to_string(),
            count => format!("{count} attributes"),
        };
        let are = if names.len() == 1 { "is" } else { "are" };
        Some(format!(
            "{path}: {attributes} of {place} {are} left out ({shown}): .{extension} files keep attributes of arrays only"
        ))
    });
    warnings.collect()
}
