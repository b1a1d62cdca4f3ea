//! Decides which columns of a query become dimensions and which become values.

use std::collections::{BTreeSet, HashSet};

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, plan_err};

use crate::provider::copy::lineage::Origin;
use crate::provider::copy::options::CopyOptions;
use crate::provider::source::{DATASET, DIMENSION};

/// The indices of the columns that are dimensions, and of those that are measures.
#[derive(Debug, PartialEq, Eq)]
pub struct Columns {
    pub dimensions: Vec<usize>,
    pub measures: Vec<usize>,
}

impl Columns {
    /// Classifies the columns of a schema: by `dims` if the option is set, otherwise by their
    /// origins and types.
    pub fn of(
        schema: &Schema,
        origins: &[Origin],
        options: &CopyOptions,
        max_dimensions: usize,
    ) -> Result<Self> {
        let mut names = HashSet::new();
        for field in schema.fields() {
            if !names.insert(field.name()) {
                return plan_err!(
                    "two columns are named {:?}, but names of dimensions and datasets must be unique; rename one",
                    field.name()
                );
            }
        }
        let columns = match &options.dims {
            Some(dims) => Self::by_name(schema, dims, options)?,
            None => {
                let columns = Self::by_origin(schema, origins, options)?;
                match columns.measures.is_empty() {
                    // In the output of `DISTINCT` all columns are keys, so origins cannot tell
                    // dimensions from values. Classify by type instead.
                    true => Self::by_origin(schema, &[], options)?,
                    false => columns,
                }
            }
        };
        let (dimensions, measures) = (columns.dimensions.len(), columns.measures.len());
        if dimensions == 0 || measures == 0 {
            return plan_err!(
                "of the columns {} {}; say which are dimensions: {}; each of the others becomes a dataset",
                names_of(schema, 0..schema.fields().len()),
                if dimensions == 0 {
                    "none is a dimension"
                } else {
                    "all are dimensions, and none has values"
                },
                options.spelled("dims", "...")
            );
        }
        if dimensions > max_dimensions {
            return plan_err!(
                "{dimensions} dimensions, {}; an array of this format has at most {max_dimensions}",
                names_of(schema, columns.dimensions.iter().copied())
            );
        }
        Ok(columns)
    }

    fn by_name(schema: &Schema, dims: &[String], options: &CopyOptions) -> Result<Self> {
        let mut dimensions = Vec::with_capacity(dims.len());
        for name in dims {
            let fields = schema.fields();
            let exact = fields.iter().position(|field| field.name() == name);
            let found = exact.or_else(|| {
                fields
                    .iter()
                    .position(|field| field.name().eq_ignore_ascii_case(name))
            });
            match found {
                Some(number) if !dimensions.contains(&number) => dimensions.push(number),
                Some(_) => return plan_err!("{} names {name:?} twice", options.named("dims")),
                None => {
                    return plan_err!(
                        "{} names {name:?}, expected columns of {}",
                        options.named("dims"),
                        names_of(schema, 0..fields.len())
                    );
                }
            }
        }
        let measures = (0..schema.fields().len()).filter(|number| !dimensions.contains(number));
        Ok(Self {
            measures: measures.collect(),
            dimensions,
        })
    }

    fn by_origin(schema: &Schema, origins: &[Origin], options: &CopyOptions) -> Result<Self> {
        let unknown = Origin::default();
        let fields = schema.fields().iter().enumerate();
        let fields = fields.map(|(number, field)| (field, origins.get(number).unwrap_or(&unknown)));
        let fields: Vec<_> = fields.collect();
        let plain = fields.iter().filter(|(_, origin)| origin.is_plain);
        let plain: BTreeSet<_> = plain.flat_map(|(_, origin)| &origin.coordinates).collect();
        let roles = fields.iter().map(|(field, origin)| {
            if !origin.coordinates.is_empty() {
                // A column computed from the coordinates of other columns is not a dimension, because
                // those columns already identify the cell.
                let mut coordinates = origin.coordinates.iter();
                let is_needed = coordinates.any(|coordinate| !plain.contains(coordinate));
                return Some(origin.is_plain || is_needed);
            }
            if origin.has_values {
                return Some(false);
            }
            role_of(field)
        });
        let roles: Vec<Option<bool>> = roles.collect();
        // Integer columns are dimensions only if no column comes from an array dimension.
        let has_dimensions = fields.iter().zip(&roles).any(|((field, origin), role)| {
            *role == Some(true) && (is_marked(field) || !origin.coordinates.is_empty())
        });
        let numbers = |wanted: &dyn Fn(Option<bool>) -> bool| -> Vec<usize> {
            let numbers = roles.iter().enumerate();
            let numbers = numbers.filter(|(_, role)| wanted(**role));
            numbers.map(|(number, _)| number).collect()
        };
        let unclear = numbers(&|role| role.is_none());
        let certain = numbers(&|role| role == Some(true));
        let dimensions = numbers(&|role| role != Some(false));
        if has_dimensions && !unclear.is_empty() {
            let dims = |numbers: &[usize]| {
                let names = numbers.iter();
                let names: Vec<_> = names
                    .map(|number| schema.field(*number).name().as_str())
                    .collect();
                options.spelled("dims", &names.join(","))
            };
            return plan_err!(
                "{} may be dimensions or values; name the dimensions: {} if they are dimensions, {} if they \
                 are values",
                names_of(schema, unclear.iter().copied()),
                dims(&dimensions),
                dims(&certain)
            );
        }
        Ok(Self {
            dimensions,
            measures: numbers(&|role| role == Some(false)),
        })
    }
}

/// Returns `true` for a dimension, `false` for values, and `None` for a column that may be either.
fn role_of(field: &Field) -> Option<bool> {
    if is_marked(field) {
        Some(true)
    } else if field.metadata().contains_key(DATASET) {
        Some(false)
    } else if is_label(field.data_type()) {
        Some(true)
    } else if !field.data_type().is_integer() {
        Some(false)
    } else {
        None
    }
}

/// Returns `true` if the field's metadata marks the column as a dimension.
fn is_marked(field: &Field) -> bool {
    field.metadata().contains_key(DIMENSION)
}

/// Returns `true` if values of this type are coordinates rather than measurements: texts, dates and
/// times.
fn is_label(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_label(values),
        other => other.is_string() || other.is_temporal(),
    }
}

fn names_of(schema: &Schema, numbers: impl Iterator<Item = usize>) -> String {
    let names: Vec<_> = numbers
        .map(|number| schema.field(number).name().as_str())
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    fn field(name: &str, data_type: DataType) -> Field {
        Field::new(name, data_type, true)
    }

    fn marked(field: Field, key: &str) -> Field {
        field.with_metadata([(key.to_string(), String::new())].into())
    }

    fn columns(fields: &[Field], dims: Option<&[&str]>) -> Result<(Vec<usize>, Vec<usize>)> {
        let options = CopyOptions {
            dims: dims.map(|dims| dims.iter().map(|name| name.to_string()).collect()),
            ..CopyOptions::default()
        };
        let columns = Columns::of(&Schema::new(fields.to_vec()), &[], &options, 8)?;
        Ok((columns.dimensions, columns.measures))
    }

    #[test]
    fn columns_are_told_apart() {
        let time = field("time", DataType::Timestamp(TimeUnit::Second, None));
        let station = field("station", DataType::Utf8);
        let lat = field("lat", DataType::Float64);
        let n = field("n", DataType::Int64);
        let value = field("value", DataType::Float32);
        let fields = [time, n.clone(), value.clone(), station];
        assert_eq!(columns(&fields, None).unwrap(), (vec![0, 1, 3], vec![2]));
        let fields = [lat.clone(), n.clone(), value.clone()];
        assert_eq!(columns(&fields, None).unwrap(), (vec![1], vec![0, 2]));
        let named = columns(&fields, Some(&["n", "LAT"])).unwrap();
        assert_eq!(named, (vec![1, 0], vec![2]));
        let of_array = [
            marked(lat.clone(), DIMENSION),
            marked(n.clone(), DATASET),
            value.clone(),
        ];
        assert_eq!(columns(&of_array, None).unwrap(), (vec![0], vec![1, 2]));
    }

    #[test]
    fn what_is_not_clear_is_asked_back() {
        let lat = field("lat", DataType::Float64);
        let n = field("n", DataType::Int64);
        for (fields, dims, expected) in [
            (
                vec![lat.clone()],
                None,
                "of the columns lat none is a dimension",
            ),
            (vec![n.clone()], None, "all are dimensions"),
            (
                vec![
                    marked(lat.clone(), DIMENSION),
                    n.clone(),
                    field("v", DataType::Float32),
                ],
                None,
                "n may be dimensions or values; name the dimensions: OPTIONS (dims 'lat,n') if they are dimensions, \
                 OPTIONS (dims 'lat') if they are values",
            ),
            (
                vec![lat.clone(), n.clone()],
                Some(["lon"]),
                "expected columns of lat, n",
            ),
            (
                vec![lat.clone(), lat.clone()],
                None,
                "two columns are named \"lat\"",
            ),
        ] {
            let dims = dims.as_ref().map(|dims| dims.as_slice());
            let error = columns(&fields, dims).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
