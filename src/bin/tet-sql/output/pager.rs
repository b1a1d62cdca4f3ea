//! Shows results that are taller than the screen in a pager.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The default pager. `-F` quits if the text fits on the screen, `-R` keeps colours, `-X` leaves
/// the text on the screen, `-S` does not wrap long lines.
const USUAL: &str = "less -SRFX";

/// The interval at which [`wait`] polls the pager process.
const PAUSE: Duration = Duration::from_millis(20);

/// The pager process, whichever statement started it.
static RUNNING: Mutex<Option<Child>> = Mutex::new(None);

/// Returns `true` if a pager is running. Ctrl-C is then meant for the pager.
pub fn is_running() -> bool {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    running.as_mut().is_some_and(is_running)
}

/// A writer that buffers lines until there are more than fit on the screen, then pipes them to a
/// pager.
pub struct Pager {
    screen: usize,
    read_only: bool,
    lines: usize,
    kept: Vec<u8>,
    target: Target,
}

enum Target {
    /// The buffer: all lines so far fit on the screen.
    Undecided,
    /// Standard output, if no pager can be started.
    Screen,
    Program(ChildStdin),
}

impl Pager {
    /// Creates a writer for a screen of `screen` lines, the last of which is reserved for the
    /// prompt. If the pager is `less`, `read_only` keeps it from writing files and running
    /// commands.
    pub fn new(screen: usize, read_only: bool) -> Self {
        Self {
            screen: screen.saturating_sub(1),
            read_only,
            lines: 0,
            kept: Vec::new(),
            target: Target::Undecided,
        }
    }

    /// Writes the buffered lines to the screen, or waits until the user quits the pager.
    pub fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.target, Target::Screen) {
            Target::Undecided => {
                let kept = std::mem::take(&mut self.kept);
                io::stdout().write_all(&kept)?;
                io::stdout().flush()
            }
            Target::Screen => Ok(()),
            Target::Program(input) => {
                // Closing the pipe marks the end of the text.
                drop(input);
                wait();
                Ok(())
            }
        }
    }

    fn decide(&mut self) -> io::Result<()> {
        let program = std::env::var("PAGER").ok();
        let program = program.as_deref().unwrap_or(USUAL);
        self.target = match start(program, self.read_only) {
            Some(input) => Target::Program(input),
            None => Target::Screen,
        };
        let kept = std::mem::take(&mut self.kept);
        self.write_all(&kept)
    }
}

/// Starts a pager. `program` is a shell command line, because other programs treat `$PAGER` as one.
fn start(program: &str, read_only: bool) -> Option<ChildStdin> {
    let name = program.split_whitespace().next()?;
    // Without this check, only the shell would notice that the program does not exist.
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", name])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    if !found.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut command = Command::new("sh");
    command.args(["-c", program]).stdin(Stdio::piped());
    if read_only {
        command.env("LESSSECURE", "1");
    }
    let mut child = command.spawn().ok()?;
    let input = child.stdin.take();
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    input
}

/// Waits until the pager exits. Polling releases the lock between checks, so that [`is_running`]
/// never blocks.
fn wait() {
    while is_running() {
        std::thread::sleep(PAUSE);
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.target {
            Target::Screen => io::stdout().write(bytes),
            Target::Program(input) => input.write(bytes),
            Target::Undecided => {
                self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
                self.kept.extend_from_slice(bytes);
                if self.lines > self.screen {
                    self.decide()?;
                }
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::Undecided => Ok(()),
            Target::Screen => io::stdout().flush(),
            Target::Program(input) => input.flush(),
        }
    }
}

impl Drop for Pager {
    /// Waits for the pager, so that the prompt of the next statement does not appear while the
    /// pager runs.
    fn drop(&mut self) {
        if matches!(self.target, Target::Program(_)) {
            let _ = self.end();
        }
    }
}
