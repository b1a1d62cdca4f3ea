//! A small HTTP/1.1 server for files, with a log of its requests and faults on demand.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A server that runs until the test process ends. It answers ranges, entity tags and `If-Match`.
pub struct HttpServer {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    running: AtomicUsize,
    most_running: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The files by their paths, which begin with a slash.
    files: BTreeMap<String, Vec<u8>>,
    log: Vec<Request>,
    faults: Vec<Fault>,
    delay: Duration,
    /// `true` to ignore `Range`, as simple servers do.
    without_ranges: bool,
    /// `true` to ignore `If-Match`.
    without_conditions: bool,
    /// The time in `Last-Modified`, sent in place of an entity tag.
    modified: Option<String>,
    /// The number of bytes of the contents that were sent.
    sent: usize,
}

/// A request that the server has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// The path with the query.
    pub target: String,
    pub range: Option<String>,
    pub authorization: Option<String>,
    /// `true` if the request asks for content that the client does not have yet.
    pub is_conditional: bool,
}

/// A fault of the next answers to requests for matching paths.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The end of the path.
    pub path: String,
    pub kind: FaultKind,
    /// The number of answers that have the fault.
    pub times: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// An answer with this status and no content.
    Status(u16),
    /// The connection is closed in the middle of the content.
    Truncated,
    /// Fewer bytes than the range, with headers that claim the whole range was sent. Requests without
    /// content (HEAD) are answered as usual.
    Short,
}

impl HttpServer {
    /// Starts a server without files.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
        });
        let server = Self {
            address,
            shared: Arc::clone(&shared),
        };
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(&connection, &shared));
            }
        });
        server
    }

    /// Starts a server of the files in a directory.
    pub fn of(directory: &Path) -> Self {
        let server = Self::start();
        let mut directories = vec![directory.to_path_buf()];
        while let Some(next) = directories.pop() {
            for entry in next.read_dir().unwrap() {
                let path: PathBuf = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                    continue;
                }
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap();
                server.put(name, std::fs::read(&path).unwrap());
            }
        }
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Adds or replaces a file.
    pub fn put(&self, name: &str, content: impl Into<Vec<u8>>) {
        self.state()
            .files
            .insert(format!("/{name}"), content.into());
    }

    /// The content of a file; `None` if there is none.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.state().files.get(&format!("/{name}")).cloned()
    }

    /// Deletes a file.
    pub fn delete(&self, name: &str) {
        self.state().files.remove(&format!("/{name}"));
    }

    /// The URL of a file.
    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// The host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The requests since the last call.
    pub fn take_log(&self) -> Vec<Request> {
        std::mem::take(&mut self.state().log)
    }

    /// The number of bytes of contents that were sent since the last call.
    pub fn take_sent(&self) -> usize {
        std::mem::take(&mut self.state().sent)
    }

    /// The maximum number of requests that were answered at the same time.
    pub fn most_running(&self) -> usize {
        self.shared.most_running.load(Ordering::SeqCst)
    }

    /// Lets the next answers for paths that end in `path` fail.
    pub fn fail(&self, path: &str, kind: FaultKind, times: usize) {
        let path = path.to_string();
        self.state().faults.push(Fault { path, kind, times });
    }

    /// Waits before every answer.
    pub fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    pub fn ignore_ranges(&self) {
        self.state().without_ranges = true;
    }

    /// Sends the time of the last change in place of an entity tag; neither if `None`.
    pub fn set_modified(&self, time: Option<&str>) {
        self.state().modified = Some(time.unwrap_or_default().to_string());
    }

    pub fn ignore_conditions(&self) {
        self.state().without_conditions = true;
    }
}

fn serve(connection: &TcpStream, shared: &Shared) {
    // Otherwise the system may hold back an answer until the client has acknowledged the one before.
    let _ = connection.set_nodelay(true);
    let mut reader = BufReader::new(connection);
    while let Some((request, headers, content)) = read_request(&mut reader) {
        let running = shared.running.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_running.fetch_max(running, Ordering::SeqCst);
        let is_open = answer(connection, shared, request, &headers, content);
        shared.running.fetch_sub(1, Ordering::SeqCst);
        if !is_open {
            let _ = connection.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

type Headers = HashMap<String, String>;

/// Reads a request, its headers and its content.
fn read_request(reader: &mut impl BufRead) -> Option<(Request, Headers, Vec<u8>)> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_string());
            }
            None => break,
        }
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok());
    let mut content = vec![0; length.unwrap_or(0)];
    std::io::Read::read_exact(reader, &mut content).ok()?;
    let request = Request {
        method,
        target,
        range: headers.get("range").cloned(),
        authorization: headers.get("authorization").cloned(),
        is_conditional: ["if-none-match", "if-modified-since"]
            .iter()
            .any(|name| headers.contains_key(*name)),
    };
    Some((request, headers, content))
}

/// Answers a request. Returns `true` if the connection stays open.
fn answer(
    mut connection: &TcpStream,
    shared: &Shared,
    request: Request,
    headers: &HashMap<String, String>,
    sent: Vec<u8>,
) -> bool {
    let path = request
        .target
        .split('?')
        .next()
        .unwrap_or_default()
        .to_string();
    let (method, range) = (request.method.clone(), request.range.clone());
    let mut state = shared.state.lock().unwrap();
    state.log.push(request);
    let mut fault = None;
    let is_due = |fault: &&mut Fault| {
        fault.times > 0
            && path.ends_with(&fault.path)
            && (fault.kind != FaultKind::Short || method == "GET")
    };
    if let Some(found) = state.faults.iter_mut().find(is_due) {
        found.times -= 1;
        fault = Some(found.kind);
    }
    if method == "PUT" && fault.is_none() {
        state.files.insert(path.clone(), sent);
    }
    let content = state.files.get(&path).cloned();
    let delay = state.delay;
    let modified = state.modified.clone();
    let (with_ranges, with_conditions) = (!state.without_ranges, !state.without_conditions);
    drop(state);
    std::thread::sleep(delay);
    let mut plain = |status: &str, extra: &str| {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n{extra}\r\n");
        connection.write_all(head.as_bytes()).is_ok()
    };
    if let Some(FaultKind::Status(status)) = fault {
        return plain(&format!("{status} Fault"), "");
    }
    if method == "PUT" {
        // S3 answers with the tag of what it has stored.
        let etag = content.map(|content| format!("ETag: \"{:x}\"\r\n", checksum(&content)));
        return plain("201 Created", &etag.unwrap_or_default());
    }
    if !["GET", "HEAD"].contains(&method.as_str()) {
        return plain("405 Method Not Allowed", "");
    }
    let Some(content) = content else {
        return plain("404 Not Found", "");
    };
    let etag = format!("\"{:x}\"", checksum(&content));
    if with_conditions
        && headers
            .get("if-match")
            .is_some_and(|condition| *condition != etag)
    {
        return plain("412 Precondition Failed", "");
    }
    let validator = match &modified {
        None => format!("ETag: {etag}\r\n"),
        Some(time) if time.is_empty() => String::new(),
        Some(time) => format!("Last-Modified: {time}\r\n"),
    };
    let is_known = match &modified {
        None => headers.get("if-none-match") == Some(&etag),
        Some(time) => headers.get("if-modified-since") == Some(time),
    };
    if is_known {
        return plain("304 Not Modified", &validator);
    }
    let size = content.len();
    let (status, part, extra) = match range.filter(|_| with_ranges) {
        None => ("200 OK", 0..size, String::new()),
        Some(range) => match parse_range(&range, size) {
            Some(part) => {
                let extra = format!(
                    "Content-Range: bytes {}-{}/{size}\r\n",
                    part.start,
                    part.end - 1
                );
                ("206 Partial Content", part, extra)
            }
            None => {
                return plain(
                    "416 Range Not Satisfiable",
                    &format!("Content-Range: bytes */{size}\r\n"),
                );
            }
        },
    };
    let mut body = &content[part.clone()];
    let mut length = body.len();
    match fault {
        Some(FaultKind::Truncated) => body = &body[..length / 2],
        Some(FaultKind::Short) => {
            body = &body[..length / 2];
            length = body.len();
        }
        _ => {}
    }
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{validator}Accept-Ranges: bytes\r\n{extra}\r\n"
    );
    let mut message = head.into_bytes();
    if method == "GET" {
        shared.state.lock().unwrap().sent += body.len();
        message.extend_from_slice(body);
    }
    let is_sent = connection.write_all(&message).is_ok();
    is_sent && fault != Some(FaultKind::Truncated)
}

fn parse_range(header: &str, size: usize) -> Option<std::ops::Range<usize>> {
    let (start, end) = header.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (start, end) {
        ("", last) => size.saturating_sub(last.parse().ok()?)..size,
        (start, "") => start.parse().ok()?..size,
        (start, end) => start.parse().ok()?..size.min(end.parse::<usize>().ok()? + 1),
    };
    (range.start < range.end).then_some(range)
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
