//! Edits text in the user's editor.

use crate::failure::Failure;
use crate::session::shutdown;
use std::path::Path;
use std::process::Command;

/// Opens a file in the user's editor and returns its new text.
pub fn edit_file(path: &Path) -> Result<String, Failure> {
    let program = ["VISUAL", "EDITOR"].into_iter().find_map(|name| {
        let program = std::env::var(name).ok();
        program.filter(|program| !program.trim().is_empty())
    });
    let program = program.unwrap_or_else(|| "vi".to_owned());
    // Pass the path as an argument, so that the shell does not interpret its characters.
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

/// Opens a text in the user's editor and returns the new text.
pub fn edit_text(text: &str) -> Result<String, Failure> {
    let folder = shutdown::temporary_directory()?;
    // Editors choose the language by the extension.
    let path = folder.path().join("statement.sql");
    std::fs::write(&path, format!("{text}\n"))?;
    edit_file(&path)
}
