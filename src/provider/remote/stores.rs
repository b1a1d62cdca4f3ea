//! The object stores of a session, and the secrets of the URLs that it opened.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use datafusion::common::DataFusionError;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::ObjectStore;
use object_store::path::Path as ObjectPath;
use url::{Position, Url};

use crate::error::Error;
use crate::format::io::remote::{
    RemotePlace, RemoteStore, credentials, is_url, redacted, without_secrets,
};
use crate::format::remote_location_advice;
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::remote::create::{checked_store, http_store, is_known};
use crate::provider::remote::options::StoreOptions;
use crate::provider::remote::signed::SignedFiles;

/// The maximum number of `COPY` statements whose options are kept until they run.
#[cfg(feature = "sql")]
const MAX_PLANNED: usize = 64;

/// The object stores of a session, as an extension of its configuration.
///
/// Paths of the session that are URLs lead to these stores. A URL with a password or a signature is
/// known by its text without them, so that no message shows them:
///
/// ```text
/// https://user:secret@host/a.tet?sig=...   -->   https://host/a.tet
/// ```
pub struct RemoteStores {
    registry: Arc<dyn ObjectStoreRegistry>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The stores in use, by their scheme and host. All queries of the session share the limit on
    /// the requests to a store.
    stores: HashMap<String, RemoteStore>,
    /// Complete URLs, by their text without secrets.
    secrets: HashMap<String, Url>,
    /// The stores by which DataFusion reads files with secrets, by their scheme and host.
    signed: HashMap<String, Arc<SignedFiles>>,
    /// The options of `COPY` statements that are being planned, by location.
    options: HashMap<String, StoreOptions>,
}

impl fmt::Debug for RemoteStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStores").finish_non_exhaustive()
    }
}

impl RemoteStores {
    /// Creates the stores of a registry.
    pub fn new(registry: Arc<dyn ObjectStoreRegistry>) -> Self {
        Self {
            registry,
            state: Mutex::default(),
        }
    }

    /// Returns the stores of a session. A configuration that belongs to no session has none.
    pub fn of(session: &SessionConfig) -> Arc<Self> {
        static NONE: LazyLock<Arc<RemoteStores>> = LazyLock::new(|| {
            let registry = DefaultObjectStoreRegistry::new();
            Arc::new(RemoteStores::new(Arc::new(registry)))
        });
        let own = session.get_extension::<Self>();
        own.unwrap_or_else(|| Arc::clone(&NONE))
    }

    /// Makes the configuration of a session refer to the stores of its runtime.
    pub(crate) fn install(context: &SessionContext) {
        let registry = Arc::clone(&context.runtime_env().object_store_registry);
        let state = context.state_ref();
        let mut state = state.write();
        let config = state.config_mut();
        let own = config.get_extension::<Self>();
        if own.is_none_or(|own| !Arc::ptr_eq(&own.registry, &registry)) {
            config.set_extension(Arc::new(Self::new(registry)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the text by which the session knows a URL: without secrets, which are kept here. Any
    /// other text is returned as it is.
    ///
    /// # Errors
    /// Returns an error if the text begins like a URL, but is none.
    pub fn admit(&self, text: &str) -> Result<String, Error> {
        if !is_url(text) {
            return Ok(text.to_string());
        }
        let url = parse(text)?;
        if credentials(&url).is_none() && !has_signature(&url) {
            return Ok(text.to_string());
        }
        let shown = redacted(&url);
        let known = self.state().secrets.insert(shown.clone(), url.clone());
        if let Some(known) = known.filter(|known| !is_same_file(known, &url)) {
            self.state().secrets.insert(shown.clone(), known);
            return Err(Error::invalid(
                Path::new(&shown),
                "this session has already opened this URL with other parameters after the `?`, and knows files by their \
                 URLs without parameters; open the file in another session",
            ));
        }
        Ok(shown)
    }

    /// Keeps the options of a `COPY` to a location until it runs, so that its plan does not show them.
    #[cfg(feature = "sql")]
    pub(crate) fn put_options(&self, location: &str, options: StoreOptions) {
        let mut state = self.state();
        // The options of statements that are refused after they were planned are never taken.
        if state.options.len() >= MAX_PLANNED {
            state.options.clear();
        }
        state.options.insert(location.to_string(), options);
    }

    /// Returns the options that were kept for a location, and forgets them.
    pub(crate) fn take_options(&self, location: &str) -> StoreOptions {
        self.state().options.remove(location).unwrap_or_default()
    }

    /// Returns the place that a path leads to, if the path is a URL.
    ///
    /// # Errors
    /// Returns an error if the session has no store for the URL.
    pub fn place(&self, path: &Path) -> Result<Option<RemotePlace>, Error> {
        let Some(text) = path.to_str().filter(|text| is_url(text)) else {
            return Ok(None);
        };
        let shown = self.admit(text)?;
        let secret = self.state().secrets.get(&shown).cloned();
        if let Some(url) = secret.filter(|url| matches!(url.scheme(), "http" | "https")) {
            return self.secret_place(&url, &shown).map(Some);
        }
        let url = parse(&shown)?;
        let store = self.registry.get_store(&url);
        let store = store.map_err(|error| no_store(&url, &shown, &error))?;
        let key = url[..Position::BeforePath].to_string();
        let location = ObjectPath::from_url_path(url.path());
        let location = location.map_err(|error| {
            Error::invalid(Path::new(&shown), without_secrets(&error.to_string()))
        })?;
        let store = self.limited(key, store);
        Ok(Some(RemotePlace::new(store, location, shown)))
    }

    /// Returns the place of a URL with secrets, which has a store of its own.
    fn secret_place(&self, url: &Url, shown: &str) -> Result<RemotePlace, Error> {
        let known = self.state().stores.get(url.as_str()).cloned();
        let store = match known {
            Some(store) => store,
            None => {
                let store = http_store(url);
                let store = store.map_err(|error| {
                    Error::invalid(Path::new(shown), without_secrets(&error.to_string()))
                })?;
                self.limited(url.to_string(), store)
            }
        };
        Ok(RemotePlace::new(store, ObjectPath::default(), shown))
    }

    /// Registers the file of a signed URL, so that DataFusion can read it by the URL without its signature.
    ///
    /// # Errors
    /// Returns an error if the session has no store for the URL.
    pub(crate) fn admit_file(&self, shown: &str) -> Result<(), Error> {
        let secret = self.state().secrets.get(shown).cloned();
        let is_file = |url: &Url| url.scheme().starts_with("http") && !url.path().ends_with('/');
        let Some(secret) = secret.filter(is_file) else {
            return Ok(());
        };
        let invalid = |text: &str| Error::invalid(Path::new(shown), without_secrets(text));
        let location = ObjectPath::from_url_path(secret.path());
        let location = location.map_err(|error| invalid(&error.to_string()))?;
        let file = checked_store(&secret).map_err(|error| invalid(&error.to_string()))?;
        let url = parse(shown)?;
        let host = self.registry.get_store(&url);
        let host = host.map_err(|error| no_store(&url, shown, &error))?;
        let mut state = self.state();
        let key = url[..Position::BeforePath].to_string();
        let known = state.signed.get(&key).map(Arc::clone);
        let known = known.filter(|known| {
            let known: Arc<dyn ObjectStore> = Arc::<SignedFiles>::clone(known);
            Arc::ptr_eq(&known, &host)
        });
        let signed = known.unwrap_or_else(|| {
            let signed = Arc::new(SignedFiles::over(host));
            self.registry
                .register_store(&url, Arc::<SignedFiles>::clone(&signed));
            state.signed.insert(key, Arc::clone(&signed));
            signed
        });
        signed.add(location, file);
        Ok(())
    }

    /// Returns the store with its limit of requests. A store that was registered anew replaces the
    /// earlier one.
    fn limited(&self, key: String, store: Arc<dyn ObjectStore>) -> RemoteStore {
        let mut state = self.state();
        let known = state.stores.get(&key);
        if let Some(known) = known.filter(|known| Arc::ptr_eq(known.inner(), &store)) {
            return known.clone();
        }
        let store = RemoteStore::new(store);
        state.stores.insert(key, store.clone());
        store
    }
}

/// The parameters of signatures, in lower case. Those of AWS and Google begin with `x-amz-` and `x-goog-`.
const SIGNATURE_PARAMETERS: [&str; 24] = [
    "access_token",
    "awsaccesskeyid",
    "expires",
    "googleaccessid",
    "key-pair-id",
    "policy",
    "se",
    "ses",
    "sig",
    "signature",
    "sip",
    "ske",
    "skoid",
    "sks",
    "skt",
    "sktid",
    "skv",
    "sp",
    "spr",
    "sr",
    "st",
    "sv",
    "token",
    "sdd",
];

/// Returns `true` if two URLs differ in nothing but their signatures. Those of one file are renewed when they expire.
fn is_same_file(one: &Url, other: &Url) -> bool {
    let unsigned = |url: &Url| -> Vec<(String, String)> {
        let pairs = url.query_pairs().into_owned();
        let is_signature = |name: &str| {
            let name = name.to_lowercase();
            let has = |prefix| name.starts_with(prefix);
            has("x-amz-") || has("x-goog-") || SIGNATURE_PARAMETERS.contains(&name.as_str())
        };
        pairs.filter(|(name, _)| !is_signature(name)).collect()
    };
    unsigned(one) == unsigned(other)
}

/// Returns `true` if a URL has a query, such as the signature of a URL that gives access for some
/// time.
pub(super) fn has_signature(url: &Url) -> bool {
    url.query().is_some_and(|query| !query.is_empty())
}

/// Returns the error for a URL whose store the session does not have, or could not create. `shown` is the
/// URL without secrets.
pub(super) fn no_store(url: &Url, shown: &str, error: &DataFusionError) -> Error {
    let text = without_secrets(&error.strip_backtrace());
    let is_missing = text.contains("No suitable object store");
    let advice = match (is_missing, is_known(url), remote_location_advice(shown)) {
        (true, false, Some(advice)) => advice,
        (true, ..) => "the session has no object store for this URL; register one with \
             SessionContext::register_object_store, or let the session create it with LazyStores"
            .to_string(),
        _ => text,
    };
    Error::invalid(Path::new(shown), advice)
}

fn parse(text: &str) -> Result<Url, Error> {
    Url::parse(text).map_err(|error| {
        let shown = without_secrets(text);
        Error::invalid(Path::new(&shown), format!("is not a valid URL: {error}"))
    })
}

/// Returns the place that a path leads to, if the path is a URL. What is fetched from there is kept in the
/// cache directory of the session, if it has one.
///
/// # Errors
/// Returns an error if the session has no store for the URL.
pub(crate) fn place(path: &Path, session: &SessionConfig) -> Result<Option<RemotePlace>, Error> {
    let place = RemoteStores::of(session).place(path)?;
    Ok(place.map(|place| place.with_cache(ArraySettings::cache(session.options()))))
}

/// Returns the path by which a session knows a path or URL.
///
/// # Errors
/// Returns an error if the path begins like a URL, but is none.
pub(crate) fn admitted(path: &Path, session: &SessionConfig) -> Result<PathBuf, Error> {
    match path.to_str().filter(|text| is_url(text)) {
        Some(text) => Ok(RemoteStores::of(session).admit(text)?.into()),
        None => Ok(path.to_path_buf()),
    }
}

/// Returns a path or URL without secrets.
pub(crate) fn shown(path: &Path) -> PathBuf {
    match path.to_str().filter(|text| is_url(text)) {
        Some(text) => match Url::parse(text) {
            Ok(url) => redacted(&url).into(),
            Err(_) => without_secrets(text).into(),
        },
        None => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_kept_out_of_paths() {
        let stores = RemoteStores::new(Arc::new(DefaultObjectStoreRegistry::new()));
        for (given, expected) in [
            ("a.tet", "a.tet"),
            ("s3://bucket/a b.tet", "s3://bucket/a b.tet"),
            ("https://u:p@host/a.tet?sig=1", "https://host/a.tet"),
        ] {
            assert_eq!(stores.admit(given).unwrap(), expected);
        }
        let place = stores
            .place(Path::new("https://host/a.tet"))
            .unwrap()
            .unwrap();
        assert_eq!(place.path(), Path::new("https://host/a.tet"));
        let error = stores.place(Path::new("https://other/a.tet")).unwrap_err();
        assert!(error.to_string().contains("no object store"), "{error}");
        let error = stores.admit("https://u:p@/").unwrap_err().to_string();
        assert!(!error.contains("u:p"), "{error}");
    }
}
