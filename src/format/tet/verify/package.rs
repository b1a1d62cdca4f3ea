//! Checks the manifest of a package's current generation, and the documents beside its data.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::format::tet::file::TetFile;
use crate::format::tet::package::{MANIFEST, Manifest, PROTOCOL_VERSION, Package};
use crate::format::tet::verify::{Report, Subject};

const NOT_SEALED: &str = "publish the generation again from its source";
const CHANGED: &str =
    "indexes that do not match the data are not used; publish the generation again";

/// Checks the manifest and the hashes of the documents that it names. The hash of the data cannot
/// be checked: it was computed before indexes were embedded in the data.
pub(super) fn check(file: &TetFile, package: &Package, report: &mut Report) {
    report.begin(
        "manifest",
        format!(
            "{MANIFEST} of generation {}: number, protocol, length of the data",
            package.generation()
        ),
    );
    let manifest = match package.manifest() {
        Ok(manifest) => manifest,
        Err(error) => {
            report.failure(&error, NOT_SEALED);
            return;
        }
    };
    let numbers = [
        (
            "generation",
            Some(manifest.generation),
            package.generation(),
        ),
        (
            "protocol_version",
            manifest.protocol_version,
            PROTOCOL_VERSION,
        ),
        (
            "packed_byte_len",
            Some(manifest.packed_byte_len),
            file.length(),
        ),
    ];
    for (field, found, expected) in numbers {
        if let Some(found) = found.filter(|found| *found != expected) {
            let message = format!("{MANIFEST}, {field} is {found}, expected {expected}");
            report.error(Subject::default(), message, NOT_SEALED);
        }
    }
    report.begin(
        "package_documents",
        "documents beside the data: whether they are there, and their SHA-256",
    );
    for (document, is_promised, sha256) in documents(&manifest) {
        let path = package.folder().join(document);
        match (hash(&path), sha256) {
            (Ok(None), _) if is_promised => {
                let message = format!("{document} is absent, expected as {MANIFEST} says");
                report.error(Subject::default(), message, CHANGED);
            }
            (Ok(Some(found)), Some(expected)) if !found.eq_ignore_ascii_case(expected) => {
                let message = format!("{document} has the SHA-256 {found}, expected {expected}");
                report.error(Subject::default(), message, CHANGED);
            }
            (Ok(_), _) => {}
            (Err(error), _) => {
                let error = Error::io(&path, "read")(error);
                report.failure(&error, CHANGED);
            }
        }
    }
}

/// Returns the name of each possible document, with `true` if the manifest requires it, and with
/// its hash.
fn documents(manifest: &Manifest) -> [(&'static str, bool, Option<&str>); 3] {
    let promises =
        |state: &Option<String>| matches!(state.as_deref(), Some("required" | "present"));
    [
        (
            "ZONE.json",
            promises(&manifest.zone_maps),
            manifest.zone_maps_sha256.as_deref(),
        ),
        (
            "INDEX.json",
            promises(&manifest.secondary_indexes),
            manifest.secondary_indexes_sha256.as_deref(),
        ),
        (
            "SEMANTICS.json",
            promises(&manifest.semantics),
            manifest.semantics_sha256.as_deref(),
        ),
    ]
}

/// Returns the SHA-256 of a file, or `None` if the file does not exist.
fn hash(path: &Path) -> io::Result<Option<String>> {
    let metadata = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    // Other file types, such as pipes, may have no end.
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => hasher.update(&buffer[..length]),
        }
    }
    let digits = hasher.finalize();
    Ok(Some(
        digits.iter().map(|byte| format!("{byte:02x}")).collect(),
    ))
}
