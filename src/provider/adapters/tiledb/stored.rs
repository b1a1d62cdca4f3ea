//! Open TileDB arrays, with the columns of their tables.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::array::Array;
use arrow::datatypes::Schema;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::prelude::SessionConfig;

use crate::error::{Error, Result};
use crate::format::io::identity::FileIdentity;
use crate::format::io::storage::Access;
use crate::format::tiledb::{DimensionLabel, Field, FieldKind, Fragment, TileDbArray, TileSummary};
use crate::provider::adapters::registry::place_of;
use crate::provider::adapters::tiledb::additions;
use crate::provider::adapters::tiledb::columns::{ANONYMOUS, Column, NullValues};
use crate::provider::adapters::tiledb::options::{
    Extent, TIMESTAMP, TIMESTAMP_START, TileDbOptions,
};
use crate::provider::catalog::description::{AttributeDescription, TableDescription};
use crate::provider::catalog::settings::options::{ArrayOptions, ReadOptions};
use crate::provider::planning::axis_bounds::fold;
use crate::provider::source::recipe::Recipe;

/// The short name of the format.
pub(in crate::provider) const FORMAT: &str = "tiledb";

/// The statistics of an attribute in each tile of a fragment; `None` if there are none.
type Summaries = Option<Vec<TileSummary>>;

/// An open array with the columns of its table.
#[derive(Debug)]
pub(super) struct StoredArray {
    array: Arc<TileDbArray>,
    name: String,
    /// The options, with the last timestamp that is read.
    options: ArrayOptions,
    /// The options with which the array was opened.
    opened: Opened,
    dimensions: Vec<Column>,
    attributes: Vec<Column>,
    /// The statistics of tiles, by fragment and then by attribute, read on first use.
    summaries: Vec<Vec<OnceLock<Summaries>>>,
}

/// The options with which an array was opened, for opening it again.
#[derive(Debug, Clone)]
struct Opened {
    /// The options as they were given.
    given: ArrayOptions,
    own: TileDbOptions,
    access: Access,
    /// The number of fragments that this process had added to the array before.
    additions: u64,
}

/// Opens the array of a table as it is now, to add rows to it. Returns `None` if the table is not a
/// TileDB array.
///
/// # Errors
/// Returns an error if an option is invalid, or if the array cannot be opened.
pub(in crate::provider) fn latest(
    recipe: &Recipe,
    session: &SessionConfig,
) -> Result<Option<Arc<TileDbArray>>> {
    let Recipe::Table(table) = recipe else {
        return Ok(None);
    };
    if table.format != FORMAT {
        return Ok(None);
    }
    let mut options = table.options.format_options.clone();
    options.retain(|name, _| ![TIMESTAMP, TIMESTAMP_START].contains(&name.as_str()));
    let own = TileDbOptions::parse(&table.path, &options, session)?;
    let access = table.options.open_options(session.options()).access;
    let array = TileDbArray::open(place_of(&table.path, session)?, &own.open, access)?;
    Ok(Some(Arc::new(array)))
}

/// Returns the columns of a table that are the dimensions and the attributes of its array, in the order
/// of the array's schema.
///
/// # Errors
/// Returns an error if the array has other columns than when the table was opened.
pub(in crate::provider) fn stored_columns(
    array: &TileDbArray,
    table: &Schema,
) -> datafusion::common::Result<Vec<usize>> {
    let schema = array.schema();
    let dimensions = schema.dimensions.iter().map(|dimension| &dimension.name);
    let attributes = schema.attributes.iter().map(|attribute| &attribute.name);
    let names = dimensions
        .chain(attributes)
        .map(|name| match name.as_str() {
            "" => ANONYMOUS,
            name => name,
        });
    let columns: Option<Vec<usize>> = names.map(|name| table.index_of(name).ok()).collect();
    let is_known = |index: usize, columns: &[usize]| {
        let mut labels = schema.labels.iter();
        columns.contains(&index) || labels.any(|label| &label.name == table.field(index).name())
    };
    match columns {
        Some(columns) if (0..table.fields().len()).all(|index| is_known(index, &columns)) => {
            Ok(columns)
        }
        _ => exec_err!(
            "{}: the columns of the array have changed since the table was opened; open it again",
            array.path().display()
        ),
    }
}

impl StoredArray {
    /// Opens the array in a directory as the table `name`.
    ///
    /// # Errors
    /// Returns an error if an option is invalid, or if the array cannot be opened.
    pub fn open(
        path: &Path,
        name: &str,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Self> {
        let opened = Opened {
            given: options.clone(),
            own: TileDbOptions::parse(path, &options.format_options, session)?,
            access: options.open_options(session.options()).access,
            additions: additions::count(path),
        };
        let place = place_of(path, session)?;
        let array = TileDbArray::open(place, &opened.own.open, opened.access)?;
        Self::of_array(array, name, opened)
    }

    fn of_array(array: TileDbArray, name: &str, opened: Opened) -> Result<Self> {
        let path = array.path();
        let schema = array.schema();
        let dimensions = schema.dimensions.iter().enumerate();
        let dimensions = dimensions
            .map(|(index, dimension)| Column::of_dimension(path, index, dimension))
            .collect();
        let attributes = schema.attributes.iter().enumerate();
        let attributes = attributes.map(|(index, attribute)| {
            let enumeration = array.enumeration(index)?;
            Column::of_attribute(path, attribute, enumeration.as_deref(), schema.is_sparse)
        });
        let attributes = attributes.collect::<Result<Vec<_>>>()?;
        // The table shows the array as of this time, whatever is written later.
        let end = array.window_of_time().end.to_string();
        Ok(Self {
            name: name.to_string(),
            options: opened.given.clone().with_format_option(TIMESTAMP, end),
            opened,
            dimensions,
            summaries: array
                .fragments()
                .iter()
                .map(|_| vec![OnceLock::new(); attributes.len()])
                .collect(),
            attributes,
            array: Arc::new(array),
        })
    }

    /// Returns the array as of now, if this process has added a fragment since the array was opened,
    /// and the options give no time. Otherwise returns `None`.
    pub fn renewed(&self) -> Result<Option<Self>> {
        let path = self.array.path();
        let additions = additions::count(path);
        if self.opened.own.open.timestamp_end.is_some() || additions == self.opened.additions {
            return Ok(None);
        }
        let opened = Opened {
            additions,
            ..self.opened.clone()
        };
        let array = TileDbArray::open(path, &opened.own.open, opened.access)?;
        Self::of_array(array, &self.name, opened).map(Some)
    }

    /// Opens the array of a dimension label, as of the same time.
    ///
    /// # Errors
    /// Returns an error if the label's array is outside of the array's directory, or cannot be opened.
    pub fn label(&self, label: &DimensionLabel) -> Result<Self> {
        let array = self.array.open_label(label, self.opened.access)?;
        let mut opened = self.opened.clone();
        opened.own.extent = Extent::Domain;
        Self::of_array(array, &label.name, opened)
    }

    pub fn array(&self) -> &Arc<TileDbArray> {
        &self.array
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn extent(&self) -> Extent {
        self.opened.own.extent
    }

    pub fn dimensions(&self) -> &[Column] {
        &self.dimensions
    }

    pub fn attributes(&self) -> &[Column] {
        &self.attributes
    }

    /// Returns the statistics of an attribute of the array in each tile of a fragment, without
    /// those that may be wrong. Returns `None` if there are none, or if the fragment lacks the
    /// attribute.
    pub fn summaries(&self, fragment: usize, attribute: usize) -> Result<Option<&[TileSummary]>> {
        let cell = self
            .summaries
            .get(fragment)
            .and_then(|all| all.get(attribute));
        let Some(cell) = cell else {
            return Ok(None);
        };
        if let Some(known) = cell.get() {
            return Ok(known.as_deref());
        }
        let mut found = None;
        if let Some(Field {
            kind: FieldKind::Attribute(index),
            ..
        }) = self.array.attribute_in(fragment, attribute)?
        {
            found = self.array.fragments()[fragment].summaries(index)?;
        }
        Ok(cell.get_or_init(|| found).as_deref())
    }

    /// Returns the min and the max coordinate of a dimension in the bounding boxes of all fragments;
    /// `None` if there are no cells, or if the SQL type cannot hold a bound.
    pub fn coordinate_range(
        &self,
        dimension: usize,
    ) -> datafusion::common::Result<Option<(ScalarValue, ScalarValue)>> {
        let domains = self.array.fragments().iter().filter_map(Fragment::domain);
        let intervals = domains.filter_map(|domain| domain.get(dimension).map(Some));
        let (lows, highs) = self.dimensions[dimension].intervals(intervals)?;
        if lows.is_empty() || lows.null_count() + highs.null_count() > 0 {
            return Ok(None);
        }
        Ok(Some((fold(&lows, false)?, fold(&highs, true)?)))
    }

    /// Returns the recipe that opens the table in another process: the same array, as of the same
    /// time.
    pub fn recipe(&self) -> Result<Recipe> {
        let array = &self.array;
        let fragments = array.fragments().iter();
        let bytes = fragments.clone().map(|fragment| fragment.stored_bytes());
        let deletes = array
            .deletes()
            .iter()
            .map(|delete| delete.marker.as_bytes());
        let names = fragments.map(|fragment| fragment.name().as_bytes());
        let schema = [array.schema_name().as_bytes()].into_iter();
        let names = schema.chain(names).chain(deletes);
        let identity = FileIdentity::new(bytes.fold(0, u64::saturating_add), None, names);
        let path = array.path();
        Recipe::in_file(FORMAT, path, &table_name(path)?, &self.options, identity)
    }

    /// Describes the attributes for introspection.
    pub fn describe_attributes(&self) -> Vec<AttributeDescription> {
        let attributes = self.attributes.iter().map(|column| AttributeDescription {
            name: column.name().to_string(),
            stored_type: column.stored_type(),
            data_type: column.data_type().clone(),
            fill: column.fill_text(),
            metadata: column.field(true).metadata().clone().into_iter().collect(),
        });
        attributes.collect()
    }

    /// Describes the table for introspection, without dimensions and chunks.
    pub fn describe(&self) -> TableDescription {
        let array = &self.array;
        let location = array.path().display().to_string();
        let mut description = TableDescription::new(&self.name, FORMAT, location);
        description.attributes = self.describe_attributes();
        let attributes = array.schema().attributes.iter();
        let mut codecs: Vec<String> = attributes
            .map(|attribute| match attribute.filters.filters() {
                [] => "raw".to_string(),
                _ => attribute.filters.to_string(),
            })
            .collect();
        codecs.sort();
        codecs.dedup();
        description.codecs = codecs;
        let bytes = array
            .fragments()
            .iter()
            .map(|fragment| fragment.stored_bytes());
        description.stored_bytes = bytes.fold(0, u64::saturating_add);
        description
    }
}

/// Returns the table name of the array in a directory: the name of the directory without its
/// extension.
pub(super) fn table_name(path: &Path) -> Result<String> {
    let absolute = std::path::absolute(path).map_err(Error::io(path, "resolve"))?;
    let stem = absolute.file_stem().unwrap_or_default();
    Ok(stem.to_string_lossy().into_owned())
}

/// Returns the values that are read as null with these options.
pub(super) fn null_values(options: &ReadOptions) -> NullValues {
    NullValues {
        nan: options.nan_as_null,
        fill: options.fill_as_null,
    }
}
