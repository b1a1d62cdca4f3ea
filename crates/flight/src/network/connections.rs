//! Accepts connections, and limits their number and the time until their first admitted request.

use crate::log::Log;
use crate::options::Options;
use futures::Stream;
use futures::stream;
use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

/// The pause after an accept error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections within the limits.
pub struct Connections {
    listener: TcpListener,
    places: Arc<Semaphore>,
    by_network: Arc<ConnectionCounts>,
    /// The maximum time until the first admitted request of a connection.
    time: Duration,
    log: Log,
}

/// The number of connections of each client address.
#[derive(Debug)]
struct ConnectionCounts {
    counts: Mutex<HashMap<IpAddr, u32>>,
    most: u32,
}

/// A connection counted for its address until this is dropped.
#[derive(Debug)]
struct CountedConnection {
    by_network: Arc<ConnectionCounts>,
    network: IpAddr,
}

impl Connections {
    /// Accepts connections on `listener`, with the limits of `options`.
    pub fn new(listener: TcpListener, options: &Options) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(usize::from(options.max_connections))),
            by_network: Arc::new(ConnectionCounts {
                counts: Mutex::default(),
                most: u32::from(options.max_per_address),
            }),
            time: options.connect_limit,
            log: options.log.counted_apart(),
        }
    }

    /// Returns a stream of connections. At the maximum number, further connections wait in the
    /// queue of the socket.
    pub fn incoming(self) -> impl Stream<Item = io::Result<Connection>> {
        stream::unfold(self, |connections| async {
            let connection = connections.next().await;
            Some((Ok(connection), connections))
        })
    }

    async fn next(&self) -> Connection {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                // The semaphore is never closed.
                std::future::pending().await
            };
            let (stream, address) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    let is_of_client = [ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset];
                    if !is_of_client.contains(&error.kind()) {
                        self.log
                            .note(&format!("cannot accept a connection: {error}"));
                        sleep(PAUSE).await;
                    }
                    continue;
                }
            };
            let Some(counted) = ConnectionCounts::enter(&self.by_network, address.ip()) else {
                let most = self.by_network.most;
                self.log.note(&format!(
                    "{address}: connection refused: the address has {most} connections, which is the limit (--max-per-address)"
                ));
                continue;
            };
            // Without TCP_NODELAY, the last segment of a result would wait for an acknowledgement.
            let _ = stream.set_nodelay(true);
            return Connection {
                stream,
                peer: Peer {
                    address,
                    is_admitted: Arc::default(),
                },
                deadline: Some(Box::pin(sleep(self.time))),
                log: self.log.clone(),
                _place: place,
                _counted: counted,
            };
        }
    }
}

impl ConnectionCounts {
    /// Counts a connection, or returns `None` if its address has reached the maximum.
    fn enter(this: &Arc<Self>, address: IpAddr) -> Option<CountedConnection> {
        let network = network(address);
        let mut counts = this.lock();
        let count = counts.entry(network).or_default();
        if *count >= this.most {
            return None;
        }
        *count += 1;
        let by_network = Arc::clone(this);
        Some(CountedConnection {
            by_network,
            network,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut counts = self.by_network.lock();
        if let Some(count) = counts.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.network);
            }
        }
    }
}

/// Returns the part of an address that a client cannot choose: an IPv4 address, or the upper half
/// of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
        address => address,
    }
}

/// The client of a connection, available to its requests.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The address of the client.
    pub address: SocketAddr,
    is_admitted: Arc<AtomicBool>,
}

impl Peer {
    /// Marks that a request was admitted, so that the connection may stay open.
    pub fn admit(&self) {
        self.is_admitted.store(true, Ordering::Relaxed);
    }
}

/// A connection that fails if no request is admitted before its deadline.
pub struct Connection {
    stream: TcpStream,
    peer: Peer,
    /// `None` once a request was admitted.
    deadline: Option<Pin<Box<Sleep>>>,
    log: Log,
    _place: OwnedSemaphorePermit,
    _counted: CountedConnection,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.peer.is_admitted.load(Ordering::Relaxed) {
            this.deadline = None;
        }
        if let Some(deadline) = &mut this.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            let address = this.peer.address;
            this.log.note(&format!(
                "{address}: connection closed: no request was admitted in time (--connect-limit)"
            ));
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut this.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_only_so_many_connections() {
        let by_network = Arc::new(ConnectionCounts {
            counts: Mutex::default(),
            most: 2,
        });
        let enter = |address: &str| ConnectionCounts::enter(&by_network, address.parse().unwrap());
        let first = enter("192.0.2.1").unwrap();
        let _second = enter("::ffff:192.0.2.1").unwrap();
        assert!(enter("192.0.2.1").is_none());
        assert!(enter("192.0.2.2").is_some());
        drop(first);
        assert!(enter("192.0.2.1").is_some());
        let held = [enter("2001:db8::1"), enter("2001:db8::2")];
        assert!(held.iter().all(Option::is_some));
        assert!(enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
        drop(held);
        assert_eq!(by_network.lock().len(), 1);
    }
}
