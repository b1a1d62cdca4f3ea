//! Coordinates stored in datasets of their own.
//!
//! Labels are limited to 64 per axis, so real grids keep their coordinates as NetCDF does: in
//! one-dimensional datasets beside the data. Each one is read once per file, when a query first
//! needs it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, TimeUnit};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{ArrayFile, Categories, Dataset, DatasetMetadata, FILL_ATTRIBUTES};
use crate::grid::{AxisCoordinates, CfTime, CfTimeError, CoordinateReader, CoordinateSource};
use crate::provider::adapters::arrays::array::StoredArray;
use crate::provider::adapters::arrays::decoding::{
    ARROW_TYPE, Decoding, NUMPY_TYPE, UNPACK_ATTRIBUTES, duration, refused, time,
};
use crate::provider::adapters::arrays::names::{RepeatedNames, base, dimension, enclosing, group};
use crate::provider::catalog::settings::options::ArrayOptions;

/// The attribute of the CF conventions (section 5) that names coordinates.
pub(in crate::provider) const COORDINATES: &str = "coordinates";
/// The attributes that name datasets.
const NAMING: [&str; 4] = ["bounds", "climatology", COORDINATES, "grid_mapping"];
/// Attributes that describe the unit of numbers, and no longer apply to decoded times.
const OF_TIMES: [&str; 3] = ["units", "calendar", NUMPY_TYPE];
/// The maximum number of names in a `coordinates` attribute that are looked up.
const MAX_NAMED: usize = 64;
/// The maximum number of times that are decoded to text when a file is opened.
const MAX_DATES: u64 = 1 << 24;

/// The ids of datasets, each with the id of the dimension that it has coordinates for.
type CoordinateIds = BTreeSet<(u64, Option<u64>)>;

/// The datasets that can be coordinates of a dimension: those that attributes `coordinates` name, and
/// coordinate variables.
#[derive(Debug, Default)]
struct NamedCoordinates {
    /// By the name of the dimension and by group.
    by_name: HashMap<String, HashMap<String, CoordinateIds>>,
    /// By the id of the dimension.
    by_id: HashMap<u64, CoordinateIds>,
    /// Coordinate variables, by the id of the dimension.
    variables: HashMap<u64, CoordinateIds>,
}

/// The coordinate datasets of one open file, shared by the axes that use them.
#[derive(Debug, Default)]
pub(super) struct CoordinateDatasets {
    coordinates: HashMap<u64, Arc<AxisCoordinates>>,
    /// The datasets by their names without groups, except for those that are further names of others.
    by_base: Option<HashMap<String, Vec<usize>>>,
    named: Option<NamedCoordinates>,
    /// The ids of datasets that cannot be coordinates, which warnings have reported.
    pub unusable: HashSet<u64>,
    pub repeated_names: RepeatedNames,
    /// The reasons, already reported, why coordinates cannot become timestamps.
    refused: Vec<CfTimeError>,
}

impl CoordinateDatasets {
    /// Returns the only dataset of this name, in any group, for which `is_candidate` returns `true`.
    fn only_of_name<'a>(
        &mut self,
        file: &'a dyn ArrayFile,
        name: &str,
        is_candidate: impl Fn(&Dataset) -> bool,
    ) -> Option<&'a Dataset> {
        let by_base = self.by_base.get_or_insert_with(|| {
            let mut by_base: HashMap<_, Vec<usize>> = HashMap::new();
            for (number, dataset) in file.datasets().iter().enumerate() {
                if file.link_target(dataset).is_none() {
                    let base = base(dataset.name()).to_string();
                    by_base.entry(base).or_default().push(number);
                }
            }
            by_base
        });
        let numbers = by_base.get(name)?.iter();
        let datasets = numbers.filter_map(|number| file.datasets().get(*number));
        only(datasets.filter(|dataset| is_candidate(dataset)))
    }

    /// Returns the datasets that the attribute `coordinates` of any dataset names for a dimension of `dataset`:
    /// those named or stored in its group, or if there are none, in the closest group around it. If there
    /// are none, the coordinate variables of the same dimension in any group, else the datasets that
    /// attributes in any group name for it.
    fn named_along<'a>(
        &mut self,
        file: &'a dyn ArrayFile,
        dataset: &Dataset,
        (dimension, id): (&str, Option<u64>),
        extent: u64,
        given: Option<&[String]>,
    ) -> Vec<&'a Dataset> {
        if self.named.is_none() {
            self.named = Some(self.find_named(file, given));
        }
        let Some(all) = &self.named else {
            return Vec::new();
        };
        let by_group = all.by_name.get(dimension);
        let groups = enclosing(dataset.name());
        let named = groups.filter_map(|group| by_group?.get(group));
        let by_id = [&all.variables, &all.by_id].into_iter();
        let named = named.chain(by_id.filter_map(|of_id| of_id.get(&id?)));
        let mut usable = named.map(|ids| {
            let is_along = |of: &Option<u64>| of.zip(id).is_none_or(|(of, id)| of == id);
            let along = ids.iter().filter(|(_, of)| is_along(of));
            // The id of a dataset is its index.
            let named = along.filter_map(|(id, _)| file.datasets().get(*id as usize));
            let named = named.filter(|named| can_stand_along(file, named, extent));
            // More than two are as ambiguous as two.
            named.take(2).collect::<Vec<_>>()
        });
        usable.find(|named| !named.is_empty()).unwrap_or_default()
    }

    fn find_named(&mut self, file: &dyn ArrayFile, given: Option<&[String]>) -> NamedCoordinates {
        let mut all = NamedCoordinates::default();
        for dataset in file.datasets() {
            let is_link = file.link_target(dataset).is_some();
            let Some(metadata) = file.metadata(dataset).filter(|_| !is_link) else {
                continue;
            };
            if let ([id], [name]) = (metadata.dim_ids.as_slice(), metadata.dim_names.as_slice())
                && name == base(dataset.name())
            {
                let of_id = all.variables.entry(*id).or_default();
                of_id.insert((dataset.id(), Some(*id)));
            }
            let Some(named) = metadata.attrs.get(COORDINATES) else {
                continue;
            };
            let names = match metadata.dim_names.as_slice() {
                [] => given.unwrap_or_default(),
                stored => stored,
            };
            if names.len() != dataset.shape().len() {
                continue;
            }
            let found = named_coordinates(file, dataset, named, self);
            for coordinates in &found {
                let own = dimension(file, coordinates);
                let is_own = |name: &String| name == own;
                let free = || axis_of_free(file, dataset, names, &found, coordinates);
                if let Some(axis) = names.iter().position(is_own).or_else(free) {
                    let ids = (coordinates.id(), metadata.dim_ids.get(axis).copied());
                    if let Some(id) = ids.1 {
                        all.by_id.entry(id).or_default().insert(ids);
                    }
                    let by_group = all.by_name.entry(names[axis].clone()).or_default();
                    for group in [group(dataset.name()), group(coordinates.name())] {
                        by_group.entry(group.to_string()).or_default().insert(ids);
                    }
                }
            }
        }
        all
    }

    /// Returns the coordinates that a dataset holds.
    ///
    /// Times that cannot become timestamps stay numbers. Each distinct reason gives one warning.
    ///
    /// # Errors
    /// Returns an error if the record of the dataset is invalid.
    pub fn of(
        &mut self,
        file: &Arc<dyn ArrayFile>,
        dataset: &Dataset,
        options: &ArrayOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<AxisCoordinates>> {
        if let Some(known) = self.coordinates.get(&dataset.id()) {
            return Ok(Arc::clone(known));
        }
        let (values, refused) = CoordinateDataset::try_new(file, dataset, options)?;
        if let Some(error) = refused
            && !self.refused.contains(&error)
        {
            let location = ErrorLocation::dataset(file.path(), dataset.name());
            let named = Error::malformed(location, error.field, &error.found, &error.expected);
            warnings.push(format!("{named}; the coordinates are not decoded to times"));
            self.refused.push(error);
        }
        let coordinates = Arc::new(AxisCoordinates::deferred(values));
        self.coordinates
            .insert(dataset.id(), Arc::clone(&coordinates));
        Ok(coordinates)
    }
}

/// A dataset whose values are coordinates.
#[derive(Debug)]
struct CoordinateDataset {
    values: StoredArray,
    /// Times that `values` does not decode.
    times: Times,
}

/// Coordinates in CF units of time, by the type that they are decoded to.
#[derive(Debug)]
enum Times {
    /// The coordinates are not times, or are decoded with the values of the dataset.
    None,
    Timestamps(CfTime),
    /// Text, for dates that timestamps do not have. Decoded when the file is opened, because a date
    /// outside of the supported years makes the whole axis stay numbers.
    Dates(ArrayRef),
}

impl CoordinateDataset {
    /// Opens the dataset. The second result is the reason why the numbers cannot become times
    /// although their units say that they are.
    fn try_new(
        file: &Arc<dyn ArrayFile>,
        dataset: &Dataset,
        options: &ArrayOptions,
    ) -> Result<(Self, Option<CfTimeError>)> {
        let nothing = DatasetMetadata::default();
        let metadata = file.metadata(dataset).unwrap_or(&nothing);
        // Warnings are dropped here, since the dataset's own table reports them.
        let values = StoredArray::try_new(file, dataset, metadata, options, &mut Vec::new())?;
        let mut refused = None;
        let times = match values.decoding() {
            Decoding::Text(_) | Decoding::Time(..) | Decoding::Duration(_) => Times::None,
            _ if !options.decode_times => Times::None,
            _ => match time(metadata) {
                Ok(None) => Times::None,
                Ok(Some(time)) if time.has_timestamps() => Times::Timestamps(time),
                Ok(Some(time)) => match dates(&values, dataset, &time) {
                    Ok(dates) => Times::Dates(Arc::new(dates)),
                    Err(error) => {
                        refused = Some(error);
                        Times::None
                    }
                },
                Err(error) => {
                    refused = Some(error);
                    Times::None
                }
            },
        };
        // The warning about durations that cannot be decoded was dropped above.
        if options.decode_times
            && refused.is_none()
            && let Err(error) = duration(metadata)
        {
            refused = Some(error);
        }
        Ok((Self { values, times }, refused))
    }
}

/// Decodes times of a calendar with dates that timestamps do not have.
fn dates(
    values: &StoredArray,
    dataset: &Dataset,
    time: &CfTime,
) -> Result<StringArray, CfTimeError> {
    let count = dataset.shape().iter().product::<u64>();
    if count > MAX_DATES {
        return Err(CfTimeError {
            field: "number of time coordinates",
            found: count.to_string(),
            expected: format!("at most {MAX_DATES} in a calendar whose dates become text"),
        });
    }
    let numbers = values.times().map_err(|error| CfTimeError {
        field: "time coordinates",
        found: format!("not readable ({error})"),
        expected: "numbers".to_string(),
    })?;
    time.decode_dates(numbers.as_ref())
}

impl CoordinateReader for CoordinateDataset {
    fn data_type(&self) -> DataType {
        match &self.times {
            Times::Timestamps(_) => return DataType::Timestamp(TimeUnit::Microsecond, None),
            Times::Dates(dates) => return dates.data_type().clone(),
            Times::None => {}
        }
        match self.values.data_type() {
            DataType::Float32 => DataType::Float64,
            other => other,
        }
    }

    fn read(&self) -> Result<ArrayRef> {
        match &self.times {
            Times::None => self.values.coordinates(),
            Times::Dates(dates) => Ok(Arc::clone(dates)),
            Times::Timestamps(time) => match time.decode(self.values.times()?.as_ref()) {
                Ok(times) => Ok(Arc::new(times)),
                Err(error) => Err(refused(&self.values.location(), &error)),
            },
        }
    }
}

/// The attributes of a dataset that apply to its coordinates, without those that describe storage.
pub(super) fn attributes(
    file: &dyn ArrayFile,
    dataset: &Dataset,
    coordinates: &AxisCoordinates,
) -> BTreeMap<String, String> {
    let Some(metadata) = file.metadata(dataset) else {
        return BTreeMap::new();
    };
    let are_times = coordinates.data_type().is_temporal();
    let are_dates = coordinates.data_type().is_string() && matches!(time(metadata), Ok(Some(_)));
    let are_integers = coordinates.data_type().is_integer();
    let attributes = metadata.attrs.iter().filter(|(key, _)| {
        let is_of_storage = key.starts_with(Categories::ATTRIBUTE)
            || key.as_str() == ARROW_TYPE
            || FILL_ATTRIBUTES.contains(&key.as_str());
        // The calendar of dates as text still applies.
        let is_of_numbers =
            are_times && OF_TIMES.contains(&key.as_str()) || are_dates && key.as_str() == "units";
        // Coordinates that are not integers have been unpacked already.
        let is_of_packed = !are_integers && UNPACK_ATTRIBUTES.contains(&key.as_str());
        !(is_of_storage || is_of_numbers || is_of_packed)
    });
    attributes
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect()
}

/// Returns `true` if the values of a dataset are times or durations that can be decoded.
pub(super) fn is_time(file: &dyn ArrayFile, dataset: &Dataset) -> bool {
    file.metadata(dataset).is_some_and(|metadata| {
        matches!(time(metadata), Ok(Some(_))) || matches!(duration(metadata), Ok(Some(_)))
    })
}

/// Returns the paths that attributes of a dataset may name: of the bounds of its cells, of its coordinates,
/// and of the mapping of its projection (CF sections 5 to 7). A name is looked up in the group of the
/// dataset, then in the groups around it, so there is one path for each. Not all of them exist.
pub fn named_datasets<'a>(
    dataset: &'a str,
    attribute: impl Fn(&str) -> Option<&'a str>,
) -> impl Iterator<Item = String> {
    let texts = NAMING.iter().filter_map(|key| attribute(key));
    let texts: Vec<&str> = texts.collect();
    let names = texts.into_iter().flat_map(names_in);
    names.flat_map(move |name| enclosing(dataset).map(move |group| format!("{group}{name}")))
}

/// Returns the dataset that holds the coordinates of one axis. `names` are the names of the
/// dimensions, or empty. The first of these rules that finds a dataset applies:
///
/// 1. The dataset itself, if it is one-dimensional and has the name of its dimension (a coordinate
///    variable: NetCDF User's Guide, CF section 1.3).
/// 2. The one-dimensional dataset with the name of the dimension in the same group, or in the closest
///    group around it, if it is as long as the axis and its own dimension does not have another name.
/// 3. The only one-dimensional dataset that the attribute `coordinates` (CF section 5) of any dataset with
///    the dimension names for it, so that all tables of a file have the same coordinates along a
///    dimension. These coordinates belong to the dimension that their own `dim_names` give, else to the
///    dimension of their own name. If names do not decide, they belong to the only axis of their length,
///    provided that no other dataset in the attribute fits that axis. Datasets in the same group take
///    precedence, then those in the closest group around it.
/// 4. The only coordinate variable of the same dimension in any group, else the only dataset that attributes
///    in any group name for it.
///
/// `given` are names for the dimensions of datasets that have none.
pub(super) fn find<'a>(
    file: &'a dyn ArrayFile,
    dataset: &'a Dataset,
    names: &[String],
    axis: usize,
    given: Option<&[String]>,
    shared: &mut CoordinateDatasets,
) -> Option<(&'a Dataset, CoordinateSource)> {
    // The coordinates are beside the dataset that a soft link leads to.
    let dataset = file.link_target(dataset).unwrap_or(dataset);
    let extent = dataset.shape()[axis];
    let ids = file.metadata(dataset).map(|metadata| &metadata.dim_ids);
    let id = ids.and_then(|ids| ids.get(axis).copied());
    if let Some(name) = names.get(axis) {
        if names.len() == 1 && base(dataset.name()) == name {
            return Some((dataset, CoordinateSource::OwnValues));
        }
        for group in enclosing(dataset.name()) {
            let path = format!("{group}{name}");
            let Some(found) = file.dataset(&path) else {
                continue;
            };
            let is_its_own = || {
                let own = file.metadata(found).and_then(|own| own.dim_names.first());
                // In another group, an unnamed dimension may be any.
                own.map_or(group == self::group(dataset.name()), |own| own == name)
            };
            let own = file.metadata(found).and_then(|own| own.dim_ids.first());
            let is_another = own.zip(id).is_some_and(|(own, id)| *own != id);
            if can_stand_along(file, found, extent) && is_its_own() && !is_another {
                return Some((found, CoordinateSource::Dataset(path)));
            }
        }
    }
    let found = match names.get(axis) {
        Some(name) => only(
            shared
                .named_along(file, dataset, (name, id), extent, given)
                .into_iter(),
        )?,
        None => {
            let named = file.metadata(dataset)?.attrs.get(COORDINATES)?;
            let named = named_coordinates(file, dataset, named, shared);
            let fits = |found: &&Dataset| {
                axis_of_free(file, dataset, names, &named, found) == Some(axis)
                    && can_stand_along(file, found, extent)
            };
            named.iter().copied().find(fits)?
        }
    };
    let source = CoordinateSource::CoordinatesAttribute(found.name().to_string());
    Some((found, source))
}

/// Returns the axis of coordinates without one of the dimensions of a dataset: the only axis of their length,
/// if no others among `named` fit it.
fn axis_of_free(
    file: &dyn ArrayFile,
    dataset: &Dataset,
    names: &[String],
    named: &[&Dataset],
    coordinates: &Dataset,
) -> Option<usize> {
    let length = coordinates.shape();
    let is_free = |one: &&&Dataset| {
        one.shape() == length && names.iter().all(|name| dimension(file, one) != name)
    };
    let fitting = only(named.iter().filter(is_free))?;
    let axes = dataset.shape().iter().enumerate();
    let axis = only(axes.filter(|(_, extent)| [**extent] == length));
    let (axis, _) = axis.filter(|_| fitting.id() == coordinates.id())?;
    Some(axis)
}

/// Returns the one-dimensional datasets that `names`, the attribute `coordinates` of a dataset, names.
fn named_coordinates<'a>(
    file: &'a dyn ArrayFile,
    dataset: &Dataset,
    names: &str,
    shared: &mut CoordinateDatasets,
) -> Vec<&'a Dataset> {
    let is_candidate = |found: &Dataset| found.shape().len() == 1;
    names_in(names)
        .filter_map(|name| resolve(file, dataset, name, shared, is_candidate))
        .filter(|found| is_candidate(found))
        .collect()
}

/// Returns the names in an attribute.
pub(super) fn names_in(attribute: &str) -> impl Iterator<Item = &str> {
    attribute.split_whitespace().take(MAX_NAMED)
}

/// Resolves a name in an attribute to a dataset: in the group of the dataset, else in the closest group
/// around it, else the only dataset of this name in any group for which `is_candidate` returns `true`, since
/// converters put coordinates into groups of their own.
pub(super) fn resolve<'a>(
    file: &'a dyn ArrayFile,
    dataset: &Dataset,
    name: &str,
    shared: &mut CoordinateDatasets,
    is_candidate: impl Fn(&Dataset) -> bool,
) -> Option<&'a Dataset> {
    let dataset = file.link_target(dataset).unwrap_or(dataset);
    let mut beside = enclosing(dataset.name()).map(|group| format!("{group}{name}"));
    beside
        .find_map(|path| file.dataset(&path))
        .or_else(|| file.dataset(name.trim_start_matches('/')))
        .or_else(|| shared.only_of_name(file, name, is_candidate))
}

fn can_stand_along(file: &dyn ArrayFile, dataset: &Dataset, extent: u64) -> bool {
    dataset.shape() == [extent] && dataset.check(file.path()).is_ok()
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}
