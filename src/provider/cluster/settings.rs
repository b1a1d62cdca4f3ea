//! Carries the settings of the coordinator's session to its workers, in a header of every request.

use std::collections::HashMap;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::config::ConfigOptions;
use tonic::codegen::http::{HeaderMap, HeaderValue};
use url::form_urlencoded;

use crate::provider::catalog::settings::config::ArraySettings;

/// The name of the header.
const HEADER: &str = "x-tet-sql-settings";
/// Settings that belong to a machine.
const OF_MACHINE: [&str; 4] = [
    "tet.cache_dir",
    "tet.cache_size",
    "tet.cluster",
    "tet.cluster_task_size",
];

/// A setting whose default is the number of processors of the machine.
const OF_PROCESSORS: &str = "datafusion.execution.target_partitions";

/// Returns the headers with the settings that differ from the defaults of any machine.
pub(super) fn headers(options: &ConfigOptions) -> Result<HeaderMap> {
    let defaults: HashMap<String, Option<String>> = entries(&defaults()).collect();
    let mut encoded = form_urlencoded::Serializer::new(String::new());
    for (name, value) in entries(options) {
        let is_default = defaults.get(&name) == Some(&value) && name != OF_PROCESSORS;
        if let Some(value) = value.filter(|_| !is_default) {
            encoded.append_pair(&name, &value);
        }
    }
    let value = HeaderValue::try_from(encoded.finish())
        .map_err(|error| exec_datafusion_err!("cannot send the settings to workers: {error}"))?;
    Ok(HeaderMap::from_iter([(
        tonic::codegen::http::HeaderName::from_static(HEADER),
        value,
    )]))
}

/// Applies the settings in the headers of a request.
pub(super) fn apply(headers: &HeaderMap, options: &mut ConfigOptions) -> Result<()> {
    if options.extensions.get::<ArraySettings>().is_none() {
        options.extensions.insert(ArraySettings::default());
    }
    let Some(encoded) = headers.get(HEADER) else {
        return Ok(());
    };
    for (name, value) in form_urlencoded::parse(encoded.as_bytes()) {
        if is_sent(&name) {
            options.set(&name, &value)?;
        }
    }
    Ok(())
}

fn defaults() -> ConfigOptions {
    let mut defaults = ConfigOptions::default();
    defaults.extensions.insert(ArraySettings::default());
    defaults
}

/// Returns the names and values of the settings that are sent.
fn entries(options: &ConfigOptions) -> impl Iterator<Item = (String, Option<String>)> {
    let entries = options.entries().into_iter();
    entries
        .filter(|entry| is_sent(&entry.key))
        .map(|entry| (entry.key, entry.value))
}

fn is_sent(name: &str) -> bool {
    (name.starts_with("datafusion.") || name.starts_with("tet.")) && !OF_MACHINE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_arrive_except_those_of_the_machine() {
        let mut options = defaults();
        for (name, value) in [
            ("datafusion.execution.batch_size", "77"),
            ("datafusion.execution.time_zone", "+02:00"),
            ("tet.nan_as_null", "false"),
            ("tet.cache_dir", "/somewhere & else"),
            ("tet.cluster", "http://localhost:1"),
        ] {
            options.set(name, value).unwrap();
        }
        let headers = headers(&options).unwrap();
        let mut found = ConfigOptions::default();
        apply(&headers, &mut found).unwrap();
        assert_eq!(found.execution.batch_size.get(), 77);
        assert_eq!(found.execution.time_zone.as_deref(), Some("+02:00"));
        let settings = found.extensions.get::<ArraySettings>().unwrap();
        assert!(!settings.nan_as_null);
        assert_eq!(
            (settings.cache_dir.as_str(), settings.cluster.as_str()),
            ("", "")
        );
        assert_eq!(
            apply(&HeaderMap::new(), &mut found).map_err(|error| error.to_string()),
            Ok(())
        );
    }
}
