//! The messages in `docs/errors.md` about files in `tests/data/edge` are those that the command
//! writes.

use std::path::Path;
use std::process::Command;

use crate::documentation::page::Page;
use crate::documentation::repository;

/// The number of messages that the test must find.
const MESSAGES: usize = 19;
/// Marks an omission within a message.
const LEFT_OUT: &str = "...";
/// Files whose documented messages come from statements other than the one run here.
const NOT_REPRODUCED: [&str; 2] = ["empty32.tet", "ok.tet"];

#[test]
fn messages_about_files_are_what_the_command_writes() {
    let folder = repository().join("tests/data/edge");
    let page = Page::read(repository(), "docs/errors.md");
    let mut found = 0;
    for message in page.lines().iter().filter_map(|line| message(line)) {
        let about = message.strip_prefix("warning: ").unwrap_or(message);
        let Some(end) = about.find([':', ',']) else {
            continue;
        };
        let file = &about[..end];
        if !folder.join(file).is_file() || NOT_REPRODUCED.contains(&file) {
            continue;
        }
        found += 1;
        let written = complaints(&folder, file);
        for part in message.split(LEFT_OUT) {
            assert!(written.contains(part), "{message}\nwritten\n{written}");
        }
    }
    assert_eq!(found, MESSAGES);
}

/// Returns the message in the first column of a table row.
fn message(line: &str) -> Option<&str> {
    let cell = line.strip_prefix("| `")?;
    // A message that contains backticks is enclosed in two of them.
    match cell.strip_prefix('`') {
        Some(cell) => cell.split_once("`` |"),
        None => cell.split_once("` |"),
    }
    .map(|(message, _)| message.trim())
}

/// Returns what the command writes to standard error when it reads the whole file.
fn complaints(folder: &Path, file: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .current_dir(folder)
        .args([file, "-c", "SELECT * FROM a"])
        .output()
        .unwrap();
    String::from_utf8(output.stderr).unwrap()
}
