//! The command line of `tet-sql serve`.

use crate::serve::duration::parse_duration;
use crate::serve::network::{Network, parse_address};
#[cfg(feature = "cluster")]
use crate::shared_arguments::Cluster;
use crate::shared_arguments::{Reading, Resources};
use clap::Args;
use std::net::SocketAddr;
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

    #[command(flatten)]
    pub network: Network,

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

    #[command(flatten)]
    pub resources: Resources,

    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: Cluster,

    #[command(flatten)]
    pub reading: Reading,

    /// No warnings
    #[arg(short, long)]
    pub quiet: bool,
}

impl ServeArguments {
    /// Checks that an address reachable from other machines has a token, and TLS or `--insecure`.
    pub fn check(&self) -> Result<(), String> {
        self.network.check(self.listen)
    }
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
            _ => Err("no subcommand".to_owned()),
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
