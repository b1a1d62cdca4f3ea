//! Reads tokens and certificates.

use crate::failure::Failure;
use std::path::Path;

/// Reads a token from a file or an environment variable. Returns its origin, for messages, and its text.
pub fn token(
    file: Option<&Path>,
    variable: Option<&str>,
) -> Result<Option<(String, String)>, Failure> {
    let (origin, text) = if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        (path.display().to_string(), text)
    } else if let Some(name) = variable {
        let text = std::env::var(name).map_err(|error| error.to_string());
        (format!("the environment variable {name}"), text)
    } else {
        return Ok(None);
    };
    match text {
        Ok(text) => Ok(Some((origin, text.trim().to_owned()))),
        Err(problem) => Err(Failure::message(format!("{origin}: {problem}"))),
    }
}

/// Reads a PEM file that contains an item of the given kind. Without this check, a later error
/// would be less clear.
pub fn read_pem(path: &Path, kind: &str) -> Result<Vec<u8>, Failure> {
    let content = std::fs::read(path)
        .map_err(|error| Failure::message(format!("{}: {error}", path.display())))?;
    let text = String::from_utf8_lossy(&content);
    if text
        .lines()
        .any(|line| line.starts_with("-----BEGIN ") && line.contains(kind))
    {
        return Ok(content);
    }
    Err(Failure::message(format!(
        "{}: contains no {} in PEM format",
        path.display(),
        kind.to_lowercase()
    )))
}
