//! `tet-sql serve`: an Arrow Flight SQL server for the opened files.
//!
//! Clients can only read. The server keeps no session for a client: statements return to it in
//! tickets, and each runs with a session state of its own. A lost connection therefore leaves
//! nothing behind.

pub mod arguments;
mod dialect;
pub mod duration;
pub mod network;

use crate::arguments::{Arguments, inputs};
use crate::demo::Demo;
use crate::failure::Failure;
use crate::messages;
use crate::serve::arguments::ServeArguments;
use crate::serve::dialect::ArrayDialect;
use crate::session::shutdown;
use crate::session::{self, Session, Settings};
use crate::signals::{Signal, Signals};
use clap::CommandFactory;
use clap::error::ErrorKind;
use futures::stream::{self, Stream};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tet_sql_flight::{Options, Server, log_briefly};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

/// The number of threads that send, receive and encrypt.
const NETWORK_THREADS: usize = 2;
/// The time that network threads get to finish at shutdown.
const NETWORK_SHUTDOWN: Duration = Duration::from_millis(500);
/// The default of `tet.max_statement_bytes` for the server. Planning takes many times as much
/// memory as the text.
const MAX_STATEMENT_BYTES: usize = 1 << 20;

/// Serves until a signal arrives.
pub fn run(arguments: ServeArguments) -> Result<(), Failure> {
    if let Err(message) = arguments.check() {
        let error = ErrorKind::MissingRequiredArgument;
        Arguments::command().error(error, message).exit();
    }
    until_told(NETWORK_THREADS, serve(arguments))
}

/// Runs a server on a runtime with this many threads, until a signal arrives.
pub fn until_told(
    threads: usize,
    serving: impl Future<Output = Result<Signal, Failure>>,
) -> Result<(), Failure> {
    let network = Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("tet-sql-network")
        .enable_all()
        .build()?;
    let ending = network.block_on(serving);
    network.shutdown_timeout(NETWORK_SHUTDOWN);
    match ending? {
        Signal::Interrupt => Err(Failure::Interrupted),
        #[cfg(unix)]
        told @ (Signal::Terminate | Signal::HangUp) => {
            shutdown::remove_temporary_directories();
            if told == Signal::HangUp {
                std::process::exit(129);
            }
            messages::note("terminated");
            std::process::exit(143);
        }
    }
}

async fn serve(arguments: ServeArguments) -> Result<Signal, Failure> {
    let mut signals = Signals::all()?;
    let options = options(&arguments)?;
    // Dropping these at the end of this function deletes their directories.
    let demo = arguments.reading.demo.then(Demo::create).transpose()?;
    let spill = shutdown::temporary_directory().ok();
    let settings = settings(
        &arguments,
        demo.as_ref().map_or(&[], Demo::paths),
        spill.as_ref().map(|folder| folder.path().to_owned()),
    )?;
    log_briefly(options.log.clone());
    let opening = tokio::spawn(session::open(settings));
    let session: Session = tokio::select! {
        opened = opening => opened.map_err(|_| Failure::message("internal error: the task that opens the files failed"))??,
        ending = signals.next() => return Ok(ending),
    };
    let listener = TcpListener::bind(arguments.listen).await;
    let listener =
        listener.map_err(|error| Failure::message(format!("{}: {error}", arguments.listen)))?;
    let address = listener.local_addr()?;
    let scheme = if options.tls.is_some() {
        "grpc+tls"
    } else {
        "grpc"
    };

    let (stop, first) = stopping(signals);
    let server = Server::new(session.context, options)
        .with_dialect(Arc::new(ArrayDialect))
        .on_ready(move || messages::note(&format!("listening on {scheme}://{address}")));
    let served = server.serve(listener, stop).await;
    served.map_err(|error| Failure::message(error.to_string()))?;
    Ok(first.get().copied().unwrap_or(Signal::Interrupt))
}

/// Returns a stream with an item for each signal, and the first of these signals.
pub fn stopping(signals: Signals) -> (impl Stream<Item = ()>, Arc<OnceLock<Signal>>) {
    let first = Arc::new(OnceLock::new());
    let stop = stream::unfold(
        (signals, Arc::clone(&first)),
        |(mut signals, first)| async {
            let ending = signals.next().await;
            first.get_or_init(|| ending);
            Some(((), (signals, first)))
        },
    );
    (stop, first)
}

fn options(arguments: &ServeArguments) -> Result<Options, Failure> {
    Ok(Options {
        threads: arguments.resources.threads(),
        time_limit: arguments.time_limit,
        max_queries: arguments.max_queries,
        wait_limit: arguments.wait_limit,
        max_rows: arguments.max_rows,
        ..arguments.network.options()?
    })
}

fn settings(
    arguments: &ServeArguments,
    demo: &[PathBuf],
    spill_folder: Option<PathBuf>,
) -> Result<Settings, Failure> {
    let mut settings = vec![(
        "tet.max_statement_bytes".to_owned(),
        MAX_STATEMENT_BYTES.to_string(),
    )];
    #[cfg(feature = "cluster")]
    settings.extend(arguments.cluster.settings());
    settings.extend(arguments.resources.settings());
    Ok(Settings {
        settings,
        #[cfg(feature = "cluster")]
        cluster: arguments.cluster.access()?,
        inputs: inputs(&arguments.files, demo)?,
        // Clients must not read outside of the files, through links in them.
        options: arguments
            .reading
            .options()?
            .with_refused_outward_links(true),
        access: arguments.resources.access(),
        unpack: arguments.reading.unpack,
        memory_limit: arguments.resources.memory_limit,
        threads: arguments.resources.threads(),
        spill_folder,
        quoted_paths: false,
        quiet: arguments.quiet,
    })
}
