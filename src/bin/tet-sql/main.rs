//! The `tet-sql` command: SQL over chunked n-dimensional array files.
//!
//! Results go to standard output, everything else to standard error.
//!
//! | exit status | meaning |
//! | --- | --- |
//! | 0 | success |
//! | 1 | a statement failed |
//! | 2 | wrong usage |
//! | 129, 130, 143 | SIGHUP, Ctrl-C, SIGTERM |

#![deny(missing_docs)]

mod arguments;
mod demo;
mod diagnostics;
mod failure;
mod init;
mod messages;
mod meta;
mod output;
mod prompt;
mod run;
mod script;
#[cfg(any(feature = "cluster", feature = "serve"))]
mod secrets;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod shared_arguments;
mod signals;
mod size;
mod statement;
mod terminal;
mod tet;
#[cfg(all(feature = "cluster", feature = "serve"))]
mod worker;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::run::{Control, Shell, ShellOptions};
use crate::session::worker_threads::WorkerThreads;
use clap::Parser;
use std::cell::Cell;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tet_sql::HugePages = tet_sql::HugePages;

/// The size in bytes of the block that [`keep_freed_memory`] frees.
const FREED_BYTES: usize = 2 << 20;

fn main() -> ExitCode {
    keep_freed_memory();
    // Parsed separately, so that help and errors name the command `tet`.
    if std::env::args_os().nth(1).is_some_and(|word| word == "tet") {
        return tet::main(std::env::args_os().skip(1));
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::refuse(&error),
    };
    terminal::choose_colours(arguments.color);
    match arguments.describe(&mut std::io::stdout().lock()) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => {
            messages::error(&format!("standard output: {error}"));
            return ExitCode::from(1);
        }
    }
    match arguments.subcommand {
        #[cfg(feature = "serve")]
        Some(arguments::Subcommand::Serve(arguments)) => end(serve::run(*arguments)),
        #[cfg(all(feature = "cluster", feature = "serve"))]
        Some(arguments::Subcommand::Worker(arguments)) => end(worker::run(*arguments)),
        Some(arguments::Subcommand::Tet(_)) | None => end(start(&arguments)),
    }
}

/// Makes glibc keep up to 4 MiB of free memory instead of 128 KiB, so that batches reuse pages. Freeing a mapped
/// block raises the threshold for mapping to its size, and the one for returning memory to twice its size.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(FREED_BYTES)));
}

/// Reports the outcome, and returns the exit status for it.
fn end(result: Result<(), Failure>) -> ExitCode {
    if result.is_err() {
        // A write that failed may have created its temporary directory again while it stopped.
        tet_sql::format::remove_unfinished();
    }
    match result {
        // The reader of standard output closed it, as in `tet-sql ... | head`.
        Ok(()) | Err(Failure::BrokenPipe | Failure::Enough) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            messages::error(&message);
            ExitCode::from(1)
        }
        Err(Failure::Told) => ExitCode::from(1),
        Err(Failure::Interrupted) => {
            session::shutdown::remove_temporary_directories();
            messages::note("cancelled");
            ExitCode::from(130)
        }
    }
}

/// Opens the files, then runs statements from the arguments, standard input or the prompt.
fn start(arguments: &Arguments) -> Result<(), Failure> {
    session::shutdown::end_tidily()?;
    let threads = arguments.resources.threads();
    let engine = WorkerThreads::new(threads)?;
    // The demo files live until the end of this function: dropping them deletes their directory.
    let demo = if arguments.reading.demo {
        Some(engine.run(|_| async { demo::Demo::create() })?)
    } else {
        None
    };
    // Deleting this directory also deletes the spill files of a statement that is still stopping.
    let spill = session::shutdown::temporary_directory().ok();
    let options = arguments.reading.options()?;
    let settings = session::Settings {
        spill_folder: spill.as_ref().map(|folder| folder.path().to_owned()),
        inputs: arguments::inputs(
            &arguments.files,
            demo.as_ref().map_or(&[], demo::Demo::paths),
        )?,
        options: options.clone(),
        access: arguments.resources.access(),
        unpack: arguments.reading.unpack,
        settings: arguments.settings(),
        #[cfg(feature = "cluster")]
        cluster: arguments.cluster.access()?,
        memory_limit: arguments.resources.memory_limit,
        quoted_paths: true,
        threads,
        quiet: arguments.quiet,
    };
    let session = engine.run(|_| session::open(settings))?;
    let scripts = script::of_arguments(arguments);
    let manner = ShellOptions {
        timings: Cell::new(scripts.is_none() && !arguments.quiet),
        quiet: arguments.quiet,
        read_only: arguments.read_only,
        ..ShellOptions::default()
    };
    let shell = Shell::new(engine, session, options, manner);
    if init::run(&shell, arguments)? == Control::Quit {
        return Ok(());
    }
    // The command line takes precedence over the init file.
    shell.set_output(arguments.format, arguments.output.clone())?;
    match scripts {
        Some(scripts) => shell.run_scripts(scripts),
        None => prompt::run(&shell, arguments),
    }
}
