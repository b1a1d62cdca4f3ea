//! Opens a file, and builds its datasets with their dimensions, attributes and strings.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::path::Path;

use hdf5_reader::messages::MSG_DATATYPE;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{
    BoxCopy, Dataset, DatasetMetadata, DecodeContext, Dtype, GroupAttributes, Warnings,
    checked_product,
};
use crate::format::hdf5::array::{Hdf5Array, Opened};
use crate::format::hdf5::cell_attributes::{self, UNSIGNED, null_texts};
use crate::format::hdf5::layout::{self, Layout};
use crate::format::hdf5::metadata::attributes::Attributes;
use crate::format::hdf5::metadata::dimensions::{self, Dimensions, Extent, Sized};
use crate::format::hdf5::metadata::element::{Element, ElementKind};
use crate::format::hdf5::metadata::heaps::Heaps;
use crate::format::hdf5::metadata::tree::{Object, Tree};
use crate::format::hdf5::source::{Found, Source};
use crate::format::hdf5::text::{self, MAX_TEXTS};
use crate::format::npy::contiguous_chunk;

/// The minimum of the limit on the memory of a file's attributes, in bytes.
const MIN_ATTRIBUTE_BYTES: u64 = 64 << 20;
/// The maximum number of bytes of all strings of a file, as stored, and of codes beyond the end of arrays.
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// The maximum number of chunks of an array of strings. All strings are read when the file is opened.
const MAX_TEXT_CHUNKS: u64 = 1 << 20;

/// The datasets of a file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub datasets: Vec<Dataset>,
    pub arrays: Vec<Hdf5Array>,
    /// The attributes of groups, by path, which is empty for the root group.
    pub groups: GroupAttributes,
    /// The index of the dataset that each soft link leads to.
    pub link_targets: HashMap<usize, usize>,
    pub warnings: Warnings,
}

/// Reads the metadata of a file. Datasets that cannot be read are left out with a warning.
///
/// # Errors
/// Fails if the root group cannot be read.
pub(super) fn open(file: &Opened<'_>) -> Result<Contents> {
    let source = file.source;
    let tree = Tree::read(source).map_err(|found| {
        Error::malformed(
            ErrorLocation::file(file.path),
            "root group",
            format!("unreadable ({found})"),
            "a group with its members",
        )
    })?;
    let mut contents = Contents::default();
    let length = source.base + source.length();
    if length < source.stated_length {
        contents.warnings.push_damage(format!(
            "{}: the file has {length} bytes, but its superblock says {}; the missing bytes cannot be read",
            file.path.display(),
            source.stated_length
        ));
    }
    for (path, found) in &tree.damaged {
        contents
            .warnings
            .push_damage(left_out(file.path, path, found));
    }
    for (path, found) in &tree.unreadable {
        contents.warnings.push(left_out(file.path, path, found));
    }
    for found in &tree.left_out {
        let warning = format!("{}: has {found}", file.path.display());
        contents.warnings.push(warning);
    }
    let mut heaps = Heaps::default();
    let budget = source.length().max(MIN_ATTRIBUTE_BYTES);
    let mut budget = usize::try_from(budget).unwrap_or(usize::MAX);
    let mut attributes_of = |object: &Object, heaps: &mut Heaps, warnings: &mut Warnings| {
        let attributes = Attributes::read(source, &object.messages, heaps, &mut budget);
        for (found, is_damaged) in &attributes.unreadable {
            let location = ErrorLocation::dataset(file.path, &object.path);
            let warning = format!("{location}: {found}; the attribute is left out");
            warnings.push_if(*is_damaged, warning);
        }
        attributes
    };
    for group in &tree.groups {
        let attributes = attributes_of(group, &mut heaps, &mut contents.warnings);
        contents
            .groups
            .insert(group.path.clone(), visible(&attributes));
    }
    let mut described = Vec::with_capacity(tree.datasets.len());
    for object in &tree.datasets {
        let attributes = attributes_of(object, &mut heaps, &mut contents.warnings);
        match Extent::of(source, &object.messages) {
            Ok(extent) => described.push((object, extent, attributes)),
            Err(found) => contents
                .warnings
                .push(left_out(file.path, &object.path, &found)),
        }
    }
    let sized = described.iter().map(|(object, extent, attributes)| Sized {
        name: object.base_name(),
        address: object.address,
        group: object.group,
        extent,
        attributes,
    });
    let parents: Vec<usize> = tree.groups.iter().map(|group| group.group).collect();
    let all = dimensions::of_all(&sized.collect::<Vec<_>>(), &parents);
    let mut reader = Builder {
        file,
        heaps,
        text_bytes: MAX_TEXT_BYTES,
        counted: HashSet::new(),
    };
    for ((object, _, attributes), dimensions) in described.iter().zip(&all) {
        if dimensions::is_without_variable(attributes) {
            continue;
        }
        let others = match is_of_characters(source, object) {
            true => dimensions
                .names
                .split_last()
                .map_or(&[][..], |(_, others)| others),
            false => &dimensions.names,
        };
        reader.counted.extend(others.iter().cloned());
    }
    let stored = described
        .iter()
        .enumerate()
        .map(|(index, (object, ..))| (index, object.path.as_str()));
    let indices: HashMap<&str, usize> = stored.clone().map(|(index, path)| (path, index)).collect();
    // Aliases of datasets that are left out are left out, too.
    let aliases = tree.aliases.iter().filter_map(|(alias, dataset)| {
        let index = indices.get(tree.datasets[*dataset].path.as_str())?;
        Some((*index, alias.as_str()))
    });
    let mut numbers = HashMap::new();
    for (index, path) in stored.clone().chain(aliases) {
        let (object, extent, attributes) = &described[index];
        if dimensions::is_without_variable(attributes) {
            continue;
        }
        let number = contents.datasets.len();
        let dimensions = all[index].clone();
        match reader.build(number, path, object, extent, attributes, dimensions) {
            Ok((dataset, array)) => {
                // The dataset itself comes before its aliases.
                let target = *numbers.entry(index).or_insert(number);
                if target != number {
                    contents.link_targets.insert(number, target);
                }
                contents.datasets.push(dataset);
                contents.arrays.push(array);
            }
            Err(found) if mem::take(&mut reader.heaps.is_damaged) => {
                let warning = left_out(file.path, path, &found);
                contents.warnings.push_damage(warning);
            }
            Err(found) => contents.warnings.push(left_out(file.path, path, &found)),
        }
    }
    Ok(contents)
}

fn left_out(path: &Path, name: &str, found: &str) -> String {
    let location = ErrorLocation::dataset(path, name);
    format!("{location}: has {found}; the dataset is left out")
}

/// Returns the attributes that readers show, as text.
fn visible(attributes: &Attributes) -> BTreeMap<String, String> {
    let list = attributes.list.iter();
    let list = list.filter(|attribute| !dimensions::is_hidden(&attribute.name));
    list.filter_map(|attribute| Some((attribute.name.clone(), attribute.value.text()?)))
        .collect()
}

/// Builds the datasets of a file.
struct Builder<'a> {
    file: &'a Opened<'a>,
    heaps: Heaps,
    /// The number of bytes left for strings.
    text_bytes: u64,
    /// The names of the dimensions that are not only used for the characters of strings.
    counted: HashSet<String>,
}

impl Builder<'_> {
    fn build(
        &mut self,
        number: usize,
        path: &str,
        object: &Object,
        extent: &Extent,
        attributes: &Attributes,
        mut dimensions: Dimensions,
    ) -> Found<(Dataset, Hdf5Array)> {
        let source = self.file.source;
        let message = object
            .messages
            .iter()
            .find(|message| message.kind == MSG_DATATYPE);
        let mut element = Element::of(source, message.ok_or("no datatype")?)?;
        let unsigned = attributes.text(UNSIGNED);
        match unsigned.map(str::to_ascii_lowercase).as_deref() {
            Some("true") => element = element.with_unsigned(true),
            Some("false") => element = element.with_unsigned(false),
            _ => {}
        }
        let layout = Layout::of(source, &object.messages, &extent.shape, element.size)?;
        let name = renamed(path);
        let is_short = dimensions.shape != extent.shape;
        let stored_fill = layout::fill(source, &object.messages, element.size);
        let has_sign = unsigned.is_some();
        let beyond = match stored_fill {
            None if is_short => cell_attributes::fill_beyond(attributes, &element, has_sign),
            _ => None,
        };
        // Elements are at most as large as the longest string.
        let fill = stored_fill.unwrap_or_else(|| vec![0; element.size as usize]);
        let default = beyond.as_deref().or((!has_sign).then_some(fill.as_slice()));
        let own = dimensions::variable_name(object.base_name());
        let is_coordinate = matches!(dimensions.names.as_slice(), [only] if only == own);
        let mut metadata = cell_attributes::metadata(
            attributes,
            &element,
            default.filter(|_| !is_coordinate),
            has_sign,
        );
        let chunk_shape = match &layout {
            Layout::Chunked(chunked) => chunked
                .chunk_shape
                .iter()
                .map(|extent| u64::from(*extent))
                .collect(),
            _ => contiguous_chunk(&extent.shape, element.size),
        };
        let stored = Dataset::new(number, &name, element.dtype, &extent.shape, &chunk_shape);
        let mut array = Hdf5Array {
            max_shape: extent.max_shape.clone(),
            beyond: beyond.unwrap_or_else(|| fill.clone()),
            fill,
            layout,
            stored,
            element,
            metadata: DatasetMetadata::default(),
            codes: Vec::new(),
        };
        let mut shape = dimensions.shape;
        let dataset = match array.element.kind.is_text() {
            false => Dataset::new(number, &name, array.element.dtype, &shape, &chunk_shape),
            true => {
                let mut stored_shape = extent.shape.clone();
                let last = dimensions.names.last().filter(|_| dimensions.are_stored);
                // The last dimension counts the characters of strings.
                if is_of_characters(source, object)
                    && last.is_some_and(|last| !self.counted.contains(last))
                {
                    shape.pop();
                    stored_shape.pop();
                    dimensions.names.pop();
                    dimensions.scales.pop();
                }
                let nulls = null_texts(attributes, array.element.kind);
                let texts = self.texts(&array, &stored_shape, &nulls)?;
                array.codes = self.padded(&texts.codes, &stored_shape, &shape)?;
                metadata.attrs.extend(texts.attributes);
                let chunk_shape = contiguous_chunk(&shape, Dtype::I64.size());
                Dataset::new(number, &name, Dtype::I64, &shape, &chunk_shape)
            }
        };
        dataset
            .check(self.file.path)
            .map_err(|error| error.to_string())?;
        metadata.dim_names = dimensions.names;
        metadata.dim_ids = dimensions.scales;
        array.metadata = metadata;
        Ok((dataset, array))
    }

    /// Reads an array of strings. `shape` may have one dimension less than the stored array. The strings
    /// `nulls` stand for null.
    fn texts(&mut self, array: &Hdf5Array, shape: &[u64], nulls: &[String]) -> Found<text::Texts> {
        let stored = &array.stored;
        let size = array.element.size;
        let count = checked_product(shape).filter(|count| *count <= MAX_TEXTS);
        let count = count
            .ok_or_else(|| format!("strings in the shape {shape:?}, more than {MAX_TEXTS}"))?;
        let bytes = checked_product(stored.shape()).and_then(|cells| cells.checked_mul(size));
        let bytes = self.take_text_bytes(bytes)?;
        let mut elements = vec![0; bytes as usize];
        let mut context = DecodeContext::default();
        let chunks = stored
            .chunk_count()
            .filter(|chunks| *chunks <= MAX_TEXT_CHUNKS);
        let chunks =
            chunks.ok_or_else(|| format!("strings in more than {MAX_TEXT_CHUNKS} chunks"))?;
        for ordinal in 0..chunks {
            let chunk = stored.chunk_at(ordinal);
            let read = array.read(self.file, stored, &chunk, None, &mut context);
            read.map_err(|error| {
                self.heaps.is_damaged = true;
                error.to_string()
            })?;
            let (from, extents) = stored.chunk_bounds(&chunk);
            let copy = BoxCopy {
                source_shape: &extents,
                from: &vec![0; extents.len()],
                target_shape: stored.shape(),
                to: &from,
                extents: &extents,
                size,
            };
            copy.run(&context.cells, &mut elements);
        }
        text::decode(
            self.file.source,
            &mut self.heaps,
            array.element.kind,
            &elements,
            count as usize,
            nulls,
        )
    }

    /// Returns the codes as bytes, with the code for null beyond the stored shape.
    fn padded(&mut self, codes: &[i64], stored_shape: &[u64], shape: &[u64]) -> Found<Vec<u8>> {
        let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
        if shape == stored_shape {
            return Ok(bytes);
        }
        let size = Dtype::I64.size();
        let all = checked_product(shape).and_then(|count| count.checked_mul(size));
        let count = self.take_text_bytes(all)? / size;
        let mut padded = text::NULL_CODE.to_le_bytes().repeat(count as usize);
        let origin = vec![0; shape.len()];
        let copy = BoxCopy {
            source_shape: stored_shape,
            from: &origin,
            target_shape: shape,
            to: &origin,
            extents: stored_shape,
            size,
        };
        copy.run(&bytes, &mut padded);
        Ok(padded)
    }

    /// Subtracts `bytes` from the bytes left for strings. `None` means that the number overflowed.
    fn take_text_bytes(&mut self, bytes: Option<u64>) -> Found<u64> {
        let bytes = bytes.filter(|bytes| *bytes <= self.text_bytes);
        let bytes = bytes.ok_or_else(|| {
            format!("strings that, with those before, are more than {MAX_TEXT_BYTES} bytes")
        })?;
        self.text_bytes -= bytes;
        Ok(bytes)
    }
}

/// Returns `true` for a dataset of single characters, which may form strings along the last dimension.
fn is_of_characters(source: &Source, object: &Object) -> bool {
    let mut messages = object.messages.iter();
    let message = messages.find(|message| message.kind == MSG_DATATYPE);
    let element = message.and_then(|message| Element::of(source, message).ok());
    element.is_some_and(|element| {
        element.size == 1 && matches!(element.kind, ElementKind::FixedText(_))
    })
}

/// Returns the path of a dataset, without the prefix of variables that have the name of a dimension.
fn renamed(path: &str) -> String {
    let base = path.rsplit('/').next().unwrap_or(path);
    let group = &path[..path.len() - base.len()];
    format!("{group}{}", dimensions::variable_name(base))
}
