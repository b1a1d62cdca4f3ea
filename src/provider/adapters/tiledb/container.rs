//! TileDB arrays and groups as containers.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use datafusion::prelude::SessionConfig;

use crate::error::{Error, Result};
use crate::format::tiledb::{MetadataValue, TileDbArray, TileDbGroup};
use crate::provider::adapters::registry::place_of;
use crate::provider::adapters::tiledb::dense::open_grid;
use crate::provider::adapters::tiledb::options::TileDbOptions;
use crate::provider::adapters::tiledb::sparse::SparseTable;
use crate::provider::adapters::tiledb::stored::{FORMAT, StoredArray, table_name};
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::scan::grid::table::GridTable;
use crate::provider::source::BlockSource;
use crate::provider::source::container::{Container, ContainerSummary, TableEntry};

/// The maximum number of nested groups.
const MAX_DEPTH: usize = 32;
/// The maximum number of arrays in a group and the groups below, and of those groups.
const MAX_MEMBERS: usize = 1 << 16;

/// An array, or the arrays of a group and of the groups below it.
#[derive(Debug)]
pub(super) struct TileDbContainer {
    path: PathBuf,
    /// `true` if the array or group is in the file system.
    is_local: bool,
    location: String,
    tables: Vec<TableEntry>,
    members: Vec<Member>,
    /// The number of groups that were opened below the container's.
    groups: usize,
    options: ArrayOptions,
    session: SessionConfig,
    /// The metadata of the array or group itself.
    attributes: Vec<(String, String)>,
    warnings: Vec<String>,
}

/// An array, which is opened on first use.
#[derive(Debug)]
struct Member {
    path: PathBuf,
    table: RwLock<Option<OpenMember>>,
}

/// An open array and its table.
type OpenMember = (Arc<StoredArray>, Arc<dyn BlockSource>);

impl Member {
    /// Returns the array if it is open.
    fn opened(&self) -> Option<OpenMember> {
        self.table.read().ok()?.clone()
    }
}

impl TileDbContainer {
    /// Opens an array or a group. The arrays of a group are opened on first use.
    pub fn open(path: &Path, options: &ArrayOptions, session: &SessionConfig) -> Result<Self> {
        let place = place_of(path, session)?;
        let mut container = Self {
            path: path.to_path_buf(),
            is_local: place.is_local(),
            location: path.display().to_string(),
            tables: Vec::new(),
            members: Vec::new(),
            groups: 0,
            options: options.clone(),
            session: session.clone(),
            attributes: Vec::new(),
            warnings: Vec::new(),
        };
        let is_group = TileDbGroup::recognises(&place) && !TileDbArray::recognises(&place);
        if is_group {
            let own = TileDbOptions::parse(path, &options.format_options, session)?;
            let group = TileDbGroup::open(&place, &own.open)?;
            container.set_attributes(group.metadata());
            container.add_group(&group, &own, "", &mut vec![canonical(path)])?;
        } else {
            container.add(table_name(path)?, path.to_path_buf());
            let (array, _) = container.member(0)?;
            let metadata = array.array().metadata();
            container.set_attributes(metadata);
        }
        Ok(container)
    }

    fn set_attributes(&mut self, metadata: Result<BTreeMap<String, MetadataValue>>) {
        match metadata {
            Ok(metadata) => {
                let pairs = metadata.iter();
                let pairs = pairs.map(|(key, value)| (key.clone(), value.text()));
                self.attributes = pairs.collect();
            }
            // The cells can be read without the metadata.
            Err(error) => self.warnings.push(error.to_string()),
        }
    }

    fn add(&mut self, name: String, path: PathBuf) {
        self.tables.push(TableEntry::new(name));
        self.members.push(Member {
            path,
            table: RwLock::new(None),
        });
    }

    /// Adds the arrays of a group and of the groups below it. `above` are the directories of the
    /// groups from the container's to this one, both included, without links.
    fn add_group(
        &mut self,
        group: &TileDbGroup,
        options: &TileDbOptions,
        prefix: &str,
        above: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let mut known: HashSet<String> = HashSet::new();
        for member in group.members() {
            let last = member.location.trim_end_matches('/').rsplit('/').next();
            let stem = || table_name(Path::new(last.unwrap_or_default()));
            let name = match &member.name {
                Some(name) => name.clone(),
                None => stem()?,
            };
            let name = format!("{prefix}{name}");
            let path = group.path().display();
            let mut leave_out = |reason: &str| {
                let location = &member.location;
                self.warnings.push(format!(
                    "{path}: the member {name:?} is left out: {location} {reason}"
                ));
            };
            if !known.insert(name.clone()) {
                leave_out("has the name of another member");
                continue;
            }
            let Some(path) = group.member_path(member) else {
                leave_out("is neither in the local file system nor in the directory of the group");
                continue;
            };
            // The first group is the container's.
            let is_outside = || !canonical(&path).starts_with(&above[0]);
            if self.options.refuse_outward_links && is_outside() {
                leave_out("is outside of the group's directory");
                continue;
            }
            if !member.is_group {
                if self.members.len() >= MAX_MEMBERS {
                    let message = format!("has more than {MAX_MEMBERS} arrays");
                    return Err(Error::invalid(&self.path, message));
                }
                self.add(name, path);
                continue;
            }
            let directory = canonical(&path);
            if above.len() >= MAX_DEPTH || above.contains(&directory) {
                leave_out("is a group that contains itself, or is nested too deeply");
                continue;
            }
            // Groups that share members have more paths than groups.
            self.groups += 1;
            if self.groups > MAX_MEMBERS {
                let message = format!("has more than {MAX_MEMBERS} groups");
                return Err(Error::invalid(&self.path, message));
            }
            let opened = place_of(&path, &self.session)
                .and_then(|place| TileDbGroup::open(place, &options.open));
            match opened {
                Ok(inner) => {
                    above.push(directory);
                    self.add_group(&inner, options, &format!("{name}/"), above)?;
                    above.pop();
                }
                Err(error) => leave_out(&format!("cannot be opened: {error}")),
            }
        }
        Ok(())
    }

    /// Returns the open array with an index, and its table. The array is opened again after this process
    /// has added a fragment.
    fn member(&self, index: usize) -> Result<OpenMember> {
        let member = &self.members[index];
        let name = &self.tables[index].name;
        let array = match member.opened() {
            Some((array, table)) => match array.renewed()? {
                Some(array) => array,
                None => return Ok((array, table)),
            },
            None => StoredArray::open(&member.path, name, &self.options, &self.session)?,
        };
        let array = Arc::new(array);
        let source: Arc<dyn BlockSource> = match array.array().schema().is_sparse {
            true => Arc::new(SparseTable::new(Arc::clone(&array))),
            false => {
                let grid = open_grid(Arc::clone(&array))?;
                Arc::new(GridTable::new(grid))
            }
        };
        if let Ok(mut table) = member.table.write() {
            *table = Some((Arc::clone(&array), Arc::clone(&source)));
        }
        Ok((array, source))
    }
}

/// Returns the path without links, or the path itself if there is no such directory.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

impl Container for TileDbContainer {
    fn format(&self) -> &'static str {
        FORMAT
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

    fn table(&self, name: &str) -> Result<Option<Arc<dyn BlockSource>>> {
        match self.tables.iter().position(|table| table.name == name) {
            Some(index) => Ok(Some(self.member(index)?.1)),
            None => Ok(None),
        }
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn attributes(&self) -> Vec<(String, String)> {
        self.attributes.clone()
    }

    fn summary(&self) -> ContainerSummary {
        let opened = self.members.iter().filter_map(Member::opened);
        let opened: Vec<OpenMember> = opened.collect();
        let fragments = opened
            .iter()
            .flat_map(|(array, _)| array.array().fragments());
        let tiles = fragments.fold(0u64, |sum, fragment| sum.saturating_add(fragment.tiles()));
        let version = opened
            .iter()
            .map(|(array, _)| array.array().schema().version)
            .max();
        ContainerSummary {
            version,
            datasets: Some(self.tables.len() as u64),
            chunks: version.map(|_| tiles),
            has_statistics: None,
            ..ContainerSummary::default()
        }
    }
}
