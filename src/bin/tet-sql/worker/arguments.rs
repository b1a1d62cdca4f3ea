//! The command line of `tet-sql worker`.

use crate::serve::duration::parse_duration;
use crate::serve::network::{Network, parse_address};
use crate::size::parse_size;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  tet-sql worker --root archive/
  tet-sql worker --root /data --root s3://bucket/era5 --listen 0.0.0.0:50052 --token-file token --tls-cert c.pem --tls-key k.pem
  tet-sql archive/era5.zarr --cluster http://127.0.0.1:50052,http://127.0.0.1:50053

Whoever reaches the worker can read the arrays under its roots. Once the worker is ready, it writes to standard error:
listening on http://ADDRESS:PORT, or with TLS https://ADDRESS:PORT.";

// A doc comment would become the description of the command.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WorkerArguments {
    /// Directory, file or URL that queries may read; the same path as on the machine that asks (may be given several times)
    #[arg(long = "root", value_name = "DIR|URL", required = true)]
    pub roots: Vec<PathBuf>,

    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50052", value_parser = parse_address)]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub network: Network,

    /// Memory for all queries together, e.g. 512M or 2GiB [default: a quarter of the memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,

    /// Maximum duration of a part of a query, until its last row is sent [default: that of the machine that asks]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub time_limit: Option<Duration>,

    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}
