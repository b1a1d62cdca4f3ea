//! The options that `tet-sql` and `tet-sql serve` share.

use std::path::PathBuf;

use crate::failure::Failure;
#[cfg(feature = "cluster")]
use crate::secrets;
use crate::size::parse_size;
use clap::{Args, ValueEnum, ValueHint};
#[cfg(feature = "cluster")]
use tet_sql::ClusterAccess;
use tet_sql::{Access, ArrayOptions, Unpack};

// clap would use a doc comment on a flattened struct as the description of the command, so these
// structs have plain comments.

// The resources of queries.
#[derive(Debug, Args)]
pub struct Resources {
    /// Method of reading files
    #[arg(long, value_enum, default_value_t = ReadAccess::Mmap)]
    access: ReadAccess,

    /// Memory for queries, e.g. 512M or 2GiB [default: the memory budget of the first file]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,

    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Set an option at the start, as SET does: tet.max_plan_nodes=50000 (may be given several times)
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    settings: Vec<(String, String)>,

    /// Keep what is fetched from URLs, and the chunk indexes of HDF5 and NetCDF-4 files, in a directory for later
    /// sessions
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cache_dir: Option<String>,
}

// The workers that run queries.
#[cfg(feature = "cluster")]
#[derive(Debug, Args)]
pub struct Cluster {
    /// Run queries on these workers, as SET tet.cluster does: http://a:50052,http://b:50052
    #[arg(long = "cluster", value_name = "URLS")]
    workers: Option<String>,

    /// Send the token in this file to the workers
    #[arg(long, value_name = "FILE", conflicts_with = "cluster_token_env")]
    cluster_token_file: Option<PathBuf>,

    /// Send the token in this environment variable to the workers
    #[arg(long, value_name = "NAME")]
    cluster_token_env: Option<String>,

    /// The authorities that signed the certificates of workers with https:// URLs, as PEM
    #[arg(long, value_name = "FILE")]
    cluster_ca: Option<PathBuf>,
}

#[cfg(feature = "cluster")]
impl Cluster {
    /// Returns the setting with the workers.
    pub fn settings(&self) -> Vec<(String, String)> {
        let workers = self.workers.iter();
        let workers = workers.map(|urls| ("tet.cluster".to_owned(), urls.clone()));
        workers.collect()
    }

    /// Returns how to reach the workers.
    pub fn access(&self) -> Result<ClusterAccess, Failure> {
        let mut access = ClusterAccess::new();
        let variable = self.cluster_token_env.as_deref();
        if let Some((_, token)) = secrets::token(self.cluster_token_file.as_deref(), variable)? {
            access = access.with_token(token);
        }
        if let Some(path) = &self.cluster_ca {
            access = access.with_authorities(secrets::read_pem(path, "CERTIFICATE")?);
        }
        Ok(access)
    }
}

// The interpretation of files.
#[derive(Debug, Args)]
pub struct Reading {
    /// Open small files about weather, made for trying things out
    #[arg(long)]
    pub demo: bool,

    /// Keep axis labels as text, even where all of them are times or numbers
    #[arg(long)]
    text_labels: bool,

    /// Name the dimensions of arrays whose file names none, between commas: time,lat,lon
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    dims: Option<Vec<String>>,

    /// The file with the key of encrypted TileDB arrays
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Leave coordinates in CF time units (hours since 1900-01-01) as numbers
    #[arg(long)]
    no_decode_times: bool,

    /// Do not use other arrays as coordinates
    #[arg(long)]
    no_decode_coords: bool,

    /// Add coordinates along several dimensions, such as lat(y, x), as columns
    #[arg(long)]
    auxiliary_coordinates: bool,

    /// When to unpack values with their attributes scale_factor and add_offset: auto (integers of Zarr, NetCDF and
    /// HDF5), always or never
    #[arg(long, value_name = "WHEN", default_value_t = Unpack::Auto)]
    pub unpack: Unpack,

    /// Ignore the footers of files, with their dimension names, labels and attributes
    #[arg(long)]
    ignore_footer: bool,
}

/// The method of reading files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReadAccess {
    /// Map files into memory
    Mmap,
    /// Read at offsets with pread
    Pread,
}

impl Resources {
    /// Returns the number of worker threads, which is also the number of partitions of a query.
    pub fn threads(&self) -> usize {
        match self.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Returns the settings of the session by name, as in SET.
    pub fn settings(&self) -> Vec<(String, String)> {
        let cache = self.cache_dir.iter();
        let cache = cache.map(|path| ("tet.cache_dir".to_owned(), path.clone()));
        cache.chain(self.settings.iter().cloned()).collect()
    }

    /// Returns the initial access method of the session.
    pub fn access(&self) -> Access {
        match self.access {
            ReadAccess::Mmap => Access::Mmap,
            ReadAccess::Pread => Access::Pread,
        }
    }
}

impl Reading {
    /// Returns the options for opening files.
    pub fn options(&self) -> Result<ArrayOptions, Failure> {
        let mut options = ArrayOptions::new()
            .with_text_labels(self.text_labels)
            .with_ignore_footer(self.ignore_footer)
            .with_decode_times(!self.no_decode_times)
            .with_decode_coords(!self.no_decode_coords)
            .with_auxiliary_coordinates(self.auxiliary_coordinates);
        if let Some(dims) = &self.dims {
            options.set("dims", &dims.join(","))?;
        }
        if let Some(path) = &self.key_file {
            options = options.with_format_option("key_file", path.display().to_string());
        }
        Ok(options)
    }
}

/// Parses a setting into its name and value.
fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
