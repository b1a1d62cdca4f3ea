//! Locations that are URLs: one file or directory of a store, or those that match a pattern.

use std::path::{Path, PathBuf};

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::prelude::SessionConfig;
use glob::{MatchOptions, Pattern};

use crate::format::io::remote::RemoteDirectory;
use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::remote::stores::RemoteStores;

/// The maximum number of files that a pattern may match.
const MAX_FILES: usize = 100_000;

/// Returns the files of a location that is a URL, and the name of the dataset after a `#`, or of an
/// array in a Zarr hierarchy: `https://host/store.zarr/t2m`. The URL may be a pattern with `*` and
/// `[...]`, if the store lists directories.
///
/// # Errors
/// Returns an error if the text is not a valid URL, or if no file matches a pattern.
pub(crate) fn locate(
    text: &str,
    session: &SessionConfig,
) -> Result<(Vec<PathBuf>, Option<String>)> {
    let (text, dataset) = match text.rsplit_once('#') {
        Some((text, dataset)) if !dataset.is_empty() => (text, Some(dataset.to_string())),
        _ => (text, None),
    };
    let shown = RemoteStores::of(session).admit(text)?;
    if shown.contains(['*', '[']) {
        return Ok((matches(&shown, session)?, dataset));
    }
    if dataset.is_none()
        && let Some((root, member)) = member(&shown)
    {
        return Ok((vec![root.to_path_buf()], Some(member)));
    }
    Ok((vec![shown.into()], dataset))
}

/// Splits the URL of an array in a Zarr hierarchy, by the extension of the hierarchy.
fn member(url: &str) -> Option<(&Path, String)> {
    let end = url.rfind(".zarr/")? + ".zarr".len();
    let member = url[end..].trim_matches('/');
    (!member.is_empty()).then(|| (Path::new(&url[..end]), member.to_string()))
}

/// Returns the files that match a pattern, sorted. Directories match if an array format has their
/// extension.
fn matches(pattern: &str, session: &SessionConfig) -> Result<Vec<PathBuf>> {
    let first = pattern.find(['*', '[']).unwrap_or(pattern.len());
    let base = pattern[..first].rfind('/').map_or(first, |slash| slash + 1);
    let (base, rest) = pattern.split_at(base);
    let stores = RemoteStores::of(session);
    let Some(place) = stores.place(Path::new(base.trim_end_matches('/')))? else {
        return plan_err!("{pattern}: is not a URL");
    };
    let directory = RemoteDirectory::new(place);
    let formats = FormatRegistry::of(session);
    let options = MatchOptions {
        require_literal_leading_dot: true,
        ..MatchOptions::default()
    };
    let levels: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
    let mut keys = vec![String::new()];
    for (number, level) in levels.iter().enumerate() {
        let compiled = Pattern::new(level).map_err(|error| {
            plan_datafusion_err!("{pattern}: the pattern is malformed: {error}")
        })?;
        if level.contains("**") {
            return plan_err!("{pattern}: ** is not supported in URLs; write each level as *");
        }
        let is_last = number + 1 == levels.len();
        let mut next = Vec::new();
        for key in &keys {
            let entries = directory.entries(key).map_err(|error| {
                plan_datafusion_err!("{pattern}: the files of this pattern are not known: {error}")
            })?;
            let is_container = |name: &String| formats.by_name(name).is_some();
            let directories = entries.directories.into_iter();
            let directories = directories.filter(|name| !is_last || is_container(name));
            let objects = entries.objects.into_iter().filter(|_| is_last);
            let names = directories.chain(objects);
            let names = names.filter(|name| compiled.matches_with(name, options));
            next.extend(names.map(|name| match key.as_str() {
                "" => name,
                key => format!("{key}/{name}"),
            }));
        }
        if next.len() > MAX_FILES {
            return plan_err!("{pattern}: matches more than {MAX_FILES} files");
        }
        keys = next;
    }
    if keys.is_empty() {
        return plan_err!("{pattern}: no file matches the pattern");
    }
    keys.sort();
    let base = base.trim_end_matches('/');
    Ok(keys
        .iter()
        .map(|key| PathBuf::from(format!("{base}/{key}")))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
    use object_store::memory::InMemory;
    use object_store::path::Path as ObjectPath;
    use object_store::{ObjectStore, ObjectStoreExt};
    use url::Url;

    use super::*;

    #[test]
    fn datasets_are_named_after_a_hash_or_by_their_path() {
        let session = SessionConfig::new();
        for (text, file, dataset) in [
            ("s3://b/a.tet", "s3://b/a.tet", None),
            ("s3://b/a.tet#t2m", "s3://b/a.tet", Some("t2m")),
            ("https://h/a.zarr/g/t2m", "https://h/a.zarr", Some("g/t2m")),
            ("https://h/a.zarr/", "https://h/a.zarr/", None),
            ("https://u:p@h/a.tet?s=1#x", "https://h/a.tet", Some("x")),
        ] {
            let found = locate(text, &session).unwrap();
            let files = vec![PathBuf::from(file)];
            assert_eq!(found, (files, dataset.map(str::to_string)));
        }
    }

    #[tokio::test]
    async fn patterns_list_directories() {
        let store = InMemory::new();
        for key in [
            "d/a.tet",
            "d/b.tet",
            "d/c.csv",
            "d/e.zarr/zarr.json",
            "d/f/g.tet",
            "h/a.tet",
        ] {
            store.put(&ObjectPath::from(key), "x".into()).await.unwrap();
        }
        let registry = DefaultObjectStoreRegistry::new();
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        registry.register_store(&Url::parse("s3://b").unwrap(), store);
        let stores = RemoteStores::new(Arc::new(registry));
        let session = SessionConfig::new().with_extension(Arc::new(stores));
        for (pattern, expected) in [
            ("s3://b/d/*.tet", vec!["s3://b/d/a.tet", "s3://b/d/b.tet"]),
            ("s3://b/d/[ae].*", vec!["s3://b/d/a.tet", "s3://b/d/e.zarr"]),
            ("s3://b/*/a.tet", vec!["s3://b/d/a.tet", "s3://b/h/a.tet"]),
            ("s3://b/d/*/g.tet", vec!["s3://b/d/f/g.tet"]),
        ] {
            let (files, _) = locate(pattern, &session).unwrap();
            assert_eq!(
                files,
                expected.iter().map(PathBuf::from).collect::<Vec<_>>()
            );
        }
        for (pattern, expected) in [
            ("s3://b/x*.tet", "no file matches"),
            ("s3://b/**/a.tet", "** is not supported"),
            ("s3://b/[.tet", "malformed"),
        ] {
            let error = locate(pattern, &session).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
