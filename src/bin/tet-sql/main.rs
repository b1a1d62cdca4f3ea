//! The `tet-sql` command: SQL over chunked n-dimensional array files.
//!
//! Results go to standard output and everything else to standard error. The exit status is 0, 1 for a failed
//! statement, 2 for wrong usage, 130 for an interrupted one, 143 after SIGTERM and 129 after SIGHUP.

#![deny(missing_docs)]

mod arguments;
mod demo;
mod diagnostics;
mod failure;
mod init;
mod messages;
mod meta;
mod output;
mod plot;
mod prompt;
mod run;
mod script;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod size;
mod statement;
mod terminal;
mod tet;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::run::{Control, Shell, ShellManner};
use crate::session::worker_threads::Engine;
use clap::Parser;
use std::cell::Cell;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Parsed apart, so that its help and its errors name the command `tet`.
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
    #[cfg(feature = "serve")]
    if let Some(arguments::Subcommand::Serve(arguments)) = arguments.subcommand {
        return end(serve::run(*arguments));
    }
    end(start(&arguments))
}

/// Tells how it went, and the status that says so.
fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        // The reader of our output has seen enough, as in `tet-sql ... | head`.
        Ok(()) | Err(Failure::BrokenPipe | Failure::Enough) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            messages::error(&message);
            ExitCode::from(1)
        }
        Err(Failure::Told) => ExitCode::from(1),
        Err(Failure::Interrupted) => {
            // Of what did not stop in time.
            tet_sql::format::remove_unfinished();
            session::shutdown::remove_folders();
            messages::note("cancelled");
            ExitCode::from(130)
        }
    }
}

/// Opens the files, then runs the statements of the arguments, of standard input or of the prompt.
fn start(arguments: &Arguments) -> Result<(), Failure> {
    session::shutdown::end_tidily()?;
    let threads = arguments.resources.threads();
    let engine = Engine::new(threads)?;
    // Held until the end of this function: dropping it removes the folder.
    let demo = if arguments.reading.demo {
        Some(engine.run(|_| async { demo::Demo::create() })?)
    } else {
        None
    };
    // What statements spill goes with it, even if one is still on its way to an end.
    let spill = session::shutdown::temporary_folder().ok();
    let options = arguments.reading.options()?;
    let settings = session::Settings {
        spill_folder: spill.as_ref().map(|folder| folder.path().to_owned()),
        inputs: arguments::inputs(&arguments.files, demo.as_ref().map(demo::Demo::path))?,
        options: options.clone(),
        access: arguments.resources.access(),
        unpack: arguments.reading.unpack,
        settings: arguments.resources.settings.clone(),
        memory_limit: arguments.resources.memory_limit,
        quoted_paths: true,
        threads,
        quiet: arguments.quiet,
    };
    let session = engine.run(|_| session::open(settings))?;
    let scripts = script::of_arguments(arguments);
    let manner = ShellManner {
        timings: Cell::new(scripts.is_none() && !arguments.quiet),
        quiet: arguments.quiet,
        read_only: arguments.read_only,
        ..ShellManner::default()
    };
    let shell = Shell::new(engine, session, options, manner);
    if init::run(&shell, arguments)? == Control::Quit {
        return Ok(());
    }
    // What the command line says holds, whatever the first statements chose.
    shell.arrange(arguments.format, arguments.output.clone())?;
    match scripts {
        Some(scripts) => shell.run_scripts(scripts),
        None => prompt::run(&shell, arguments),
    }
}
