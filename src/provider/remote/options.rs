//! The options of object stores in `CREATE EXTERNAL TABLE ... OPTIONS ('aws.region' 'eu-west-1')` and
//! `COPY`.

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};

use datafusion::catalog::Session;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use url::Url;

use crate::format::io::remote::{is_url, redacted, without_secrets};
use crate::provider::remote::create::{StoreOption, create};
use crate::provider::remote::stores::RemoteStores;

/// The prefixes of the options of stores.
const PREFIXES: [&str; 4] = ["aws.", "gcp.", "google.", "azure."];
/// The option of all stores that reads without credentials.
const ANONYMOUS: &str = "anonymous";
/// The prefix that DataFusion adds to options without one.
const FORMAT_PREFIX: &str = "format.";

/// The options of a statement that concern the store of its location.
#[derive(Clone, Default)]
pub(crate) struct StoreOptions(Vec<StoreOption>);

impl Debug for StoreOptions {
    /// Shows only the names, because the values may be secrets.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl StoreOptions {
    /// Returns `true` if there are no options.
    #[cfg(feature = "sql")]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the options of stores out of the options of a statement.
    pub fn take(options: &mut HashMap<String, String>) -> Self {
        let mut taken = Vec::new();
        options.retain(|key, value| {
            let name = key.strip_prefix(FORMAT_PREFIX).unwrap_or(key);
            let name = name.to_ascii_lowercase();
            let own = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
            let own = own.or((name == ANONYMOUS).then_some(ANONYMOUS));
            if let Some(own) = own {
                taken.push((own.to_string(), value.clone()));
            }
            own.is_none()
        });
        taken.sort();
        Self(taken)
    }
}

/// Creates the store of a location with these options, and registers it in the session. Later
/// statements about the same bucket use this store, too.
///
/// # Errors
/// Returns an error if there are options, but the location is not a URL, or an option is invalid.
pub(crate) fn register(state: &dyn Session, location: &str, options: &StoreOptions) -> Result<()> {
    let StoreOptions(options) = options;
    if options.is_empty() {
        return Ok(());
    }
    if !is_url(location) {
        return plan_err!(
            "{location}: options such as 'aws.region' need a URL, such as s3://bucket/path"
        );
    }
    let url = Url::parse(location)
        .map_err(|error| plan_datafusion_err!("{}: {error}", without_secrets(location)))?;
    let shown = redacted(&url);
    let store = create(&url, options).map_err(|error| {
        plan_datafusion_err!("{shown}: {}", without_secrets(&error.to_string()))
    })?;
    let Some(store) = store else {
        return plan_err!("{shown}: there is no object store for {}://", url.scheme());
    };
    state.runtime_env().register_object_store(&url, store);
    Ok(())
}

/// Creates the store that a `COPY` writes to, like [`register`]: with the options of its format, and with
/// those that were taken from the statement before it was planned.
///
/// # Errors
/// Returns the errors of [`register`].
pub(crate) fn register_for_copy(
    state: &dyn Session,
    location: &str,
    options: &StoreOptions,
) -> Result<()> {
    let taken = RemoteStores::of(state.config()).take_options(location);
    let all = options.0.iter().cloned().chain(taken.0).collect();
    register(state, location, &StoreOptions(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_stores_are_taken() {
        let all = [
            ("aws.region", "x"),
            ("format.anonymous", "true"),
            ("format.dataset", "t2m"),
        ];
        let all = all.map(|(key, value)| (key.to_string(), value.to_string()));
        let mut options = HashMap::from(all);
        let StoreOptions(taken) = StoreOptions::take(&mut options);
        let expected = [("anonymous", "true"), ("region", "x")];
        let expected = expected.map(|(key, value)| (key.to_string(), value.to_string()));
        assert_eq!(taken, expected);
        assert_eq!(options.len(), 1);
    }
}
