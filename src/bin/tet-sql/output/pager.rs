//! Results that are taller than the screen, a page at a time.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Ends by itself where all fits, keeps colours, leaves the text on the screen.
const USUAL: &str = "less -SRFX";

/// Between two looks at whether the reader is done.
const PAUSE: Duration = Duration::from_millis(20);

/// The program that is showing pages, whichever statement started it.
static RUNNING: Mutex<Option<Child>> = Mutex::new(None);

/// Whether somebody is reading pages. Ctrl-C is for the pager then.
pub fn is_running() -> bool {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    running.as_mut().is_some_and(is_running)
}

/// Keeps lines until there are more than the screen has, and gives them to a pager then.
pub struct Pager {
    screen: usize,
    read_only: bool,
    lines: usize,
    kept: Vec<u8>,
    target: Target,
}

enum Target {
    /// Nobody knows yet.
    Undecided,
    /// There is no pager.
    Screen,
    Program(ChildStdin),
}

impl Pager {
    /// For a screen of so many lines, of which the last is for the prompt. `read_only` keeps the program from writing files
    /// and running commands, if it is `less`.
    pub fn new(screen: usize, read_only: bool) -> Self {
        Self {
            screen: screen.saturating_sub(1),
            read_only,
            lines: 0,
            kept: Vec::new(),
            target: Target::Undecided,
        }
    }

    /// Shows what is kept, or waits until the reader has seen the end.
    pub fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.target, Target::Screen) {
            Target::Undecided => {
                let kept = std::mem::take(&mut self.kept);
                io::stdout().write_all(&kept)?;
                io::stdout().flush()
            }
            Target::Screen => Ok(()),
            Target::Program(input) => {
                // That is the end of its text.
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

/// A line of a shell, as `$PAGER` is for every other program.
fn start(program: &str, read_only: bool) -> Option<ChildStdin> {
    let name = program.split_whitespace().next()?;
    // A pager that is not there would be noticed only by the shell.
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

/// Waits for the reader, without keeping others from asking whether there is one.
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
    /// A reader who still reads is not left alone with the prompt of the next statement.
    fn drop(&mut self) {
        if matches!(self.target, Target::Program(_)) {
            let _ = self.end();
        }
    }
}
