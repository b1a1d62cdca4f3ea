//! Runs every example of `README.md` and of the pages under `docs`.
//!
//! - `sql` blocks are run by `tet-sql --demo`, all blocks of a page in one session. A `text` block
//!   directly after one is its output.
//! - `console` blocks contain commands after `$ `, each followed by its output, standard error
//!   included. They run after the SQL blocks of the page.
//! - `sh` blocks are scripts that must succeed.
//! - Each page runs in a directory of its own and can read the files it has written. The directory
//!   is empty at first, except that `docs/recipes/time.md` starts with the files that
//!   `docs/recipes.md` left, and `docs/tiledb.md` and `docs/formats.md` with arrays of the tests.
//! - In an output, a line `...` stands for any number of lines.
//! - `rust` blocks are documentation tests of the library, included by an attribute in
//!   `src/lib.rs`.
//!
//! With the environment variable `TET_SQL_COMPLETE=1`, outputs in the pages are replaced by the
//! program's actual output. Review the diff afterwards.

mod compare;
mod house;
mod messages;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;

use page::{Example, Page};
use tempfile::TempDir;

#[cfg(feature = "zarr")]
use crate::support::image::write_image;

/// The number of blocks that are not run, by page and kind, with the reason for each.
const NOT_RUN: [(&str, &str, usize); 24] = [
    // Diagrams.
    ("docs/architecture.md", "text", 6),
    // Cargo commands, and commands on the reader's files.
    ("README.md", "sh", 3),
    // An excerpt of `examples/embed.rs`, which is compiled.
    ("README.md", "rust", 1),
    // The Python package, which has its own tests: `python/tests/test_documentation.py`.
    ("README.md", "python", 1),
    ("docs/clusters.md", "rust,ignore", 1),
    ("docs/clusters.md", "sh,ignore", 3),
    ("docs/clusters.md", "text", 1),
    ("docs/coming-from-xarray.md", "python", 2),
    ("docs/python.md", "python", 14),
    ("docs/python.md", "sh,ignore", 1),
    // Documentation tests.
    ("docs/embedding.md", "rust", 8),
    // A dependency in a manifest.
    ("docs/embedding.md", "toml", 1),
    // The benchmark, which takes long.
    ("docs/performance.md", "sh,ignore", 1),
    // URLs of examples, and a documentation test.
    ("docs/remote.md", "rust", 1),
    ("docs/remote.md", "sh,ignore", 2),
    ("docs/remote.md", "sql,ignore", 2),
    // The server, which has its own tests, and its clients, covered by `tests/clients/adbc.py`.
    ("docs/serve.md", "python", 2),
    ("docs/serve.md", "sh,ignore", 4),
    ("docs/serve.md", "text", 2),
    // A file with a key.
    ("docs/tiledb.md", "sql,ignore", 1),
    // Tables and files that the reader has.
    ("docs/netcdf.md", "sh,ignore", 1),
    ("docs/netcdf.md", "sql,ignore", 1),
    ("docs/tiledb-writing.md", "sql,ignore", 1),
    // The installation.
    ("docs/tour.md", "sh,ignore", 1),
];

/// Creates the files that `README.md` refers to.
const README_FILES: &str = "
    COPY time_lat_lon TO 'weather.tet' STORED AS TET;
    COPY (SELECT time, lat, lon, value AS t2m FROM temperature) TO 'era5/2024-01.tet' STORED AS TET;
";

/// The arrays that `docs/tiledb.md` refers to, and their names among the arrays of the tests.
const TILEDB_ARRAYS: [(&str, &str); 3] = [
    ("grid", "dense_overlapping_fragments"),
    ("points", "sparse_rtree_deep"),
    ("readings", "deletes_nodups_raw"),
];

/// The file that `docs/netcdf.md` refers to, among the files of the tests.
const NETCDF_FILE: &str = "tests/data/hdf5/netcdf.nc";

/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

#[test]
fn every_example_gives_what_the_page_shows() {
    let folders = PageDirectories::default();
    let mut names = page_names();
    // A page runs before the pages in the directory of its name.
    names.sort_by_key(|name| name.matches('/').count());
    let failures = Mutex::new(Vec::new());
    for depth in 0..=2 {
        let names: Vec<_> = names
            .iter()
            .filter(|name| name.matches('/').count() == depth)
            .collect();
        let next = Mutex::new(names.into_iter());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let Some(name) = next.lock().unwrap().next() else {
                            break;
                        };
                        let page = Page::read(repository(), name);
                        let found = run(&page, &folders);
                        failures.lock().unwrap().extend(found);
                    }
                });
            }
        });
    }
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
}

#[test]
fn blocks_that_are_not_run_are_known() {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for name in page_names() {
        for block in Page::read(repository(), &name).blocks_not_run() {
            *counts.entry((name.clone(), block.info)).or_default() += 1;
        }
    }
    let known = NOT_RUN.map(|(name, info, count)| ((name.to_string(), info.to_string()), count));
    assert_eq!(counts, known.into());
}

#[test]
fn links_lead_to_pages_and_every_page_is_in_the_contents() {
    let mut linked = Vec::new();
    for name in page_names() {
        let folder = repository().join(&name).parent().unwrap().to_path_buf();
        let page = Page::read(repository(), &name);
        for target in links(page.lines()) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => repository().join(&name),
                _ => folder.join(file),
            };
            assert!(path.exists(), "{name}: {target} leads nowhere");
            if !anchor.is_empty() {
                let text = fs::read_to_string(&path).unwrap();
                let is_there = text
                    .lines()
                    .any(|line| anchor_of(line).as_deref() == Some(anchor));
                assert!(is_there, "{name}: {target} leads to no heading");
            }
            if name == SUMMARY {
                linked.push(path.canonicalize().unwrap());
            }
        }
    }
    for name in page_names() {
        let path = repository().join(&name).canonicalize().unwrap();
        let is_listed = linked.contains(&path) || name == SUMMARY || name == "README.md";
        assert!(is_listed, "{SUMMARY} does not lead to {name}");
    }
}

/// The directories in which pages were run, by page name.
#[derive(Default)]
struct PageDirectories(Mutex<BTreeMap<String, TempDir>>);

impl PageDirectories {
    /// Creates a directory that starts with the files of the parent page, if there is one.
    fn make(&self, name: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        if name == "README.md" {
            fs::create_dir(folder.path().join("era5")).unwrap();
            fs::create_dir(folder.path().join("edge")).unwrap();
            let broken = "edge/dup_coord_missing_other.tet";
            fs::copy(
                repository().join("tests/data").join(broken),
                folder.path().join(broken),
            )
            .unwrap();
        }
        if name == "docs/tiledb.md" {
            for (array, of) in TILEDB_ARRAYS {
                let from = repository().join("tests/data/tiledb/arrays").join(of);
                copy_directory(&from, &folder.path().join(array));
            }
        }
        if name == "docs/netcdf.md" {
            fs::copy(repository().join(NETCDF_FILE), folder.path().join("air.nc")).unwrap();
        }
        #[cfg(feature = "zarr")]
        if name == "docs/formats.md" {
            write_image(&folder.path().join("cells.zarr"), "0.4");
        }
        let parent = Path::new(name).parent().unwrap().with_extension("md");
        if let Some(earlier) = self.0.lock().unwrap().get(parent.to_str().unwrap()) {
            copy_files(earlier.path(), folder.path());
        }
        folder
    }
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let (path, name) = entry
            .map(|entry| (entry.path(), entry.file_name()))
            .unwrap();
        match path.is_dir() {
            true => copy_directory(&path, &to.join(name)),
            false => drop(fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

fn copy_files(from: &Path, to: &Path) {
    for entry in from.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Runs a page and returns a message for each difference, or rewrites the page.
fn run(page: &Page, folders: &PageDirectories) -> Vec<String> {
    let examples = page.examples();
    let folder = folders.make(&page.name);
    let mut failures = Vec::new();
    // The output of each example, with the lines of the page that show it.
    let mut outputs: Vec<(Range<usize>, String)> = Vec::new();
    run_sql(page, &examples, folder.path(), &mut outputs, &mut failures);
    for example in &examples {
        match example {
            Example::Sql { .. } => {}
            Example::Command { command, output } => {
                let text = page.text(command);
                let written = shell(text.strip_prefix("$ ").unwrap(), folder.path());
                outputs.push((output.clone(), joined(&written)));
            }
            Example::Script(script) => {
                let written = shell(&format!("set -e\n{}", page.text(script)), folder.path());
                if !written.status.success() {
                    failures.push(format!("{}: {}", place(page, script), joined(&written)));
                }
            }
        }
    }
    outputs.retain(|(shown, written)| !compare::is_shown(&page.text(shown), written));
    outputs.sort_by_key(|(shown, _)| shown.start);
    if std::env::var_os("TET_SQL_COMPLETE").is_some_and(|value| value == "1") {
        if !outputs.is_empty() {
            page.rewrite(&outputs);
        }
    } else {
        failures.extend(outputs.iter().map(|(shown, written)| {
            let shown_text = page.text(shown);
            format!(
                "{}: shown\n{shown_text}written\n{written}",
                place(page, shown)
            )
        }));
    }
    folders.0.lock().unwrap().insert(page.name.clone(), folder);
    failures
}

/// Runs the SQL of a page in one process.
fn run_sql(
    page: &Page,
    examples: &[Example],
    folder: &Path,
    outputs: &mut Vec<(Range<usize>, String)>,
    failures: &mut Vec<String>,
) {
    let queries: Vec<_> = examples
        .iter()
        .filter_map(|example| match example {
            Example::Sql { sql, output } => Some((sql, output)),
            _ => None,
        })
        .collect();
    if queries.is_empty() {
        return;
    }
    // Each block writes to an output file of its own, so the last existing file tells which block
    // failed.
    let answers = tempfile::tempdir().unwrap();
    let answer = |number: usize| answers.path().join(format!("{number}.txt"));
    let mut script = String::new();
    if page.name == "README.md" {
        script.push_str(README_FILES);
    }
    for (number, (sql, _)) in queries.iter().enumerate() {
        let sql = page.text(sql);
        script.push_str(&format!(
            "\n.output {}\n{sql}\n;\n",
            answer(number).display()
        ));
    }
    let file = answers.path().join("page.sql");
    fs::write(&file, script).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tet-sql"));
    // Fix the number of threads, since plans depend on it.
    command.args(["--demo", "--threads", "2", "-f"]).arg(&file);
    let done = finish(&mut command, folder);
    let begun = (0..queries.len()).filter(|number| answer(*number).exists());
    let begun = begun.count();
    if !done.status.success() {
        let (sql, _) = queries[begun.saturating_sub(1)];
        failures.push(format!("{}: {}", place(page, sql), joined(&done)));
        return;
    }
    for (number, (_, shown)) in queries.into_iter().enumerate() {
        if let Some(shown) = shown {
            let written = fs::read_to_string(answer(number)).unwrap();
            outputs.push((shown.clone(), written));
        }
    }
}

/// Runs a command line with the built programs on the path.
fn shell(line: &str, folder: &Path) -> Output {
    let mut command = Command::new("sh");
    // Merge standard error into standard output, as on a terminal.
    command.args(["-c", &format!("exec 2>&1\n{line}")]);
    finish(&mut command, folder)
}

fn finish(command: &mut Command, folder: &Path) -> Output {
    let programs = Path::new(env!("CARGO_BIN_EXE_tet-sql")).parent().unwrap();
    let mut path = programs.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    command
        .current_dir(folder)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn joined(output: &Output) -> String {
    let written = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(written).unwrap()
}

fn place(page: &Page, lines: &Range<usize>) -> String {
    format!("{}:{}", page.name, lines.start + 1)
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The paths of all pages within the repository, sorted.
fn page_names() -> Vec<String> {
    let mut names = vec!["README.md".to_string()];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in repository().join(&folder).read_dir().unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if repository().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                names.push(path.to_str().unwrap().to_string());
            }
        }
    }
    names.sort();
    names
}

/// The targets of links to files, except links in code.
fn links(lines: &[String]) -> Vec<String> {
    let mut targets = Vec::new();
    let mut is_code = false;
    for line in lines {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for (index, part) in line.split("](").enumerate() {
            if index > 0
                && let Some((target, _)) = part.split_once(')')
                && !target.contains("://")
            {
                targets.push(target.to_string());
            }
        }
    }
    targets
}

/// The link anchor of a heading: its title in lower case, with dashes between words.
fn anchor_of(line: &str) -> Option<String> {
    let title = line.trim_start_matches('#');
    if title.len() == line.len() {
        return None;
    }
    let letters = title.trim().to_lowercase();
    let letters = letters.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        _ if letter.is_alphanumeric() || matches!(letter, '-' | '_') => Some(letter),
        _ => None,
    });
    Some(letters.collect())
}
