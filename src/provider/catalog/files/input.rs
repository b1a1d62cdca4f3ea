//! Arguments that name files to open.

use std::path::{Path, PathBuf};

use datafusion::common::{Result, TableReference};
use datafusion::prelude::SessionContext;
use url::Url;

use crate::error::Error;
#[cfg(feature = "remote")]
use crate::format::io::remote::is_url;
use crate::format::remote_location_advice;
use crate::provider::adapters::file_kind::FileKind;
use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::error::describe;
#[cfg(feature = "remote")]
use crate::provider::remote::shown;

/// An argument that names something to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file or package. Its schema is named after the file's stem.
    File(PathBuf),
    /// A file or package and the name of its schema.
    Named(String, PathBuf),
    /// A directory of files.
    Directory(PathBuf),
    /// A file of rows (CSV, Parquet, JSON, Arrow), and the name of its table.
    Rows(String, PathBuf),
}

impl Input {
    /// Resolves an argument: a path, or `NAME=FILE`. An existing path takes precedence, even if it
    /// contains a `=`.
    ///
    /// # Errors
    /// Returns an error if there is no such file.
    pub fn resolve(argument: &Path) -> Result<Self, Error> {
        let formats = FormatRegistry::default();
        #[cfg(feature = "remote")]
        if let Some(input) = Self::of_url(argument) {
            return Ok(input);
        }
        if argument.is_dir() && !formats.is_container_directory(argument) {
            return Ok(Self::Directory(argument.to_owned()));
        }
        if argument.exists() {
            return match has_rows(argument) {
                true => Ok(Self::Rows(stem(argument), argument.to_owned())),
                false => Ok(Self::File(argument.to_owned())),
            };
        }
        let missing = |path: &Path| {
            let advice = remote_location_advice(&path.to_string_lossy());
            let text = advice.unwrap_or_else(|| "no such file or directory".to_owned());
            Error::invalid(path, text)
        };
        let named = argument.to_str().and_then(|text| text.split_once('='));
        match named {
            Some((name, path)) if !name.is_empty() && !name.contains(std::path::is_separator) => {
                let path = Path::new(path);
                if path.is_dir() && !formats.is_container_directory(path) {
                    let message = format!(
                        "is a directory of several files, which cannot all be named {name}: leave out {name}=, or \
                         give one file"
                    );
                    Err(Error::invalid(path, message))
                } else if has_rows(path) {
                    Ok(Self::Rows(name.to_owned(), path.to_owned()))
                } else if path.exists() {
                    Ok(Self::Named(name.to_owned(), path.to_owned()))
                } else {
                    Err(missing(path))
                }
            }
            _ => Err(missing(argument)),
        }
    }
}

#[cfg(feature = "remote")]
impl Input {
    /// Resolves a URL, or `NAME=URL`; `None` for a path.
    fn of_url(argument: &Path) -> Option<Self> {
        let text = argument.to_str()?;
        if is_url(text) {
            let path = shown(argument);
            return Some(match is_of_rows(&path) {
                true => Self::Rows(stem(&path), argument.to_owned()),
                false => Self::File(argument.to_owned()),
            });
        }
        let (name, url) = text.split_once('=')?;
        let is_named = is_url(url) && !name.is_empty() && !name.contains('/');
        is_named.then(|| match is_of_rows(&shown(Path::new(url))) {
            true => Self::Rows(name.to_owned(), url.into()),
            false => Self::Named(name.to_owned(), url.into()),
        })
    }
}

/// Returns `true` if the file name has the extension of a row format.
fn is_of_rows(path: &Path) -> bool {
    FileKind::by_name(path).is_some_and(|kind| !kind.is_array())
}

/// Returns `true` if the file name has the extension of a row format, unless the first bytes are
/// those of an array file.
fn has_rows(path: &Path) -> bool {
    is_of_rows(path) && path.is_file() && FormatRegistry::default().recognise(path).is_none()
}

/// Returns the name of a file without its extension.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Registers a file of rows as a table of the default schema.
///
/// # Errors
/// Returns an error if the file cannot be read, or a table of that name exists.
pub async fn register_rows(context: &SessionContext, name: &str, path: &Path) -> Result<()> {
    let table = TableReference::bare(name.to_owned());
    let shown = &shown(path);
    if context.table_exist(table.clone())? {
        let message =
            format!("a table named \"{name}\" already exists; choose another name: NAME=FILE");
        return Err(Error::invalid(shown, message).into());
    }
    let rows = context.table_provider(TableReference::bare(url_of(path)?.as_str()));
    let rows = rows.await;
    let rows = rows.map_err(|error| {
        let text = describe(&error);
        let prefix = format!("{}: ", shown.display());
        Error::invalid(shown, text.strip_prefix(&prefix).unwrap_or(&text))
    })?;
    context.register_table(table, rows)?;
    Ok(())
}

/// Returns the URL of a path. DataFusion expands patterns such as `*` in paths, but not in URLs.
fn url_of(path: &Path) -> Result<Url> {
    #[cfg(feature = "remote")]
    if let Some(text) = path.to_str().filter(|text| is_url(text)) {
        let invalid = |error| Error::invalid(&shown(path), format!("is not a valid URL: {error}"));
        return Ok(Url::parse(text).map_err(invalid)?);
    }
    let absolute = std::path::absolute(path)?;
    let url = Url::from_file_path(absolute);
    Ok(url.map_err(|()| Error::invalid(path, "not a valid file path"))?)
}

/// Returns a path as it is, in builds without object stores.
#[cfg(not(feature = "remote"))]
fn shown(path: &Path) -> PathBuf {
    path.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_exists_wins_over_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("b.tet");
        std::fs::write(&plain, "").unwrap();
        let rows = folder.path().join("b.CSV");
        std::fs::write(&rows, "").unwrap();
        let named_rows = PathBuf::from(format!("c={}", rows.display()));
        assert_eq!(
            Input::resolve(&rows).unwrap(),
            Input::Rows("b".to_owned(), rows.clone())
        );
        assert_eq!(
            Input::resolve(&named_rows).unwrap(),
            Input::Rows("c".to_owned(), rows)
        );
        let odd = folder.path().join("a=b.tet");
        std::fs::write(&odd, "").unwrap();
        let named = PathBuf::from(format!("a={}", plain.display()));
        assert_eq!(Input::resolve(&plain).unwrap(), Input::File(plain.clone()));
        assert_eq!(Input::resolve(&odd).unwrap(), Input::File(odd));
        assert_eq!(
            Input::resolve(&named).unwrap(),
            Input::Named("a".to_owned(), plain)
        );
        let itself = folder.path().to_owned();
        assert_eq!(
            Input::resolve(&itself).unwrap(),
            Input::Directory(itself.clone())
        );
        let named_folder = PathBuf::from(format!("a={}", itself.display()));
        for wrong in [
            named_folder,
            itself.join("c.tet"),
            itself.join("x=y.tet"),
            PathBuf::from("=x.tet"),
        ] {
            assert!(Input::resolve(&wrong).is_err(), "{wrong:?}");
        }
        // This file makes the directory a package, which is opened like a file.
        std::fs::write(itself.join("PROTOCOL"), "").unwrap();
        assert_eq!(Input::resolve(&itself).unwrap(), Input::File(itself));
    }
}
