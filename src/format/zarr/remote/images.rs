//! Finds the group of images around an array that is opened by its own URL.

use serde_json::Value;

use crate::format::io::remote::RemoteDirectory;
use crate::format::zarr::images::EnclosingGroup;
use crate::format::zarr::metadata::attributes::DIMENSIONS;
use crate::format::zarr::metadata::json;
use crate::format::zarr::metadata::ome::AXES;
use crate::format::zarr::walk::Documents;

/// Returns the group directly around an array, if it describes images. Sends one request, or none if
/// the documents of the array show that it is not in an image.
pub(super) fn enclosing_group(
    directory: &RemoteDirectory,
    documents: &Documents,
) -> Option<EnclosingGroup> {
    if !may_be_in_image(documents) {
        return None;
    }
    let (above, name) = directory.parent()?;
    let key = match documents {
        Documents::V2 { .. } => ".zattrs",
        Documents::V3(_) => "zarr.json",
    };
    // Errors are ignored, since the array can be read without the group.
    let found = above.documents(&[key.to_string()], json::MAX_BYTES);
    let bytes = found.ok()?.pop().flatten()?;
    let value = json::parse(above.place(key).path(), &bytes).ok()?;
    let attributes = match documents {
        Documents::V2 { .. } => &value,
        Documents::V3(_) => &value["attributes"],
    };
    EnclosingGroup::new(attributes, name)
}

/// Returns `true` if an array may be a resolution of an image. In version 2, images have `/` in the keys
/// of chunks, and their arrays do not name dimensions. In version 3, the dimensions are the axes.
fn may_be_in_image(documents: &Documents) -> bool {
    match documents {
        Documents::V2 { array, attributes } => {
            array["dimension_separator"] == "/" && attributes.get(DIMENSIONS).is_none()
        }
        Documents::V3(array) => {
            let names = array["dimension_names"].as_array();
            let is_axis = |name: &Value| name.as_str().is_some_and(|name| AXES.contains(&name));
            names.is_some_and(|names| !names.is_empty() && names.iter().all(is_axis))
        }
    }
}
