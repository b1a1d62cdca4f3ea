//! Parses locations: one file, the files of a directory, or the files that match a pattern, and the
//! name of a dataset in them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::prelude::SessionConfig;

use crate::error::Error;
#[cfg(feature = "remote")]
use crate::format::io::remote::is_url;
use crate::format::remote_location_advice;
use crate::provider::adapters::registry::FormatRegistry;
#[cfg(feature = "remote")]
use crate::provider::remote::{locate, shown};

/// The maximum number of levels of nested directories that are searched.
const MAX_DEPTH: usize = 32;

/// The maximum number of matches of a pattern that are examined.
const MAX_MATCHES: usize = 16;

/// A parsed location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// The files, sorted by path.
    pub files: Vec<PathBuf>,
    /// The table that the location names after a `#`, or as an array in a Zarr hierarchy.
    pub dataset: Option<String>,
}

impl Location {
    /// Parses a location. The text is a path that exists; else the part after the last `#` is the
    /// name of a dataset, and the rest is a path or a pattern with `*`, `?`, `[...]` or `**`.
    ///
    /// A directory stands for every `.tet` file and `.tet.d` package in it, at any depth, or if there is
    /// none, for the files and directories that have the extension of another format. A directory inside
    /// a Zarr hierarchy stands for that array of the hierarchy.
    ///
    /// A URL stands for one file or directory of an object store. `session` has the formats and the
    /// stores.
    pub fn parse(text: &str, session: &SessionConfig) -> Result<Self> {
        let formats = &FormatRegistry::of(session);
        #[cfg(feature = "remote")]
        if is_url(text) {
            let (files, dataset) = locate(text, session)?;
            return Ok(Self { files, dataset });
        }
        if let Some(advice) = remote_location_advice(text) {
            return plan_err!("{text}: {advice}");
        }
        let text = text.strip_prefix("file://").unwrap_or(text);
        let (path, dataset) = match text.rsplit_once('#') {
            Some((path, dataset)) if !Path::new(text).exists() && !dataset.is_empty() => {
                (path, Some(dataset.to_string()))
            }
            _ => (text, None),
        };
        let (files, member) = files(path, formats)?;
        let dataset = dataset.or(member);
        Ok(Self { files, dataset })
    }

    /// Returns `true` if the name of a table stands for files of these formats: by the content of
    /// the file or directory, by the extension of a name or pattern, by the first matches of a pattern,
    /// or as an array in a Zarr hierarchy.
    ///
    /// The content at a path of a single word is not examined, since the word more likely names a
    /// table.
    pub fn is_array_location(text: &str, formats: &FormatRegistry) -> bool {
        #[cfg(feature = "remote")]
        if is_url(text) {
            return is_array_url(text, formats);
        }
        let path = text.rsplit_once('#').map(|(path, _)| path);
        if [Some(text), path]
            .into_iter()
            .flatten()
            .any(|path| formats.by_name(path).is_some())
        {
            return true;
        }
        let is_path = |text: &&str| text.contains(['/', '.']);
        let mut paths = [Some(text), path].into_iter().flatten().filter(is_path);
        if paths.any(|path| formats.recognise(Path::new(path)).is_some()) {
            return true;
        }
        let is_pattern = text.contains(['*', '?', '[']);
        let has_array = || {
            let pattern = path.unwrap_or(text);
            let matches = glob::glob(pattern).ok().filter(|_| is_path(&pattern));
            let mut first = matches.into_iter().flatten().flatten().take(MAX_MATCHES);
            first.any(|path| formats.recognise(&path).is_some())
        };
        (is_pattern && (text.contains(".zarr/") || has_array()))
            || (text.contains('/') && formats.split_member(Path::new(text)).is_some())
    }
}

/// Returns `true` if a URL stands for arrays: by the extension of its path, or if it has none. The
/// files of other extensions are left to DataFusion.
#[cfg(feature = "remote")]
fn is_array_url(text: &str, formats: &FormatRegistry) -> bool {
    let shown = shown(Path::new(text)).to_string_lossy().into_owned();
    let name = shown
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    formats.by_name(&shown).is_some()
        || !name.contains('.')
        || text.contains('#')
        || shown.contains(".zarr/")
}

/// Returns the files of a location without `#`, and the array of a hierarchy that it names.
fn files(text: &str, formats: &FormatRegistry) -> Result<(Vec<PathBuf>, Option<String>)> {
    let path = Path::new(text);
    if let Some((container, table)) = formats.split_member(path) {
        return Ok((vec![container.to_path_buf()], Some(table)));
    }
    if formats.is_container_directory(path) {
        return Ok((vec![path.to_path_buf()], None));
    }
    let mut files = Vec::new();
    let mut members = HashSet::new();
    if path.is_dir() {
        search(
            path,
            &|path| formats.finds_in_directories(path),
            MAX_DEPTH,
            &mut files,
        )?;
        if files.is_empty() {
            let has_format = |path: &Path| formats.by_name(&path.to_string_lossy()).is_some();
            search(path, &has_format, MAX_DEPTH, &mut files)?;
        }
        if files.is_empty() {
            return plan_err!("{text}: the directory contains no file of an array format");
        }
    } else if path.exists() {
        files.push(path.to_path_buf());
    } else if text.contains(['*', '?', '[']) {
        let paths = glob::glob(text)
            .map_err(|error| plan_datafusion_err!("{text}: the pattern is malformed: {error}"))?;
        for path in paths {
            let path = path.map_err(|error| {
                Error::io(error.path(), "list")(std::io::Error::other(error.to_string()))
            })?;
            if let Some((container, table)) = formats.split_member(&path) {
                files.push(container.to_path_buf());
                members.insert(table);
                continue;
            }
            // A package counts as one file, whichever of its files match, since only its published
            // generation is valid.
            let folders = path.ancestors();
            let folder = folders
                .filter(|folder| formats.is_container_directory(folder))
                .last();
            if let Some(folder) = folder {
                files.push(folder.to_path_buf());
            } else if path.is_file() {
                files.push(path);
            }
        }
        if files.is_empty() {
            return plan_err!("{text}: no file matches the pattern");
        }
    } else {
        return plan_err!("{text}: no such file or directory");
    }
    files.sort();
    files.dedup();
    // A pattern may match several arrays of one hierarchy. Then it names none of them.
    let mut members = members.into_iter();
    let member = members.next().filter(|_| members.next().is_none());
    Ok((files, member))
}

fn search(
    folder: &Path,
    is_wanted: &dyn Fn(&Path) -> bool,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    for entry in folder.read_dir().map_err(Error::io(folder, "list"))? {
        let entry = entry.map_err(Error::io(folder, "list"))?;
        let path = entry.path();
        if is_wanted(&path) {
            files.push(path);
        } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&path, is_wanted, depth - 1, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.tet", "a.TET", "c.csv", "deep/er/d.tet", "odd#1.tet"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::create_dir(folder.path().join("p.tet.d")).unwrap();
        std::fs::write(folder.path().join("p.tet.d/PROTOCOL"), "").unwrap();
        std::fs::write(folder.path().join("p.tet.d/packed.tet"), "").unwrap();
        folder
    }

    fn found(folder: &Path, location: &str) -> (Vec<String>, Option<String>) {
        let text = folder.join(location);
        let location = Location::parse(text.to_str().unwrap(), &SessionConfig::new()).unwrap();
        let names = location.files.iter().map(|file| {
            let name = file.strip_prefix(folder).unwrap();
            name.to_str().unwrap().to_string()
        });
        (names.collect(), location.dataset)
    }

    #[test]
    fn files_folders_and_patterns() {
        let folder = folder();
        let all = ["a.TET", "b.tet", "deep/er/d.tet", "odd#1.tet", "p.tet.d"];
        assert_eq!(found(folder.path(), "").0, all);
        assert_eq!(found(folder.path(), "*.tet").0, ["b.tet", "odd#1.tet"]);
        assert_eq!(
            found(folder.path(), "**/*.tet#t2m"),
            (
                vec![
                    "b.tet".into(),
                    "deep/er/d.tet".into(),
                    "odd#1.tet".into(),
                    "p.tet.d".into()
                ],
                Some("t2m".into())
            )
        );
        assert_eq!(
            found(folder.path(), "odd#1.tet"),
            (vec!["odd#1.tet".into()], None)
        );
        assert_eq!(
            found(folder.path(), "odd#1.tet#a/b"),
            (vec!["odd#1.tet".into()], Some("a/b".into()))
        );
        for wrong in ["none.tet", "x*.tet", "deep/*.csv", "[.tet"] {
            let text = folder.path().join(wrong);
            let parsed = Location::parse(text.to_str().unwrap(), &SessionConfig::new());
            assert!(parsed.is_err(), "{wrong}");
        }
    }

    #[test]
    fn directories_of_other_formats() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.npy", "a.npy", "deep/c.npy", "readme.txt"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(found(folder.path(), "").0, ["a.npy", "b.npy", "deep/c.npy"]);
        assert_eq!(found(folder.path(), "deep").0, ["deep/c.npy"]);
    }

    #[test]
    fn names_of_array_files() {
        let formats = FormatRegistry::default();
        for yes in [
            "a.tet",
            "x/*.TET",
            "a.tet#b",
            "p.tet.d/",
            "a.tet#g/b",
            "a.npy",
            "a.npz#b",
            "x/*.zarr/t2m",
        ] {
            assert!(Location::is_array_location(yes, &formats), "{yes}");
        }
        for no in ["temperature", "a.csv", "tet", "a.tetra", "npy"] {
            assert!(!Location::is_array_location(no, &formats), "{no}");
        }
    }
}
