//! Opens tables again from their recipes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::{Result, plan_err};
use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::io::identity::FileIdentity;
use crate::grid::{Axis, ChunkGrid, IndexSet, Selection};
use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::catalog::many_files::FileTable;
use crate::provider::catalog::open_tables::{OpenFile, OpenTables};
use crate::provider::join::aligned::AlignedGrids;
use crate::provider::join::lookup::key_index_grid::KeyIndexGrid;
use crate::provider::join::lookup::keys::KeyTerms;
use crate::provider::join::reindexed::ReindexedGrid;
use crate::provider::scan::grid::repeated::RepeatedGrid;
use crate::provider::scan::grid::sorted::SortedGrid;
use crate::provider::scan::grid::table::GridTable;
use crate::provider::source::recipe::{Recipe, TableRecipe};
use crate::provider::source::{BlockSource, GridSource};

/// Opens the table of a recipe with the formats of a session.
///
/// # Errors
/// Returns an error if a file cannot be opened, or was replaced or changed since the recipe was
/// created.
pub(crate) fn open(recipe: &Recipe, session: &SessionConfig) -> Result<Arc<dyn BlockSource>> {
    match recipe {
        Recipe::Table(recipe) => open_table(recipe, session),
        Recipe::Files {
            location,
            files,
            has_file_column,
        } => {
            let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
            let members = files.iter().map(|(_, recipe)| open(recipe, session));
            let members = members.collect::<Result<_>>()?;
            let table = FileTable::new(location, &paths, members, *has_file_column)?;
            Ok(Arc::new(table))
        }
        Recipe::Aligned {
            name,
            grids,
            attributes,
            read,
        } => {
            let grids = grids.iter().map(|recipe| only_grid(recipe, session));
            let grids = grids.collect::<Result<Vec<_>>>()?;
            let shape = |grid: &Arc<dyn GridSource>| grid.chunk_grid().shape().to_vec();
            let have_same_shape = grids.windows(2).all(|two| shape(&two[0]) == shape(&two[1]));
            let columns: usize = grids.iter().map(|grid| grid.attributes().len()).sum();
            let fields = grids.iter().flat_map(|grid| grid.attributes());
            let fields = fields.zip(attributes).map(|(field, (name, is_nullable))| {
                let field = Field::with_name(field.as_ref().clone(), name);
                Arc::new(field.with_nullable(*is_nullable))
            });
            let fields: Vec<_> = fields.collect();
            let is_whole = columns == attributes.len() && !grids.is_empty();
            if !is_whole
                || !have_same_shape
                || read.iter().any(|attribute| *attribute >= fields.len())
            {
                return plan_err!("the recipe of {name} does not match its grids");
            }
            let all = AlignedGrids::new(name.clone(), &grids, fields);
            let grid = all.for_attributes(read).unwrap_or_else(|| Arc::new(all));
            Ok(Arc::new(GridTable::new(grid)))
        }
        Recipe::Repeated { values, grid, axes } => {
            let (values, grid) = (only_grid(values, session)?, only_grid(grid, session)?);
            match RepeatedGrid::try_new(&values, &grid, axes.clone()) {
                Some(repeated) => Ok(Arc::new(GridTable::new(Arc::new(repeated)))),
                None => plan_err!("the recipe of {} does not match its grid", values.name()),
            }
        }
        Recipe::Reindexed {
            values,
            grid,
            positions,
        } => {
            let (values, grid) = (only_grid(values, session)?, only_grid(grid, session)?);
            match ReindexedGrid::try_new(&values, &grid, terms_of(positions)) {
                Some(reindexed) => Ok(Arc::new(GridTable::new(Arc::new(reindexed)))),
                None => plan_err!("the recipe of {} does not match its grid", values.name()),
            }
        }
        Recipe::Sorted {
            grid,
            axes,
            selected,
            windows,
            phase,
        } => {
            let grid = only_grid(grid, session)?;
            let shape = grid.chunk_grid().shape();
            let has_all = [axes.len(), selected.len(), windows.len(), phase.len()];
            let fits = has_all.iter().all(|count| *count == shape.len())
                && axes.iter().all(|(axis, _)| *axis < shape.len())
                && windows
                    .iter()
                    .zip(phase)
                    .all(|(extent, phase)| phase < extent)
                && selected
                    .iter()
                    .all(|ranges| ranges.is_sorted_by_key(|range| range.start));
            let sorted = match fits {
                true => {
                    let sets = shape.iter().zip(selected);
                    let sets =
                        sets.map(|(length, ranges)| IndexSet::from_ranges(*length, ranges.clone()));
                    let lengths = axes.iter().map(|(axis, _)| shape[*axis]).collect();
                    let windows =
                        ChunkGrid::new(lengths, windows.clone()).with_phase(phase.clone());
                    SortedGrid::try_new(
                        &grid,
                        axes.clone(),
                        Selection::new(sets.collect()),
                        windows,
                    )?
                }
                false => None,
            };
            match sorted {
                Some(sorted) => Ok(Arc::new(GridTable::new(Arc::new(sorted)))),
                None => plan_err!("the recipe of {} does not match its grid", grid.name()),
            }
        }
        Recipe::KeyIndex { grid, terms } => {
            let grid = only_grid(grid, session)?;
            let lengths: Vec<u64> = grid.axes().iter().map(Axis::length).collect();
            let are_whole = terms.iter().all(|(axes, terms)| {
                let lengths = axes.iter().map(|axis| lengths.get(*axis).copied());
                let count = lengths.reduce(|one, other| one?.checked_mul(other?));
                count.flatten() == Some(terms.len() as u64)
            });
            if !are_whole {
                return plan_err!("the recipe of {} does not match its grid", grid.name());
            }
            let grid = KeyIndexGrid::new(&grid, terms_of(terms));
            Ok(Arc::new(GridTable::new(Arc::new(grid))))
        }
    }
}

fn terms_of(terms: &[(Vec<usize>, Vec<u32>)]) -> Vec<KeyTerms> {
    let terms = terms.iter().map(|(axes, terms)| KeyTerms {
        axes: axes.clone(),
        terms: terms.as_slice().into(),
    });
    terms.collect()
}

fn only_grid(recipe: &Recipe, session: &SessionConfig) -> Result<Arc<dyn GridSource>> {
    let table = open(recipe, session)?;
    match table.grids().as_slice() {
        [grid] => Ok(Arc::clone(grid)),
        grids => plan_err!(
            "the table {} consists of {} grids, expected one",
            table.name(),
            grids.len()
        ),
    }
}

fn open_table(recipe: &TableRecipe, session: &SessionConfig) -> Result<Arc<dyn BlockSource>> {
    let TableRecipe {
        path, table: name, ..
    } = recipe;
    let open_tables = session.get_extension::<OpenTables>();
    // Taken before the file is opened, so that a file that replaces it meanwhile is noticed by the next query.
    let file = open_tables.as_ref().and_then(|_| OpenFile::at(path));
    if let Some(tables) = &open_tables
        && let Some(table) = tables.get(recipe, file.as_ref())
    {
        return Ok(table);
    }
    let formats = FormatRegistry::of(session);
    let opened = formats.open_as(&recipe.format, path, &recipe.options, session);
    let Some(container) = opened.transpose()? else {
        return plan_err!(
            "{}: the session has no format {}; add it to its FormatRegistry",
            path.display(),
            recipe.format
        );
    };
    let Some(table) = container.table(name)? else {
        return Err(Error::invalid(path, format!("has no table {name:?}")).into());
    };
    if let Some(identity) = &recipe.identity {
        let now = match table.recipe()? {
            Some(Recipe::Table(now)) => now.identity,
            _ => None,
        };
        match now {
            Some(now) => check_unchanged(path, identity, &now)?,
            None => return plan_err!("{}: cannot be checked for changes", path.display()),
        }
    }
    if let (Some(tables), Some(file)) = (open_tables, file) {
        tables.add(recipe, file, &table);
    }
    Ok(table)
}

/// Checks that the file at `path` still has its `earlier` identity.
///
/// # Errors
/// Returns an error that says what has changed.
fn check_unchanged(path: &Path, earlier: &FileIdentity, now: &FileIdentity) -> Result<()> {
    if now == earlier {
        return Ok(());
    }
    let change = match now.length == earlier.length {
        false => format!("has {} bytes, expected {}", now.length, earlier.length),
        true if now.sha256 != earlier.sha256 => "has different content".to_string(),
        true => "has another modification time".to_string(),
    };
    let message = format!("was replaced or changed since the query was planned: it {change}");
    Err(Error::invalid(path, message).into())
}
