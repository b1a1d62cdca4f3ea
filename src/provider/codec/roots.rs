//! [`Roots`]: the directories and URLs under which a process opens the files of plans from others.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
#[cfg(feature = "remote")]
use url::Url;

use crate::error::Error;
#[cfg(feature = "remote")]
use crate::format::io::remote::is_url;
#[cfg(feature = "remote")]
use crate::provider::remote::TargetCheck;
use crate::provider::scan::ArrayScan;
use crate::provider::source::recipe::Recipe;

/// The option of a format that names a file.
const KEY_FILE: &str = "key_file";
/// The operators that a plan from another process may have, besides scans of arrays and tables in memory.
/// None of them reads or writes files.
const OPERATORS: [&str; 23] = [
    "AggregateExec",
    "ArrayAggregateExec",
    "ArrayGroupingSetsExec",
    "ArrayJoinAggregateExec",
    "ArrayLookupJoinExec",
    "ArrayWindowExec",
    "BatchSlicesExec",
    "BoundedWindowAggExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "EmptyExec",
    "FilterExec",
    "GroupingSetsExec",
    "HashJoinExec",
    "KeptRowsExec",
    "LocalLimitExec",
    "NestedLoopJoinExec",
    "ProjectionExec",
    "RepartitionExec",
    "SortExec",
    "SortPreservingMergeExec",
    "UnnestExec",
    "WindowAggExec",
];

/// The directories and URLs under which a process opens the files of plans that other processes encoded.
///
/// ```
/// use tet_sql::Roots;
///
/// # fn main() -> datafusion::error::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # std::fs::write(folder.path().join("a.tet"), b"")?;
/// # let directory = folder.path();
/// let roots = Roots::new([directory])?;
/// assert!(roots.check(&directory.join("a.tet")).is_ok());
/// assert!(roots.check("/etc/passwd".as_ref()).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// Absolute paths without symbolic links.
    directories: Vec<PathBuf>,
    #[cfg(feature = "remote")]
    urls: Vec<Url>,
}

impl Roots {
    /// Creates the roots from paths of directories or files, and from URLs.
    ///
    /// # Errors
    /// Returns an error if a path does not exist, or a URL cannot be parsed.
    pub fn new<P: AsRef<Path>>(roots: impl IntoIterator<Item = P>) -> Result<Self> {
        let mut all = Self::default();
        for root in roots {
            let path = root.as_ref();
            #[cfg(feature = "remote")]
            if let Some(text) = path.to_str().filter(|text| is_url(text)) {
                all.urls.push(parsed(text)?);
                continue;
            }
            let path = path.canonicalize().map_err(Error::io(path, "resolve"))?;
            all.directories.push(path);
        }
        Ok(all)
    }

    /// Checks that a path or URL is under one of the roots. Symbolic links are followed.
    ///
    /// # Errors
    /// Returns an error that names the path otherwise, or if the path does not exist.
    pub fn check(&self, path: &Path) -> Result<()> {
        Ok(self.admits(path)?)
    }

    fn admits(&self, path: &Path) -> Result<(), Error> {
        #[cfg(feature = "remote")]
        if let Some(text) = path.to_str().filter(|text| is_url(text)) {
            let url = parsed(text)?;
            return match self.urls.iter().any(|root| is_under(&url, root)) {
                true => Ok(()),
                false => outside(path),
            };
        }
        let Ok(found) = path.canonicalize() else {
            // Tells nothing about files outside of the roots.
            let is_plain = !path.components().any(|part| part == Component::ParentDir);
            let mut roots = self.directories.iter();
            return match is_plain && roots.any(|root| path.starts_with(root)) {
                true => Err(Error::invalid(path, "no such file on this machine")),
                false => outside(path),
            };
        };
        match self.directories.iter().any(|root| found.starts_with(root)) {
            true => Ok(()),
            false => outside(path),
        }
    }

    /// Returns the settings of a session in which references lead to nothing outside of the roots.
    pub(super) fn within(self: &Arc<Self>, session: &SessionConfig) -> SessionConfig {
        let session = session.clone();
        #[cfg(feature = "remote")]
        let session = {
            let roots = Arc::clone(self);
            let check = TargetCheck::new(move |path| roots.admits(path));
            session.with_extension(Arc::new(check))
        };
        session
    }

    /// Checks the files of a recipe, and makes their formats refuse links that lead out of them.
    pub(super) fn admit(&self, recipe: &mut Recipe) -> Result<()> {
        match recipe {
            Recipe::Table(table) => {
                self.check(&table.path)?;
                if let Some(key) = table.options.format_options.get(KEY_FILE) {
                    self.check(Path::new(key))?;
                }
                table.options.refuse_outward_links = true;
                Ok(())
            }
            Recipe::Files { files, .. } => files
                .iter_mut()
                .try_for_each(|(_, recipe)| self.admit(recipe)),
            Recipe::Aligned { grids, .. } => {
                grids.iter_mut().try_for_each(|recipe| self.admit(recipe))
            }
            Recipe::Repeated { values, grid, .. } | Recipe::Reindexed { values, grid, .. } => {
                self.admit(values)?;
                self.admit(grid)
            }
            Recipe::Sorted { grid, .. } | Recipe::KeyIndex { grid, .. } => self.admit(grid),
        }
    }
}

/// Checks that no operator of a decoded plan reads anything but arrays, or writes.
///
/// # Errors
/// Returns an error that names the operator otherwise.
pub(in crate::provider) fn check_operators(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plan.apply(|node| {
        let is_known = match node.downcast_ref::<DataSourceExec>() {
            Some(source) => {
                let source = source.data_source();
                source.is::<ArrayScan>() || source.is::<MemorySourceConfig>()
            }
            // The name of a sort with a limit is `SortExec(TopK)`.
            None => OPERATORS.contains(&node.name().split('(').next().unwrap_or_default()),
        };
        match is_known {
            true => Ok(TreeNodeRecursion::Continue),
            false => plan_err!("a worker does not run {}", node.name()),
        }
    })?;
    Ok(())
}

fn outside<T>(path: &Path) -> Result<T, Error> {
    let message = "is not under the roots of this worker; start it with --root for its directory";
    Err(Error::invalid(path, message))
}

#[cfg(feature = "remote")]
fn parsed(text: &str) -> Result<Url, Error> {
    Url::parse(text).map_err(|error| Error::invalid(Path::new(text), error.to_string()))
}

/// Returns `true` if a URL is `root` or below it.
#[cfg(feature = "remote")]
fn is_under(url: &Url, root: &Url) -> bool {
    let same = url.scheme() == root.scheme()
        && url.host_str() == root.host_str()
        && url.port_or_known_default() == root.port_or_known_default();
    let below = url.path().strip_prefix(root.path().trim_end_matches('/'));
    same && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_where_they_lead() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        for directory in [&inside, &outside] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("a"), b"").unwrap();
        }
        let roots = Roots::new([&inside]).unwrap();
        assert!(roots.check(&inside.join("a")).is_ok());
        for path in [
            outside.join("a"),
            inside.join("../out/a"),
            outside.join("b"),
        ] {
            let error = roots.check(&path).unwrap_err().to_string();
            assert!(error.contains("is not under the roots"), "{error}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
            assert!(roots.check(&inside.join("link/a")).is_err());
        }
        let error = roots.check(&inside.join("b")).unwrap_err().to_string();
        assert!(error.contains("no such file"), "{error}");
        assert!(Roots::new([folder.path().join("none")]).is_err());
    }

    #[cfg(feature = "remote")]
    #[test]
    fn urls_are_checked_by_segments() {
        let roots = Roots::new(["s3://bucket/era5", "http://host:80/a/"]).unwrap();
        for inside in [
            "s3://bucket/era5",
            "s3://bucket/era5/t2m.zarr",
            "http://host/a/b.tet",
        ] {
            assert!(roots.check(Path::new(inside)).is_ok(), "{inside}");
        }
        for outside in [
            "s3://bucket/era5b/t2m.zarr",
            "s3://bucket/era5/../other",
            "s3://bucket/era5/%2e%2e/other",
            "s3://other/era5/t2m.zarr",
            "https://host/a/b.tet",
            "http://host:81/a/b.tet",
        ] {
            assert!(roots.check(Path::new(outside)).is_err(), "{outside}");
        }
    }
}
