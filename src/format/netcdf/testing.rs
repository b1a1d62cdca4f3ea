//! Builds files for tests.

use std::path::PathBuf;

use crate::format::netcdf::element::NcType;
use crate::format::netcdf::header::Attribute;

/// Creates an attribute.
pub(super) fn attribute(name: &str, nc_type: NcType, bytes: &[u8]) -> Attribute {
    Attribute {
        name: name.to_string(),
        nc_type,
        bytes: bytes.to_vec(),
    }
}

/// A variable of a file to be built: its name, dimensions, attributes, type, and cells as stored.
pub(super) struct NewVariable<'a> {
    pub name: &'a str,
    pub dimensions: &'a [usize],
    pub attributes: Vec<Attribute>,
    pub nc_type: NcType,
    /// The cells of all records, or of the whole variable.
    pub cells: Vec<u8>,
}

/// A file to be built.
pub(super) struct NewFile<'a> {
    pub version: u8,
    pub records: u64,
    /// `true` to leave the number of records out of the header.
    pub is_stream: bool,
    pub dimensions: &'a [(&'a str, u64)],
    pub attributes: Vec<Attribute>,
    pub variables: Vec<NewVariable<'a>>,
}

impl NewFile<'_> {
    /// Returns the bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        // The header's length does not depend on the offsets in it.
        let length = self.header(0).len() as u64;
        let mut bytes = self.header(length);
        for variable in self.variables.iter().filter(|one| !self.has_records(one)) {
            bytes.extend_from_slice(&variable.cells);
            pad(&mut bytes);
        }
        let in_records: Vec<_> = self
            .variables
            .iter()
            .filter(|one| self.has_records(one))
            .collect();
        for record in 0..self.records as usize {
            for variable in &in_records {
                let slab = variable.cells.len() / self.records as usize;
                bytes.extend_from_slice(&variable.cells[record * slab..][..slab]);
                if in_records.len() > 1 {
                    pad(&mut bytes);
                }
            }
        }
        bytes
    }

    /// Returns the bytes of the header alone.
    pub fn bytes_of_header(&self) -> Vec<u8> {
        self.header(0)
    }

    /// Writes the file to a temporary directory.
    pub fn write(&self) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.nc");
        std::fs::write(&path, self.bytes()).unwrap();
        (folder, path)
    }

    fn has_records(&self, variable: &NewVariable<'_>) -> bool {
        let first = variable.dimensions.first();
        first.is_some_and(|first| self.dimensions[*first].1 == 0)
    }

    fn count(&self, bytes: &mut Vec<u8>, count: u64) {
        match self.version {
            5 => bytes.extend(count.to_be_bytes()),
            _ => bytes.extend((count as u32).to_be_bytes()),
        }
    }

    fn name(&self, bytes: &mut Vec<u8>, name: &str) {
        self.count(bytes, name.len() as u64);
        bytes.extend_from_slice(name.as_bytes());
        pad(bytes);
    }

    fn list(&self, bytes: &mut Vec<u8>, tag: u32, count: usize) {
        let tag = if count == 0 { 0 } else { tag };
        bytes.extend(tag.to_be_bytes());
        self.count(bytes, count as u64);
    }

    fn attributes(&self, bytes: &mut Vec<u8>, attributes: &[Attribute]) {
        self.list(bytes, 12, attributes.len());
        for attribute in attributes {
            self.name(bytes, &attribute.name);
            bytes.extend((attribute.nc_type as u32 + 1).to_be_bytes());
            self.count(
                bytes,
                attribute.bytes.len() as u64 / attribute.nc_type.size(),
            );
            bytes.extend_from_slice(&attribute.bytes);
            pad(bytes);
        }
    }

    /// Returns the header. The cells start at `begin`.
    fn header(&self, begin: u64) -> Vec<u8> {
        let mut bytes = vec![b'C', b'D', b'F', self.version];
        let records = if self.is_stream {
            u64::MAX
        } else {
            self.records
        };
        self.count(&mut bytes, records);
        self.list(&mut bytes, 10, self.dimensions.len());
        for (name, length) in self.dimensions {
            self.name(&mut bytes, name);
            self.count(&mut bytes, *length);
        }
        self.attributes(&mut bytes, &self.attributes);
        self.list(&mut bytes, 11, self.variables.len());
        let padded = |length: usize| length.next_multiple_of(4) as u64;
        let fixed = self.variables.iter().filter(|one| !self.has_records(one));
        let fixed: u64 = fixed.map(|one| padded(one.cells.len())).sum();
        let (mut next, mut next_slab) = (begin, begin + fixed);
        for variable in &self.variables {
            self.name(&mut bytes, variable.name);
            self.count(&mut bytes, variable.dimensions.len() as u64);
            for dimension in variable.dimensions {
                self.count(&mut bytes, *dimension as u64);
            }
            self.attributes(&mut bytes, &variable.attributes);
            bytes.extend((variable.nc_type as u32 + 1).to_be_bytes());
            let (offset, length) = match self.has_records(variable) {
                true => (
                    &mut next_slab,
                    variable.cells.len() / self.records.max(1) as usize,
                ),
                false => (&mut next, variable.cells.len()),
            };
            self.count(&mut bytes, padded(length));
            match self.version {
                1 => bytes.extend((*offset as u32).to_be_bytes()),
                _ => bytes.extend(offset.to_be_bytes()),
            }
            *offset += padded(length);
        }
        bytes
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}
