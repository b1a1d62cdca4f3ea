//! The paths of a `COPY` of rows to the local file system.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use datafusion::common::{Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::{FileOutputMode, FileSinkConfig};
use url::Url;

use crate::error::Error;
use crate::format::io::target;

/// The temporary path and the final path of a `COPY`.
#[derive(Debug)]
pub(super) struct CopyPaths {
    pub target: PathBuf,
    /// `true` if the target is a directory of files.
    is_directory: bool,
    /// The temporary directory, which exists only while rows are written.
    pub temporary: PathBuf,
}

/// Returns `true` if a statement writes a directory of files: if it has PARTITIONED BY, or if its target ends
/// in a slash or is the root of a store.
pub(super) fn is_directory(conf: &FileSinkConfig) -> bool {
    let mut urls = conf.table_paths.iter();
    conf.original_url.ends_with('/')
        || !conf.table_partition_cols.is_empty()
        || conf.file_output_mode == FileOutputMode::Directory
        || urls.any(|url| url.prefix().as_ref().is_empty())
}

impl CopyPaths {
    /// Returns the paths of a `COPY` to the local file system, or `None` for any other statement or
    /// store.
    ///
    /// # Errors
    /// Fails if the target of a single file is a directory.
    pub fn of(conf: &FileSinkConfig) -> Result<Option<Self>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let original = conf.original_url.as_str();
        let Some(url) = conf.table_paths.first().filter(|_| !original.is_empty()) else {
            return Ok(None);
        };
        let target = match original.contains("://") {
            false => PathBuf::from(original),
            true if url.scheme() == "file" => match url.get_url().to_file_path() {
                Ok(path) => path,
                Err(()) => return plan_err!("{original}: not a path to a local file"),
            },
            true => return Ok(None),
        };
        let target = std::path::absolute(target).map_err(Error::io(Path::new(original), "find"))?;
        let is_directory = is_directory(conf);
        if target.is_dir() && !is_directory {
            return plan_err!(
                "{original}: is a directory, expected the path of a file; to add files to the directory, end the \
                 path with a slash"
            );
        }
        let target = target::resolved(&target).into_owned();
        let mut existing = target.ancestors().skip(1);
        let existing = existing.find(|ancestor| ancestor.is_dir());
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let name = format!(
            ".tet-writing-{}-{}-{}.tmp",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed),
            since.map_or(0, |since| since.subsec_nanos())
        );
        Ok(Some(Self {
            temporary: existing.unwrap_or(Path::new("/")).join(name),
            target,
            is_directory,
        }))
    }

    /// Returns the path in the temporary directory, which has the target's file name.
    fn written(&self) -> PathBuf {
        self.temporary
            .join(self.target.file_name().unwrap_or_default())
    }

    /// Returns the path in the temporary directory as a URL.
    pub fn url(&self) -> Result<ListingTableUrl> {
        let url = match self.is_directory {
            true => Url::from_directory_path(self.written()),
            false => Url::from_file_path(self.written()),
        };
        match url {
            Ok(url) => ListingTableUrl::parse(url),
            Err(()) => plan_err!("{}: not a path to a local file", self.target.display()),
        }
    }

    /// Moves the complete files to their final paths.
    pub fn put(&self) -> Result<(), Error> {
        if let Some(parent) = self.target.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io(&self.target, "create"))?;
        }
        let written = self.written();
        if self.is_directory {
            return move_directory(&written, &self.target);
        }
        if !written.exists() {
            // Some formats create no file if there are no rows.
            File::create(&written).map_err(Error::io(&self.target, "create"))?;
        }
        move_file(&written, &self.target)
    }
}

fn move_file(written: &Path, target: &Path) -> Result<(), Error> {
    let file = File::open(written);
    file.and_then(|file| file.sync_all())
        .and_then(|()| target::keep_permissions(target, written))
        .and_then(|()| std::fs::rename(written, target))
        .map_err(Error::io(target, "move the finished file into place"))?;
    target::sync_name(target);
    Ok(())
}

fn move_directory(written: &Path, target: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(target).map_err(Error::io(target, "create"))?;
    if !written.exists() {
        return Ok(());
    }
    for entry in written.read_dir().map_err(Error::io(written, "list"))? {
        let path = entry.map_err(Error::io(written, "list"))?.path();
        let target = target.join(path.file_name().unwrap_or_default());
        match path.is_dir() {
            true => move_directory(&path, &target)?,
            false => move_file(&path, &target)?,
        }
    }
    Ok(())
}
