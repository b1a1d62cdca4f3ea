//! The options of the network that `tet-sql serve` and `tet-sql worker` share: token, TLS, and limits on
//! connections.

use crate::failure::Failure;
use crate::messages;
use crate::secrets::{read_pem, token};
use crate::serve::duration::parse_duration;
use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;
use tet_sql_flight::{Certificate, Identity, Log, Options, ServerTlsConfig, Token};

// A doc comment would become the description of the command.
#[derive(Debug, Args)]
pub struct Network {
    /// Require clients to send the token in this file
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    pub token_file: Option<PathBuf>,

    /// Require clients to send the token in this environment variable
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,

    /// The server's certificate chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Require client certificates signed by one of these authorities, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Listen beyond this machine without TLS, such as behind a TLS proxy: token and data are sent unencrypted
    #[arg(long, conflicts_with = "tls_cert")]
    pub insecure: bool,

    /// Maximum number of connections; further connections wait until one is closed
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_connections: u16,

    /// Maximum number of connections of one client address (IPv4 address, or IPv6 /64); further ones are closed at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_per_address: u16,

    /// Maximum time until the first admitted request of a new connection; without one it is closed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub connect_limit: Duration,

    /// Time that running queries get to finish after Ctrl-C or SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub grace: Duration,
}

impl Network {
    /// Checks that an address reachable from other machines has a token, and TLS or `--insecure`.
    pub fn check(&self, address: SocketAddr) -> Result<(), String> {
        if address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        let message = if self.token_file.is_none() && self.token_env.is_none() {
            format!(
                "{address} can be reached from other machines, which needs a token: give --token-file or --token-env"
            )
        } else if self.tls_cert.is_none() && !self.insecure {
            format!(
                "{address} can be reached from other machines, which needs TLS: give --tls-cert and --tls-key, or \
                 --insecure to send token and data unencrypted"
            )
        } else {
            return Ok(());
        };
        Err(message)
    }

    /// Returns the options of a server, with the defaults for queries.
    pub fn options(&self) -> Result<Options, Failure> {
        let token = token(self.token_file.as_deref(), self.token_env.as_deref())?;
        let token = token.map(|(origin, text)| {
            let token = Token::new(&text);
            token.map_err(|problem| Failure::message(format!("{origin}: {problem}")))
        });
        Ok(Options {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            token: token.transpose()?,
            tls: self.tls()?,
            max_connections: self.max_connections,
            max_per_address: self.max_per_address,
            connect_limit: self.connect_limit,
            grace: self.grace,
            log: Log::new(messages::note),
            ..Options::default()
        })
    }

    /// Returns the TLS configuration, if the arguments have a certificate.
    fn tls(&self) -> Result<Option<ServerTlsConfig>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let (certificate, key) = (
            read_pem(certificate, "CERTIFICATE")?,
            read_pem(key, "PRIVATE KEY")?,
        );
        let mut config = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        if let Some(path) = &self.tls_client_ca {
            config = config.client_ca_root(Certificate::from_pem(read_pem(path, "CERTIFICATE")?));
        }
        Ok(Some(config))
    }
}

/// Parses an address or host name with a port.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let found = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}; expected ADDRESS:PORT"))?;
    // A host name such as `localhost` may have addresses of both families. Clients try IPv4 in any
    // case.
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let first = addresses.into_iter().next();
    first.ok_or_else(|| "no such address".to_owned())
}
