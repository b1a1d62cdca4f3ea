//! What a package says of its current generation.

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
    "indexes beside the data are not used unless they belong to it; publish the generation again";

/// Looks at the manifest, and at the hashes of the documents that it names. The hash of the data cannot be checked: it is the
/// one that they had before indexes were embedded.
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

/// The documents that there can be, whether the manifest promises them, and their hashes.
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

/// The SHA-256 of a file, if it is there.
fn hash(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
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
