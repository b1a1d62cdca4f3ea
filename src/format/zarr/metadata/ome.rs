//! Parses the metadata of OME-Zarr images: the attribute `multiscales` of groups, OME-NGFF versions
//! 0.1 to 0.5.
//!
//! ```text
//! {"multiscales": [{                                           within "ome" in version 0.5
//!     "version": "0.4",
//!     "axes": [{"name": "y", "type": "space", "unit": "micrometer"}, ...],    0.3: names; 0.1, 0.2: none
//!     "datasets": [{                                           one for each resolution
//!         "path": "0",                                         an array below the group
//!         "coordinateTransformations": [{"type": "scale", "scale": [0.5, ...]},
//!                                       {"type": "translation", "translation": [10, ...]}]}],
//!     "coordinateTransformations": [...]                       applied after those of a dataset
//!  }],
//!  "omero": {"channels": [{"label": "DAPI"}, ...]}}
//! ```

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use crate::format::array::{DescribedAxis, Spacing};
use crate::format::zarr::MAX_DIMENSIONS;
use crate::format::zarr::metadata::json::clipped;

/// The axes of all images before version 0.3, and the usual names since then.
pub(crate) const AXES: [&str; 5] = ["t", "c", "z", "y", "x"];
/// The attribute that holds everything else since version 0.5.
const OME: &str = "ome";
const MULTISCALES: &str = "multiscales";
/// The maximum number of arrays that the images of a group have together. Images have a dozen
/// resolutions, but files can claim more.
const MAX_LEVELS: usize = 1024;
/// The maximum number of bytes of the name and of the unit of an axis.
const MAX_NAME: usize = 1024;
/// The maximum number of bytes of the names of all channels together.
const MAX_LABELS: usize = 1 << 16;
const TRANSFORMATIONS: &str = "coordinateTransformations";
/// The attribute of a coordinate for its unit, by the CF conventions.
const UNITS: &str = "units";
/// The attribute of a channel axis for the names of the channels.
const LABELS: &str = "labels";

/// Metadata that cannot be used.
pub(crate) struct Fault {
    pub field: &'static str,
    pub found: String,
    pub expected: String,
}

/// An image at one resolution: the array at a path within the group, and its axes.
pub(crate) struct Level {
    pub path: String,
    pub names: Vec<String>,
    axes: Vec<DescribedAxis>,
    /// The axis of the channels, and their labels.
    channels: Option<(usize, ChannelLabels)>,
}

/// The labels of all channels.
#[derive(Clone)]
struct ChannelLabels {
    count: usize,
    /// A JSON list.
    text: String,
}

/// An axis of an image.
struct ImageAxis {
    name: String,
    is_channel: bool,
    unit: Option<String>,
}

/// Returns the images that the attributes of a group describe; none for groups without images.
///
/// # Errors
/// Returns the first part of the metadata that breaks a rule of its version.
pub(crate) fn levels(attributes: &BTreeMap<String, String>) -> Result<Vec<Level>, Fault> {
    let (document, is_within_ome) = document(attributes);
    let channels = channel_labels(&document["omero"]);
    let mut levels = Vec::new();
    for image in images(&document)? {
        let (holder, versions): (_, &[&str]) = match is_within_ome {
            true => (&document, &["0.5"][..]),
            false => (image, &["0.1", "0.2", "0.3", "0.4"][..]),
        };
        let version = match &holder["version"] {
            Value::Null => None,
            Value::String(version) if versions.contains(&version.as_str()) => Some(version),
            other => return Err(fault("version", other, versions.join(", "))),
        };
        add_levels(
            image,
            version.map(String::as_str),
            channels.as_ref(),
            &mut levels,
        )?;
    }
    Ok(levels)
}

/// Returns the paths of the arrays of images, each once, also if the rest of the metadata cannot be used.
#[cfg(feature = "remote")]
pub(crate) fn paths(attributes: &BTreeMap<String, String>) -> Vec<String> {
    let (document, _) = document(attributes);
    let datasets = images(&document).unwrap_or_default().iter();
    let datasets = datasets.filter_map(|image| image["datasets"].as_array());
    let paths = datasets
        .flatten()
        .filter_map(|dataset| dataset["path"].as_str());
    let paths = paths.take(MAX_LEVELS).map(normalized);
    let mut known = HashSet::new();
    paths.filter(|path| known.insert(path.clone())).collect()
}

/// Returns a path without empty and `.` components, as in `./0` and `0/`.
fn normalized(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.collect::<Vec<_>>().join("/")
}

/// Returns the object with the metadata of images, and `true` if that is the attribute `ome`.
fn document(attributes: &BTreeMap<String, String>) -> (Value, bool) {
    let entry = |key: &str| match attributes.get(key) {
        Some(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        None => Value::Null,
    };
    let ome = entry(OME);
    if ome.get(MULTISCALES).is_some() {
        return (ome, true);
    }
    let document = json!({MULTISCALES: entry(MULTISCALES), "omero": entry("omero")});
    (document, false)
}

/// Returns the images in the metadata; none if there is no metadata of images.
///
/// # Errors
/// Fails if the metadata is no list.
fn images(document: &Value) -> Result<&[Value], Fault> {
    match &document[MULTISCALES] {
        Value::Array(images) => Ok(images),
        // Attributes are kept as texts, in which a list of one element is that element.
        image @ Value::Object(_) => Ok(std::slice::from_ref(image)),
        Value::Null => Ok(&[]),
        other => Err(fault(MULTISCALES, other, "a list of images")),
    }
}

/// Adds the resolutions of an image. A version that is not known follows from the members.
fn add_levels(
    image: &Value,
    version: Option<&str>,
    channels: Option<&ChannelLabels>,
    levels: &mut Vec<Level>,
) -> Result<(), Fault> {
    let has_fixed_axes = match version {
        Some(version) => matches!(version, "0.1" | "0.2"),
        None => image["axes"].is_null(),
    };
    let has_transformations = !has_fixed_axes && version != Some("0.3");
    let axes = match has_fixed_axes {
        true => AXES.iter().map(|name| ImageAxis::named(name)).collect(),
        false => axes(&image["axes"])?,
    };
    let transformed = |by: &Value| match has_transformations {
        true => spacings(&by[TRANSFORMATIONS], axes.len()),
        false => Ok(vec![Spacing::INDICES; axes.len()]),
    };
    let of_image = transformed(image)?;
    let datasets = match &image["datasets"] {
        Value::Array(datasets) if !datasets.is_empty() => datasets,
        other => return Err(fault("datasets", other, "a list of arrays")),
    };
    if levels.len() + datasets.len() > MAX_LEVELS {
        return Err(Fault {
            field: "datasets",
            found: format!("a list of {} arrays", datasets.len()),
            expected: format!("at most {MAX_LEVELS} of all images"),
        });
    }
    let channel_axis = axes.iter().position(|axis| axis.is_channel);
    for dataset in datasets {
        let Value::String(path) = &dataset["path"] else {
            return Err(fault("path", &dataset["path"], "the path of an array"));
        };
        let of_dataset = transformed(dataset)?;
        let spacings = of_dataset.iter().zip(&of_image);
        let spacings = spacings.map(|(inner, outer)| inner.then(outer));
        let described = axes.iter().zip(spacings);
        levels.push(Level {
            path: normalized(path),
            names: axes.iter().map(|axis| axis.name.clone()).collect(),
            axes: described
                .map(|(axis, spacing)| axis.described(spacing))
                .collect(),
            channels: channel_axis.zip(channels.cloned()),
        });
    }
    Ok(())
}

/// Parses the axes of an image: objects, or only names.
fn axes(axes: &Value) -> Result<Vec<ImageAxis>, Fault> {
    let unusable = || fault("axes", axes, "a list of axes with distinct names");
    let listed = axes.as_array().filter(|axes| axes.len() <= MAX_DIMENSIONS);
    let parsed = listed.ok_or_else(unusable)?.iter().map(|axis| match axis {
        Value::String(name) => Some(ImageAxis::named(name)),
        _ => Some(ImageAxis {
            unit: unit_of(axis),
            is_channel: match &axis["type"] {
                Value::Null => axis["name"] == "c",
                kind => kind == "channel",
            },
            name: axis["name"].as_str()?.to_string(),
        }),
    });
    let parsed: Vec<_> = parsed.collect::<Option<_>>().ok_or_else(unusable)?;
    let names = parsed.iter().map(|axis| axis.name.as_str());
    let names = names.filter(|name| (1..=MAX_NAME).contains(&name.len()));
    let distinct: HashSet<&str> = names.collect();
    match distinct.len() == parsed.len() {
        true => Ok(parsed),
        false => Err(unusable()),
    }
}

/// Returns the unit of an axis, unless the unit is too long to be one.
fn unit_of(axis: &Value) -> Option<String> {
    let unit = axis["unit"].as_str().filter(|unit| unit.len() <= MAX_NAME);
    unit.map(str::to_string)
}

/// Parses a list of transformations: a scale, then at most one translation. There may be none.
fn spacings(transformations: &Value, rank: usize) -> Result<Vec<Spacing>, Fault> {
    let unusable = || {
        fault(
            TRANSFORMATIONS,
            transformations,
            "a scale, then at most one translation",
        )
    };
    let list: &[Value] = match transformations {
        Value::Null => &[],
        Value::Array(list) => list,
        _ => return Err(unusable()),
    };
    let kinds = list.iter().map(|one| one["type"].as_str());
    let kinds: Vec<&str> = kinds.map(Option::unwrap_or_default).collect();
    let (scale, translation) = match kinds.as_slice() {
        [] | ["identity"] => (None, None),
        ["scale"] => (Some(&list[0]), None),
        ["scale", "translation"] => (Some(&list[0]), Some(&list[1])),
        _ => return Err(unusable()),
    };
    let mut spacings = vec![Spacing::INDICES; rank];
    if let Some(scale) = scale {
        let scales = numbers(&scale["scale"], "scale", "positive", rank, |scale| {
            scale > 0.0
        })?;
        for (spacing, scale) in spacings.iter_mut().zip(scales) {
            spacing.scale = scale;
        }
    }
    if let Some(translation) = translation {
        let list = &translation["translation"];
        let translations = numbers(list, "translation", "finite", rank, |_| true)?;
        for (spacing, translation) in spacings.iter_mut().zip(translations) {
            spacing.translation = translation;
        }
    }
    Ok(spacings)
}

/// Parses a list of finite numbers, one for each axis.
fn numbers(
    list: &Value,
    field: &'static str,
    kind: &str,
    rank: usize,
    is_valid: impl Fn(f64) -> bool,
) -> Result<Vec<f64>, Fault> {
    let numbers = list.as_array().filter(|list| list.len() == rank);
    let numbers = numbers.and_then(|list| {
        let numbers = list.iter().map(|number| {
            let number = number.as_f64();
            number.filter(|number| number.is_finite() && is_valid(*number))
        });
        numbers.collect()
    });
    numbers.ok_or_else(|| {
        let expected = format!("{rank} {kind} numbers, one for each axis");
        fault(field, list, expected)
    })
}

/// Returns the labels of all channels, if they are distinct.
fn channel_labels(omero: &Value) -> Option<ChannelLabels> {
    let channels = omero["channels"].as_array()?.iter();
    let labels = channels.map(|channel| channel["label"].as_str());
    let labels: Vec<&str> = labels.collect::<Option<_>>()?;
    let distinct: HashSet<_> = labels.iter().collect();
    let text = json!(labels).to_string();
    let is_usable = distinct.len() == labels.len() && text.len() <= MAX_LABELS;
    is_usable.then_some(ChannelLabels {
        count: labels.len(),
        text,
    })
}

fn fault(field: &'static str, found: &Value, expected: impl Into<String>) -> Fault {
    Fault {
        field,
        found: match found {
            Value::Null => "absent".to_string(),
            found => clipped(&found.to_string()),
        },
        expected: expected.into(),
    }
}

impl ImageAxis {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_string(),
            is_channel: name == "c",
            unit: None,
        }
    }

    /// Returns the coordinates along the axis. Those of channels are indices, since channels have no
    /// distance.
    fn described(&self, spacing: Spacing) -> DescribedAxis {
        if self.is_channel {
            return DescribedAxis::default();
        }
        let unit = self.unit.iter();
        DescribedAxis {
            spacing: Some(spacing).filter(|spacing| *spacing != Spacing::INDICES),
            attrs: unit.map(|unit| (UNITS.to_string(), unit.clone())).collect(),
        }
    }
}

impl Level {
    /// Returns the fault of a resolution whose array does not exist.
    pub fn absent(&self) -> Fault {
        fault("path", &json!(self.path), "the path of an array")
    }

    /// Returns the fault of a resolution whose array another image has with other axes.
    pub fn repeated(&self) -> Fault {
        let expected = "the path of an array that no other image has with other axes";
        fault("path", &json!(self.path), expected)
    }

    /// Returns the axes of the array at the path, which has a shape and may name its dimensions.
    ///
    /// # Errors
    /// Fails if the axes are not those of the array.
    pub fn axes_of(
        &self,
        shape: &[u64],
        dim_names: &[String],
    ) -> Result<Vec<DescribedAxis>, Fault> {
        let Self { path, names, .. } = self;
        let misfit = |expected: String| Fault {
            field: "axes",
            found: clipped(&format!("{names:?}")),
            expected: clipped(&format!("{expected} of the array {path:?}")),
        };
        if names.len() != shape.len() {
            return Err(misfit(format!("the {} axes", shape.len())));
        }
        if !dim_names.is_empty() && dim_names != names {
            return Err(misfit(format!("the dimensions {dim_names:?}")));
        }
        for ((name, axis), extent) in names.iter().zip(&self.axes).zip(shape) {
            let Some(spacing) = axis.spacing else {
                continue;
            };
            // Products and sums of finite numbers may overflow.
            let last = spacing.coordinate(extent.saturating_sub(1));
            let Spacing { scale, translation } = spacing;
            if !(scale > 0.0 && last.is_finite()) {
                return Err(Fault {
                    field: TRANSFORMATIONS,
                    found: format!(
                        "a scale of {scale:?} and a translation of {translation:?} along {name:?}"
                    ),
                    expected: "a positive scale and finite coordinates".to_string(),
                });
            }
        }
        let mut axes = self.axes.clone();
        if let Some((axis, labels)) = &self.channels
            && shape[*axis] == labels.count as u64
        {
            let attrs = &mut axes[*axis].attrs;
            attrs.insert(LABELS.to_string(), labels.text.clone());
        }
        Ok(axes)
    }
}

#[cfg(test)]
mod tests;
