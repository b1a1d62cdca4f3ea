//! `tet-sql serve`: an Arrow Flight SQL server over the opened files.
//!
//! Clients read, and nothing else. Their statements come back to the server in tickets, and each runs in a session of its
//! own, so that neither a client nor a lost connection leaves anything behind.

mod arguments;
mod authentication;
mod bindings;
mod connections;
mod duration;
mod flight;
mod information;
mod ipc;
mod limits;
mod log;
mod metadata;
mod panics;
mod parameters;
mod plans;
mod queries;
mod running;
mod runtimes;
mod service;
mod signals;
mod statement;
mod status;
mod ticket;
mod tls;
mod wire;

pub use crate::serve::arguments::ServeArguments;

use crate::arguments::inputs;
use crate::demo::Demo;
use crate::failure::Failure;
use crate::messages;
use crate::serve::authentication::Authentication;
use crate::serve::connections::Connections;
use crate::serve::flight::Flight;
use crate::serve::limits::Limits;
use crate::serve::log::Log;
use crate::serve::queries::Queries;
use crate::serve::running::Running;
use crate::serve::runtimes::Runtimes;
use crate::serve::service::Service;
use crate::serve::signals::{Ending, Signals};
use crate::session::shutdown;
use crate::session::{self, Session, Settings};
use arrow_flight::flight_service_server::FlightServiceServer;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

/// Threads that send, receive and encrypt.
const NETWORK_THREADS: usize = 2;
/// How long what was told to stop may take to do so.
const PATIENCE: Duration = Duration::from_millis(500);
/// The largest request: a statement, or a part of its parameters.
const LARGEST_REQUEST: usize = 16 << 20;
/// The bytes of a statement, unless `--set tet.max_statement_bytes` says otherwise. Memory for planning is many times that.
const LARGEST_STATEMENT: usize = 1 << 20;
/// Requests of one connection at a time.
const STREAMS: u32 = 128;
/// How often a silent client is asked whether it is still there, and how long it has to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Serves until it is told to end.
pub fn run(arguments: ServeArguments) -> Result<(), Failure> {
    if let Err(wrong) = arguments.check() {
        wrong.exit();
    }
    let network = Builder::new_multi_thread()
        .worker_threads(NETWORK_THREADS)
        .thread_name("tet-sql-network")
        .enable_all()
        .build()?;
    let ending = network.block_on(serve(arguments));
    network.shutdown_timeout(PATIENCE);
    match ending? {
        Ending::Interrupted => Err(Failure::Interrupted),
        #[cfg(unix)]
        told @ (Ending::Terminated | Ending::HungUp) => {
            shutdown::remove_folders();
            if told == Ending::HungUp {
                std::process::exit(129);
            }
            messages::note("terminated");
            std::process::exit(143);
        }
    }
}

async fn serve(arguments: ServeArguments) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let authentication = Authentication::of_arguments(&arguments)?;
    let tls = tls::of_arguments(&arguments)?;
    // Held until the end of this function: dropping them removes the folders.
    let demo = arguments.reading.demo.then(Demo::create).transpose()?;
    let spill = shutdown::temporary_folder().ok();
    let settings = settings(
        &arguments,
        demo.as_ref().map(Demo::path),
        spill.as_ref().map(|folder| folder.path().to_owned()),
    )?;
    let (most, log) = (usize::from(arguments.max_queries), Log::default());
    panics::log_briefly(log.clone());
    let threads = arguments.resources.threads();
    let workers = Runtimes::new("tet-sql", threads, most, log.clone());
    let planners = Runtimes::new("tet-sql-planner", 1, most, log);
    let opening = tokio::spawn(session::open(settings));
    let session: Session = tokio::select! {
        opened = opening => opened.map_err(|_| Failure::message("internal error: opening was given up"))??,
        ending = signals.next() => return Ok(ending),
    };
    let listener = TcpListener::bind(arguments.listen).await;
    let listener =
        listener.map_err(|error| Failure::message(format!("{}: {error}", arguments.listen)))?;
    let address = listener.local_addr()?;
    let scheme = if tls.is_some() { "grpc+tls" } else { "grpc" };

    let mut server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(STREAMS);
    if let Some(tls) = tls {
        server = server.tls_config(tls).map_err(|error| transport(&error))?;
    }
    let running = Running::default();
    let limits = Limits::of_arguments(&arguments);
    let queries = Queries::new(session.context, workers, planners, limits, running.clone());
    let service = Service::new(queries, authentication.clone(), arguments.time_limit)
        .map_err(|status| Failure::message(status.message()))?;
    let service =
        FlightServiceServer::new(Flight(service)).max_decoding_message_size(LARGEST_REQUEST);
    let service = InterceptedService::new(service, authentication);
    let (stop, stopped) = oneshot::channel::<()>();
    let incoming = Connections::new(listener, &arguments, Log::default()).incoming();
    let serving = server
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, async {
            // It ends as well if nobody is left who could say so.
            let _ = stopped.await;
        });
    let mut serving = pin!(serving);
    messages::note(&format!("listening on {scheme}://{address}"));

    let ending = tokio::select! {
        result = &mut serving => {
            result.map_err(|error| transport(&error))?;
            return Err(Failure::message("the server ended by itself"));
        }
        ending = signals.next() => ending,
    };
    let _ = stop.send(());
    // A second signal ends the patience with queries.
    let patience = tokio::time::sleep(arguments.grace);
    tokio::select! {
        _ = &mut serving => return Ok(ending),
        _ = signals.next() => {}
        () = patience => {}
    }
    running.stop();
    // Until the clients have been told.
    let _ = timeout(PATIENCE, serving).await;
    Ok(ending)
}

fn settings(
    arguments: &ServeArguments,
    demo: Option<&Path>,
    spill_folder: Option<PathBuf>,
) -> Result<Settings, Failure> {
    let mut settings = vec![(
        "tet.max_statement_bytes".to_owned(),
        LARGEST_STATEMENT.to_string(),
    )];
    settings.extend(arguments.resources.settings.iter().cloned());
    Ok(Settings {
        settings,
        inputs: inputs(&arguments.files, demo)?,
        // Clients must not reach what a link leads to.
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

/// Of errors of the transport, only what is behind them says what is wrong.
fn transport(error: &tonic::transport::Error) -> Failure {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    Failure::message(text)
}
