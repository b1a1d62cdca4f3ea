//! Auxiliary coordinates as columns (CF conventions, section 5.2).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::Field;

use crate::grid::{Axis, CoordinateSource};
use crate::provider::adapters::arrays::coordinates::{
    COORDINATES, CoordinateDatasets, names_in, resolve,
};
use crate::provider::adapters::arrays::dataset::ArrayDataset;
use crate::provider::adapters::arrays::names::base;
use crate::provider::join::aligned::AlignedGrids;
use crate::provider::scan::grid::repeated::RepeatedGrid;
use crate::provider::source::GridSource;

/// Adds auxiliary coordinates to the tables of a file.
pub(super) struct AuxiliaryCoordinates<'a> {
    datasets: HashMap<&'a str, &'a Arc<ArrayDataset>>,
    shared: &'a mut CoordinateDatasets,
}

impl<'a> AuxiliaryCoordinates<'a> {
    /// Takes coordinates from these datasets, all of one file.
    pub fn new(datasets: &'a [Arc<ArrayDataset>], shared: &'a mut CoordinateDatasets) -> Self {
        let datasets = datasets.iter();
        Self {
            datasets: datasets.map(|dataset| (dataset.name(), dataset)).collect(),
            shared,
        }
    }

    /// Returns a grid of some datasets with a column for each of their auxiliary coordinates: a dataset
    /// that the attribute `coordinates` of one of them names, along some of their axes. The
    /// coordinates of the axes are columns already.
    pub fn added_to(
        &mut self,
        grid: Arc<dyn GridSource>,
        datasets: &[Arc<ArrayDataset>],
    ) -> Arc<dyn GridSource> {
        let mut taken: HashSet<String> = grid
            .axes()
            .iter()
            .map(|axis| axis.name().to_string())
            .chain(grid.attributes().iter().map(|field| field.name().clone()))
            .collect();
        let is_of_axis = |name: &str| {
            grid.axes().iter().any(|axis| match axis.source() {
                CoordinateSource::Dataset(own) | CoordinateSource::CoordinatesAttribute(own) => {
                    own == name
                }
                _ => false,
            })
        };
        let mut grids = vec![Arc::clone(&grid)];
        let mut attributes = grid.attributes().to_vec();
        for dataset in datasets {
            let file = dataset.file().as_ref();
            let metadata = file.metadata(dataset.dataset());
            let named = metadata.and_then(|metadata| metadata.attrs.get(COORDINATES));
            for name in named.into_iter().flat_map(|named| names_in(named)) {
                let found = resolve(file, dataset.dataset(), name, self.shared, |_| true);
                let Some(coordinates) = found.and_then(|found| self.datasets.get(found.name()))
                else {
                    continue;
                };
                let name = coordinates.name();
                let column = base(name).to_string();
                let is_other = datasets.iter().all(|dataset| dataset.name() != name);
                if !is_other || is_of_axis(name) || taken.contains(&column) {
                    continue;
                }
                if let Some(repeated) = repeated(coordinates, &grid) {
                    let field = coordinates.attributes()[0].as_ref().clone();
                    attributes.push(Arc::new(Field::with_name(field, &column)));
                    grids.push(Arc::new(repeated));
                    taken.insert(column);
                }
            }
        }
        match grids.len() {
            1 => grid,
            _ => Arc::new(AlignedGrids::new(
                grid.name().to_string(),
                &grids,
                attributes,
            )),
        }
    }
}

/// Returns coordinates along some axes of a grid, repeated along the others; `None` if they do not lie
/// along axes of the grid.
fn repeated(coordinates: &Arc<ArrayDataset>, grid: &Arc<dyn GridSource>) -> Option<RepeatedGrid> {
    if !coordinates.has_named_axes() || coordinates.axes().is_empty() {
        return None;
    }
    // Dimensions of one file are the same if their names are.
    let axis_of = |axis: &Axis| {
        let mut axes = grid.axes().iter();
        axes.position(|other| other.name() == axis.name())
    };
    let axes = coordinates.axes().iter().map(axis_of);
    let values = Arc::clone(coordinates) as Arc<dyn GridSource>;
    RepeatedGrid::try_new(&values, grid, axes.collect::<Option<_>>()?)
}
