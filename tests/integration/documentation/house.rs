//! The rules of `docs/architecture.md` about the source tree: dependencies point down, files and
//! directories stay small.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of lines of a source file.
const MAX_LINES: usize = 500;
/// The maximum number of source files in one directory.
const MAX_FILES: usize = 15;

/// For each directory of `src`, the names that its code must not contain.
const FORBIDDEN: [(&str, &[&str]); 5] = [
    (
        "src/format",
        &["crate::grid", "crate::provider", "arrow::", "datafusion::"],
    ),
    (
        "src/error.rs",
        &["crate::provider", "arrow::", "datafusion::"],
    ),
    (
        "src/grid",
        &[
            "crate::format",
            "crate::provider",
            "datafusion::",
            "std::fs",
            "std::io",
        ],
    ),
    ("src/provider", &["tet_sql::", "clap::", "rustyline::"]),
    (
        "src/provider/source",
        &[
            "format::tet",
            "format::zarr",
            "format::npy",
            "format::tatami",
            "format::tiledb",
            "format::hdf5",
            "format::netcdf",
            "adapters::tatami",
            "adapters::tiledb",
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Rust files at a path of the repository, at any depth.
fn sources(path: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(path)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    assert!(!found.is_empty(), "{path}");
    found.sort();
    found
}

/// Returns the path of a file within the repository.
fn shown(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap();
    path.display().to_string()
}

#[test]
fn dependencies_point_down() {
    let mut wrong = Vec::new();
    for (path, names) in FORBIDDEN {
        for file in sources(path) {
            let text = fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.trim_start();
                if !code.starts_with("//") && names.iter().any(|name| code.contains(name)) {
                    wrong.push(format!("{}:{}: {code}", shown(&file), number + 1));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "upward dependencies:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn files_and_directories_are_small() {
    let mut wrong = Vec::new();
    let mut files: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for file in ["src", "crates", "tests"].into_iter().flat_map(sources) {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{} has {lines} lines", shown(&file)));
        }
        *files
            .entry(file.parent().unwrap().to_path_buf())
            .or_default() += 1;
    }
    for (directory, count) in files {
        if count > MAX_FILES {
            wrong.push(format!("{} has {count} source files", shown(&directory)));
        }
    }
    assert!(
        wrong.is_empty(),
        "more than {MAX_LINES} lines, or {MAX_FILES} files; split by concept:\n{}",
        wrong.join("\n")
    );
}
