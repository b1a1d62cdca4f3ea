//! Packages: directories `X.tet.d` that hold generations of a file, one of which is current.
//!
//! ```text
//! X.tet.d/
//! ├── PROTOCOL             protocol version
//! ├── CURRENT              number of the current generation
//! └── generations/
//!     └── 00000007/
//!         ├── packed.tet       data
//!         ├── MANIFEST.json    lengths and hashes
//!         ├── ZONE.json        zone maps
//!         └── INDEX.json       secondary index
//! ```
//!
//! Opening a package reads `CURRENT` once and pins the generation that it names, whatever is
//! published later.

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::place::Place;
use crate::format::io::storage::Storage;
use crate::format::tet::statistics::document::Seal;

/// The file that marks a directory as a package.
const PROTOCOL: &str = "PROTOCOL";
/// The only supported protocol version.
pub(super) const PROTOCOL_VERSION: u64 = 2;
/// The file that describes a generation.
pub(super) const MANIFEST: &str = "MANIFEST.json";
/// Maximum length of PROTOCOL and CURRENT in bytes.
const MAX_POINTER: u64 = 64 << 10;
/// Maximum length of MANIFEST.json in bytes.
const MAX_MANIFEST: u64 = 1 << 20;
/// Maximum number of bytes of a file that a message quotes.
const MAX_QUOTED: usize = 40;

/// Returns `true` if `path` is a package: a directory with a PROTOCOL file.
pub fn is_package(path: &Path) -> bool {
    path.join(PROTOCOL).is_file()
}

/// The generation of a package that was current when the package was opened.
#[derive(Debug)]
pub(crate) struct Package {
    generation: u64,
    root: Place,
    folder: Place,
}

#[derive(Deserialize)]
struct Protocol {
    protocol_version: u64,
}

#[derive(Deserialize)]
struct Current {
    generation: u64,
}

/// The manifest of a generation. Hashes are hexadecimal strings.
#[derive(Deserialize)]
pub(super) struct Manifest {
    pub generation: u64,
    pub protocol_version: Option<u64>,
    pub packed_byte_len: u64,
    packed_sha256: Option<String>,
    pub zone_maps: Option<String>,
    pub zone_maps_sha256: Option<String>,
    pub secondary_indexes: Option<String>,
    pub secondary_indexes_sha256: Option<String>,
    pub semantics: Option<String>,
    pub semantics_sha256: Option<String>,
}

impl Package {
    /// Finds the current generation of the package in the directory `root`.
    pub fn open(root: impl Into<Place>) -> Result<Self> {
        let root = root.into();
        let place = root.join(PROTOCOL);
        let content = match place.read(MAX_POINTER) {
            Err(error) if is_not_found(&error) => {
                return Err(Error::invalid(
                    root.path(),
                    "is a directory without a PROTOCOL file, expected a file or a package (.tet.d)",
                ));
            }
            content => content?,
        };
        let protocol: Protocol = parse(place.path(), &content)?;
        if protocol.protocol_version != PROTOCOL_VERSION {
            return Err(Error::malformed(
                ErrorLocation::file(place.path()),
                "protocol_version",
                protocol.protocol_version,
                PROTOCOL_VERSION,
            ));
        }
        let place = root.join("CURRENT");
        let current = match place.read(MAX_POINTER) {
            Err(error) if is_not_found(&error) => {
                let message = "the package has no CURRENT file: nothing has been published yet";
                return Err(Error::invalid(root.path(), message));
            }
            result => result?,
        };
        let generation = current_generation(place.path(), &current)?;
        Ok(Self {
            generation,
            folder: root.join("generations").join(format!("{generation:08}")),
            root,
        })
    }

    /// Opens the file with the generation's data.
    ///
    /// # Errors
    /// Fails if the package has no such file, or it cannot be read.
    pub fn open_packed(&self) -> Result<Storage> {
        match self.packed().open() {
            Err(error) if is_not_found(&error) => {
                let name = format!("{:08}", self.generation);
                let generations = self.root.join("generations").list();
                let absent = match generations.is_ok_and(|names| names.contains(&name)) {
                    true => format!("generations/{name}/packed.tet"),
                    false => format!("generations/{name}"),
                };
                let message = format!("CURRENT names {absent}, which the package does not have");
                Err(Error::invalid(self.root.path(), message))
            }
            opened => opened,
        }
    }

    /// The generation number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The place of the file with the generation's data.
    pub fn packed(&self) -> Place {
        self.folder.join("packed.tet")
    }

    /// The directory of the generation.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Reads the manifest of the generation.
    pub(super) fn manifest(&self) -> Result<Manifest> {
        let place = self.folder.join(MANIFEST);
        parse(place.path(), &place.read(MAX_MANIFEST)?)
    }

    /// Opens a document beside the data, if it exists. Returns it with the seal that it must match.
    /// `packed_length` is the length of the data file.
    pub fn document(&self, name: &str, packed_length: u64) -> Result<Option<(Storage, Seal)>> {
        let storage = match self.folder.join(name).open() {
            Err(error) if is_not_found(&error) => return Ok(None),
            result => result?,
        };
        let place = self.folder.join(MANIFEST);
        let manifest = self.manifest()?;
        let mismatch = |field, found, expected| {
            Err(Error::malformed(
                ErrorLocation::file(place.path()),
                field,
                found,
                expected,
            ))
        };
        if manifest.generation != self.generation {
            let expected = format!("{}, the opened one", self.generation);
            return mismatch("generation", manifest.generation, expected);
        }
        if manifest.packed_byte_len != packed_length {
            let expected = format!("{packed_length}, the length of packed.tet");
            return mismatch("packed_byte_len", manifest.packed_byte_len, expected);
        }
        let seal = Seal {
            generation: self.generation,
            packed_sha256: manifest.packed_sha256,
        };
        Ok(Some((storage, seal)))
    }
}

/// Parses the contents of CURRENT: a bare number, or an object with the number.
fn current_generation(path: &Path, content: &[u8]) -> Result<u64> {
    let content = content.trim_ascii();
    if content.first() == Some(&b'{') {
        return parse(path, content).map(|Current { generation }| generation);
    }
    // Parsing alone would accept a leading plus sign.
    let digits = Some(content).filter(|content| content.iter().all(u8::is_ascii_digit));
    let text = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        Error::malformed(
            ErrorLocation::file(path),
            "CURRENT",
            quoted(content),
            "the number of a generation",
        )
    })
}

fn parse<T: DeserializeOwned>(path: &Path, content: &[u8]) -> Result<T> {
    let malformed = |found| Error::malformed(ErrorLocation::file(path), "JSON", found, "an object");
    // serde would also accept an array with the fields in order.
    if content.trim_ascii_start().first() != Some(&b'{') {
        return Err(malformed(quoted(content)));
    }
    serde_json::from_slice(content).map_err(|error| malformed(format!("unreadable ({error})")))
}

fn quoted(content: &[u8]) -> String {
    match content.split_at_checked(MAX_QUOTED) {
        Some((start, rest)) if !rest.is_empty() => format!("\"{}\"...", start.escape_ascii()),
        _ => format!("\"{}\"", content.escape_ascii()),
    }
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
