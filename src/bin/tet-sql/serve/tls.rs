//! The certificates of a server.

use crate::failure::Failure;
use crate::serve::arguments::ServeArguments;
use std::path::Path;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// The server's side of TLS, if the arguments want it.
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

/// A PEM file with something of a kind in it. One without would say less about what is wrong later.
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
        "{}: no {} in PEM form in it",
        path.display(),
        kind.to_lowercase()
    )))
}
