//! The header of a file: its dimensions, attributes and variables.

use crate::error::{ErrorLocation, Result};
use crate::format::io::storage::Storage;
use crate::format::netcdf::MAGICS;
use crate::format::netcdf::element::NcType;
use crate::format::netcdf::reader::HeaderReader;

/// The tags of the lists in a header.
const DIMENSIONS: u32 = 10;
const VARIABLES: u32 = 11;
const ATTRIBUTES: u32 = 12;
/// Maximum number of variables. The NetCDF library allows 8192.
const MAX_VARIABLES: u64 = 100_000;
/// Bytes of dimension names that variables may repeat, per byte of the header.
const MAX_REPEATED: u64 = 16;
/// Bytes of dimension names that variables may always repeat.
const MIN_REPEATED: u64 = 1 << 20;

/// The header of a file.
#[derive(Debug)]
pub(super) struct Header {
    /// The version: 1, 2 or 5.
    pub version: u8,
    /// The number of records. `None` if the file was written as a stream, and has as many records
    /// as fit.
    pub records: Option<u64>,
    pub dimensions: Vec<Dimension>,
    pub attributes: Vec<Attribute>,
    pub variables: Vec<Variable>,
    /// The length of the header in bytes.
    pub length: u64,
}

/// A dimension.
#[derive(Debug)]
pub(super) struct Dimension {
    pub name: String,
    /// The length; 0 for the record dimension.
    pub length: u64,
}

/// An attribute of the file or of a variable.
#[derive(Debug)]
pub(super) struct Attribute {
    pub name: String,
    pub nc_type: NcType,
    /// The values as stored: big-endian, without padding.
    pub bytes: Vec<u8>,
}

/// A variable. Its size in bytes, which the header repeats, is not kept: it follows from the shape,
/// and is wrong for variables of 4 GiB or more.
#[derive(Debug)]
pub(super) struct Variable {
    pub name: String,
    /// The index of each dimension. All of them exist.
    pub dimensions: Vec<usize>,
    pub attributes: Vec<Attribute>,
    pub nc_type: NcType,
    /// The offset of the first cell in the file.
    pub begin: u64,
}

impl Header {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is cut off within the header, or breaks a rule of the
    /// format.
    pub fn read(storage: &Storage) -> Result<Self> {
        let mut reader = HeaderReader::new(storage);
        let magic = reader.take(4.min(storage.length()), "magic")?;
        if !MAGICS.contains(&magic) {
            let found = format!("\"{}\"", magic.escape_ascii());
            let expected = "\"CDF\" followed by the byte 1, 2 or 5";
            return Err(reader.malformed("magic", found, expected));
        }
        let version = magic[3];
        reader.has_wide_counts = version == 5;
        let records = reader.count("numrecs")?;
        let streaming = match reader.has_wide_counts {
            true => u64::MAX,
            false => u32::MAX.into(),
        };
        let dimensions = dimensions(&mut reader)?;
        let attributes = attributes(&mut reader, version)?;
        let variables = variables(&mut reader, version, &dimensions)?;
        Ok(Self {
            version,
            records: (records != streaming).then_some(records),
            dimensions,
            attributes,
            variables,
            length: reader.position(),
        })
    }
}

/// Reads the tag and the number of elements of a list. An absent list has the tag 0.
fn list(reader: &mut HeaderReader<'_>, tag: u32, field: &'static str, min: u64) -> Result<u64> {
    let found = reader.u32(field)?;
    if found != tag && found != 0 {
        let expected = format!("the tag {tag}, or 0 for an absent list");
        return Err(reader.malformed(field, format!("a list with tag {found}"), expected));
    }
    let count = reader.elements(min)?;
    if found == 0 && count != 0 {
        return Err(reader.malformed("nelems", count, "0 for an absent list"));
    }
    Ok(count)
}

fn dimensions(reader: &mut HeaderReader<'_>) -> Result<Vec<Dimension>> {
    let count = list(reader, DIMENSIONS, "dim_list", 12)?;
    let mut dimensions = Vec::new();
    for _ in 0..count {
        let name = reader.name()?;
        let length = reader.count("dim_length")?;
        dimensions.push(Dimension { name, length });
    }
    Ok(dimensions)
}

fn attributes(reader: &mut HeaderReader<'_>, version: u8) -> Result<Vec<Attribute>> {
    let field = match reader.location.dataset {
        Some(_) => "vatt_list",
        None => "gatt_list",
    };
    let count = list(reader, ATTRIBUTES, field, 16)?;
    let mut attributes = Vec::new();
    for _ in 0..count {
        let name = reader.name()?;
        reader.location.part = Some(format!("attribute {name:?}"));
        let nc_type = nc_type(reader, version)?;
        let length = reader.elements(nc_type.size())? * nc_type.size();
        let bytes = reader.take(length, "values")?.to_vec();
        reader.padding(length, "values")?;
        reader.location.part = None;
        attributes.push(Attribute {
            name,
            nc_type,
            bytes,
        });
    }
    Ok(attributes)
}

fn nc_type(reader: &mut HeaderReader<'_>, version: u8) -> Result<NcType> {
    let code = reader.u32("nc_type")?;
    let last = match version {
        5 => NcType::ALL.len(),
        _ => NcType::OF_CDF_1,
    };
    let number = usize::try_from(code).unwrap_or(usize::MAX).wrapping_sub(1);
    let found = NcType::ALL[..last].get(number).copied();
    found.ok_or_else(|| {
        let expected = format!("a type from 1 (byte) to {last} in CDF-{version}");
        reader.malformed("nc_type", code, expected)
    })
}

fn variables(
    reader: &mut HeaderReader<'_>,
    version: u8,
    dimensions: &[Dimension],
) -> Result<Vec<Variable>> {
    let count = list(reader, VARIABLES, "var_list", 32)?;
    if count > MAX_VARIABLES {
        let expected = format!("at most {MAX_VARIABLES} variables");
        return Err(reader.malformed("nelems", count, expected));
    }
    let mut variables = Vec::new();
    let mut repeated = 0u64;
    for _ in 0..count {
        let name = reader.name()?;
        reader.location = ErrorLocation::dataset(reader.path(), &name);
        let rank = reader.elements(4)?;
        let mut of_variable = Vec::new();
        for _ in 0..rank {
            let number = reader.count("dimid")?;
            let known = usize::try_from(number).ok();
            let Some(known) = known.filter(|number| *number < dimensions.len()) else {
                let expected = format!("below {}, the number of dimensions", dimensions.len());
                return Err(reader.malformed("dimid", number, expected));
            };
            // A name of any length takes only four bytes to repeat.
            repeated += dimensions[known].name.len() as u64;
            let most = MIN_REPEATED.max(MAX_REPEATED * reader.position());
            if repeated > most {
                let found = format!("one of a dimension whose name makes {repeated} bytes in all");
                let expected = format!("at most {most} bytes of names");
                return Err(reader.malformed("dimid", found, expected));
            }
            of_variable.push(known);
        }
        let attributes = attributes(reader, version)?;
        let nc_type = nc_type(reader, version)?;
        reader.count("vsize")?;
        let begin = match version {
            1 => reader.u32("begin")?.into(),
            _ => reader.u64("begin")?,
        };
        reader.location = ErrorLocation::file(reader.path());
        variables.push(Variable {
            name,
            dimensions: of_variable,
            attributes,
            nc_type,
            begin,
        });
    }
    Ok(variables)
}
