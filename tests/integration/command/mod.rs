//! The `tet-sql` command as a user runs it: arguments, formats, streams and exit statuses.

mod budget;
mod explained;
mod failures;
mod files;
mod formats;
mod long;
mod opening;
mod resources;
mod scripts;
mod shell;
#[cfg(unix)]
mod terminal;
mod tet;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const WEATHER: &str = "tests/data/weather_small.tet";

fn run(arguments: &[&str]) -> Output {
    run_with_input(arguments, "")
}

fn run_with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        // Keep the developer's own configuration out of the tests.
        .env("XDG_CONFIG_HOME", "/nowhere")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may exit before it has read all of its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs the command, which must succeed with an empty standard error. Returns its standard output.
fn answer(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    text(&output.stdout).to_string()
}

/// Runs the command, which must fail with status 1. Returns its standard error.
fn complaint(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    text(&output.stderr).to_string()
}
