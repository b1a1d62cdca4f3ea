//! The command line of `tet-sql`.

use crate::failure::Failure;
use crate::output::appearance::Format;
#[cfg(feature = "serve")]
use crate::serve::arguments::ServeArguments;
#[cfg(feature = "cluster")]
use crate::shared_arguments::Cluster;
use crate::shared_arguments::{Reading, Resources};
use crate::tet;
#[cfg(all(feature = "cluster", feature = "serve"))]
use crate::worker::arguments::WorkerArguments;
use clap::{ColorChoice, CommandFactory, Parser};
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tet_sql::provider::catalog::files::Input;

/// The maximum width of the option list.
const MAX_COLUMNS: usize = 80;

const EXAMPLES: &str = "\
Examples:
  tet-sql weather.tet
  tet-sql weather.tet -c 'SELECT avg(value) FROM temperature WHERE lat > 60'
  tet-sql --format csv -o mean.csv w=weather.tet -c 'SELECT * FROM w.pressure'
  tet-sql archive/ -f report.sql
  tet-sql -c \"SELECT max(value) FROM 'era5.tet#t2m' WHERE lat > 60\"
  tet-sql stations.csv means.parquet era5.zarr weather.tet
  tet-sql -o map.png weather.tet -c 'SELECT lat, lon, avg(value) FROM temperature GROUP BY lat, lon'
  tet-sql --demo -c .tables

An array file becomes a schema named after its stem, each of its arrays a table. The first one is the default schema. A file of
rows becomes a table of the default schema, named after its stem.";

/// SQL over chunked n-dimensional array files.
#[derive(Debug, Parser)]
#[command(
    name = "tet-sql",
    version,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub struct Arguments {
    /// Files to open: of arrays (.tet, X.tet.d, .zarr, .npy, .npz, TileDB), documents (.tatami) or
    /// rows (.csv, .parquet, .json, .arrow), or their URLs; NAME=FILE chooses the name; a directory
    /// stands for all .tet files in it
    #[arg(value_name = "FILES")]
    pub files: Vec<PathBuf>,

    /// Run these statements (may be given several times)
    #[arg(
        short = 'c',
        long = "command",
        value_name = "SQL",
        allow_hyphen_values = true
    )]
    pub commands: Vec<String>,

    /// Run the statements of a file (- is standard input), after those of -c
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Format of results [default: box on a terminal, for -o by the extension of the file, else table]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// Write results to a file instead of standard output, in the format of its extension (.csv, .tsv, .json, .ndjson,
    /// .md, .html, .tex); or write one result to a .parquet, .arrow, .feather, .tet or .zarr file, or draw it (.png, .svg)
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub resources: Resources,

    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: Cluster,

    /// Write a completion script for a shell to standard output, and do nothing else
    #[arg(long, value_name = "SHELL", exclusive = true)]
    pub completions: Option<Shell>,

    /// Write the manual page to standard output, and do nothing else
    #[arg(long, exclusive = true)]
    pub man: bool,

    #[command(flatten)]
    pub reading: Reading,

    /// No banner, timings, progress, hints or warnings
    #[arg(short, long)]
    pub quiet: bool,

    /// When to colour text
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,

    /// Write no files and run no commands
    #[arg(long)]
    pub read_only: bool,

    /// Run the statements of this file first [default: tet-sql/init.sql in the configuration directory]
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,

    /// Do not run the init file
    #[arg(long, conflicts_with = "init")]
    pub no_init: bool,

    /// Neither read nor write the history of the prompt
    #[arg(long)]
    pub no_history: bool,

    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,
}

/// The subcommands. To open a file with the name of a subcommand, write `./serve`.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Serve queries over the network with Arrow Flight SQL, for ADBC and JDBC drivers
    #[cfg(feature = "serve")]
    Serve(Box<ServeArguments>),
    /// Run parts of the queries of other machines, which name this worker with --cluster
    #[cfg(all(feature = "cluster", feature = "serve"))]
    Worker(Box<WorkerArguments>),
    /// Show, check, repair and convert files; the command `tet` is a shortcut for this
    #[command(subcommand)]
    Tet(tet::Command),
}

impl Arguments {
    /// Returns the settings of the session by name, as in SET.
    pub fn settings(&self) -> Vec<(String, String)> {
        #[cfg(feature = "cluster")]
        let own = self.cluster.settings();
        #[cfg(not(feature = "cluster"))]
        let own = Vec::new();
        own.into_iter().chain(self.resources.settings()).collect()
    }

    /// Writes the completion script or manual page, if requested. Returns `true` if one was
    /// written, because then nothing else is to be done.
    pub fn describe(&self, output: &mut dyn Write) -> io::Result<bool> {
        // `generate` and `render` can panic if they cannot write, so write to memory first.
        let mut text = Vec::new();
        if let Some(shell) = self.completions {
            clap_complete::generate(shell, &mut Self::command(), "tet-sql", &mut text);
        } else if self.man {
            clap_mangen::Man::new(Self::command()).render(&mut text)?;
        }
        output.write_all(&text)?;
        // Flush here, because dropping the buffer would ignore errors silently.
        output.flush()?;
        Ok(self.completions.is_some() || self.man)
    }
}

/// Prints an error with a list of the options, or the requested help. Returns the exit status.
pub fn refuse(error: &clap::Error) -> ExitCode {
    // There is no way to report a failure of standard error.
    let _ = error.print();
    if error.use_stderr() {
        let command = Arguments::command();
        let name = std::env::args_os().nth(1).unwrap_or_default();
        let command = command.find_subcommand(&name).unwrap_or(&command);
        eprint!("\nOptions:\n{}", options(command));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Lists the options of a command in lines of at most [`MAX_COLUMNS`] characters.
fn options(command: &clap::Command) -> String {
    let mut text = String::new();
    let mut width = usize::MAX;
    for argument in command.get_arguments().filter(|one| !one.is_positional()) {
        let mut option = match argument.get_short() {
            Some(short) => format!("  -{short}"),
            None => String::new(),
        };
        if let Some(long) = argument.get_long() {
            option += if option.is_empty() { "  --" } else { ", --" };
            option += long;
        }
        if argument.get_action().takes_values() {
            let values = argument.get_value_names().unwrap_or_default();
            values
                .iter()
                .for_each(|value| option += &format!(" {value}"));
        }
        width = width.saturating_add(option.len());
        if width > MAX_COLUMNS {
            text += if text.is_empty() { "" } else { "\n" };
            width = option.len();
        }
        text += &option;
    }
    text + "\n"
}

/// Returns the files to open, with the demo files last.
pub fn inputs(files: &[PathBuf], demo: &[PathBuf]) -> Result<Vec<Input>, Failure> {
    let files = files.iter().chain(demo);
    files.map(|path| Ok(Input::resolve(path)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn wrong_usage_is_told_the_options() {
        let text = options(&Arguments::command());
        for option in [
            "-c, --command SQL",
            "-o, --output FILE",
            "  --demo",
            "--threads N",
        ] {
            assert!(text.contains(option), "{option}: {text}");
        }
        assert!(text.lines().all(|line| line.len() <= MAX_COLUMNS), "{text}");
    }

    #[test]
    fn commands_repeat_and_may_begin_with_a_comment() {
        let arguments =
            Arguments::try_parse_from(["tet-sql", "-c", "SELECT 1", "-c", "--note\nSELECT 2"])
                .unwrap();
        assert_eq!(arguments.commands, ["SELECT 1", "--note\nSELECT 2"]);
    }

    #[test]
    fn wrong_values_are_refused() {
        for wrong in [
            ["--threads", "0"],
            ["--format", "xml"],
            ["--memory-limit", "much"],
            ["--access", "magic"],
            ["--unpack", "a.tet"],
        ] {
            let line = ["tet-sql"].into_iter().chain(wrong);
            assert!(Arguments::try_parse_from(line).is_err(), "{wrong:?}");
        }
    }
}
