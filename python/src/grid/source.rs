//! Variables over the same axes, as a grid.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::{Result, plan_err};
use tet_sql::grid::{Axis, ChunkGrid, CoordinateSource, coordinate_values};
use tet_sql::provider::catalog::description::{
    AttributeDescription, ChunkDescription, DimensionDescription, TableDescription,
};
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::provider::source::{CellFormat, GridSource, WindowReader};

use crate::grid::reader::Reader;
use crate::grid::variable::Variable;

/// The format, as EXPLAIN shows it, and the location of the arrays.
const FORMAT: &str = "python";

/// Variables over the same axes.
#[derive(Debug, Clone)]
pub struct MemoryGrid {
    name: Arc<str>,
    axes: Arc<[Axis]>,
    variables: Arc<[Variable]>,
    fields: Arc<[FieldRef]>,
    chunks: ChunkGrid,
}

impl MemoryGrid {
    /// Creates the grid of these variables. `axes` are the coordinates along each axis.
    ///
    /// # Errors
    /// Returns an error if a variable does not have the shape of the axes, or coordinates are not in
    /// memory or null.
    pub fn new(
        name: &str,
        axes: Vec<Variable>,
        variables: Vec<Variable>,
        chunks: Vec<u64>,
    ) -> Result<Self> {
        let axes = axes.iter().map(axis).collect::<Result<Vec<_>>>()?;
        let shape: Vec<u64> = axes.iter().map(Axis::length).collect();
        for variable in &variables {
            if variable.shape() != shape {
                return plan_err!(
                    "variable {} has shape {:?}, expected the shape {shape:?} of the coordinates",
                    variable.name(),
                    variable.shape()
                );
            }
        }
        if chunks.len() != shape.len() || chunks.contains(&0) {
            return plan_err!(
                "chunks of shape {chunks:?} do not divide an array of shape {shape:?}"
            );
        }
        Ok(Self {
            name: name.into(),
            axes: axes.into(),
            fields: variables.iter().map(Variable::field).collect(),
            variables: variables.into(),
            chunks: ChunkGrid::new(shape, chunks),
        })
    }

    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    pub fn shape(&self) -> &[u64] {
        self.chunks.shape()
    }

    /// The number of bytes of a cell of all variables.
    fn row_bytes(&self) -> u64 {
        let sizes = self
            .variables
            .iter()
            .map(|variable| variable.element().size() as u64);
        sizes.sum()
    }
}

/// Creates the axis of a one-dimensional variable.
fn axis(variable: &Variable) -> Result<Axis> {
    let name = variable.name();
    let attributes: BTreeMap<_, _> = variable.attributes().clone().into_iter().collect();
    let [_] = variable.shape() else {
        return plan_err!("the coordinates of {name} are not one-dimensional");
    };
    let Some(values) = variable.all().transpose()? else {
        return plan_err!("the coordinates of {name} are not in memory");
    };
    if values.null_count() > 0 {
        return plan_err!("the coordinates of {name} have a null, expected a value at every index");
    }
    let values = coordinate_values(&values);
    let source = CoordinateSource::Dataset(name.to_owned());
    Ok(Axis::with_values(name, values, source).with_attributes(attributes))
}

impl GridSource for MemoryGrid {
    fn format(&self) -> &'static str {
        FORMAT
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &Path {
        Path::new(FORMAT)
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        vec![Arc::new(self.clone())]
    }

    fn axes(&self) -> &[Axis] {
        &self.axes
    }

    fn attributes(&self) -> &[FieldRef] {
        &self.fields
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        &self.chunks
    }

    fn stored_bytes(&self, chunk: &[u64], _options: &ReadOptions) -> Result<u64> {
        Ok(self.chunks.window(chunk).cells() * self.row_bytes())
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        let variable = self.variables.get(attribute);
        variable.is_none_or(|variable| variable.element().may_have_nulls(options.nan_as_null))
    }

    fn cell_format(&self, attribute: usize, options: &ReadOptions) -> Option<CellFormat> {
        Some(CellFormat {
            cell_type: self.variables.get(attribute)?.element().cell_type()?,
            fill: None,
            nan_is_null: options.nan_as_null,
        })
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        Ok(Box::new(Reader::new(self.clone(), attributes, options)))
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        let fields = self.fields.iter();
        let described = fields.map(|field| {
            let stored_type = field.data_type().to_string();
            AttributeDescription::new(field, stored_type)
        });
        described.collect()
    }

    fn describe_chunk(&self, chunk: &[u64], options: &ReadOptions) -> Result<ChunkDescription> {
        Ok(ChunkDescription::new(
            "raw",
            self.stored_bytes(chunk, options)?,
        ))
    }

    fn describe(&self) -> Result<TableDescription> {
        let mut description = TableDescription::new(self.name.as_ref(), FORMAT, FORMAT);
        for axis in self.axes.iter() {
            let dimension = DimensionDescription::of(axis, &mut description.problems);
            description.dimensions.push(dimension);
        }
        description.attributes = self.describe_attributes();
        description.chunk_shape = self.chunks.chunk_shape().to_vec();
        description.chunks = self.chunks.count();
        description.codecs = vec!["raw".to_owned()];
        let cells = self
            .shape()
            .iter()
            .try_fold(1u64, |cells, extent| cells.checked_mul(*extent));
        description.raw_bytes = cells.and_then(|cells| cells.checked_mul(self.row_bytes()));
        Ok(description)
    }
}
