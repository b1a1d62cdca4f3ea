//! Checks the description of an array to be written, and encodes its chunks.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::array::{BoxCopy, Categories, Compression, Dataset, DatasetSpec, Dtype, Fill};
use crate::format::zarr::cells;
use crate::format::zarr::metadata::attributes::{DIMENSIONS, FILL_VALUE};
use crate::format::zarr::walk::{DOCUMENTS, is_path};
use crate::format::zarr::{MAX_CHUNK_BYTES, MAX_DIMENSIONS, text};

/// Maximum length of a directory name in bytes, on common file systems.
const MAX_PART: usize = 255;
/// Maximum depth of nested groups that readers search.
const MAX_PARTS: usize = 32;

/// The attribute of NetCDF that names the encoding of characters.
const ENCODING: &str = "_Encoding";

/// An array to be written.
#[derive(Debug)]
pub(super) struct Plan {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// The chunk shape, clipped to the shape.
    pub chunk_shape: Vec<u64>,
    pub compression: Compression,
    /// The attributes, except dimension names, fill value and categories.
    pub attributes: BTreeMap<String, String>,
    pub dim_names: Vec<String>,
    /// The bit pattern of the fill value.
    pub fill: Option<u64>,
    /// The bit pattern that becomes the fill value if a cell has it.
    default_fill: Option<u64>,
    /// The categories of the codes, if the cells are written as strings.
    pub categories: Option<Categories>,
}

impl Plan {
    /// Checks a dataset, and returns the array to be written for it.
    pub fn of(path: &Path, spec: DatasetSpec) -> Result<Self> {
        let name = spec.name;
        let invalid =
            |message: String| Error::invalid(path, format!("dataset {name:?}: {message}"));
        check_name(&name).map_err(invalid)?;
        let (shape, dimensions) = (spec.shape, spec.chunk_shape.len());
        if shape.len() != dimensions || dimensions > MAX_DIMENSIONS || spec.chunk_shape.contains(&0)
        {
            return Err(invalid(format!(
                "shape {shape:?} and chunk shape {:?} must have the same number of dimensions, at most \
                 {MAX_DIMENSIONS}, and chunk extents above zero",
                spec.chunk_shape
            )));
        }
        if cells::byte_count(&shape, spec.dtype.size()).is_none() {
            return Err(invalid(format!("shape {shape:?} is too large")));
        }
        let extents = shape.iter().zip(&spec.chunk_shape);
        let chunk_shape: Vec<u64> = extents
            .map(|(extent, chunk)| (*chunk).min((*extent).max(1)))
            .collect();
        if cells::byte_count(&chunk_shape, spec.dtype.size())
            .is_none_or(|bytes| bytes > MAX_CHUNK_BYTES)
        {
            return Err(invalid(format!(
                "chunks of {chunk_shape:?} cells are larger than 2 GiB"
            )));
        }
        let metadata = spec.metadata;
        if !metadata.coords.is_empty() {
            return Err(invalid(
                "Zarr cannot store labels; write them as an array".to_string(),
            ));
        }
        let names = &metadata.dim_names;
        let different: HashSet<_> = names.iter().collect();
        if !names.is_empty() && (names.len() != dimensions || different.len() != dimensions) {
            return Err(invalid(format!(
                "dimension names {names:?}, expected {dimensions} different ones"
            )));
        }
        let categories = match Categories::of(&metadata.attrs) {
            // Other arrays stay codes, since readers do not accept them as strings.
            Some(categories) if spec.dtype == Dtype::I64 && text::is_readable(&shape) => {
                Some(categories.map_err(|message| {
                    invalid(format!("attribute {}: {message}", Categories::ATTRIBUTE))
                })?)
            }
            _ => None,
        };
        let mut attributes = metadata.attrs;
        let fill = attributes.remove(FILL_VALUE);
        attributes.remove(DIMENSIONS);
        if categories.is_some() {
            attributes.retain(|key, _| !key.starts_with(Categories::ATTRIBUTE));
            // The strings are UTF-8, and xarray would decode them once more.
            attributes.remove(ENCODING);
        }
        let bits = |fill: &Option<String>| {
            let fill = fill.as_ref().filter(|_| categories.is_none());
            Fill::parse(fill?, spec.dtype).map(Fill::bits)
        };
        Ok(Self {
            dtype: spec.dtype,
            chunk_shape,
            compression: spec.compression,
            attributes,
            dim_names: metadata.dim_names,
            default_fill: bits(&metadata.default_fill).filter(|_| fill.is_none()),
            fill: bits(&fill),
            categories,
            name,
            shape,
        })
    }

    /// Returns the dataset that is written. `number` is its index in the hierarchy.
    pub fn dataset(&self, number: usize) -> Dataset {
        let (shape, chunk_shape) = (&self.shape, &self.chunk_shape);
        Dataset::new(number, &self.name, self.dtype, shape, chunk_shape)
    }

    /// Returns `true` if a cell equals the default fill value and the array has no fill value yet.
    pub fn has_default_fill(&self, cells: &[u8]) -> bool {
        let (None, Some(default)) = (self.fill, self.default_fill) else {
            return false;
        };
        let size = self.dtype.size() as usize;
        let default_cell = &default.to_le_bytes()[..size];
        cells.chunks_exact(size).any(|cell| cell == default_cell)
    }

    /// Makes the default fill value that of the array. Arrays in which no cell equals it have none, because
    /// readers treat integers with a fill value as floats.
    pub fn set_default_fill(&mut self) {
        self.fill = self.fill.or(self.default_fill);
    }

    /// Returns the bytes of the cells that pad a chunk: the fill value, or zeros if there is none.
    fn padding(&self) -> Vec<u8> {
        let fill = self.fill.or(self.default_fill).unwrap_or(0);
        fill.to_le_bytes()[..self.dtype.size() as usize].to_vec()
    }

    /// Returns how many of the cells are null strings.
    pub fn missing_texts(&self, cells: &[u8]) -> usize {
        let Some(categories) = &self.categories else {
            return 0;
        };
        let missing = categories.missing().unwrap_or(text::MISSING).to_le_bytes();
        let codes = cells.as_chunks::<8>().0.iter();
        codes.filter(|code| **code == missing).count()
    }

    /// Encodes a chunk, padded to the full chunk shape.
    pub fn encode(&self, cells: &[u8], extents: &[u64]) -> std::result::Result<Vec<u8>, String> {
        let size = self.dtype.size();
        let filled;
        let whole = if extents == self.chunk_shape {
            cells
        } else {
            let fill = match &self.categories {
                Some(categories) => categories
                    .missing()
                    .unwrap_or(text::MISSING)
                    .to_le_bytes()
                    .to_vec(),
                None => self.padding(),
            };
            let total = cells::byte_count(&self.chunk_shape, size).unwrap_or(0);
            let mut target = cells::repeated(&fill, total);
            let origin = vec![0; extents.len()];
            let copy = BoxCopy {
                source_shape: extents,
                from: &origin,
                target_shape: &self.chunk_shape,
                to: &origin,
                extents,
                size,
            };
            copy.run(cells, &mut target);
            filled = target;
            &filled
        };
        let raw = match &self.categories {
            Some(categories) => texts(categories, whole)?,
            None => whole.to_vec(),
        };
        match self.compression {
            Compression::Raw => Ok(raw),
            Compression::Zstd { level } => {
                zstd::bulk::compress(&raw, level).map_err(|error| error.to_string())
            }
        }
    }
}

/// Encodes the strings of codes.
fn texts(categories: &Categories, codes: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let (codes, _) = codes.as_chunks::<8>();
    let missing = categories.missing().unwrap_or(text::MISSING);
    let texts = codes.iter().map(|bytes| {
        let code = i64::from_le_bytes(*bytes);
        match categories.text(code) {
            None if code == missing => Ok(""),
            None => Err(format!("code {code} has no text")),
            Some(text) => Ok(text),
        }
    });
    let texts: Vec<&str> = texts.collect::<std::result::Result<_, _>>()?;
    Ok(text::encode(texts.into_iter()))
}

/// Checks that the name of an array or a group can be a path of directories.
///
/// # Errors
/// Returns a message if it cannot.
pub(super) fn check_name(name: &str) -> std::result::Result<(), String> {
    let is_hidden =
        |part: &str| part.starts_with('.') || part.starts_with("__") || DOCUMENTS.contains(&part);
    let parts = || name.split('/');
    if !is_path(name) || parts().any(is_hidden) || parts().any(|part| part.len() > MAX_PART) {
        return Err("its name cannot be a path of directories".to_string());
    }
    if parts().count() > MAX_PARTS {
        return Err(format!("nested more than {MAX_PARTS} groups deep"));
    }
    Ok(())
}

/// Checks that no name of an array is that of a group too: the directories must not nest.
pub(super) fn check_names(path: &Path, plans: &[Plan]) -> Result<()> {
    let names: HashSet<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
    for plan in plans {
        let ends = plan
            .name
            .match_indices('/')
            .map(|(end, _)| &plan.name[..end]);
        if let Some(group) = ends.into_iter().find(|group| names.contains(group)) {
            let message = format!(
                "dataset {:?}: dataset {group:?} cannot be a group as well",
                plan.name
            );
            return Err(Error::invalid(path, message));
        }
    }
    Ok(())
}
