//! Converts arrays to arrays.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::{Result, plan_err};
use datafusion::prelude::SessionConfig;
use half::f16;

use crate::format::array::{
    ArrayFile, Categories, Compression, Dataset, DatasetMetadata, DatasetSpec, Dtype,
    FILL_ATTRIBUTES, Fill, Limits,
};
use crate::format::io::storage::Access;
use crate::format::npy::contiguous_chunk;
use crate::format::tet::LIMITS;
use crate::grid::{CoordinateSource, Selection, infer_labels};
use crate::provider::adapters::arrays::{
    ArrayContainer, ArrayDataset, MEANINGFUL, RepeatedNames, StoredArray, base, group,
};
use crate::provider::adapters::create::CreateSettings;
use crate::provider::adapters::file_kind::FileKind;
use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::catalog::settings::unpack::Unpack;
use crate::provider::convert::copy_blocks::{CellForm, copy};
use crate::provider::convert::groups::{MAX_SHOWN, group_attributes, lost_attributes};
use crate::provider::convert::names::{name_coordinates, rename_repeated};
use crate::provider::convert::options::check_options;
use crate::provider::convert::spacing::{lost_coordinates, spaced_coordinates};
use crate::provider::convert::{ConvertOptions, ConvertProgress, Converted, split_dataset};
use crate::provider::copy::{CoordinateDataset, FinishedAxis, chunk_shape};
use crate::provider::source::GridSource;

/// The source of an array in the output.
enum ArraySource {
    /// A dataset of the input.
    Array(Arc<StoredArray>, CellForm),
    /// Coordinates that are stored as labels in the input.
    Cells(Arc<[u8]>),
}

impl ArraySource {
    /// Returns the dataset of the input.
    fn dataset(&self) -> Option<&Dataset> {
        match self {
            Self::Array(array, _) => Some(array.dataset()),
            Self::Cells(_) => None,
        }
    }
}

/// Copies the arrays of a file.
pub(super) fn convert(
    input: &Path,
    target: FileKind,
    output: &Path,
    options: &ConvertOptions,
    progress: &ConvertProgress,
) -> Result<Converted> {
    let Some(creator) = target.creator() else {
        return plan_err!("{}: holds rows, not arrays", output.display());
    };
    let (path, named) = split_dataset(input);
    let read_options = options.read_options().with_access(Access::Pread);
    let session = SessionConfig::new();
    let container = FormatRegistry::of(&session).open(&path, &read_options, &session)?;
    let Some(container) = container.downcast_ref::<ArrayContainer>() else {
        return plan_err!("{}: does not store arrays", path.display());
    };
    let file = Arc::clone(container.file());
    let mut converted = Converted {
        warnings: file.warnings().to_vec(),
        ..Converted::default()
    };
    let wanted = options.dataset.as_ref().or(named.as_ref());
    let extension = output.extension().unwrap_or_default();
    let mut plan = ConversionPlan {
        file: &file,
        target,
        is_one_array: wanted.is_some() && extension.eq_ignore_ascii_case("npy"),
        options,
        read_options: &read_options,
        named: Vec::new(),
        repeated_names: RepeatedNames::default(),
        specs: Vec::new(),
        contents: Vec::new(),
        warnings: &mut converted.warnings,
        has_unreadable: false,
    };
    plan.add_datasets(wanted.map(String::as_str))?;
    let ConversionPlan {
        specs,
        contents,
        has_unreadable,
        ..
    } = plan;
    if specs.is_empty() {
        let reasons = converted.warnings.iter().take(MAX_SHOWN);
        let reasons = reasons.map(|warning| format!("; {warning}"));
        return plan_err!(
            "{}: there is no array to convert{}",
            input.display(),
            reasons.collect::<String>()
        );
    }
    // A selected dataset is complete, even if the file has others that are damaged.
    let mut opening = 0..file.warnings().len();
    let is_damaged = has_unreadable || opening.any(|warning| file.listing().is_damage(warning));
    converted.is_damaged = wanted.is_none() && is_damaged;
    let arrays = contents.iter().filter_map(ArraySource::dataset);
    let arrays: Vec<_> = arrays.collect();
    let unused = check_options(file.as_ref(), &arrays, target, options)?;
    converted.warnings.extend(unused);
    let settings = CreateSettings {
        format_options: options.created_with(),
        group_attributes: group_attributes(file.as_ref(), wanted.is_some().then_some(&specs)),
        history: ("convert", file.format()),
    };
    if creator.keeps_metadata() && !creator.keeps_group_attributes() {
        let extension = extension.display().to_string();
        let lost = lost_attributes(&settings.group_attributes, &path, &extension);
        converted.warnings.extend(lost);
    }
    if target == FileKind::Npy {
        let is_more = |spec: &DatasetSpec| spec.metadata() != &DatasetMetadata::default();
        if specs.iter().any(is_more) {
            converted.warnings.push(format!(
                "{}: dimension names and attributes are dropped, and texts become codes, because NumPy files \
                 cannot store them",
                output.display()
            ));
        }
    }
    let mut writer = creator.create(output, specs, &settings)?;
    let counts = arrays.iter().filter_map(|dataset| cells(dataset));
    progress.all.store(counts.sum(), Ordering::Relaxed);
    for (number, content) in contents.iter().enumerate() {
        match content {
            ArraySource::Cells(cells) => writer.write_dataset(number, cells)?,
            ArraySource::Array(array, copied) => {
                copy(array, *copied, number, writer.as_mut(), options, progress)?;
            }
        }
    }
    converted.warnings.extend(writer.warnings());
    writer.finish()?;
    converted.arrays = contents.len();
    converted.cells = progress.done();
    Ok(converted)
}

fn cells(dataset: &Dataset) -> Option<u64> {
    Selection::all(dataset.shape()).count()
}

/// The arrays to write, collected from the datasets of the input.
struct ConversionPlan<'a> {
    file: &'a Arc<dyn ArrayFile>,
    target: FileKind,
    /// `true` if the output is an `.npy` file, which holds a single array, and a dataset is
    /// selected.
    is_one_array: bool,
    options: &'a ConvertOptions,
    read_options: &'a ArrayOptions,
    /// The coordinates of the selected dataset that the attribute `coordinates` of any dataset names.
    named: Vec<String>,
    repeated_names: RepeatedNames,
    specs: Vec<DatasetSpec>,
    contents: Vec<ArraySource>,
    warnings: &'a mut Vec<String>,
    /// `true` if a dataset that cannot be read is left out.
    has_unreadable: bool,
}

impl ConversionPlan<'_> {
    /// Adds all datasets, or the selected dataset along with its coordinate datasets.
    fn add_datasets(&mut self, wanted: Option<&str>) -> Result<()> {
        let file = self.file;
        let mut names = Vec::new();
        if let Some(name) = wanted.filter(|_| self.is_one_array) {
            names.push(name.to_string());
        } else if let Some(name) = wanted {
            let dataset = ArrayDataset::try_new(file, name, self.read_options)?;
            for axis in dataset.axes() {
                if let CoordinateSource::Dataset(name)
                | CoordinateSource::CoordinatesAttribute(name) = axis.source()
                {
                    names.push(name.clone());
                }
                if let CoordinateSource::CoordinatesAttribute(name) = axis.source() {
                    self.named.push(name.clone());
                }
            }
            names.push(name.to_string());
        }
        let is_only = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
        for dataset in file.datasets() {
            if !is_only(dataset.name()) || file.dataset(dataset.name()) != Some(dataset) {
                continue;
            }
            // A further name of a dataset would write the same cells once more.
            if wanted.is_none() && file.link_target(dataset).is_some() {
                continue;
            }
            match dataset.check(file.path()) {
                Ok(_) => self.add(dataset, wanted.is_some())?,
                // Opening the file has already warned about this dataset.
                Err(_) if wanted.is_none() => self.has_unreadable = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn add(&mut self, dataset: &Dataset, is_wanted: bool) -> Result<()> {
        let nothing = DatasetMetadata::default();
        let mut metadata = self.file.metadata(dataset).unwrap_or(&nothing).clone();
        if self.target == FileKind::Tet
            && let Some(reason) = unfit(dataset.shape(), &metadata)
        {
            let message = format!(
                "{}, dataset {:?}: {reason}",
                self.file.path().display(),
                dataset.name()
            );
            if is_wanted {
                return plan_err!("{message}");
            }
            self.warnings.push(format!("{message}; it is left out"));
            return Ok(());
        }
        let mut dtype = dataset.check(self.file.path())?;
        let array = StoredArray::try_new(
            self.file,
            dataset,
            &metadata,
            &self.unpack_options(),
            self.warnings,
        )?;
        let mut copied = CellForm::Cells;
        if self.target == FileKind::Tet
            && let Some(default) = metadata.default_fill.take()
        {
            let [attribute, ..] = FILL_ATTRIBUTES;
            metadata.attrs.insert(attribute.to_string(), default);
        }
        if array.is_unpacked() {
            copied = CellForm::Values;
            dtype = Dtype::F64;
            metadata.default_fill = None;
            metadata.attrs.retain(|key, _| array.keeps(key));
        } else if self.target == FileKind::Tet
            && let Some(fill) = array.fill()
            && (array.has_many_fills() || Fill::of(&metadata, dtype) != Some(fill))
        {
            // A `.tet` file supports one fill value, which is in the first of these attributes.
            copied = CellForm::CellsWithOneFill;
            for attribute in FILL_ATTRIBUTES {
                metadata.attrs.remove(attribute);
            }
            let [attribute, ..] = FILL_ATTRIBUTES;
            metadata
                .attrs
                .insert(attribute.to_string(), fill_text(fill, dtype));
        }
        // `copy` widens the cells.
        if self.target == FileKind::Tet && dtype == Dtype::I8 {
            dtype = Dtype::I16;
        }
        let shape = dataset.shape();
        if self.target != FileKind::Npy {
            let names = &mut metadata.dim_names;
            let renamed =
                rename_repeated(self.file.as_ref(), dataset, names, &mut self.repeated_names);
            self.warnings.extend(renamed);
        }
        name_coordinates(&self.named, dataset, &mut metadata);
        if metadata.dim_names.is_empty()
            && let Some(dims) = &self.options.dims
        {
            let own = base(dataset.name()).to_string();
            if shape.len() == 1 && dims.contains(&own) {
                // The dataset holds the coordinates of one of the dimensions.
                metadata.dim_names = vec![own];
            } else if dims.len() == shape.len() {
                metadata.dim_names.clone_from(dims);
            }
        }
        let chunk = self.chunk(dataset, dtype.size());
        let compression = match self.options.compression {
            Some(compression) => compression,
            // Without an option, keep data compressed or raw as in the input.
            None if self.file.is_compressed(dataset)? => Compression::ZSTD,
            None => Compression::Raw,
        };
        match self.target {
            FileKind::Tet => self.fit(dataset, &mut metadata),
            _ => {
                if !self.is_one_array {
                    self.add_labels(dataset, &metadata)?;
                }
                metadata.coords.clear();
            }
        }
        if is_wanted || self.file.datasets().len() == 1 {
            self.add_spaced(dataset)?;
        } else if matches!(self.target, FileKind::Tet | FileKind::Npy) {
            let lost = lost_coordinates(self.file.as_ref(), dataset);
            self.warnings.extend(lost);
        }
        let spec = DatasetSpec::new(dataset.name(), dtype, shape, &chunk)
            .with_compression(compression)
            .with_metadata(metadata);
        self.specs.push(spec);
        self.contents
            .push(ArraySource::Array(Arc::new(array), copied));
        Ok(())
    }

    /// Returns the options for unpacking. Zarr readers apply the attributes again, so values stay
    /// packed in a Zarr output by default.
    fn unpack_options(&self) -> ArrayOptions {
        let unpack = match (self.options.unpack, self.target) {
            #[cfg(feature = "zarr")]
            (Unpack::Auto, FileKind::Zarr) => Unpack::Never,
            (unpack, _) => unpack,
        };
        ArrayOptions::new().with_unpack(unpack)
    }

    fn chunk(&self, dataset: &Dataset, cell_bytes: u64) -> Vec<u64> {
        let shape = dataset.shape();
        let fits = |chunk: &&Vec<u64>| chunk.len() == shape.len();
        if self.target == FileKind::Npy {
            return contiguous_chunk(shape, cell_bytes);
        }
        if let Some(chunk) = self.options.chunk.as_ref().filter(fits) {
            let extents = chunk.iter().zip(shape);
            return extents
                .map(|(chunk, extent)| *chunk.min(extent).max(&1))
                .collect();
        }
        match self.file.has_chunks(dataset) {
            true => dataset.chunk_shape().to_vec(),
            // An axis of length zero would give a chunk extent of zero, which is invalid.
            false => chunk_shape(shape, cell_bytes)
                .into_iter()
                .map(|extent| extent.max(1))
                .collect(),
        }
    }

    /// Drops the attributes that do not fit into the metadata of a `.tet` file, with a warning.
    fn fit(&mut self, dataset: &Dataset, metadata: &mut DatasetMetadata) {
        let is_category = |key: &str| key.starts_with(Categories::ATTRIBUTE);
        let categories = metadata.attrs.keys().filter(|key| is_category(key)).count();
        let mut room = LIMITS.attributes - categories;
        let mut lost = Vec::new();
        let attributes = std::mem::take(&mut metadata.attrs);
        // Keep attributes that define the meaning of cells first.
        let (first, others): (Vec<_>, Vec<_>) = attributes.into_iter().partition(|(key, _)| {
            let key = key.as_str();
            is_category(key) || FILL_ATTRIBUTES.contains(&key) || MEANINGFUL.contains(&key)
        });
        for (key, text) in first.into_iter().chain(others) {
            let fits = LIMITS.allow_text(&key) && LIMITS.allow_text(&text) && room > 0;
            if is_category(&key) {
                metadata.attrs.insert(key, text);
            } else if fits {
                room -= 1;
                metadata.attrs.insert(key, text);
            } else {
                lost.push(format!("{key:?}"));
            }
        }
        if !lost.is_empty() {
            self.warnings.push(format!(
                "{}, dataset {:?}: the attributes {} are left out, a .tet file holds {} of 1 to {} bytes",
                self.file.path().display(),
                dataset.name(),
                lost.join(", "),
                LIMITS.attributes,
                LIMITS.text_bytes
            ));
        }
    }

    /// Adds computed coordinates as arrays, unless the output is a single array.
    fn add_spaced(&mut self, dataset: &Dataset) -> Result<()> {
        let limits = match self.target {
            _ if self.is_one_array => return Ok(()),
            FileKind::Tet => &LIMITS,
            _ => &Limits::NONE,
        };
        for array in spaced_coordinates(self.file, dataset, self.read_options, limits)? {
            self.specs.push(array.spec(group(dataset.name())));
            self.contents.push(ArraySource::Cells(array.cells));
        }
        Ok(())
    }

    /// Adds labels as coordinate arrays, unless a dataset with the name of the dimension exists.
    fn add_labels(&mut self, dataset: &Dataset, metadata: &DatasetMetadata) -> Result<()> {
        for (axis, name) in metadata.dim_names.iter().enumerate() {
            let labels = metadata.labels(&metadata.dim_names, axis, dataset.shape());
            let Some((labels, _)) =
                labels.filter(|(labels, _)| labels.len() as u64 == dataset.shape()[axis])
            else {
                continue;
            };
            let path = format!("{}{name}", group(dataset.name()));
            let is_there = self.file.dataset(&path).is_some()
                || self.specs.iter().any(|spec| spec.name() == path);
            if is_there {
                continue;
            }
            let axis = FinishedAxis {
                name: name.clone(),
                coordinates: infer_labels(labels),
                positions: Vec::new(),
                attributes: BTreeMap::new(),
            };
            let coordinates = CoordinateDataset::of(&axis, &Limits::NONE)?;
            self.specs.push(coordinates.spec(group(dataset.name())));
            self.contents.push(ArraySource::Cells(coordinates.cells));
        }
        Ok(())
    }
}

/// Returns the reason why an array cannot be stored in a `.tet` file, or `None` if it can.
fn unfit(shape: &[u64], metadata: &DatasetMetadata) -> Option<String> {
    if shape.contains(&0) {
        return Some("it has no cells, and a .tet file cannot store an empty array".to_string());
    }
    if !(1..=LIMITS.dimensions).contains(&shape.len()) {
        return Some(format!(
            "it has {} dimensions, a .tet file has 1 to {}",
            shape.len(),
            LIMITS.dimensions
        ));
    }
    let texts = metadata.attrs.keys();
    let texts = texts.filter(|key| key.starts_with(Categories::ATTRIBUTE));
    let texts = texts.count();
    (texts >= LIMITS.attributes).then(|| {
        format!(
            "its texts take {texts} attributes, a .tet file has {} for a dataset",
            LIMITS.attributes
        )
    })
}

/// Formats a fill value as the text of an attribute.
fn fill_text(fill: Fill, dtype: Dtype) -> String {
    let bits = fill.bits();
    match dtype {
        Dtype::F16 => f16::from_bits(bits as u16).to_string(),
        Dtype::F32 => f32::from_bits(bits as u32).to_string(),
        Dtype::F64 => f64::from_bits(bits).to_string(),
        Dtype::I8 => (bits as i8).to_string(),
        Dtype::I16 => (bits as i16).to_string(),
        Dtype::I32 => (bits as i32).to_string(),
        Dtype::I64 => (bits as i64).to_string(),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => bits.to_string(),
    }
}
