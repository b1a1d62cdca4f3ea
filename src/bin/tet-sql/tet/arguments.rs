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

To ask a file in SQL: tet-sql weather.tet";

/// Looks into files of arrays (.tet, Zarr, .npy, .npz), checks and converts them.
#[derive(Debug, Parser)]
#[command(name = "tet", version, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what is in a file, also in one that is too broken to be queried
    Info(InfoArguments),
    /// Check a file as a whole; exit 1 if anything is wrong
    Verify(VerifyArguments),
    /// Say what can be mended without touching data, and mend it with --apply
    Repair(RepairArguments),
    /// Embed zone maps, which let queries leave out chunks, or take them away
    Index(IndexArguments),
    /// Convert between files of arrays and of rows
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
    /// A .tet file, a package (X.tet.d), a Zarr directory, a .npy or .npz file
    pub file: PathBuf,
    /// The datasets (the default)
    #[arg(long)]
    pub datasets: bool,
    /// The chunk index
    #[arg(long)]
    pub chunks: bool,
    /// Rows of the chunk index that are shown; 0 for all
    #[arg(short = 'n', value_name = "N", default_value_t = 32)]
    pub rows: u64,
    /// Where the data come from
    #[arg(long)]
    pub history: bool,
    /// Names of dimensions, labels and attributes
    #[arg(long)]
    pub metadata: bool,
    /// Superblock, regions, memory budget
    #[arg(long)]
    pub layout: bool,
    /// All of these
    #[arg(long)]
    pub all: bool,
    /// As JSON, with the same choice of sections
    #[arg(long)]
    pub json: bool,
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
    /// A .tet file, a package (X.tet.d), a Zarr directory, a .npy or .npz file
    pub file: PathBuf,
    /// Decode every chunk, not only the first 128
    #[arg(long)]
    pub deep: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Threads that decode [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

const REPAIR_EXAMPLES: &str = "\
Examples:
  tet repair weather.tet                    what would be done
  tet repair weather.tet --apply            do it; what is taken away is kept beside the file

A footer that cannot be read is cut off, zone maps that are not those of the cells are made again, indexes that cannot be read
or are not those of the cells are dropped, locks of publications that have stopped are put aside. Data, index and directory are never touched.";

#[derive(Debug, Args)]
#[command(after_help = REPAIR_EXAMPLES)]
pub struct RepairArguments {
    /// A .tet file, or a package (X.tet.d)
    pub file: PathBuf,
    /// Do it
    #[arg(long)]
    pub apply: bool,
    /// As JSON
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
    /// Take zone maps and secondary index away
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

The names say which formats are meant: .tet, .zarr, .npy and .npz have arrays; .parquet, .csv, .json (also .ndjson, .jsonl) and
.arrow (also .feather) have rows. Arrays become arrays as they are stored, with their attributes and coordinates; everything else goes by
way of rows.";

#[derive(Debug, Args)]
#[command(after_help = CONVERT_EXAMPLES)]
pub struct ConvertArguments {
    /// What to convert; a dataset may be named behind a #
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// What to write
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// The only dataset to take, with its coordinates; of rows, the name of the one to make
    #[arg(long, value_name = "NAME")]
    pub dataset: Option<String>,
    /// Extents of the chunks [default: as they are, else near 4 MiB]
    #[arg(
        long,
        value_name = "N,N,...",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub chunk: Option<Vec<u64>>,
    /// How chunks are stored [default: raw if they are raw, else zstd]
    #[arg(long)]
    pub codec: Option<Codec>,
    /// The level of zstd [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub level: Option<i32>,
    /// Of rows, the columns that are dimensions; of arrays without names, the dimensions' names
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub dims: Option<Vec<String>>,
    /// When values are unpacked by their attributes scale_factor and add_offset: auto (integers of Zarr, unless OUT is
    /// Zarr, too), always or never
    #[arg(long, value_name = "WHEN", default_value_t = Unpack::Auto)]
    pub unpack: Unpack,
    /// Embed zone maps in a .tet file
    #[arg(long)]
    pub zone_maps: bool,
    /// Replace a file that is there
    #[arg(long)]
    pub overwrite: bool,
}

/// The encoding of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Codec {
    /// The cells themselves
    Raw,
    /// Zstandard frames
    Zstd,
}
