//! Opens one table of a file.

use std::path::Path;
use std::sync::Arc;

use datafusion::config::ConfigOptions;

use crate::error::Error;
use crate::provider::adapters::arrays::dataset::ArrayDataset;
use crate::provider::adapters::arrays::formats::open_file;
use crate::provider::adapters::arrays::tables::FileTables;
use crate::provider::catalog::names::ignoring_case;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::GridSource;

/// Opens the table that `options.dataset` names: a dataset or a wide table. If the option is unset,
/// opens the only dataset that does not hold coordinates, or the only table. `session` gives the
/// access mode if `options` does not.
///
/// # Errors
/// Returns [`Error`] if the file cannot be opened or has no such table, or if the dataset cannot be
/// read.
pub(crate) fn open(
    path: &Path,
    options: &ArrayOptions,
    session: &ConfigOptions,
) -> Result<Arc<dyn GridSource>, Error> {
    let options = &options.bound(session);
    let file = open_file(path, options, session)?;
    if let Some(name) = &options.dataset
        && file.dataset(name).is_some()
    {
        return Ok(Arc::new(ArrayDataset::try_new(&file, name, options)?));
    }
    let FileTables {
        tables,
        coordinate_variables,
        warnings,
    } = FileTables::new(&file, options);
    let Some(name) = &options.dataset else {
        let names: Vec<_> = tables.iter().map(|(name, _)| format!("{name:?}")).collect();
        let mut data = tables.iter().filter(|(name, _)| {
            file.dataset(name).is_some() && !coordinate_variables.contains(name)
        });
        return match (data.next(), data.next(), tables.as_slice()) {
            (Some((_, only)), None, _) | (None, _, [(_, only)]) => Ok(Arc::clone(only)),
            (None, _, []) => match warnings.first() {
                Some(warning) => Err(Error::invalid(path, format!("has no table: {warning}"))),
                None => Err(Error::invalid(path, "has no dataset")),
            },
            _ => Err(Error::invalid(
                path,
                format!(
                    "has {} tables ({}); name one with the option dataset, or after a # in the path",
                    names.len(),
                    names.join(", ")
                ),
            )),
        };
    };
    let mut names = tables.iter().map(|(table, _)| table.as_str());
    let exact = names.clone().position(|table| table == name);
    match exact.map_or_else(|| ignoring_case(&mut names, name), |exact| Ok(Some(exact))) {
        Ok(Some(position)) => Ok(Arc::clone(&tables[position].1)),
        Ok(None) => Err(file.no_such_dataset(name)),
        Err([first, second]) => Err(Error::invalid(
            path,
            format!(
                "table name {name:?} is ambiguous: {first:?} or {second:?}; match the case of the name in the file"
            ),
        )),
    }
}
