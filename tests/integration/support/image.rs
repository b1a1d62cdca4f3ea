//! A small OME-Zarr image of two channels at two resolutions, written file by file.

use std::path::Path;

use serde_json::{Value, json};

/// An array of a test image. Along each of its axes `c`, `y` and `x`, the coordinates are
/// `index * scale + translation`.
pub struct Resolution {
    pub shape: [u64; 3],
    /// The cell at index 0. Each cell is greater by 1 than the previous one in row-major order.
    pub first: u16,
    pub scale: [f64; 3],
    pub translation: [f64; 3],
}

/// The resolutions of the image. The metadata splits the scales along `x` into two factors.
pub const RESOLUTIONS: [Resolution; 2] = [
    Resolution {
        shape: [2, 4, 6],
        first: 1,
        scale: [1.0, 0.5, 0.5],
        translation: [0.0, 10.0, -2.0],
    },
    Resolution {
        shape: [2, 2, 3],
        first: 101,
        scale: [1.0, 1.0, 1.0],
        translation: [0.0, 10.0, -2.0],
    },
];

impl Resolution {
    /// Returns the channel, the coordinates `y` and `x`, and the value of each cell in row-major order.
    pub fn cells(&self) -> Vec<(u64, f64, f64, u16)> {
        let [channels, height, width] = self.shape;
        let at = |axis: usize, index: u64| index as f64 * self.scale[axis] + self.translation[axis];
        let count = channels * height * width;
        let cells = (0..count).map(|ordinal| {
            let (c, y) = (ordinal / (height * width), ordinal / width % height);
            let value = self.first + ordinal as u16;
            (c, at(1, y), at(2, ordinal % width), value)
        });
        cells.collect()
    }

    /// Returns the cells as rows.
    pub fn rows(&self) -> Vec<String> {
        let cells = self.cells().into_iter();
        let rows = cells.map(|(c, y, x, value)| format!("{c} {y:?} {x:?} {value}"));
        rows.collect()
    }
}

/// Writes an image. `version` is that of its metadata, 0.4 or 0.5.
pub fn write_image(folder: &Path, version: &str) {
    let zarr_format = if version == "0.5" { 3 } else { 2 };
    write_group(folder, zarr_format, &image_attributes(version));
    for (number, resolution) in RESOLUTIONS.iter().enumerate() {
        let names = (zarr_format == 3).then_some(["c", "y", "x"]);
        let names = names.as_ref().map(<[_; 3]>::as_slice);
        let folder = folder.join(number.to_string());
        write_array(
            &folder,
            zarr_format,
            &resolution.shape,
            resolution.first,
            names,
        );
    }
}

/// Returns the attributes of the group of an image.
pub fn image_attributes(version: &str) -> Value {
    let datasets = RESOLUTIONS.iter().enumerate().map(|(number, resolution)| {
        let halved = |[c, y, x]: [f64; 3]| [c, y, x / 2.0];
        json!({"path": number.to_string(), "coordinateTransformations": [
            {"type": "scale", "scale": halved(resolution.scale)},
            {"type": "translation", "translation": halved(resolution.translation)},
        ]})
    });
    let mut image = json!({
        "name": "cells",
        "axes": [
            {"name": "c", "type": "channel"},
            {"name": "y", "type": "space", "unit": "micrometer"},
            {"name": "x", "type": "space", "unit": "micrometer"},
        ],
        "datasets": datasets.collect::<Vec<_>>(),
        "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 2]}],
    });
    let omero = json!({"channels": [{"label": "DAPI"}, {"label": "GFP"}]});
    match version {
        "0.5" => json!({"ome": {"version": version, "multiscales": [image], "omero": omero}}),
        _ => {
            image["version"] = json!(version);
            json!({"multiscales": [image], "omero": omero})
        }
    }
}

/// Writes the metadata of a group.
pub fn write_group(folder: &Path, zarr_format: u8, attributes: &Value) {
    match zarr_format {
        3 => {
            let group = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
            put(&folder.join("zarr.json"), group.to_string());
        }
        _ => {
            put(
                &folder.join(".zgroup"),
                json!({"zarr_format": 2}).to_string(),
            );
            put(&folder.join(".zattrs"), attributes.to_string());
        }
    }
}

/// Writes an array of `u16` cells that count up from `first`, in chunks of at most 2 by 3 pixels. The
/// last two extents are multiples of these.
pub fn write_array(
    folder: &Path,
    zarr_format: u8,
    shape: &[u64],
    first: u16,
    names: Option<&[&str]>,
) {
    let rank = shape.len();
    let mut chunk_shape = vec![1; rank];
    chunk_shape[rank - 2..].copy_from_slice(&[2, 3]);
    let document = match zarr_format {
        3 => json!({
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "fill_value": 0, "attributes": {}, "dimension_names": names,
        }),
        _ => json!({
            "zarr_format": 2, "shape": shape, "chunks": chunk_shape, "dtype": "<u2", "order": "C",
            "compressor": null, "filters": null, "fill_value": null, "dimension_separator": "/",
        }),
    };
    let name = if zarr_format == 3 {
        "zarr.json"
    } else {
        ".zarray"
    };
    put(&folder.join(name), document.to_string());
    if let Some(names) = names.filter(|_| zarr_format == 2) {
        let attributes = json!({"_ARRAY_DIMENSIONS": names});
        put(&folder.join(".zattrs"), attributes.to_string());
    }
    let (height, width) = (shape[rank - 2], shape[rank - 1]);
    let planes: u64 = shape[..rank - 2].iter().product();
    for plane in 0..planes {
        // The indices of the plane along the axes before the last two.
        let mut indices = vec![0; rank - 2];
        let mut rest = plane;
        for axis in (0..rank - 2).rev() {
            indices[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        for (row, column) in (0..height / 2).flat_map(|row| (0..width / 3).map(move |c| (row, c))) {
            let pixels = (0..2).flat_map(|y| (0..3).map(move |x| (row * 2 + y, column * 3 + x)));
            let cells = pixels.map(|(y, x)| first + ((plane * height + y) * width + x) as u16);
            let cells: Vec<u8> = cells.flat_map(u16::to_le_bytes).collect();
            let key = indices.iter().copied().chain([row, column]);
            let key: Vec<String> = key.map(|index| index.to_string()).collect();
            let prefix = if zarr_format == 3 { "c/" } else { "" };
            put(&folder.join(format!("{prefix}{}", key.join("/"))), cells);
        }
    }
}

fn put(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}
