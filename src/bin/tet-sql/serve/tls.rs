//! The TLS configuration of the server.

use crate::failure::Failure;
use crate::serve::arguments::ServeArguments;
use std::path::Path;
use tet_sql_flight::{Certificate, Identity, ServerTlsConfig};

/// Returns the TLS configuration, if the arguments have a certificate.
pub fn of_arguments(arguments: &ServeArguments) -> Result<Option<ServerTlsConfig>, Failure> {
    let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else {
        return Ok(None);
    };
    let identity = Identity::from_pem(read(certificate, "CERTIFICATE")?, read(key, "PRIVATE KEY")?);
    let mut config = ServerTlsConfig::new().identity(identity);
    if let Some(path) = &arguments.tls_client_ca {
        config = config.client_ca_root(Certificate::from_pem(read(path, "CERTIFICATE")?));
    }
    Ok(Some(config))
}

/// Reads a PEM file that contains an item of the given kind. Without this check, a later error
/// would be less clear.
fn read(path: &Path, kind: &str) -> Result<Vec<u8>, Failure> {
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
