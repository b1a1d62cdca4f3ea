//! The dimensions of datasets: dimension scales, and those that readers make up.

use std::collections::{HashMap, HashSet};

use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::MSG_DATASPACE;
use hdf5_reader::messages::dataspace::{DataspaceMessage, DataspaceType};

use crate::format::hdf5::metadata::attributes::Attributes;
use crate::format::hdf5::metadata::header::Message;
use crate::format::hdf5::source::{Found, Source};

/// The attribute with the dimension scales of each dimension.
const DIMENSION_LIST: &str = "DIMENSION_LIST";
/// The attribute with the numbers of the dimensions of a coordinate variable.
const COORDINATES: &str = "_Netcdf4Coordinates";
/// The attribute with the number of the dimension that a dimension scale stands for.
const DIMENSION_ID: &str = "_Netcdf4Dimid";
/// The attribute of h5py with a label for each dimension.
const LABELS: &str = "DIMENSION_LABELS";
/// The start of the attribute `NAME` of a dimension that has no coordinates.
const WITHOUT_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable";
/// The prefix of a variable with the name of a dimension that it does not stand for.
const NOT_COORDINATES: &str = "_nc4_non_coord_";
/// Attributes that only describe dimensions, types and the writing library.
const HIDDEN: [&str; 10] = [
    "CLASS",
    "NAME",
    "REFERENCE_LIST",
    DIMENSION_LIST,
    LABELS,
    COORDINATES,
    DIMENSION_ID,
    "_nc3_strict",
    "_NCProperties",
    "_NCCOPIED",
];
/// Maximum number of dimensions of a dataset, as in HDF5.
const MAX_RANK: usize = 32;

/// The shape of a dataset, and the extents up to which it can grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format::hdf5) struct Extent {
    pub shape: Vec<u64>,
    pub max_shape: Option<Vec<u64>>,
}

impl Extent {
    /// Returns the shape of the dataset with these messages.
    ///
    /// # Errors
    /// Returns a message if there is no shape.
    pub fn of(source: &Source, messages: &[Message]) -> Found<Self> {
        let message = messages
            .iter()
            .find(|message| message.kind == MSG_DATASPACE);
        let message = message.ok_or("no dataspace")?;
        let HdfMessage::Dataspace(dataspace) = message.parse(source)? else {
            return Err("no dataspace".to_string());
        };
        let DataspaceMessage {
            dims,
            max_dims,
            dataspace_type,
            ..
        } = dataspace;
        if dataspace_type == DataspaceType::Null {
            return Err("no elements (a null dataspace)".to_string());
        }
        if dims.len() > MAX_RANK {
            return Err(format!("{} dimensions, more than {MAX_RANK}", dims.len()));
        }
        Ok(Self {
            shape: dims,
            max_shape: max_dims,
        })
    }

    /// Returns `true` if the dataset can grow without limit along an axis.
    pub fn is_unlimited(&self, axis: usize) -> bool {
        let max = self.max_shape.as_ref().and_then(|max| max.get(axis));
        max == Some(&u64::MAX)
    }
}

/// A dataset, as far as its dimensions are concerned.
#[derive(Debug)]
pub(in crate::format::hdf5) struct Sized<'a> {
    /// The name within the group.
    pub name: &'a str,
    pub address: u64,
    /// The index of the group of the dataset.
    pub group: usize,
    pub extent: &'a Extent,
    pub attributes: &'a Attributes,
}

impl Sized<'_> {
    /// Returns `true` for a dimension scale.
    fn is_scale(&self) -> bool {
        self.attributes.text("CLASS") == Some("DIMENSION_SCALE")
    }

    fn dimension_id(&self) -> Option<i128> {
        self.attributes
            .get(DIMENSION_ID)?
            .numbers()
            .first()?
            .integer()
    }
}

/// Returns `true` for a dataset that stands for a dimension without coordinates.
pub(in crate::format::hdf5) fn is_without_variable(attributes: &Attributes) -> bool {
    let name = attributes.text("NAME");
    attributes.text("CLASS") == Some("DIMENSION_SCALE")
        && name.is_some_and(|name| name.starts_with(WITHOUT_VARIABLE))
}

/// Returns the name of a variable, which may have a prefix in the file.
pub(in crate::format::hdf5) fn variable_name(name: &str) -> &str {
    name.strip_prefix(NOT_COORDINATES).unwrap_or(name)
}

/// Returns `true` for attributes that only describe dimensions, types and the writing library.
pub(in crate::format::hdf5) fn is_hidden(attribute: &str) -> bool {
    HIDDEN.contains(&attribute)
}

/// The dimensions of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::format::hdf5) struct Dimensions {
    pub names: Vec<String>,
    /// The address of the dimension scale of each dimension; empty if there are none.
    pub scales: Vec<u64>,
    /// The extents. An unlimited dimension is as long as the longest dataset along it.
    pub shape: Vec<u64>,
    /// `true` if the file gives the dimensions, `false` if they are made up.
    pub are_stored: bool,
}

/// Returns the dimensions of all datasets.
///
/// The first of these rules that applies to a dataset counts:
///
/// 1. The attribute `DIMENSION_LIST` refers to a dimension scale for each dimension.
/// 2. The attribute `_Netcdf4Coordinates` has the number of each dimension.
/// 3. A dimension scale with one dimension is its own.
/// 4. The attribute `DIMENSION_LABELS` has a distinct label for each dimension.
/// 5. Dimensions of the same extent in the same group are called `phony_dim_0`, `phony_dim_1` and so
///    on, as by the NetCDF library.
///
/// `parents` has the index of the group around each group.
pub(in crate::format::hdf5) fn of_all(
    datasets: &[Sized<'_>],
    parents: &[usize],
) -> Vec<Dimensions> {
    let scales: HashMap<u64, &Sized<'_>> = datasets
        .iter()
        .filter(|dataset| dataset.is_scale())
        .map(|dataset| (dataset.address, dataset))
        .collect();
    let ids: HashMap<i128, &Sized<'_>> = scales
        .values()
        .filter_map(|scale| Some((scale.dimension_id()?, *scale)))
        .collect();
    let mut found: Vec<Option<Dimensions>> = Vec::with_capacity(datasets.len());
    // The length of each dimension, by the address of its scale.
    let mut lengths: HashMap<u64, u64> = HashMap::new();
    let mut of_axes: Vec<Vec<Option<u64>>> = Vec::with_capacity(datasets.len());
    for dataset in datasets {
        let axes = stored(dataset, &scales, &ids);
        let rank = dataset.extent.shape.len();
        for (axis, address) in axes.iter().flatten().enumerate() {
            let length = lengths.entry(*address).or_insert(0);
            *length = (*length).max(dataset.extent.shape[axis]);
        }
        found.push(axes.as_ref().map(|axes| {
            Dimensions {
                names: axes
                    .iter()
                    .map(|address| scales[address].name.to_string())
                    .collect(),
                scales: axes.clone(),
                shape: dataset.extent.shape.clone(),
                are_stored: true,
            }
        }));
        let none = || vec![None; rank];
        of_axes.push(axes.map_or_else(none, |axes| axes.into_iter().map(Some).collect()));
    }
    for ((dataset, dimensions), axes) in datasets.iter().zip(&mut found).zip(&of_axes) {
        let Some(dimensions) = dimensions else {
            *dimensions = labelled(dataset);
            continue;
        };
        for (axis, address) in axes.iter().enumerate() {
            // A variable may be shorter than its dimension: the rest was never written.
            if let Some(length) = address.and_then(|address| lengths.get(&address))
                && dataset.extent.is_unlimited(axis)
            {
                dimensions.shape[axis] = *length;
            }
        }
    }
    make_up(datasets, &mut found, parents);
    found.into_iter().map(Option::unwrap_or_default).collect()
}

/// Returns the address of the scale of each dimension, if the file has one for each.
fn stored(
    dataset: &Sized<'_>,
    scales: &HashMap<u64, &Sized<'_>>,
    ids: &HashMap<i128, &Sized<'_>>,
) -> Option<Vec<u64>> {
    use crate::format::hdf5::metadata::attributes::Value;
    let rank = dataset.extent.shape.len();
    let is_complete = |axes: &Vec<u64>| axes.len() == rank;
    let lists = match dataset.attributes.get(DIMENSION_LIST) {
        Some(Value::References(lists)) => lists.as_slice(),
        _ => &[],
    };
    let listed: Option<Vec<u64>> = lists
        .iter()
        .map(|list| {
            list.iter()
                .copied()
                .find(|address| scales.contains_key(address))
        })
        .collect();
    let numbered = || -> Option<Vec<u64>> {
        let numbers = dataset.attributes.get(COORDINATES)?.numbers().iter();
        numbers
            .map(|number| Some(ids.get(&number.integer()?)?.address))
            .collect()
    };
    let own = || (dataset.is_scale() && rank == 1).then(|| vec![dataset.address]);
    let axes = listed.filter(is_complete);
    let axes = axes.or_else(|| numbered().filter(is_complete));
    axes.or_else(own).filter(|axes| !axes.is_empty())
}

/// Returns dimensions named by labels.
fn labelled(dataset: &Sized<'_>) -> Option<Dimensions> {
    use crate::format::hdf5::metadata::attributes::Value;
    let Some(Value::Texts(labels)) = dataset.attributes.get(LABELS) else {
        return None;
    };
    let distinct: HashSet<&String> = labels.iter().filter(|label| !label.is_empty()).collect();
    let is_complete =
        distinct.len() == dataset.extent.shape.len() && distinct.len() == labels.len();
    (is_complete && !labels.is_empty()).then(|| Dimensions {
        names: labels.clone(),
        scales: Vec::new(),
        shape: dataset.extent.shape.clone(),
        are_stored: true,
    })
}

/// Makes up dimensions for the datasets that have none, in the order of the NetCDF library: the groups
/// within a group before the datasets of the group.
fn make_up(datasets: &[Sized<'_>], found: &mut [Option<Dimensions>], parents: &[usize]) {
    // The library numbers all dimensions of a file together.
    let scales = datasets.iter().filter(|dataset| dataset.is_scale());
    let mut next = scales.count();
    let mut of_group: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (number, dataset) in datasets.iter().enumerate() {
        if let Some(list) = of_group.get_mut(dataset.group) {
            list.push(number);
        }
    }
    for group in inner_first(parents) {
        // The extent, whether it is unlimited, and the name.
        let mut made: Vec<(u64, bool, String)> = Vec::new();
        for number in of_group[group].iter().copied() {
            let dataset = &datasets[number];
            if found[number].is_some() {
                continue;
            }
            let mut names: Vec<String> = Vec::new();
            for (axis, extent) in dataset.extent.shape.iter().enumerate() {
                let is_unlimited = dataset.extent.is_unlimited(axis);
                let known = made.iter().find(|(length, unlimited, name)| {
                    length == extent && *unlimited == is_unlimited && !names.contains(name)
                });
                let name = match known {
                    Some((.., name)) => name.clone(),
                    None => {
                        let name = format!("phony_dim_{next}");
                        next += 1;
                        made.push((*extent, is_unlimited, name.clone()));
                        name
                    }
                };
                names.push(name);
            }
            found[number] = Some(Dimensions {
                names,
                scales: Vec::new(),
                shape: dataset.extent.shape.clone(),
                are_stored: false,
            });
        }
    }
}

/// Returns the groups so that each follows the groups within it. `parents` lists each group after the
/// group around it.
fn inner_first(parents: &[usize]) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (group, parent) in parents.iter().enumerate().skip(1) {
        children[*parent].push(group);
    }
    let mut order = Vec::with_capacity(parents.len());
    // Reversed, a walk that visits each group before the groups in it, the last one first.
    let mut pending: Vec<usize> = (!parents.is_empty()).then_some(0).into_iter().collect();
    while let Some(group) = pending.pop() {
        order.push(group);
        pending.extend(&children[group]);
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_within_groups_come_first() {
        assert_eq!(inner_first(&[0, 0, 1, 0]), [2, 1, 3, 0]);
        assert_eq!(inner_first(&[]), [] as [usize; 0]);
    }

    #[test]
    fn dimensions_are_made_up_by_extent() {
        let attributes = Attributes::default();
        let extents: Vec<Extent> = [vec![3, 3], vec![4, 3]]
            .map(|shape| Extent {
                shape,
                max_shape: None,
            })
            .into();
        let datasets: Vec<_> = extents
            .iter()
            .enumerate()
            .map(|(number, extent)| Sized {
                name: "a",
                address: number as u64,
                group: 0,
                extent,
                attributes: &attributes,
            })
            .collect();
        let found = of_all(&datasets, &[0]);
        assert_eq!(found[0].names, ["phony_dim_0", "phony_dim_1"]);
        assert_eq!(found[1].names, ["phony_dim_2", "phony_dim_0"]);
    }
}
