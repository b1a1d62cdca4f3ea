//! The provenance of a file: the program that wrote it, and the processing steps before.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The program that wrote the file, and the time of writing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct FileMetadata {
    /// The name of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The version of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_version: Option<String>,
    /// The time in seconds since 1970, as a decimal string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}

/// One step of a file's provenance.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct HistoryRow {
    /// The operation: `convert`, `write`, `transform`, ...
    pub op: String,
    /// The source of the data: `h5`, `nc`, `zarr`, a path, ...
    pub source: String,
    /// The time in seconds since 1970, as a decimal string.
    pub at: String,
    /// Files or generations that the data came from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// Parameters of the step.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// The responsible agent, as in W3C PROV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The activity, as in W3C PROV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// The entity, as in W3C PROV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
}
