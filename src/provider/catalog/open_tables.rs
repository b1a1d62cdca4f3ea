//! [`OpenTables`]: the tables that a worker has opened for earlier queries.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::format::io::handles::Identity;
use crate::format::io::identity::FileIdentity;
use crate::format::io::storage::Storage;
#[cfg(feature = "tatami")]
use crate::provider::adapters::tatami::COLLECTION_FORMAT;
use crate::provider::source::BlockSource;
use crate::provider::source::recipe::TableRecipe;

/// The maximum number of tables.
const MAX_TABLES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// A cache of open tables of single files. Without it, a worker would read the metadata of a file and map its pages
/// for every query.
#[derive(Debug)]
pub(crate) struct OpenTables(Mutex<Tables>);

/// Tables by their recipes without the identities of files, so that the table of a changed file replaces the
/// earlier one.
type Tables = LruCache<TableRecipe, OpenTable>;

#[derive(Debug, Clone)]
struct OpenTable {
    table: Arc<dyn BlockSource>,
    file: OpenFile,
}

/// The file of a table: what it contains, and which file it is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenFile {
    content: FileIdentity,
    file: Identity,
}

impl OpenFile {
    /// Returns the file at a path as it is now; `None` if there is no such file, or if it cannot be read.
    pub fn at(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
        Some(Self {
            file: Identity::of(&metadata),
            content: Storage::open(path).and_then(|file| file.identity()).ok()?,
        })
    }
}

impl Default for OpenTables {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_TABLES)))
    }
}

impl OpenTables {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the table of a recipe if it is open, and its file `now` is the one that was opened. A table of
    /// another file is removed.
    pub fn get(
        &self,
        recipe: &TableRecipe,
        now: Option<&OpenFile>,
    ) -> Option<Arc<dyn BlockSource>> {
        let key = key(recipe);
        let open = self.lock().get(&key)?.clone();
        let is_unchanged =
            now == Some(&open.file) && recipe.identity.as_ref() == Some(&open.file.content);
        if !is_unchanged {
            self.lock().pop(&key);
            return None;
        }
        Some(open.table)
    }

    /// Adds a table that was opened from this recipe. `file` is its file as it was before.
    pub fn add(&self, recipe: &TableRecipe, file: OpenFile, table: &Arc<dyn BlockSource>) {
        // The documents of a collection are in further files.
        #[cfg(feature = "tatami")]
        if recipe.format == COLLECTION_FORMAT {
            return;
        }
        if recipe.identity.as_ref() == Some(&file.content) {
            let table = Arc::clone(table);
            self.lock().put(key(recipe), OpenTable { table, file });
        }
    }
}

fn key(recipe: &TableRecipe) -> TableRecipe {
    TableRecipe {
        identity: None,
        ..recipe.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::provider::catalog::reopen;
    use crate::provider::plans::fixtures::arrays;
    use crate::provider::scan::ArrayScan;
    use crate::provider::source::recipe::Recipe;

    async fn recipe(ctx: &SessionContext) -> Recipe {
        let frame = ctx.sql("SELECT * FROM a").await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let mut recipe = None;
        plan.apply(|node| {
            if let Some((_, scan)) = ArrayScan::of(node.as_ref()) {
                recipe = scan.source().recipe()?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        recipe.unwrap()
    }

    #[tokio::test]
    async fn tables_remain_open_until_their_file_changes() {
        let (directory, ctx) = arrays().await;
        let recipe = recipe(&ctx).await;
        let tables = Arc::new(OpenTables::default());
        let session = SessionConfig::new().with_extension(Arc::clone(&tables));
        let first = reopen::open(&recipe, &session).unwrap();
        let second = reopen::open(&recipe, &session).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let file = File::options()
            .append(true)
            .open(directory.path().join("arrays.tet"));
        let later = SystemTime::now() + Duration::from_secs(1);
        file.unwrap().set_modified(later).unwrap();
        let error = reopen::open(&recipe, &session).unwrap_err();
        assert!(error.to_string().contains("was replaced or changed"));
        assert!(tables.lock().is_empty());
    }

    /// A copy with the same bytes and the same time is another file, and the old one must not remain open.
    #[tokio::test]
    async fn a_copy_takes_the_place_of_its_file() {
        let (directory, ctx) = arrays().await;
        let recipe = recipe(&ctx).await;
        let tables = Arc::new(OpenTables::default());
        let session = SessionConfig::new().with_extension(Arc::clone(&tables));
        let first = reopen::open(&recipe, &session).unwrap();
        let path = directory.path().join("arrays.tet");
        let copy = directory.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        let modified = path.metadata().unwrap().modified().unwrap();
        let file = File::options().append(true).open(&copy).unwrap();
        file.set_modified(modified).unwrap();
        std::fs::rename(&copy, &path).unwrap();
        let second = reopen::open(&recipe, &session).unwrap();
        assert_eq!(Arc::ptr_eq(&first, &second), !cfg!(unix));
        assert_eq!(tables.lock().len(), 1);
    }
}
