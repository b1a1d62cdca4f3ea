//! Finds the arrays of OME-Zarr images, and describes their axes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, ErrorLocation};
use crate::format::array::{DescribedAxis, GroupAttributes, Warnings};
use crate::format::zarr::array::ZarrArray;
use crate::format::zarr::metadata::attributes::texts;
use crate::format::zarr::metadata::ome::{Fault, levels};
use crate::format::zarr::root::Root;
use crate::format::zarr::walk::{DirectoryKind, MAX_DEPTH, kind};

/// The group that a hierarchy of a single array is in.
pub(super) struct EnclosingGroup {
    attributes: BTreeMap<String, String>,
    /// The path of the array within the group.
    array: String,
}

/// Returns the closest group around an array that describes images. `root` is the directory of the
/// array, beyond which only metadata is read.
pub(super) fn enclosing_group(root: &Root) -> Option<EnclosingGroup> {
    let folder = root.absolute();
    for above in folder.ancestors().skip(1).take(MAX_DEPTH) {
        let opened = Root::open(above, root.links()).ok()?;
        // Errors are ignored, since the array can be read without the group.
        let Ok(DirectoryKind::Group(Ok(attributes))) = kind(&opened, above) else {
            return None;
        };
        let array = folder.strip_prefix(above).ok()?.to_str()?;
        let array = array.replace(std::path::MAIN_SEPARATOR, "/");
        let found = EnclosingGroup::new(&attributes, array);
        if found.is_some() {
            return found;
        }
    }
    None
}

impl EnclosingGroup {
    /// Creates the group around the array at this path within the group; `None` if the attributes describe no
    /// images.
    pub fn new(attributes: &Value, array: String) -> Option<Self> {
        let attributes = texts(attributes);
        let is_plain = levels(&attributes).is_ok_and(|levels| levels.is_empty());
        (!is_plain).then_some(Self { attributes, array })
    }
}

/// Gives the arrays of images the names and the coordinates of their axes. The arrays are sorted by
/// name, or a single one in the group `enclosing`.
///
/// Metadata that cannot be used is ignored for the whole group. One warning reports the first such
/// group, since the images of a plate are usually all alike.
pub(super) fn describe_axes(
    path: &Path,
    arrays: &mut [ZarrArray],
    groups: &GroupAttributes,
    enclosing: Option<&EnclosingGroup>,
    warnings: &mut Warnings,
) {
    let mut first = None;
    let mut count = 0;
    let mut note = |group: String, fault: Fault| {
        first.get_or_insert((group, fault));
        count += 1;
    };
    if let Some(group) = enclosing {
        let find = |name: &str, arrays: &[ZarrArray]| {
            (name == group.array && !arrays.is_empty()).then_some(0)
        };
        if let Err(fault) = describe(&group.attributes, arrays, find) {
            note("group around the array".to_string(), fault);
        }
    }
    for (group, attributes) in groups {
        let find = |name: &str, arrays: &[ZarrArray]| {
            let name = match group.as_str() {
                "" => name.to_string(),
                group => format!("{group}/{name}"),
            };
            arrays.binary_search_by(|array| array.name.cmp(&name)).ok()
        };
        if let Err(fault) = describe(attributes, arrays, find) {
            let group = match group.as_str() {
                "" => "root group".to_string(),
                group => format!("group {group:?}"),
            };
            note(group, fault);
        }
    }
    if let Some((group, fault)) = first {
        let location = ErrorLocation::part(path, format!("OME-Zarr image in the {group}"));
        let error = Error::malformed(location, fault.field, fault.found, fault.expected);
        warnings.push(match count {
            1 => format!("{error}; the metadata of this group is ignored"),
            _ => format!(
                "{error}; the metadata of this group is ignored, and that of {} more",
                count - 1
            ),
        });
    }
}

/// Describes the axes of the arrays of a group. Changes nothing if the metadata of the group cannot be
/// used.
fn describe(
    attributes: &BTreeMap<String, String>,
    arrays: &mut [ZarrArray],
    find: impl Fn(&str, &[ZarrArray]) -> Option<usize>,
) -> Result<(), Fault> {
    let mut described: Vec<(usize, Vec<String>, Vec<DescribedAxis>)> = Vec::new();
    for level in levels(attributes)? {
        let Some(number) = find(&level.path, arrays) else {
            continue;
        };
        let array = &arrays[number];
        let axes = level.axes_of(array.shape(), &array.metadata.dim_names)?;
        described.push((number, level.names, axes));
    }
    // If several images have the same array, the first one counts.
    for (number, names, axes) in described.into_iter().rev() {
        let array = &mut arrays[number];
        array.metadata.dim_names = names;
        array.axes = axes;
    }
    Ok(())
}
