//! The schema of a new array.

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};

use crate::format::tiledb::{
    ArrayWriter, Attribute, CellValues, DataOrder, Datatype, Dimension, Filter, Interval, Layout,
    Pipeline, Representation, Scalar, Schema, default_fill,
};
use crate::provider::copy::arrays::columns::Columns;
use crate::provider::copy::arrays::target::chunk_shape;
use crate::provider::copy::lineage::Origin;
use crate::provider::copy::options::CopyOptions;
use crate::provider::copy::tiledb::columns::{StoredColumn, stored_type};
use crate::provider::copy::tiledb::options::TileDbCopyOptions;

/// The dimensions and attributes of a new array, whose domain is not known yet.
#[derive(Debug)]
pub(super) struct ArrayLayout {
    /// The dimensions, followed by the attributes.
    pub columns: Vec<StoredColumn>,
    pub dimensions: usize,
    pub options: TileDbCopyOptions,
    /// The extents of the option `tile`.
    extents: Option<Vec<Scalar>>,
}

impl ArrayLayout {
    /// Decides which columns are dimensions, and how each is stored.
    pub fn try_new(
        schema: &SchemaRef,
        origins: &[Origin],
        options: TileDbCopyOptions,
    ) -> Result<Self> {
        let found = CopyOptions {
            dims: options.dims.clone(),
            ..CopyOptions::default()
        };
        let found = Columns::of(schema, origins, &found, usize::MAX)?;
        let mut columns = Vec::new();
        for (indices, is_dimension) in [(&found.dimensions, true), (&found.measures, false)] {
            for index in indices {
                let field = schema.field(*index);
                let (datatype, cell_values) = stored_type(field, is_dimension)?;
                columns.push(StoredColumn {
                    name: field.name().clone(),
                    index: *index,
                    datatype,
                    cell_values,
                    is_nullable: field.is_nullable() && !is_dimension,
                    is_dimension,
                    fill: None,
                    enumeration: None,
                });
            }
        }
        let names = options.column_filters.keys();
        if let Some(name) = names
            .into_iter()
            .find(|name| !columns.iter().any(|column| column.name == **name))
        {
            return plan_err!("option filters.{name} names no column");
        }
        let dimensions = found.dimensions.len();
        if !options.is_sparse {
            unify(&mut columns[..dimensions])?;
        }
        let extents = match &options.tile {
            Some(texts) => Some(parse_extents(&columns[..dimensions], texts)?),
            None => None,
        };
        Ok(Self {
            columns,
            dimensions,
            options,
            extents,
        })
    }

    /// Returns the schema of an array with a domain.
    pub fn schema(&self, bounds: &[Option<Interval>]) -> Schema {
        let options = &self.options;
        let mut extents: Vec<Option<Scalar>> = match &self.extents {
            Some(extents) => extents.iter().cloned().map(Some).collect(),
            None => vec![None; self.dimensions],
        };
        if self.extents.is_none() && !options.is_sparse {
            extents = self.default_extents(bounds);
        }
        // Cells of other domains can be added later, unless the domain decides on their order.
        let is_open =
            options.is_sparse && self.extents.is_none() && options.cell_order != Layout::Hilbert;
        let dimensions = self.columns.iter().take(self.dimensions);
        let dimensions = dimensions.zip(bounds).zip(extents);
        Schema {
            version: ArrayWriter::VERSION,
            allows_duplicates: options.allows_duplicates,
            is_sparse: options.is_sparse,
            tile_order: Layout::RowMajor,
            cell_order: options.cell_order,
            capacity: options.capacity,
            coordinate_filters: Pipeline::new(vec![Filter::Zstd { level: 3 }]),
            offset_filters: Pipeline::new(vec![
                Filter::DoubleDelta { reinterpret: None },
                Filter::Zstd { level: 3 },
            ]),
            validity_filters: Pipeline::new(vec![Filter::Rle]),
            dimensions: dimensions
                .map(|((column, bounds), extent)| Dimension {
                    name: column.name.clone(),
                    datatype: column.datatype,
                    cell_values: column.cell_values,
                    filters: self.filters(column),
                    domain: match is_open {
                        true => whole_domain(column.datatype, bounds.as_ref()),
                        false => bounds.clone(),
                    },
                    extent,
                })
                .collect(),
            attributes: self
                .columns
                .iter()
                .skip(self.dimensions)
                .map(|column| {
                    let values = match column.cell_values {
                        CellValues::Fixed(values) => values as usize,
                        CellValues::Variable => 1,
                    };
                    Attribute {
                        name: column.name.clone(),
                        datatype: column.datatype,
                        cell_values: column.cell_values,
                        filters: self.filters(column),
                        fill: default_fill(column.datatype).repeat(values),
                        is_nullable: column.is_nullable,
                        is_fill_valid: false,
                        order: DataOrder::Unordered,
                        enumeration: None,
                    }
                })
                .collect(),
            labels: Vec::new(),
            enumerations: Vec::new(),
            current_domain: None,
        }
    }

    /// Returns a schema whose domain is one cell, or one tile.
    pub fn schema_of_one_cell(&self) -> Schema {
        let zero = |column: &StoredColumn| match column.datatype.representation() {
            _ if column.cell_values.is_variable() => None,
            Representation::Signed => Some(Scalar::Signed(0)),
            Representation::Unsigned => Some(Scalar::Unsigned(0)),
            Representation::Float => Some(Scalar::Float(0.0)),
        };
        let columns = self.columns.iter().take(self.dimensions);
        let bounds = columns.map(|column| {
            let low = zero(column)?;
            Some(Interval {
                high: low.clone(),
                low,
            })
        });
        self.schema(&bounds.collect::<Vec<_>>())
    }

    /// Returns the filters of a column: its own, those of all columns, or a choice by type.
    fn filters(&self, column: &StoredColumn) -> Pipeline {
        let own = self.options.column_filters.get(&column.name);
        if let Some(filters) = own.or(self.options.filters.as_ref()) {
            return filters.clone();
        }
        let zstd = Filter::Zstd { level: 3 };
        match column.datatype.size() {
            1 => Pipeline::new(vec![zstd]),
            _ => Pipeline::new(vec![Filter::Byteshuffle, zstd]),
        }
    }

    /// Returns the extents of tiles of a dense array of at most a few MiB.
    fn default_extents(&self, bounds: &[Option<Interval>]) -> Vec<Option<Scalar>> {
        let lengths = bounds
            .iter()
            .map(|bounds| bounds.as_ref().map_or(1, length));
        let largest =
            self.columns
                .iter()
                .skip(self.dimensions)
                .map(|column| match column.cell_values {
                    CellValues::Fixed(values) => u64::from(values) * column.datatype.size() as u64,
                    // An offset, and a guess at the value.
                    CellValues::Variable => 24,
                });
        let lengths: Vec<u64> = lengths.collect();
        let mut extents = chunk_shape(&lengths, largest.max().unwrap_or(1));
        let columns = self.columns.iter().zip(bounds).zip(&lengths);
        for (extent, ((column, bounds), length)) in extents.iter_mut().zip(columns) {
            let Some(bounds) = bounds else { continue };
            // Whole tiles must be within the datatype.
            let covered = length.div_ceil(*extent).saturating_mul(*extent);
            if covered - length
                > highest(column.datatype)
                    .distance_from(&bounds.high)
                    .unwrap_or(0)
            {
                *extent = *length;
            }
        }
        let columns = self.columns.iter().zip(extents);
        columns
            .map(|(column, extent)| Some(extent_of(column.datatype, extent)))
            .collect()
    }
}

/// Gives the dimensions of a dense array one datatype.
fn unify(dimensions: &mut [StoredColumn]) -> Result<()> {
    let is_grid =
        |datatype: Datatype| datatype.is_integer() || datatype.is_datetime() || datatype.is_time();
    if let Some(column) = dimensions.iter().find(|column| !is_grid(column.datatype)) {
        return plan_err!(
            "dimension {:?} has the datatype {}; dimensions of a dense array are integers or times; write a \
             sparse array: OPTIONS (sparse 'true')",
            column.name,
            column.datatype
        );
    }
    let Some(first) = dimensions.first().map(|column| column.datatype) else {
        return Ok(());
    };
    if dimensions.iter().all(|column| column.datatype == first) {
        return Ok(());
    }
    let is_common =
        |column: &StoredColumn| column.datatype.is_integer() && column.datatype != Datatype::Uint64;
    if !dimensions.iter().all(is_common) {
        let types = dimensions
            .iter()
            .map(|column| format!("{:?} {}", column.name, column.datatype));
        return plan_err!(
            "the dimensions {} of a dense array need one datatype; cast them, or write a sparse array: OPTIONS \
             (sparse 'true')",
            types.collect::<Vec<_>>().join(", ")
        );
    }
    for column in dimensions {
        column.datatype = Datatype::Int64;
    }
    Ok(())
}

/// Parses the option `tile`.
fn parse_extents(dimensions: &[StoredColumn], texts: &[String]) -> Result<Vec<Scalar>> {
    if texts.len() != dimensions.len() {
        return plan_err!(
            "option tile has {} extents, expected one for each of the {} dimensions",
            texts.len(),
            dimensions.len()
        );
    }
    let parse = |(column, text): (&StoredColumn, &String)| {
        let extent = match column.datatype.representation() {
            _ if column.cell_values.is_variable() => {
                return plan_err!(
                    "option tile has {text:?} for {:?}, but texts have no tiles",
                    column.name
                );
            }
            Representation::Float => text
                .parse()
                .ok()
                .filter(|extent| *extent > 0.0)
                .map(Scalar::Float),
            _ => {
                let largest = extent_of(column.datatype, u64::MAX);
                let extent = text.parse::<u64>().ok().filter(|extent| *extent > 0);
                let extent = extent.map(|extent| (extent, extent_of(column.datatype, extent)));
                let is_exact = |(extent, scalar): &(u64, Scalar)| {
                    *scalar != largest || largest == Scalar::Unsigned(*extent)
                };
                extent.filter(is_exact).map(|(_, scalar)| scalar)
            }
        };
        match extent {
            Some(extent) => Ok(extent),
            None => plan_err!(
                "option tile has {text:?} for {:?}, expected a positive number of the datatype {}",
                column.name,
                column.datatype
            ),
        }
    };
    dimensions.iter().zip(texts).map(parse).collect()
}

/// Returns an extent in a datatype. Saturates.
fn extent_of(datatype: Datatype, extent: u64) -> Scalar {
    match highest(datatype) {
        Scalar::Unsigned(highest) => Scalar::Unsigned(extent.min(highest)),
        Scalar::Signed(highest) => Scalar::Signed(extent.min(highest.unsigned_abs()) as i64),
        other => other,
    }
}

/// Returns the largest value of a datatype.
fn highest(datatype: Datatype) -> Scalar {
    let unused = 64 - 8 * datatype.size() as u32;
    match datatype.representation() {
        Representation::Signed => Scalar::Signed(i64::MAX >> unused),
        Representation::Unsigned => Scalar::Unsigned(u64::MAX >> unused),
        Representation::Float if datatype.size() == 4 => Scalar::Float(f64::from(f32::MAX)),
        Representation::Float => Scalar::Float(f64::MAX),
    }
}

/// Returns the widest domain of a datatype that other libraries accept, or a wider one if the coordinates
/// are outside of it; `None` for texts. Other libraries let a schema evolve only if the number of
/// coordinates of the domain fits the datatype, or its unsigned form.
fn whole_domain(datatype: Datatype, coordinates: Option<&Interval>) -> Option<Interval> {
    if datatype == Datatype::StringAscii {
        return None;
    }
    let is_widest = datatype.size() == 8;
    let below = |highest: Scalar, below: Scalar| match coordinates {
        Some(coordinates) if coordinates.high == highest => highest,
        _ => below,
    };
    Some(match highest(datatype) {
        // The number of cells must be less than 2^64, and the lowest time stands for none.
        Scalar::Signed(_) if is_widest => Interval {
            low: Scalar::Signed(i64::MIN + 1),
            high: Scalar::Signed(i64::MAX - 1),
        },
        Scalar::Unsigned(_) if is_widest => Interval {
            low: Scalar::Unsigned(0),
            high: Scalar::Unsigned(u64::MAX - 1),
        },
        Scalar::Signed(high) => Interval {
            low: Scalar::Signed(-high - 1),
            high: below(Scalar::Signed(high), Scalar::Signed(high - 1)),
        },
        Scalar::Float(high) => Interval {
            low: Scalar::Float(-high),
            high: Scalar::Float(high),
        },
        Scalar::Unsigned(high) => Interval {
            low: Scalar::Unsigned(0),
            high: below(Scalar::Unsigned(high), Scalar::Unsigned(high - 1)),
        },
        Scalar::Bytes(_) => return None,
    })
}

/// Returns the number of integers in an interval. Saturates.
pub(super) fn length(interval: &Interval) -> u64 {
    let last = interval.high.distance_from(&interval.low);
    last.unwrap_or(0).saturating_add(1)
}
