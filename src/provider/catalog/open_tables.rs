//! [`OpenTables`]: the tables that a worker has opened for earlier queries.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::format::io::storage::Storage;
use crate::provider::source::BlockSource;
use crate::provider::source::recipe::TableRecipe;

/// The maximum number of tables.
const MAX_TABLES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// A cache of open tables of single files. Without it, a worker would read the metadata of a file and map its pages
/// for every query.
#[derive(Debug)]
pub(crate) struct OpenTables(Mutex<LruCache<TableRecipe, Arc<dyn BlockSource>>>);

impl Default for OpenTables {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_TABLES)))
    }
}

impl OpenTables {
    fn lock(&self) -> MutexGuard<'_, LruCache<TableRecipe, Arc<dyn BlockSource>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the table of a recipe if it is open, and its file still has the identity in the recipe. If the file
    /// has another identity, the table is removed.
    pub fn get(&self, recipe: &TableRecipe) -> Option<Arc<dyn BlockSource>> {
        let table = Arc::clone(self.lock().get(recipe)?);
        let now = Storage::open(&recipe.path).and_then(|file| file.identity());
        if now.ok() == recipe.identity {
            return Some(table);
        }
        self.lock().pop(recipe);
        None
    }

    /// Adds a table that was opened from this recipe, unless its container is a directory or an object of a store.
    pub fn add(&self, recipe: &TableRecipe, table: &Arc<dyn BlockSource>) {
        if recipe.identity.is_some() && recipe.path.is_file() {
            self.lock().put(recipe.clone(), Arc::clone(table));
        }
    }
}

#[cfg(all(test, feature = "cluster"))]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::prelude::SessionConfig;

    use super::*;
    use crate::provider::catalog::reopen;
    use crate::provider::plans::fixtures::arrays;
    use crate::provider::scan::tasks::as_array_scan;

    #[tokio::test]
    async fn tables_remain_open_until_their_file_changes() {
        let (directory, ctx) = arrays().await;
        let frame = ctx.sql("SELECT * FROM a").await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let mut recipe = None;
        plan.apply(|node| {
            if let Some((_, scan)) = as_array_scan(node) {
                recipe = scan.source().recipe()?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        let recipe = recipe.unwrap();
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
}
