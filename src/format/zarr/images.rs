//! Finds the arrays of OME-Zarr images, and describes their axes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, ErrorLocation};
use crate::format::array::{DescribedAxis, GroupAttributes, Warnings};
use crate::format::zarr::array::ZarrArray;
use crate::format::zarr::metadata::attributes::{FILL_VALUE, texts};
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

/// The groups with metadata that is ignored, in whole or in part. One warning reports the first of them,
/// since the images of a plate are usually all alike.
#[derive(Default)]
struct IgnoredMetadata {
    first: Option<(String, Fault)>,
    count: usize,
}

impl IgnoredMetadata {
    fn push(&mut self, group: &str, fault: Fault) {
        self.first.get_or_insert_with(|| (group.to_string(), fault));
        self.count += 1;
    }

    /// Returns the warning, which says what is ignored.
    fn warning(self, path: &Path, ignored: &str) -> Option<String> {
        let (group, fault) = self.first?;
        let location = ErrorLocation::part(path, format!("OME-Zarr image in the {group}"));
        let error = Error::malformed(location, fault.field, fault.found, fault.expected);
        Some(match self.count {
            1 => format!("{error}; {ignored} is ignored"),
            count => format!(
                "{error}; {ignored} is ignored, and that of {} more",
                count - 1
            ),
        })
    }
}

/// Gives the arrays of images the names and the coordinates of their axes. The arrays are sorted by
/// name, or a single one in the group `enclosing`.
///
/// Metadata that cannot be used is ignored for the whole group. A second description of an array, and
/// those of arrays that do not exist, are ignored alone.
pub(super) fn describe_axes(
    path: &Path,
    arrays: &mut [ZarrArray],
    groups: &GroupAttributes,
    enclosing: Option<&EnclosingGroup>,
    warnings: &mut Warnings,
) {
    let (mut of_groups, mut of_arrays) = (IgnoredMetadata::default(), IgnoredMetadata::default());
    let mut note = |group: &str, described: Result<Option<Fault>, Fault>| match described {
        Ok(None) => {}
        Ok(Some(fault)) => of_arrays.push(group, fault),
        Err(fault) => of_groups.push(group, fault),
    };
    if let Some(group) = enclosing {
        let find = |name: &str, arrays: &[ZarrArray]| {
            (name == group.array && !arrays.is_empty()).then_some(0)
        };
        // The other arrays of the group are not opened.
        let described = describe(&group.attributes, arrays, find, |_| false);
        note("group around the array", described);
    }
    for (group, attributes) in groups {
        let full = |name: &str| match group.as_str() {
            "" => name.to_string(),
            group => format!("{group}/{name}"),
        };
        let find = |name: &str, arrays: &[ZarrArray]| {
            let name = full(name);
            arrays.binary_search_by(|array| array.name.cmp(&name)).ok()
        };
        // There is a warning already about each array that cannot be read.
        let is_absent = |name: &str| {
            let left_out = format!("{:?} is left out", full(name));
            !warnings.texts().iter().any(|text| text.contains(&left_out))
        };
        let described = describe(attributes, arrays, find, is_absent);
        match group.as_str() {
            "" => note("root group", described),
            group => note(&format!("group {group:?}"), described),
        }
    }
    let of_groups = of_groups.warning(path, "the metadata of this group");
    let of_arrays = of_arrays.warning(path, "the metadata of this array");
    for warning in of_groups.into_iter().chain(of_arrays) {
        warnings.push(warning);
    }
}

/// Describes the axes of the arrays of a group. Returns the first part of the metadata that is ignored
/// alone: the path of an array that does not exist, or another description of an array. `is_absent` tells
/// whether an array that is not found is absent.
///
/// # Errors
/// Changes nothing, and returns an error if the metadata of the group cannot be used.
fn describe(
    attributes: &BTreeMap<String, String>,
    arrays: &mut [ZarrArray],
    find: impl Fn(&str, &[ZarrArray]) -> Option<usize>,
    is_absent: impl Fn(&str) -> bool,
) -> Result<Option<Fault>, Fault> {
    let mut described: BTreeMap<usize, (Vec<String>, Vec<DescribedAxis>)> = BTreeMap::new();
    let mut ignored = None;
    for level in levels(attributes)? {
        let Some(number) = find(&level.path, arrays) else {
            if is_absent(&level.path) {
                ignored.get_or_insert_with(|| level.absent());
            }
            continue;
        };
        let array = &arrays[number];
        let axes = level.axes_of(array.shape(), &array.metadata.dim_names)?;
        let found = (level.names.clone(), axes);
        match described.get(&number) {
            None => {
                described.insert(number, found);
            }
            // If several images have the same array, the first one counts.
            Some(first) if *first != found => {
                ignored.get_or_insert_with(|| level.repeated());
            }
            Some(_) => {}
        }
    }
    for (number, (names, axes)) in described {
        let array = &mut arrays[number];
        array.metadata.dim_names = names;
        array.axes = axes;
        // Images have no missing pixels. zarr-python writes a fill value of 0 for all integers.
        if array.description.is_fill_implied {
            array.metadata.attrs.remove(FILL_VALUE);
        }
    }
    Ok(ignored)
}
