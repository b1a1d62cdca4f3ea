//! `tet-sql worker`: runs parts of the queries of other machines.

pub mod arguments;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::messages;
use crate::serve::{stopping, until_told};
use crate::session::{self, Settings, shutdown};
use crate::signals::{Signal, Signals};
use crate::worker::arguments::WorkerArguments;
use clap::CommandFactory;
use clap::error::ErrorKind;
use tet_sql::provider::error::describe;
use tet_sql::{Access, ArrayOptions, ClusterAccess, ClusterWorker, Roots, Unpack};
use tet_sql_flight::{log_briefly, serve_service};
use tokio::net::TcpListener;

/// Serves until a signal arrives.
pub fn run(arguments: WorkerArguments) -> Result<(), Failure> {
    if let Err(message) = arguments.network.check(arguments.listen) {
        let error = ErrorKind::MissingRequiredArgument;
        Arguments::command().error(error, message).exit();
    }
    let threads = match arguments.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    until_told(threads, work(arguments))
}

async fn work(arguments: WorkerArguments) -> Result<Signal, Failure> {
    let signals = Signals::all()?;
    let options = arguments.network.options()?;
    let roots = Roots::new(&arguments.roots)
        .map_err(|error| Failure::message(format!("--root: {}", describe(&error))))?;
    log_briefly(options.log.clone());
    // Dropping this at the end of this function deletes its directory.
    let spill = shutdown::temporary_directory().ok();
    let session = session::open(Settings {
        inputs: Vec::new(),
        options: ArrayOptions::new(),
        access: Access::Mmap,
        unpack: Unpack::Auto,
        settings: Vec::new(),
        cluster: ClusterAccess::new(),
        memory_limit: arguments.memory_limit,
        threads: 1,
        spill_folder: spill.as_ref().map(|folder| folder.path().to_owned()),
        quoted_paths: false,
        quiet: true,
    });
    let runtime = session.await?.context.runtime_env();
    let listener = TcpListener::bind(arguments.listen).await;
    let listener =
        listener.map_err(|error| Failure::message(format!("{}: {error}", arguments.listen)))?;
    let address = listener.local_addr()?;
    let scheme = if options.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let ready = move || messages::note(&format!("listening on {scheme}://{address}"));
    let (stop, first) = stopping(signals);
    let mut worker = ClusterWorker::new(roots, runtime);
    if let Some(limit) = arguments.time_limit {
        worker = worker.with_time_limit(limit);
    }
    let served = serve_service(worker.into_service(), options, listener, stop, ready).await;
    served.map_err(|error| Failure::message(error.to_string()))?;
    Ok(first.get().copied().unwrap_or(Signal::Interrupt))
}
