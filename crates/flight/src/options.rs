//! The options of a server.

use crate::log::Log;
use std::time::Duration;
use tonic::transport::ServerTlsConfig;

/// The options of a [`Server`](crate::Server): limits, token and TLS.
///
/// The defaults have no token and no TLS, and allow eight queries at a time and
/// one minute for each.
///
/// ```
/// use std::time::Duration;
/// use tet_sql_flight::{Options, Token};
///
/// let options = Options {
///     token: Some(Token::new("s3cret")?),
///     time_limit: Duration::from_secs(300),
///     max_rows: Some(1_000_000),
///     ..Options::default()
/// };
/// # Ok::<(), &'static str>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// The server name reported to clients.
    pub name: String,
    /// The server version reported to clients.
    pub version: String,
    /// The token that every request must carry. Without a token, all requests are admitted.
    pub token: Option<Token>,
    /// The certificates of the server and the authority for client certificates. Without them,
    /// connections are not encrypted.
    pub tls: Option<ServerTlsConfig>,
    /// The number of threads of each running query.
    pub threads: usize,
    /// The maximum duration of a query, until its last row is sent.
    pub time_limit: Duration,
    /// The maximum number of queries that run at the same time. Further queries wait.
    pub max_queries: u16,
    /// The maximum time that a query waits to start before it is refused.
    pub wait_limit: Duration,
    /// The maximum number of rows of a result. A query with more rows fails.
    pub max_rows: Option<u64>,
    /// The maximum number of open connections. Further connections wait until one is closed.
    pub max_connections: u16,
    /// The maximum number of connections of one client address (an IPv4 address or an IPv6 /64
    /// network). Further connections are closed at once.
    pub max_per_address: u16,
    /// The maximum time from opening a connection to its first admitted request.
    pub connect_limit: Duration,
    /// The time that running queries get to finish after the server is told to stop.
    pub grace: Duration,
    /// The log of the server.
    pub log: Log,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            token: None,
            tls: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            time_limit: Duration::from_secs(60),
            max_queries: 8,
            wait_limit: Duration::from_secs(10),
            max_rows: None,
            max_connections: 256,
            max_per_address: 64,
            connect_limit: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            log: Log::default(),
        }
    }
}

/// A secret token that clients must send.
///
/// Clients send the token as a bearer token, or as the password of any user. The `Debug` output
/// hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub(crate) String);

impl Token {
    /// Creates a token.
    ///
    /// # Errors
    /// Fails if the token is empty, or contains anything but printable ASCII without spaces. Such a
    /// token does not fit into a header.
    pub fn new(token: &str) -> Result<Self, &'static str> {
        if token.is_empty() {
            return Err("the token is empty");
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token is one word of ASCII letters, digits and punctuation");
        }
        Ok(Self(token.to_owned()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(...)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_one_word() {
        for wrong in ["", "two words", "a\nb", "ä"] {
            assert!(Token::new(wrong).is_err(), "{wrong}");
        }
    }
}
