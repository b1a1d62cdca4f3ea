//! The user's editor.

use crate::failure::Failure;
use crate::session::shutdown;
use std::path::Path;
use std::process::Command;

/// The text of a file after it was edited.
pub fn edit_file(path: &Path) -> Result<String, Failure> {
    let program = ["VISUAL", "EDITOR"].into_iter().find_map(|name| {
        let program = std::env::var(name).ok();
        program.filter(|program| !program.trim().is_empty())
    });
    let program = program.unwrap_or_else(|| "vi".to_owned());
    // The name of the file is an argument, whatever is in it.
    let status = Command::new("sh")
        .args(["-c", &format!("{program} \"$0\"")])
        .arg(path)
        .status()?;
    if !status.success() {
        return Err(Failure::message(format!("{program}: {status}")));
    }
    let text = std::fs::read_to_string(path);
    text.map_err(|error| Failure::message(format!("{}: {error}", path.display())))
}

/// A text after it was edited.
pub fn edit_text(text: &str) -> Result<String, Failure> {
    let folder = shutdown::temporary_folder()?;
    // Editors know the language by the ending.
    let path = folder.path().join("statement.sql");
    std::fs::write(&path, format!("{text}\n"))?;
    edit_file(&path)
}
