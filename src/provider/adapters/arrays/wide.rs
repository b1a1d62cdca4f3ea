//! Wide tables: datasets on the same axes as one grid, with a column per dataset.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::Field;

use crate::grid::Axis;
use crate::provider::adapters::arrays::dataset::ArrayDataset;
use crate::provider::adapters::arrays::names::{base, group};
use crate::provider::join::aligned::AlignedGrids;
use crate::provider::source::GridSource;

/// The maximum number of wide tables of a file, which bounds the work for a hostile file.
const MAX_TABLES: usize = 1024;

/// Creates the wide tables of a file's datasets: one for each two or more datasets of a group that
/// share all axes. Coordinate variables are left out. Datasets with unnamed dimensions share no
/// axes.
///
/// A table is named after its group and dimensions, such as `ocean/time_lat_lon`. Underscores are
/// appended while a dataset or another table has the same name. At most [`MAX_TABLES`] tables are
/// created. Returns each table with its datasets.
pub(super) fn wide_tables(
    datasets: &[Arc<ArrayDataset>],
    is_taken: impl Fn(&str) -> bool,
) -> Vec<(AlignedGrids, Vec<Arc<ArrayDataset>>)> {
    let mut families: Vec<Vec<Arc<ArrayDataset>>> = Vec::new();
    // Indices into `families`, grouped by the names and lengths of their axes.
    let mut alike: HashMap<AxesKey, Vec<usize>> = HashMap::new();
    for dataset in datasets {
        let has_axes = dataset.has_named_axes() && !dataset.axes().is_empty();
        if !has_axes || dataset.is_coordinate_variable() {
            continue;
        }
        let axes = dataset.axes().iter();
        let axes = axes.map(|axis| (axis.name().to_string(), axis.length()));
        let group = group(dataset.dataset().name()).to_string();
        let alike = alike.entry((group, axes.collect())).or_default();
        let family = alike
            .iter()
            .find(|number| have_same_axes(&families[**number][0], dataset));
        match family {
            Some(number) => families[*number].push(Arc::clone(dataset)),
            None => {
                alike.push(families.len());
                families.push(vec![Arc::clone(dataset)]);
            }
        }
    }
    let mut tables: Vec<(AlignedGrids, _)> = Vec::new();
    // The last name given for each base name, since axes of the same names may still differ.
    let mut last: HashMap<String, String> = HashMap::new();
    let families = families.into_iter().filter(|family| family.len() > 1);
    for family in families.take(MAX_TABLES) {
        let names: Vec<_> = family[0].axes().iter().map(Axis::name).collect();
        let base = format!("{}{}", group(family[0].dataset().name()), names.join("_"));
        let mut name = match last.get(&base) {
            Some(last) => format!("{last}_"),
            None => base.clone(),
        };
        while is_taken(&name) || tables.iter().any(|(other, _)| other.name() == name) {
            name.push('_');
        }
        last.insert(base, name.clone());
        tables.push((wide_table(name, &family), family));
    }
    tables
}

fn wide_table(name: String, datasets: &[Arc<ArrayDataset>]) -> AlignedGrids {
    let axes = datasets[0].axes().iter();
    let mut taken: HashSet<String> = axes.map(|axis| axis.name().to_string()).collect();
    let attributes = datasets.iter().map(|dataset| {
        let mut column = base(dataset.dataset().name()).to_string();
        while !taken.insert(column.clone()) {
            column.push('_');
        }
        let value = dataset.attributes()[0].as_ref().clone();
        Arc::new(Field::with_name(value, column))
    });
    let attributes = attributes.collect();
    let grids = datasets.iter().map(|dataset| Arc::clone(dataset) as _);
    AlignedGrids::new(name, &grids.collect::<Vec<_>>(), attributes)
}

/// A group, and the names and lengths of axes.
type AxesKey = (String, Vec<(String, u64)>);

fn have_same_axes(one: &ArrayDataset, other: &ArrayDataset) -> bool {
    let mut axes = one.axes().iter().zip(other.axes());
    axes.all(|(one, other)| one.is_same(other))
}
