//! Opens one table of a container.

use std::path::Path;
#[cfg(feature = "remote")]
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
#[cfg(feature = "remote")]
use crate::format::io::remote::is_url;
use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::catalog::names::ignoring_case;
use crate::provider::catalog::opening_warnings::OpeningWarnings;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::BlockSource;
use crate::provider::source::container::{Container, TableEntry, TableRole};

/// Opens the table that `options.dataset` names. If the option is unset, opens the only table with
/// data of its own, or the only table.
///
/// # Errors
/// Returns [`Error`] if the container cannot be opened or has no such table, or if the table cannot
/// be read.
pub(crate) fn open_table(
    path: &Path,
    options: &ArrayOptions,
    session: &SessionConfig,
) -> Result<Arc<dyn BlockSource>, Error> {
    let formats = FormatRegistry::of(session);
    let opened = formats.open(path, options, session);
    #[cfg(feature = "remote")]
    if let (Err(_), Some(name)) = (&opened, &options.dataset)
        && let Some(table) = array_alone(path, name, options, session)
    {
        return Ok(table);
    }
    let container = opened?;
    let container = container.as_ref();
    OpeningWarnings::add(session, container.warnings());
    match &options.dataset {
        Some(name) => {
            let table = named(container, path, name)?;
            #[cfg(feature = "remote")]
            let table = table.or_else(|| array_alone(path, name, options, session));
            table.ok_or_else(|| no_such_table(container, path, name))
        }
        None => {
            let name = only(container, path)?;
            let table = container.table(name)?;
            table.ok_or_else(|| no_such_table(container, path, name))
        }
    }
}

/// Opens an array of a remote Zarr hierarchy by its own URL, for servers that cannot list the arrays
/// of the hierarchy. The array then has no coordinates, except those of an OME-Zarr image. Returns `None`
/// if that is impossible.
#[cfg(feature = "remote")]
fn array_alone(
    path: &Path,
    name: &str,
    options: &ArrayOptions,
    session: &SessionConfig,
) -> Option<Arc<dyn BlockSource>> {
    let hierarchy = path.to_str()?.trim_end_matches('/');
    if !is_url(hierarchy) || !hierarchy.ends_with(".zarr") {
        return None;
    }
    // The slash at the end says that it is a directory, so no file is requested.
    let array = PathBuf::from(format!("{hierarchy}/{name}/"));
    let container = FormatRegistry::of(session)
        .open(&array, options, session)
        .ok()?;
    let name = only(container.as_ref(), &array).ok()?;
    container.table(name).ok()?
}

/// Returns the name of the only table with data of its own, or of the only table.
fn only<'a>(container: &'a dyn Container, path: &Path) -> Result<&'a str, Error> {
    let tables = container.tables();
    let mut data = tables.iter().filter(|table| table.role == TableRole::Data);
    let names: Vec<_> = tables
        .iter()
        .map(|table| format!("{:?}", table.name))
        .collect();
    match (data.next(), data.next(), tables) {
        (Some(only), None, _) | (None, _, [only]) => Ok(&only.name),
        (None, _, []) => Err(match container.warnings().last() {
            Some(warning) => Error::invalid(path, format!("has no table: {warning}")),
            None => Error::invalid(path, "has no dataset"),
        }),
        _ => Err(Error::invalid(
            path,
            format!(
                "has {} tables ({}); name one with the option dataset, or after a # in the path",
                names.len(),
                names.join(", ")
            ),
        )),
    }
}

/// Opens the table of this name, else the only table whose name matches case-insensitively. Returns
/// `None` if there is no such table.
fn named(
    container: &dyn Container,
    path: &Path,
    name: &str,
) -> Result<Option<Arc<dyn BlockSource>>, Error> {
    if let Some(table) = container.table(name)? {
        return Ok(Some(table));
    }
    let tables = container.tables();
    match ignoring_case(tables.iter().map(|table| table.name.as_str()), name) {
        Ok(Some(number)) => container.table(&tables[number].name),
        Ok(None) => Ok(None),
        Err([first, second]) => Err(Error::invalid(
            path,
            format!(
                "table name {name:?} is ambiguous: {first:?} or {second:?}; match the case of the name in \
                 the file"
            ),
        )),
    }
}

/// The error for a name that is not the name of a table.
fn no_such_table(container: &dyn Container, path: &Path, name: &str) -> Error {
    let stored = |table: &&TableEntry| table.role != TableRole::Wide;
    let names = container.tables().iter().filter(stored);
    let names = names.map(|table| table.name.as_str());
    Error::no_such_dataset(path, name, names, container.warnings())
}
