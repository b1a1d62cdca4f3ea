//! The `.tatami` files that make up a table.

use std::sync::Arc;

use datafusion::catalog::TableFunctionArgs;
use datafusion::common::{Result, plan_err};

use crate::provider::adapters::tatami::member::MemberTable;
use crate::provider::adapters::tatami::table::DocumentTable;
use crate::provider::catalog::many_files::FileTable;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::introspection::lookup;
use crate::provider::source::BlockSource;

/// The files that make up a table.
pub(super) struct TableFiles {
    /// The tables of the files, at least one.
    pub documents: Vec<Arc<DocumentTable>>,
    /// The value of the column `file` for each of them, if the table has this column.
    pub files: Option<Arc<[String]>>,
}

/// Returns the files of the table that an argument of a table function names. Fails if a file is not a
/// `.tatami` file.
pub(super) fn table_files(
    function: &str,
    args: &TableFunctionArgs,
    name: &str,
) -> Result<TableFiles> {
    let table = lookup::table(function, args.session(), name)?;
    let source = table.downcast_ref::<ArrayTable>().map(ArrayTable::source);
    let source = source.as_ref();
    let mut documents = Vec::new();
    let is_found = match source {
        Some(source) => add_files(source, &mut documents)?,
        None => false,
    };
    if !is_found || documents.is_empty() {
        return plan_err!("{function}: {name} is not a table of .tatami files");
    }
    let files = source.and_then(|source| source.downcast_ref::<FileTable>());
    let files = files.map(FileTable::file_column).transpose()?.flatten();
    Ok(TableFiles { documents, files })
}

/// Adds the files that make up a table. Returns `false` if another format is among them.
fn add_files(
    source: &Arc<dyn BlockSource>,
    documents: &mut Vec<Arc<DocumentTable>>,
) -> Result<bool> {
    if let Some(files) = source.downcast_ref::<FileTable>() {
        for member in files.members() {
            if !add_files(member, documents)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let table = match source.downcast_ref::<MemberTable>() {
        Some(member) => Some(Arc::clone(member.table()?)),
        None => DocumentTable::of_source(Arc::clone(source)),
    };
    let is_found = table.is_some();
    documents.extend(table);
    Ok(is_found)
}
