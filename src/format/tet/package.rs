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

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::handles;
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
    folder: PathBuf,
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
    pub fn open(root: &Path) -> Result<Self> {
        if !is_package(root) {
            return Err(Error::invalid(
                root,
                "is a directory without a PROTOCOL file, expected a file or a package (.tet.d)",
            ));
        }
        let path = root.join(PROTOCOL);
        let protocol: Protocol = parse(&path, &read(&path, MAX_POINTER)?)?;
        if protocol.protocol_version != PROTOCOL_VERSION {
            return Err(Error::malformed(
                ErrorLocation::file(&path),
                "protocol_version",
                protocol.protocol_version,
                PROTOCOL_VERSION,
            ));
        }
        let path = root.join("CURRENT");
        let current = match read(&path, MAX_POINTER) {
            Err(error) if is_not_found(&error) => {
                let message = "the package has no CURRENT file: nothing has been published yet";
                return Err(Error::invalid(root, message));
            }
            result => result?,
        };
        let generation = current_generation(&path, &current)?;
        let name = format!("{generation:08}");
        let folder = root.join("generations").join(&name);
        let absent = match () {
            () if !folder.is_dir() => Some(format!("generations/{name}")),
            () if !folder.join("packed.tet").is_file() => {
                Some(format!("generations/{name}/packed.tet"))
            }
            () => None,
        };
        if let Some(absent) = absent {
            let message = format!("CURRENT names {absent}, which the package does not have");
            return Err(Error::invalid(root, message));
        }
        Ok(Self { generation, folder })
    }

    /// The generation number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The path of the file with the generation's data.
    pub fn packed(&self) -> PathBuf {
        self.folder.join("packed.tet")
    }

    /// The directory of the generation.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the manifest of the generation.
    pub(super) fn manifest(&self) -> Result<Manifest> {
        let path = self.folder.join(MANIFEST);
        parse(&path, &read(&path, MAX_MANIFEST)?)
    }

    /// Opens a document beside the data, if it exists. Returns it with the seal that it must match.
    /// `packed_length` is the length of the data file.
    pub fn document(&self, name: &str, packed_length: u64) -> Result<Option<(Storage, Seal)>> {
        let storage = match Storage::open(&self.folder.join(name)) {
            Err(error) if is_not_found(&error) => return Ok(None),
            result => result?,
        };
        let path = self.folder.join(MANIFEST);
        let manifest = self.manifest()?;
        let mismatch = |field, found, expected| {
            Err(Error::malformed(
                ErrorLocation::file(&path),
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

/// Reads a whole file of at most `most` bytes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let metadata = path.metadata().map_err(Error::io(path, "open"))?;
    if !metadata.is_file() {
        return Err(Error::invalid(path, "is not a regular file"));
    }
    let file = handles::open(path, &handles::SHARED).map_err(Error::io(path, "open"))?;
    let mut content = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut content);
    read.map_err(Error::io(path, "read"))?;
    if content.len() as u64 > most {
        return Err(Error::malformed(
            ErrorLocation::file(path),
            "file length",
            format!("more than {most} bytes"),
            "less",
        ));
    }
    Ok(content)
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
