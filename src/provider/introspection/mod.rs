//! What a session knows of its arrays, as tables: functions that a query can filter, join and aggregate.
//!
//! [`enable_tet`](crate::enable_tet) registers them. Their rows are found out when a query runs, from the catalogs of the
//! session that runs it, and only what it asks for: a column that takes looking at every chunk costs nothing to a query that
//! leaves it out. `table_catalog`, `table_schema` and `table_name` are called as in `information_schema`. Any column can be
//! NULL where a file does not say.
//!
//! # `tet_files()`
//!
//! A row per file that is a schema.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema` | Utf8 | the schema |
//! | `path` | Utf8 | as it was given |
//! | `format` | Utf8 | `tet`, `npy`, `zarr` |
//! | `layout_version` | UInt64 | of the format, where the file says it |
//! | `generation` | UInt64 | of a package |
//! | `datasets` | UInt64 | in the file, among them ones that cannot be read |
//! | `tables` | UInt64 | arrays in the schema: datasets, wide tables, and what SQL made there |
//! | `chunks` | UInt64 | rows of the chunk index, of a format with one |
//! | `stored_bytes` | UInt64 | on disk, now; of a folder all files in it |
//! | `modified` | Timestamp(µs) | when the file, or the newest one of a folder, was last written, in UTC |
//! | `has_zone_maps` | Boolean | whether zone maps are embedded |
//! | `tool`, `tool_version` | Utf8 | what wrote the file |
//! | `created` | Timestamp(µs) | when, in UTC |
//! | `warnings` | List(Utf8) | what was odd on opening |
//! | `problem` | Utf8 | why the file cannot be looked at now |
//!
//! # `tet_datasets()`
//!
//! A row per table that is an array: the datasets and wide tables of files, and external tables.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema`, `table_name` | Utf8 | the table |
//! | `dataset` | Utf8 | its dataset; NULL for a wide table |
//! | `value_columns` | List(Utf8) | its columns but for the dimensions |
//! | `path` | Utf8 | its file, or the first of several |
//! | `files` | UInt64 | how many files it has |
//! | `format` | Utf8 | their format |
//! | `stored_type`, `data_type` | Utf8 | the type of the values in the file (`f32`), and of the column; NULL for a wide table |
//! | `dimensions` | List(Utf8) | their names |
//! | `shape` | List(UInt64) | positions along each; NULL where files differ |
//! | `chunk_shape` | List(UInt64) | positions of a chunk along each; of a wide table those of what is read at once |
//! | `chunks` | UInt64 | chunks that the shape asks for, of all datasets |
//! | `cells` | UInt64 | rows of the table |
//! | `codecs` | List(Utf8) | of the chunks |
//! | `stored_bytes`, `raw_bytes` | UInt64 | bytes of the chunks in the file, and of their cells |
//! | `fill` | Utf8 | the fill value; NULL for a wide table |
//! | `units`, `long_name`, `standard_name` | Utf8 | attributes of the values; NULL for a wide table |
//! | `problems` | List(Utf8) | what kept some of this from being found out |
//!
//! # `tet_dimensions()`
//!
//! A row per dimension of each of these tables. Along several files, those with the same bounds count as the same
//! positions, and others as ones behind each other.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema`, `table_name` | Utf8 | the table |
//! | `position` | UInt64 | of the dimension among the others, from 0 |
//! | `dimension` | Utf8 | its name |
//! | `extent` | UInt64 | positions along it |
//! | `data_type` | Utf8 | of the coordinates |
//! | `least`, `greatest` | Utf8 | coordinates, as text |
//! | `coordinates` | Utf8 | where they come from |
//! | `direction` | Utf8 | `ascending`, `descending`, or `none` where they repeat or turn; NULL of a single one and of several files |
//! | `is_unique` | Boolean | whether none repeats; NULL of several files |
//! | `units`, `long_name` | Utf8 | attributes of the coordinates |
//! | `problem` | Utf8 | why the coordinates cannot be read |
//!
//! # `tet_chunks('t')`
//!
//! A row per chunk of one table. `'t'` is a name as in SQL, with or without schema and catalog, or a path as in
//! `FROM 'weather.tet#temperature'`. A wide table has the chunks of each of its datasets, a table of several files those
//! of each file. Chunks come in batches, and are looked up in the file only for the columns from `codec` to `raw_bytes` and
//! `problem`; a `LIMIT` ends that.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `path`, `dataset` | Utf8 | what it is a chunk of |
//! | `chunk` | List(UInt64) | its position in the grid of chunks |
//! | `start`, `extent` | List(UInt64) | its first position along each dimension, and how many there are |
//! | `lat_first`, `lat_last`, ... | of the dimension | the coordinates at the first and the last of them |
//! | `cells` | UInt64 | cells in it |
//! | `codec` | Utf8 | `raw`, `zstd`, or the name of a format with codecs of its own |
//! | `payload_offset` | UInt64 | where its bytes start, if they lie in the file in one piece |
//! | `stored_bytes`, `raw_bytes` | UInt64 | bytes in the file, and of the cells |
//! | `minimum`, `maximum` | of the values | by the zone maps; doubles where datasets have different types |
//! | `nulls` | UInt64 | cells that are NULL, by the zone maps |
//! | `problem` | Utf8 | why it cannot be looked up; a thousand such chunks end the query |
//!
//! The zone maps are used as scans use them: not at all where they are broken, or `tet.zone_maps` is false.
//!
//! # `tet_attributes()`
//!
//! A row per attribute: of files, which have no table, and of columns.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema`, `table_name` | Utf8 | the table |
//! | `dataset` | Utf8 | the dataset whose values the column holds; NULL for a dimension |
//! | `column_name` | Utf8 | the column |
//! | `key`, `value` | Utf8 | the attribute |
//!
//! # `tet_history()`
//!
//! A row per step of a file's history.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema`, `path` | Utf8 | the file |
//! | `position` | UInt64 | from 0, oldest first |
//! | `op`, `source` | Utf8 | what was done, and from what |
//! | `at` | Utf8 | when, as the file says it |
//! | `time` | Timestamp(µs) | the same in UTC, if it says seconds since 1970 |
//! | `parents` | List(Utf8) | what it came from |
//! | `params` | Utf8 | parameters of the step, in JSON |
//! | `agent`, `activity`, `entity` | Utf8 | W3C PROV |
//!
//! # `tet_functions()`
//!
//! A row per function of the session, by each of its names. `SHOW FUNCTIONS` leaves out functions whose arguments can be of
//! any type.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `function_name` | Utf8 | what it is called by |
//! | `function_type` | Utf8 | `SCALAR`, `AGGREGATE`, `WINDOW` or `TABLE` |
//! | `alias_of` | Utf8 | its own name, where it is called by another |
//! | `syntax_example` | Utf8 | how it is called |
//! | `description` | Utf8 | what it does |
//!
//! # `information_schema`
//!
//! With the feature `sql`, queries over `information_schema.columns` and `information_schema.tables` see two more columns
//! behind the engine's own: `units`, and `description`, which is the first of the attributes `long_name`, `description` and
//! `standard_name`. Those of a table are those of its only value column.

mod catalogs;
mod column;
#[cfg(feature = "sql")]
mod information_schema;
mod listing;
mod lookup;
mod meaning;
mod scan;
mod tables;

use std::sync::Arc;

use datafusion::catalog::TableFunctionImpl;
use datafusion::prelude::SessionContext;

use crate::provider::introspection::listing::ListingFunction;
use crate::provider::introspection::tables::attributes::Attributes;
use crate::provider::introspection::tables::chunks::Chunks;
use crate::provider::introspection::tables::datasets::Datasets;
use crate::provider::introspection::tables::dimensions::Dimensions;
use crate::provider::introspection::tables::files::Files;
use crate::provider::introspection::tables::functions::Functions;
use crate::provider::introspection::tables::history::History;

/// The functions with their names, to be registered in a session. [`enable_tet`](crate::enable_tet) does so.
pub fn all() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    vec![
        ListingFunction::<Files>::named(),
        ListingFunction::<Datasets>::named(),
        ListingFunction::<Dimensions>::named(),
        (tables::chunks::NAME, Arc::new(Chunks)),
        ListingFunction::<Attributes>::named(),
        ListingFunction::<History>::named(),
        (tables::functions::NAME, Arc::new(Functions)),
    ]
}

/// Makes the functions known to a session, and units and descriptions part of its `information_schema`.
pub(super) fn register(ctx: &SessionContext) {
    for (name, function) in all() {
        ctx.register_udtf(name, function);
    }
    #[cfg(feature = "sql")]
    {
        use crate::provider::introspection::information_schema::DescribedTables;
        // Registering never fails.
        let _ = ctx
            .state_ref()
            .write()
            .register_relation_planner(Arc::new(DescribedTables));
    }
}
