//! Object stores that are created when a URL first needs them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use object_store::ObjectStore;
use url::{Position, Url};

use crate::format::io::remote::without_secrets;
use crate::provider::remote::create::create;

/// A registry that creates the stores of `s3://`, `gs://`, `az://`, `abfs://`, `http://`, `https://`
/// and `memory://` on first use. Credentials come from the environment, as for the tools of the
/// cloud providers. The command `tet-sql` and the Python package use it.
///
/// In a session with this registry, SQL can send requests to any host.
///
/// ```
/// # use std::sync::Arc;
/// use datafusion::prelude::{SessionConfig, SessionContext};
/// use tet_sql::{ArrayOptions, LazyStores, enable_arrays};
///
/// # fn main() -> datafusion::error::Result<()> {
/// let runtime = LazyStores::runtime()?;
/// let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
/// let ctx = enable_arrays(ctx, ArrayOptions::new());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LazyStores {
    registered: Arc<dyn ObjectStoreRegistry>,
    /// The stores of URLs with a user name, such as the containers of Azure, which DataFusion's
    /// registry does not tell apart.
    of_users: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
}

impl Default for LazyStores {
    fn default() -> Self {
        Self::new(Arc::new(DefaultObjectStoreRegistry::new()))
    }
}

impl LazyStores {
    /// Creates a registry that creates the stores missing in `registered`, and adds them to it.
    pub fn new(registered: Arc<dyn ObjectStoreRegistry>) -> Self {
        Self {
            registered,
            of_users: Mutex::default(),
        }
    }

    /// Returns the store of a URL with a user name.
    fn of_user(&self, url: &Url) -> Result<Option<Arc<dyn ObjectStore>>> {
        let key = url[..Position::BeforePath].to_string();
        let mut stores = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(&key) {
            return Ok(Some(Arc::clone(store)));
        }
        let store = created(url)?;
        if let Some(store) = &store {
            stores.insert(key, Arc::clone(store));
        }
        Ok(store)
    }

    /// Returns a runtime with this registry, for a new session.
    ///
    /// # Errors
    /// Returns an error if the runtime cannot be created.
    pub fn runtime() -> Result<Arc<RuntimeEnv>> {
        RuntimeEnvBuilder::new()
            .with_object_store_registry(Arc::new(Self::default()))
            .build_arc()
    }
}

impl ObjectStoreRegistry for LazyStores {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.registered.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.registered.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let registered = self.registered.get_store(url);
        if registered.is_ok() {
            return registered;
        }
        if !url.username().is_empty() {
            return self.of_user(url)?.map_or(registered, Ok);
        }
        match created(url)? {
            Some(store) => {
                self.registered.register_store(url, Arc::clone(&store));
                Ok(store)
            }
            None => registered,
        }
    }
}

fn created(url: &Url) -> Result<Option<Arc<dyn ObjectStore>>> {
    create(url, &[])
        .map_err(|error| DataFusionError::Execution(without_secrets(&error.to_string())))
}
