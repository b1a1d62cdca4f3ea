//! The messages of `docs/errors.md` that are about files in `tests/data/edge` are those that the command writes.

use std::path::Path;
use std::process::Command;

use crate::documentation::page::Page;
use crate::documentation::repository;

/// How many messages there are of this kind.
const MESSAGES: usize = 19;
/// What the page leaves out of a message.
const LEFT_OUT: &str = "...";
/// Files whose messages come of other statements than the one that is run here.
const OTHERS: [&str; 2] = ["empty32.tet", "ok.tet"];

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
        if !folder.join(file).is_file() || OTHERS.contains(&file) {
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

/// The message in the first column of a table's row.
fn message(line: &str) -> Option<&str> {
    let cell = line.strip_prefix("| `")?;
    // A message with backticks in it stands between two of them.
    match cell.strip_prefix('`') {
        Some(cell) => cell.split_once("`` |"),
        None => cell.split_once("` |"),
    }
    .map(|(message, _)| message.trim())
}

/// What the command says of a file when it reads all of it.
fn complaints(folder: &Path, file: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
        .current_dir(folder)
        .args([file, "-c", "SELECT * FROM a"])
        .output()
        .unwrap();
    String::from_utf8(output.stderr).unwrap()
}
