//! Opens a file, and builds its datasets with their dimensions, attributes and strings.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::path::Path;

use hdf5_reader::messages::MSG_DATATYPE;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{
    Dataset, DatasetMetadata, DecodeContext, Dtype, FILL_ATTRIBUTES, GroupAttributes, Warnings,
    checked_product,
};
use crate::format::hdf5::array::{Hdf5Array, Opened};
use crate::format::hdf5::layout::{self, Layout};
use crate::format::hdf5::metadata::attributes::{Attributes, Number, Value};
use crate::format::hdf5::metadata::dimensions::{self, Dimensions, Extent, Sized};
use crate::format::hdf5::metadata::element::{Element, ElementKind};
use crate::format::hdf5::metadata::heaps::Heaps;
use crate::format::hdf5::metadata::tree::{Object, Tree};
use crate::format::hdf5::source::{Found, Source};
use crate::format::hdf5::text::{self, MAX_TEXTS};
use crate::format::npy::contiguous_chunk;

/// The attributes of the NetCDF conventions that are converted to the type of the cells.
const FILL_VALUE: &str = "_FillValue";
const MISSING_VALUE: &str = "missing_value";
/// Further attributes whose values are cells.
const VALID_MIN: &str = "valid_min";
const VALID_MAX: &str = "valid_max";
const VALID_RANGE: &str = "valid_range";
/// The attribute that overrides whether integers are unsigned.
const UNSIGNED: &str = "_Unsigned";
/// The CF attributes for enumerations.
const FLAG_VALUES: &str = "flag_values";
const FLAG_MEANINGS: &str = "flag_meanings";
/// The minimum of the limit on the memory of a file's attributes, in bytes.
const MIN_ATTRIBUTE_BYTES: u64 = 64 << 20;
/// The maximum number of stored bytes of all strings of a file.
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
        for found in &attributes.unreadable {
            let location = ErrorLocation::dataset(file.path, &object.path);
            warnings.push(format!("{location}: {found}; the attribute is left out"));
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
        is_damaged: false,
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
            Err(found) if mem::take(&mut reader.is_damaged) => {
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
    /// `true` if the array that was built last is damaged.
    is_damaged: bool,
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
        let fill = layout::fill(source, &object.messages, element.size);
        let own = dimensions::variable_name(object.base_name());
        let is_coordinate = matches!(dimensions.names.as_slice(), [only] if only == own);
        let mut metadata = metadata(
            attributes,
            &element,
            (!is_coordinate).then_some(fill.as_slice()),
            unsigned.is_some(),
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
                // Strings are not padded to the length of an unlimited dimension.
                shape.clone_from(&extent.shape);
                let last = dimensions.names.last().filter(|_| dimensions.are_stored);
                // The last dimension counts the characters of strings.
                if is_of_characters(source, object)
                    && last.is_some_and(|last| !self.counted.contains(last))
                {
                    shape.pop();
                    dimensions.names.pop();
                }
                let nulls = null_texts(attributes, array.element.kind);
                let texts = self.texts(&array, &shape, &nulls)?;
                array.codes = texts.codes;
                metadata.attrs.extend(texts.attributes);
                let chunk_shape = contiguous_chunk(&shape, Dtype::I64.size());
                Dataset::new(number, &name, Dtype::I64, &shape, &chunk_shape)
            }
        };
        dataset
            .check(self.file.path)
            .map_err(|error| error.to_string())?;
        metadata.dim_names = dimensions.names;
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
        let bytes = bytes.filter(|bytes| *bytes <= self.text_bytes);
        let bytes = bytes.ok_or_else(|| {
            format!("strings that, with those before, are more than {MAX_TEXT_BYTES} bytes")
        })?;
        self.text_bytes -= bytes;
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
                self.is_damaged = true;
                error.to_string()
            })?;
            let (from, extents) = stored.chunk_bounds(&chunk);
            let copy = crate::format::array::BoxCopy {
                source_shape: &extents,
                from: &vec![0; extents.len()],
                target_shape: stored.shape(),
                to: &from,
                extents: &extents,
                size,
            };
            copy.run(&context.cells, &mut elements);
        }
        if count == 0 {
            return Ok(text::Texts::default());
        }
        let size = elements.len() / count as usize;
        text::decode(
            self.file.source,
            &mut self.heaps,
            array.element.kind,
            &elements,
            size,
            nulls,
        )
    }
}

/// Returns the strings that stand for null in an array of strings.
fn null_texts(attributes: &Attributes, kind: ElementKind) -> Vec<String> {
    let [fill, missing, other] = FILL_ATTRIBUTES.map(|name| attributes.get(name));
    let other = other.filter(|_| fill.is_none() && missing.is_none());
    let values = [fill, missing, other].into_iter().flatten();
    let texts = values.flat_map(|value| match value {
        Value::Texts(texts) => texts.as_slice(),
        _ => &[],
    });
    // Zeros pad strings of fixed length, so that an empty one need not stand for null.
    let can_be_empty = matches!(kind, ElementKind::VariableText);
    let texts = texts.filter(|text| can_be_empty || !text.is_empty());
    texts.cloned().collect()
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

/// Converts the attributes of a dataset to text.
///
/// Fill values become values of the cells. `fill` is the stored element of cells that were never
/// written; `None` for coordinates, which are never null. `has_sign` is `true` if an attribute gives the sign of the
/// cells, so that fill values may be written for the other sign.
fn metadata(
    attributes: &Attributes,
    element: &Element,
    fill: Option<&[u8]>,
    has_sign: bool,
) -> DatasetMetadata {
    let mut metadata = DatasetMetadata::default();
    for attribute in &attributes.list {
        let name = attribute.name.as_str();
        let is_sign = name == UNSIGNED && element.integers().is_some();
        if dimensions::is_hidden(name) || is_sign {
            continue;
        }
        let text = match name {
            VALID_MIN | VALID_MAX | VALID_RANGE if has_sign => {
                fill_text(&attribute.value, element, has_sign)
            }
            FILL_VALUE | MISSING_VALUE => fill_text(&attribute.value, element, has_sign),
            _ => attribute.value.text(),
        };
        if let Some(text) = text {
            metadata.attrs.insert(name.to_string(), text);
        }
    }
    if let Some(default) = fill.and_then(|fill| default_fill(element, fill))
        && !metadata.attrs.contains_key(FILL_VALUE)
        && !has_sign
    {
        metadata.default_fill = Some(default);
    }
    if !element.names.is_empty() && !metadata.attrs.contains_key(FLAG_MEANINGS) {
        let values: Vec<_> = element
            .names
            .iter()
            .map(|(_, value)| value.to_string())
            .collect();
        // Meanings are separated by spaces.
        let words = element
            .names
            .iter()
            .map(|(name, _)| name.replace(char::is_whitespace, "_"));
        let words: Vec<_> = words.collect();
        metadata
            .attrs
            .insert(FLAG_VALUES.to_string(), format!("[{}]", values.join(",")));
        metadata
            .attrs
            .insert(FLAG_MEANINGS.to_string(), words.join(" "));
    }
    metadata
}

/// Returns NetCDF's default fill value of this type, if `fill` is that value. Readers of NetCDF treat it
/// as null even without the attribute `_FillValue`.
fn default_fill(element: &Element, fill: &[u8]) -> Option<String> {
    let text = match element.dtype {
        Dtype::I16 => "-32767",
        Dtype::I32 => "-2147483647",
        Dtype::I64 => "-9223372036854775806",
        Dtype::U16 => "65535",
        Dtype::U32 => "4294967295",
        Dtype::U64 => "18446744073709551614",
        Dtype::F32 | Dtype::F64 => "9.969209968386869e36",
        Dtype::I8 | Dtype::U8 | Dtype::F16 => return None,
    };
    let mut expected = match element.dtype {
        Dtype::F32 => text.parse::<f32>().ok()?.to_le_bytes().to_vec(),
        Dtype::F64 => text.parse::<f64>().ok()?.to_le_bytes().to_vec(),
        _ => text.parse::<i128>().ok()?.to_le_bytes().to_vec(),
    };
    expected.truncate(fill.len());
    match element.kind {
        ElementKind::Plain => {}
        ElementKind::Swapped => expected.reverse(),
        _ => return None,
    }
    (expected == fill).then(|| text.to_string())
}

/// Converts fill values to text, as a JSON list if there are several. Returns `None` for NaN, which needs
/// no fill value, and for strings, whose codes are no values of the file.
fn fill_text(value: &Value, element: &Element, has_sign: bool) -> Option<String> {
    if element.kind.is_text() {
        return None;
    }
    let number_text = |number: &Number| -> Option<String> {
        let Some((min, max)) = element.integers() else {
            return (!number.is_nan()).then(|| number.text());
        };
        let value = number.integer()?;
        let value = match has_sign {
            true => min + (value - min).rem_euclid(max - min + 1),
            false => value,
        };
        Some(value.to_string())
    };
    let numbers: Vec<Number> = match value {
        Value::Numbers(numbers) => numbers.clone(),
        // Some writers store the number as text.
        Value::Texts(texts) => {
            let texts = texts.iter().filter_map(|text| text.trim().parse().ok());
            texts.map(Number::Double).collect()
        }
        Value::References(_) => Vec::new(),
    };
    let texts: Vec<String> = numbers.iter().filter_map(number_text).collect();
    match texts.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(","))),
    }
}
