//! The header of a classic NetCDF file, and the shapes of its variables as datasets.

use std::collections::HashSet;

use crate::format::netcdf::MAX_DIMENSIONS;
use crate::format::netcdf::element::NcType;
use crate::format::netcdf::header::{Header, Variable};
use crate::format::netcdf::layout::Records;

/// The header, and what follows from all of its variables.
pub(super) struct Contents<'a> {
    pub header: &'a Header,
    pub records: Records,
    /// For each dimension, `true` if it holds the characters of strings.
    holds_characters: Vec<bool>,
}

/// A field that breaks a rule, the value found, and the values expected.
pub(super) type Broken = (&'static str, String, String);

impl<'a> Contents<'a> {
    /// Derives what the variables of a header have in common.
    pub fn new(header: &'a Header, records: Records) -> Self {
        Self {
            holds_characters: holds_characters(header),
            header,
            records,
        }
    }

    /// Returns `true` if a variable has a slab in each record.
    pub fn has_records(&self, variable: &Variable) -> bool {
        let first = variable.dimensions.first();
        first.is_some_and(|first| self.header.dimensions[*first].length == 0)
    }

    /// Returns the shape of a variable as a dataset, the names of its dimensions, and the number of
    /// characters of its strings.
    pub fn shape(&self, variable: &Variable) -> Result<(Vec<u64>, Vec<String>, u64), Broken> {
        let rank = variable.dimensions.len();
        if rank > MAX_DIMENSIONS {
            let expected = format!("at most {MAX_DIMENSIONS} dimensions");
            return Err(("dimids", format!("a list of {rank}"), expected));
        }
        let (mut shape, mut names) = (Vec::new(), Vec::new());
        for (axis, number) in variable.dimensions.iter().enumerate() {
            let dimension = &self.header.dimensions[*number];
            let length = match (axis, dimension.length) {
                (0, 0) => self.records.count,
                (_, 0) => {
                    let found = format!("the record dimension at index {axis}");
                    let expected = "the record dimension only at index 0".to_string();
                    return Err(("dimids", found, expected));
                }
                (_, length) => length,
            };
            shape.push(length);
            names.push(dimension.name.clone());
        }
        let mut width = 1;
        if let Some(last) = variable.dimensions.last()
            && variable.nc_type == NcType::Char
            && self.holds_characters[*last]
        {
            names.pop();
            width = shape.pop().unwrap_or(1);
        }
        Ok((shape, names, width))
    }
}

/// Returns `true` for each dimension that holds the characters of strings: no variable has its
/// name, and all variables that use it are of characters, with this dimension last.
fn holds_characters(header: &Header) -> Vec<bool> {
    let names: HashSet<_> = header
        .variables
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let dimensions = header.dimensions.iter();
    let mut holds: Vec<_> = dimensions
        .map(|one| one.length > 0 && !names.contains(one.name.as_str()))
        .collect();
    for variable in &header.variables {
        let last = variable.dimensions.len().saturating_sub(1);
        for (axis, dimension) in variable.dimensions.iter().enumerate() {
            holds[*dimension] &= axis == last && variable.nc_type == NcType::Char;
        }
    }
    holds
}
