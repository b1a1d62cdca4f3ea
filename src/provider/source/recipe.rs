//! [`Recipe`]: describes how to open a table again, in this process or another one.

use std::ops::Range;
use std::path::{Path, PathBuf};

#[cfg(feature = "proto")]
use datafusion::common::{Result, not_impl_err};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::format::io::identity::FileIdentity;
#[cfg(feature = "remote")]
use crate::format::io::remote::is_url;
use crate::grid::IndexOrder;
use crate::provider::catalog::settings::options::ArrayOptions;

/// Describes how to open a table again, in this process or another one, by names, paths and options.
/// A recipe holds no open files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Recipe {
    /// A table of a container.
    Table(TableRecipe),
    /// The rows of many files in one table.
    Files {
        /// The location as the user wrote it, for example a pattern.
        location: String,
        /// The path of each file, as the file column shows it, and the recipe of its table.
        files: Vec<(PathBuf, Recipe)>,
        /// `true` if the last column holds the path of each row's file.
        has_file_column: bool,
    },
    /// The attributes of several grids that have the same axes.
    Aligned {
        /// The name of the table.
        name: String,
        /// The recipes of the grids. The table of each consists of a single grid.
        grids: Vec<Recipe>,
        /// The name of each attribute, and `true` if it may be null.
        attributes: Vec<(String, bool)>,
        /// The indices of the attributes that the plan will read, if known.
        read: Vec<usize>,
    },
    /// An array along some axes of a grid, repeated along the others.
    Repeated {
        /// The recipe of a table that consists of the array alone.
        values: Box<Recipe>,
        /// The recipe of a table that consists of the grid alone.
        grid: Box<Recipe>,
        /// For each axis of the array, the axis of the grid.
        axes: Vec<usize>,
    },
    /// An array on the axes of another grid, for a join of both.
    Reindexed {
        /// The recipe of a table that consists of the array alone.
        values: Box<Recipe>,
        /// The recipe of a table that consists of the grid alone.
        grid: Box<Recipe>,
        /// For each axis of the array, axes of the grid, ascending, with the index along the axis of the
        /// array of all combinations of indices along them.
        positions: Vec<(Vec<usize>, Vec<u32>)>,
    },
    /// A grid with its axes and coordinates in another order.
    Sorted {
        /// The recipe of a table that consists of the grid alone.
        grid: Box<Recipe>,
        /// For each axis, the axis of the grid, and the order of the indices along it.
        axes: Vec<(usize, IndexOrder)>,
        /// For each axis of the grid, the indices that are read, as ranges.
        selected: Vec<Vec<Range<u64>>>,
        /// The extents of the windows that are read.
        windows: Vec<u64>,
        /// For each axis, the number of cells of the first window that lie before the array.
        phase: Vec<u64>,
    },
    /// The key indices of a grid's cells, for a join on expressions over its dimensions.
    KeyIndex {
        /// The recipe of a table that consists of the grid alone.
        grid: Box<Recipe>,
        /// Axes, ascending, with the terms of all combinations of indices along them.
        terms: Vec<(Vec<usize>, Vec<u32>)>,
    },
}

/// Describes how to open a table of a container again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableRecipe {
    /// The [name](crate::Format::name) of the format.
    pub format: String,
    /// The absolute path of the container, or its URL without secrets.
    pub path: PathBuf,
    /// The name of the table within the container.
    pub table: String,
    /// The options with which the container was opened.
    pub options: ArrayOptions,
    /// The identity of the file; `None` if the container is not a file.
    pub identity: Option<FileIdentity>,
}

/// Returns the absolute path. URLs are absolute.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    #[cfg(feature = "remote")]
    if is_url(&path.to_string_lossy()) {
        return Ok(path.to_path_buf());
    }
    std::path::absolute(path).map_err(Error::io(path, "resolve"))
}

impl Recipe {
    /// Creates the recipe of a table in a file. A relative `path` is made absolute.
    ///
    /// # Errors
    /// Returns an error if the path cannot be made absolute.
    pub fn in_file(
        format: &str,
        path: &Path,
        table: &str,
        options: &ArrayOptions,
        identity: FileIdentity,
    ) -> Result<Self, Error> {
        Ok(Self::Table(TableRecipe {
            format: format.to_string(),
            path: absolute(path)?,
            table: table.to_string(),
            options: options.clone(),
            identity: Some(identity),
        }))
    }

    /// Returns the recipe of a table, or an error with the name of the table if there is none.
    #[cfg(feature = "proto")]
    pub(in crate::provider) fn required(recipe: Option<Self>, table: &str) -> Result<Self> {
        match recipe {
            Some(recipe) => Ok(recipe),
            None => not_impl_err!(
                "the table {table} cannot be opened in another process: its source has no recipe"
            ),
        }
    }
}
