//! `tet convert`.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::DataFusionError;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tet_sql::Error;
use tet_sql::format::array::Compression;
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, Converted, convert};
use tet_sql::provider::error::describe;

use super::Failure;
use super::arguments::{Codec, ConvertArguments};
use super::cancel;
use super::lines::clean;
use crate::diagnostics::suggestion::nearest;

/// The interval between updates of the progress bar.
const TICK: Duration = Duration::from_millis(100);

/// Converts a file.
pub fn run(arguments: &ConvertArguments, output: &mut dyn Write) -> Result<bool, Failure> {
    let mut options = ConvertOptions::default();
    options.dataset.clone_from(&arguments.dataset);
    options.chunk.clone_from(&arguments.chunk);
    options.dims.clone_from(&arguments.dims);
    options.unpack = arguments.unpack;
    options.zone_maps = arguments.zone_maps;
    options.overwrite = arguments.overwrite;
    if let Some(path) = &arguments.key_file {
        let path = path.display().to_string();
        options.format_options.insert("key_file".to_string(), path);
    }
    options
        .format_options
        .extend(arguments.read_options.iter().cloned());
    options
        .output_options
        .extend(arguments.options.iter().cloned());
    options.compression = match (arguments.codec, arguments.level) {
        (Some(Codec::Raw), None) => Some(Compression::Raw),
        (Some(Codec::Raw), Some(_)) => {
            let message = "--level needs --codec zstd";
            return Err(Failure::Message(message.to_string()));
        }
        (_, Some(level)) => Some(Compression::Zstd { level }),
        (Some(Codec::Zstd), None) => Some(Compression::ZSTD),
        (None, None) => None,
    };
    let start = Instant::now();
    let converted = watched(arguments, options)?;
    for warning in &converted.warnings {
        // There is no way to report a failure of standard error.
        let _ = writeln!(io::stderr(), "warning: {}", clean(warning));
    }
    let what = match converted.arrays {
        0 => format!("{} rows", converted.cells),
        1 => format!("1 array, {} cells", converted.cells),
        arrays => format!("{arrays} arrays, {} cells", converted.cells),
    };
    writeln!(
        output,
        "{}: {what} in {:.1} s",
        clean(&arguments.output.display().to_string()),
        start.elapsed().as_secs_f64()
    )?;
    Ok(!converted.is_damaged)
}

/// Converts with a progress bar on a terminal. A signal cancels the conversion and deletes its
/// unfinished files.
fn watched(arguments: &ConvertArguments, options: ConvertOptions) -> Result<Converted, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // One worker may be busy converting; another must update the progress bar.
        .worker_threads(cores.max(2))
        .enable_all()
        .build()?;
    let progress = Arc::new(ConvertProgress::default());
    let watched = Arc::clone(&progress);
    let stopped = Arc::clone(&progress);
    cancel::end_tidily(move || {
        stopped.cancel();
        true
    })?;
    let (input, target) = (arguments.input.clone(), arguments.output.clone());
    let bar = bar();
    let result = runtime.block_on(async {
        let converting =
            tokio::spawn(async move { convert(&input, &target, &options, &progress).await });
        let mut converting = std::pin::pin!(converting);
        loop {
            tokio::select! {
                finished = &mut converting => return finished,
                () = tokio::time::sleep(TICK) => {
                    bar.set_length(watched.all());
                    bar.set_position(watched.done());
                }
            }
        }
    });
    bar.finish_and_clear();
    match result {
        Ok(Ok(converted)) => Ok(converted),
        Ok(Err(error)) => Err(Failure::Message(describe(&error) + &meant(&error))),
        Err(error) => Err(Failure::Message(error.to_string())),
    }
}

/// Returns a suggestion to add to an error, if a dataset has a name similar to one that does not exist.
fn meant(error: &DataFusionError) -> String {
    let DataFusionError::External(error) = error.find_root() else {
        return String::new();
    };
    let Some(Error::NoSuchDataset {
        name, available, ..
    }) = error.downcast_ref()
    else {
        return String::new();
    };
    let names = available.split(", ").map(|name| name.trim_matches('"'));
    match nearest(name, names) {
        Some(name) => format!("; did you mean {name:?}?"),
        None => String::new(),
    }
}

fn bar() -> ProgressBar {
    let target = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template(
        "{wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left",
    );
    // The template is a valid constant.
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
