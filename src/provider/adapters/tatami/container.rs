//! A `.tatami` file or a collection of them as a container with one table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::io::place::Place;
use crate::format::io::storage::Access;
use crate::format::tatami::{Collection, TatamiFile};
use crate::provider::adapters::registry::place_of;
use crate::provider::adapters::tatami::COLLECTION_FORMAT;
use crate::provider::adapters::tatami::member::MemberTable;
use crate::provider::adapters::tatami::table::{DocumentTable, stem};
use crate::provider::catalog::many_files::FileTable;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::BlockSource;
use crate::provider::source::container::{Container, ContainerSummary, TableEntry};
use crate::provider::source::recipe::Recipe;

/// A `.tatami` file, or the collection that a `tatami.manifest` lists.
#[derive(Debug)]
pub(super) struct TatamiContainer {
    path: PathBuf,
    location: String,
    tables: Vec<TableEntry>,
    table: Arc<dyn BlockSource>,
    /// `true` if the file or the manifest is in the file system.
    is_local: bool,
    /// The file; `None` for a collection.
    file: Option<Arc<TatamiFile>>,
    /// The number of blocks of the file.
    chunks: Option<u64>,
    warnings: Vec<String>,
}

impl TatamiContainer {
    /// Opens a file.
    pub fn open(path: &Path, access: Access, options: &ArrayOptions) -> Result<Self, Error> {
        Self::of(TatamiFile::open(path, access)?, options)
    }

    /// Creates the container of an open file.
    pub fn of(file: TatamiFile, options: &ArrayOptions) -> Result<Self, Error> {
        let path = &file.path().to_path_buf();
        #[cfg(feature = "remote")]
        let is_local = file.storage().object().is_none();
        #[cfg(not(feature = "remote"))]
        let is_local = true;
        let file = Arc::new(file);
        let name = stem(path);
        let table = DocumentTable::try_new(Arc::clone(&file), name.clone(), options)?;
        Ok(Self {
            chunks: table.chunks(),
            file: Some(file),
            warnings: table.warnings().to_vec(),
            is_local,
            ..Self::new(path, name, Arc::new(table))
        })
    }

    /// Opens a manifest. The table is named after its directory.
    pub fn open_collection(
        place: &Place,
        access: Access,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Self, Error> {
        let path = place.path();
        let absolute = std::path::absolute(path).map_err(Error::io(path, "resolve"))?;
        let name = stem(absolute.parent().unwrap_or(Path::new("")));
        let collection = Collection::open_in(place)?;
        let members = collection.members().iter();
        let members = members.map(|member| {
            let place = place_of(&collection.member_path(member), session)?;
            Ok((place, member.clone()))
        });
        let members = members.collect::<Result<Vec<_>, Error>>()?;
        let paths = members.iter().map(|(place, _)| place.path().to_path_buf());
        let paths: Vec<PathBuf> = paths.collect();
        let members = MemberTable::all(members, access, options)?;
        let warnings = members.first().map(|first| first.warnings().to_vec());
        let identity = place.open()?.identity()?;
        let recipe = Recipe::in_file(COLLECTION_FORMAT, path, &name, options, identity)?;
        let location = path.display().to_string();
        let members = members
            .into_iter()
            .map(|member| member as Arc<dyn BlockSource>);
        let table = FileTable::new(&location, &paths, members.collect(), options.file_column)
            .map_err(|error| Error::invalid(path, error.to_string()))?
            .with_recipe(recipe);
        Ok(Self {
            warnings: warnings.unwrap_or_default(),
            is_local: place.is_local(),
            ..Self::new(path, name, Arc::new(table))
        })
    }

    fn new(path: &Path, name: String, table: Arc<dyn BlockSource>) -> Self {
        Self {
            path: path.to_path_buf(),
            location: path.display().to_string(),
            tables: vec![TableEntry::new(name)],
            table,
            is_local: true,
            file: None,
            chunks: None,
            warnings: Vec::new(),
        }
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
        self.is_local.then_some(self.path.as_path())
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
        let pairs = self.file.iter().flat_map(|file| &file.footer().key_values);
        pairs.cloned().collect()
    }

    fn summary(&self) -> ContainerSummary {
        ContainerSummary {
            version: Some(1),
            datasets: Some(1),
            chunks: self.chunks,
            has_statistics: Some(true),
            ..ContainerSummary::default()
        }
    }
}
