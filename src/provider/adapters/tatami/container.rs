//! A `.tatami` file or a collection of them as a container with one table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::tatami::{Collection, MANIFEST_MAGIC, TatamiFile};
use crate::provider::adapters::registry::Candidate;
use crate::provider::adapters::tatami::table::DocumentTable;
use crate::provider::catalog::many_files::FileTable;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::BlockSource;
use crate::provider::source::container::{Container, ContainerSummary, TableEntry};

/// A `.tatami` file, or the collection that a `tatami.manifest` lists.
#[derive(Debug)]
pub(super) struct TatamiContainer {
    path: PathBuf,
    location: String,
    tables: Vec<TableEntry>,
    table: Arc<dyn BlockSource>,
    /// The members of a collection, or the only file.
    files: Vec<Arc<TatamiFile>>,
    warnings: Vec<String>,
}

impl TatamiContainer {
    /// Opens a file or a manifest.
    pub fn open(
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Self, Error> {
        let access = options.open_options(session.options()).access;
        let is_collection = Candidate::new(path).start().starts_with(&MANIFEST_MAGIC);
        let name_of = |path: &Path| {
            let stem = path.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        };
        let (name, paths) = match is_collection {
            false => (name_of(path), vec![path.to_path_buf()]),
            true => {
                let directory = path.parent().unwrap_or(Path::new(""));
                let collection = Collection::open(path)?;
                let members = collection.members().iter();
                let paths = members.map(|member| collection.member_path(member));
                let name = std::path::absolute(directory).map_err(Error::io(path, "resolve"))?;
                (name_of(&name), paths.collect())
            }
        };
        let (mut files, mut sources, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        for path in &paths {
            let file = Arc::new(TatamiFile::open(path, access)?);
            let table = DocumentTable::try_new(Arc::clone(&file), name_of(path), options)?;
            warnings.extend_from_slice(table.warnings());
            files.push(file);
            sources.push(Arc::new(table) as Arc<dyn BlockSource>);
        }
        let location = path.display().to_string();
        let table = match (is_collection, sources.pop()) {
            (false, Some(only)) => only,
            (_, last) => {
                sources.extend(last);
                let table = FileTable::new(&location, &paths, sources, options.file_column);
                Arc::new(table.map_err(|error| Error::invalid(path, error.to_string()))?)
            }
        };
        Ok(Self {
            path: path.to_path_buf(),
            location,
            tables: vec![TableEntry::new(name)],
            table,
            files,
            warnings,
        })
    }
}

impl Container for TatamiContainer {
    fn format(&self) -> &'static str {
        "tatami"
    }

    fn location(&self) -> &str {
        &self.location
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn tables(&self) -> &[TableEntry] {
        &self.tables
    }

    fn table(&self, name: &str) -> Result<Option<Arc<dyn BlockSource>>, Error> {
        Ok((self.tables[0].name == name).then(|| Arc::clone(&self.table)))
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn attributes(&self) -> Vec<(String, String)> {
        let pairs = self.files.iter().flat_map(|file| &file.footer().key_values);
        pairs.cloned().collect()
    }

    fn summary(&self) -> ContainerSummary {
        let groups = self.files.iter().map(|file| file.row_groups().len() as u64);
        ContainerSummary {
            version: Some(1),
            datasets: Some(1),
            chunks: Some(groups.sum()),
            has_statistics: Some(true),
            ..ContainerSummary::default()
        }
    }
}
