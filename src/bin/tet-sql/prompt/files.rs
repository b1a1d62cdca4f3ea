//! Completes file paths.

use std::path::Path;

/// The maximum number of paths that are offered.
const MOST: usize = 1000;

/// Returns the paths that begin with a text. Paths of directories end with a slash.
pub fn beginning_with(text: &str) -> Vec<String> {
    let (folder, name) = match text.rfind('/') {
        Some(slash) => text.split_at(slash + 1),
        None => ("", text),
    };
    let directory = match folder.strip_prefix("~/") {
        Some(rest) => match etcetera::home_dir() {
            Ok(home) => home.join(rest),
            Err(_) => return Vec::new(),
        },
        None if folder.is_empty() => Path::new(".").to_path_buf(),
        None => Path::new(folder).to_path_buf(),
    };
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let entries = entries.flatten().filter_map(|entry| {
        let found = entry.file_name().into_string().ok()?;
        // Hidden files are offered only if the text has the leading dot.
        let is_shown =
            found.starts_with(name) && (name.starts_with('.') || !found.starts_with('.'));
        let slash = if entry.path().is_dir() { "/" } else { "" };
        is_shown.then(|| format!("{folder}{found}{slash}"))
    });
    let mut paths: Vec<String> = entries.take(MOST).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["ab.tet", "ac.tet", ".hidden"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("ad")).unwrap();
        let path = |name: &str| format!("{}/{name}", folder.path().display());
        assert_eq!(
            beginning_with(&path("a")),
            [path("ab.tet"), path("ac.tet"), path("ad/")]
        );
        assert_eq!(beginning_with(&path(".h")), [path(".hidden")]);
        assert_eq!(beginning_with(&path("")).len(), 3);
        assert!(beginning_with("/no/such/folder/x").is_empty());
    }
}
