//! The command line of `tet`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tet_sql::Unpack;

const EXAMPLES: &str = "\
Examples:
  tet info weather.tet
  tet info weather.tet --chunks -n 0
  tet info weather.tet --all --json
  tet verify weather.tet --deep
  tet repair weather.tet
  tet index weather.tet
  tet convert weather.zarr weather.tet

To query a file in SQL: tet-sql weather.tet";

/// Shows, checks, repairs and converts files of arrays (.tet, Zarr, .npy, .npz, TileDB) and documents (.tatami).
#[derive(Debug, Parser)]
#[command(name = "tet", version, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the content of a file, even if it is too damaged to be queried
    Info(InfoArguments),
    /// Check a whole file; the exit status is 1 if anything is wrong
    Verify(VerifyArguments),
    /// List what can be repaired without touching data, and repair it with --apply
    Repair(RepairArguments),
    /// Embed zone maps, which let queries skip chunks, or delete them
    Index(IndexArguments),
    /// Convert between array files and files of rows
    Convert(ConvertArguments),
    /// Write a completion script for a shell to standard output
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual page to standard output
    Man,
}

const INFO_EXAMPLES: &str = "\
Examples:
  tet info weather.tet                      the datasets
  tet info weather.zarr --metadata          of a Zarr directory, with attributes
  tet info weather.tet --chunks -n 100      the first hundred rows of the chunk index
  tet info weather.tet --metadata           names of dimensions, labels, attributes
  tet info archive.tet.d --all              everything of a package's current generation";

#[derive(Debug, Args)]
#[command(after_help = INFO_EXAMPLES)]
pub struct InfoArguments {
    /// A .tet or .tatami file, a tatami.manifest, a package (X.tet.d), a Zarr or TileDB directory, a .npy or .npz file
    pub file: PathBuf,
    /// The datasets (the default)
    #[arg(long)]
    pub datasets: bool,
    /// The chunk index
    #[arg(long)]
    pub chunks: bool,
    /// Number of rows of the chunk index to show; 0 for all
    #[arg(short = 'n', value_name = "N", default_value_t = 32)]
    pub rows: u64,
    /// The history of the data
    #[arg(long)]
    pub history: bool,
    /// Names of dimensions, labels and attributes
    #[arg(long)]
    pub metadata: bool,
    /// Superblock, regions, memory budget
    #[arg(long)]
    pub layout: bool,
    /// All sections
    #[arg(long)]
    pub all: bool,
    /// Write the selected sections as JSON
    #[arg(long)]
    pub json: bool,
    /// File with the key of an encrypted TileDB array
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  tet verify weather.tet
  tet verify weather.tet --deep             decode every chunk, compare it with the indexes
  tet verify weather.zarr --deep            decode every chunk of a Zarr directory
  tet verify weather.tet --json | jq .findings";

#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub struct VerifyArguments {
    /// A .tet or .tatami file, a tatami.manifest, a package (X.tet.d), a Zarr or TileDB directory, a .npy or .npz file
    pub file: PathBuf,
    /// Decode every chunk, not only the first 128
    #[arg(long)]
    pub deep: bool,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
    /// Threads that decode [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// File with the key of an encrypted TileDB array
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

const REPAIR_EXAMPLES: &str = "\
Examples:
  tet repair weather.tet                    what would be done
  tet repair weather.tet --apply            do it; removed parts are kept beside the file

An unreadable footer is cut off, zone maps that do not match the cells are rebuilt, indexes that cannot be read
or do not match the cells are dropped, locks of stopped publications are moved aside. Data, chunk index
and directory are never changed.";

#[derive(Debug, Args)]
#[command(after_help = REPAIR_EXAMPLES)]
pub struct RepairArguments {
    /// A .tet file, or a package (X.tet.d)
    pub file: PathBuf,
    /// Make the repairs
    #[arg(long)]
    pub apply: bool,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

const INDEX_EXAMPLES: &str = "\
Examples:
  tet index weather.tet
  tet index weather.tet --clear";

#[derive(Debug, Args)]
#[command(after_help = INDEX_EXAMPLES)]
pub struct IndexArguments {
    /// A .tet file
    pub file: PathBuf,
    /// Delete zone maps and the secondary index
    #[arg(long)]
    pub clear: bool,
}

const CONVERT_EXAMPLES: &str = "\
Examples:
  tet convert weather.zarr weather.tet
  tet convert weather.tet tall.tet --chunk 1000,32,32 --codec zstd --level 9
  tet convert weather.tet temperature.npy --dataset temperature
  tet convert stations.parquet stations.tet --dims time,station
  tet convert 'weather.tet#temperature' temperature.parquet
  tet convert pages.jsonl pages.tatami --option sort_key=url --option blob=body
  tet convert pages.tatami pages.parquet --read-option blobs=strict

The extensions select the formats: .tet, .zarr, .npy and .npz hold arrays; .parquet, .csv, .tsv, .json (also .ndjson, .jsonl),
.arrow (also .feather) and .tatami hold rows. Arrays are converted to arrays directly, with their attributes and coordinates; all other
conversions go through rows.";

#[derive(Debug, Args)]
#[command(after_help = CONVERT_EXAMPLES)]
pub struct ConvertArguments {
    /// File to convert; #NAME at the end selects a dataset
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// File to write
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Convert only this dataset and its coordinates; from rows, the name of the new dataset
    #[arg(long, value_name = "NAME")]
    pub dataset: Option<String>,
    /// Chunk shape [default: that of the input, else about 4 MiB per chunk]
    #[arg(
        long,
        value_name = "N,N,...",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub chunk: Option<Vec<u64>>,
    /// Encoding of chunks [default: raw if the input is raw, else zstd]
    #[arg(long)]
    pub codec: Option<Codec>,
    /// The level of zstd [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub level: Option<i32>,
    /// From rows, the columns that become dimensions; from arrays without dimension names, the names
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub dims: Option<Vec<String>>,
    /// When to unpack values with their attributes scale_factor and add_offset: auto (integers of Zarr, NetCDF and
    /// HDF5, unless OUT is Zarr), always or never
    #[arg(long, value_name = "WHEN", default_value_t = Unpack::Auto)]
    pub unpack: Unpack,
    /// Embed zone maps in a .tet file
    #[arg(long)]
    pub zone_maps: bool,
    /// Replace an existing file
    #[arg(long)]
    pub overwrite: bool,
    /// File with the key of an encrypted TileDB array
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Option of COPY to the format of OUT, for rows and documents: sort_key=url. May be repeated
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub options: Vec<(String, String)>,
    /// Option of the format of IN, as in CREATE EXTERNAL TABLE: blobs=strict. May be repeated
    #[arg(long = "read-option", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub read_options: Vec<(String, String)>,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err("expected NAME=VALUE".to_string()),
    }
}

/// The encoding of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Codec {
    /// Uncompressed cells
    Raw,
    /// Zstandard frames
    Zstd,
}
