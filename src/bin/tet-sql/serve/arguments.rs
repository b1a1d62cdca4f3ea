//! The command line of `tet-sql serve`.

use crate::serve::duration::parse_duration;
use crate::shared_arguments::{Reading, Resources};
use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  tet-sql serve weather.tet
  tet-sql serve archive/ --listen 0.0.0.0:50051 --token-file token --tls-cert c.pem --tls-key k.pem

Clients can read these files only, and write nothing. Once the server is ready, it writes to
standard error: listening on grpc://ADDRESS:PORT, or with TLS grpc+tls://ADDRESS:PORT.";

// The options of the server. A doc comment would become the description of the command.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// Files to serve: FILE or package (X.tet.d), NAME=FILE to choose the schema's name, or a directory for all .tet
    /// files in it
    #[arg(value_name = "FILES")]
    pub files: Vec<PathBuf>,

    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051", value_parser = parse_address)]
    pub listen: SocketAddr,

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

    /// Maximum duration of a query, until its last row is sent: 500ms, 60s, 10m or 2h
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub time_limit: Duration,

    /// Maximum number of concurrent queries; further queries wait
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_queries: u16,

    /// Maximum time that a query waits to start before it is refused
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub wait_limit: Duration,

    /// Maximum number of rows of a result; a query with more rows fails [default: unlimited]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_rows: Option<u64>,

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

    #[command(flatten)]
    pub resources: Resources,

    #[command(flatten)]
    pub reading: Reading,

    /// No warnings
    #[arg(short, long)]
    pub quiet: bool,
}

impl ServeArguments {
    /// Checks that an address reachable from other machines has a token, and TLS or `--insecure`.
    pub fn check(&self) -> Result<(), String> {
        if self.listen.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        let address = self.listen;
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
}

/// Parses an address or host name with a port.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
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

#[cfg(test)]
mod tests {
    use crate::arguments::{Arguments, Subcommand};
    use clap::Parser;
    use std::path::PathBuf;

    fn check(options: &[&str]) -> Result<(), String> {
        let line = ["tet-sql", "serve"].iter().chain(options);
        let arguments = Arguments::try_parse_from(line).map_err(|error| error.to_string())?;
        match arguments.subcommand {
            Some(Subcommand::Serve(arguments)) => arguments.check(),
            Some(Subcommand::Tet(_)) | None => Err("no subcommand".to_owned()),
        }
    }

    #[test]
    fn what_others_can_reach_needs_a_token_and_tls() {
        let tls = ["--tls-cert", "c", "--tls-key", "k"];
        let token = ["--token-file", "t"];
        for loopback in [
            "127.0.0.1:0",
            "127.9.9.9:1",
            "[::1]:0",
            "localhost:0",
            "[::ffff:127.0.0.1]:0",
        ] {
            assert_eq!(check(&["--listen", loopback]), Ok(()), "{loopback}");
        }
        for address in [
            "0.0.0.0:0",
            "[::]:0",
            "192.0.2.1:50051",
            "[::ffff:192.0.2.1]:0",
        ] {
            let listen = ["--listen", address];
            assert!(check(&listen).unwrap_err().contains("needs a token"));
            assert!(
                check(&[&listen[..], &tls].concat())
                    .unwrap_err()
                    .contains("needs a token")
            );
            assert!(
                check(&[&listen[..], &["--insecure"]].concat())
                    .unwrap_err()
                    .contains("needs a token")
            );
            assert!(
                check(&[&listen[..], &token].concat())
                    .unwrap_err()
                    .contains("needs TLS")
            );
            assert_eq!(check(&[&listen[..], &token, &tls].concat()), Ok(()));
            assert_eq!(
                check(&[&listen[..], &token, &["--insecure"]].concat()),
                Ok(())
            );
        }
    }

    #[test]
    fn wrong_options_are_refused() {
        for wrong in [
            &["--listen", "nowhere"][..],
            &["--listen", "127.0.0.1"],
            &["--tls-cert", "c"],
            &["--tls-key", "k"],
            &["--tls-client-ca", "c"],
            &["--token-file", "t", "--token-env", "T"],
            &["--max-queries", "0"],
            &["--max-connections", "0"],
            &["--max-per-address", "0"],
            &["--time-limit", "0s"],
            &["--max-rows", "0"],
        ] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn files_may_have_the_name_of_a_subcommand() {
        for (line, files) in [
            (&["tet-sql", "./serve"][..], &["./serve"][..]),
            (&["tet-sql", "a.tet", "serve"], &["a.tet", "serve"]),
            (&["tet-sql", "help"], &["help"]),
        ] {
            let arguments = Arguments::try_parse_from(line).unwrap();
            assert!(arguments.subcommand.is_none(), "{line:?}");
            assert_eq!(
                arguments.files,
                files.iter().map(PathBuf::from).collect::<Vec<_>>()
            );
        }
    }
}
