//! Turns the errors of object stores into errors that say what to do, without credentials.

use std::io;
use std::path::Path;

use object_store::Error as StoreError;

use crate::error::{Error, ErrorLocation};
use crate::format::io::remote::store::Refusal;
use crate::format::io::remote::urls::without_secrets;

/// The maximum number of characters of a server's text in a message.
const MAX_TEXT: usize = 300;

/// Returns the error of a request. `path` is the URL without secrets.
pub(crate) fn failed(path: &Path, action: &'static str, refusal: Refusal) -> Error {
    match refusal {
        Refusal::Store(error) => refused(path, action, &error),
        Refusal::Changed => changed(path),
        Refusal::TooLarge(size) => {
            let location = ErrorLocation::file(path);
            Error::malformed(
                location,
                "size",
                format!("{size} bytes"),
                "a smaller object",
            )
        }
    }
}

/// Returns the error of a request that failed in the store. `path` is the URL without secrets.
pub(crate) fn refused(path: &Path, action: &'static str, error: &StoreError) -> Error {
    let (kind, text) = match error {
        StoreError::Precondition { .. } | StoreError::NotModified { .. } => {
            return changed(path);
        }
        StoreError::NotFound { .. } => (
            io::ErrorKind::NotFound,
            "there is no such object (404 Not Found)".to_string(),
        ),
        StoreError::PermissionDenied { .. } => (
            io::ErrorKind::PermissionDenied,
            format!("access is denied (403 Forbidden); {}", advice(path)),
        ),
        StoreError::Unauthenticated { .. } => (
            io::ErrorKind::PermissionDenied,
            format!(
                "credentials are missing or invalid (401 Unauthorized); {}",
                advice(path)
            ),
        ),
        StoreError::NotSupported { source } => (
            io::ErrorKind::Unsupported,
            format!(
                "the server does not support the request: {}",
                shown(&source.to_string())
            ),
        ),
        StoreError::NotImplemented { operation, .. } => (
            io::ErrorKind::Unsupported,
            format!("the store does not support {operation}"),
        ),
        StoreError::Generic { source, .. } => {
            let text = shown(&source.to_string());
            let is_signing = ["credential", "InstanceCredential", "metadata"];
            match is_signing.iter().any(|word| text.contains(word)) {
                true => (io::ErrorKind::Other, format!("{text}; {}", advice(path))),
                false => (io::ErrorKind::Other, text),
            }
        }
        other => (io::ErrorKind::Other, shown(&other.to_string())),
    };
    Error::io(path, action)(io::Error::new(kind, text))
}

/// The error for an object that is not the one that was opened.
fn changed(path: &Path) -> Error {
    Error::invalid(
        path,
        "the file was replaced or changed since it was opened; open it again",
    )
}

/// Returns what to do about a request that is not allowed.
fn advice(path: &Path) -> &'static str {
    let text = path.to_string_lossy();
    match text.split_once("://").map_or("", |(scheme, _)| scheme) {
        "s3" | "s3a" => {
            "check the credentials and the region; for a public bucket, set aws.skip_signature or the environment \
             variable AWS_SKIP_SIGNATURE to true; S3 also answers 403 for absent objects, unless listing the \
             bucket is allowed"
        }
        "gs" => {
            "check the credentials; for a public bucket, set gcp.skip_signature or the environment variable \
             GOOGLE_SKIP_SIGNATURE to true"
        }
        "az" | "azure" | "abfs" | "abfss" | "adl" => {
            "check the credentials; for a public container, set azure.skip_signature or the environment variable \
             AZURE_SKIP_SIGNATURE to true"
        }
        _ => {
            "check the credentials in the URL, or whether a signed URL has expired; some servers answer 403 for \
             absent files"
        }
    }
}

/// Returns the end of an error message, which says what the server answered, without secrets.
fn shown(text: &str) -> String {
    // The first part repeats the URL: "Error performing GET https://... in 1s - Server returned".
    let text = text.rsplit_once(" - ").map_or(text, |(_, last)| last);
    let text = without_secrets(text);
    let text = text.trim().trim_end_matches(':');
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
