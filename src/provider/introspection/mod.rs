//! Table functions that return what a session knows about its arrays, to be filtered, joined and
//! aggregated in SQL.
//!
//! [`enable_arrays`](crate::enable_arrays) registers them. Rows are computed when a query runs, from the
//! catalogs of its session, and only in the columns that the query uses: a column that has to look
//! at every chunk costs nothing if it is not selected. `table_catalog`, `table_schema` and
//! `table_name` are named as in `information_schema`. Any column is NULL where a file does not
//! contain the information.
//!
//! # `tet_files()`
//!
//! A row per file that is registered as a schema.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema` | Utf8 | the schema |
//! | `path` | Utf8 | path as given on registration |
//! | `format` | Utf8 | `tet`, `npy`, `zarr` |
//! | `layout_version` | UInt64 | version of the format, if the file states one |
//! | `generation` | UInt64 | generation of a package |
//! | `datasets` | UInt64 | datasets in the file, including unreadable ones |
//! | `tables` | UInt64 | arrays in the schema: datasets, wide tables, and tables made by SQL |
//! | `chunks` | UInt64 | rows of the chunk index, for formats that have one; blocks of a `.tatami` file |
//! | `stored_bytes` | UInt64 | current size on disk; for a directory, of all files in it |
//! | `modified` | Timestamp(µs) | last modification in UTC; for a directory, of its newest file |
//! | `has_zone_maps` | Boolean | `true` if zone maps are embedded |
//! | `tool`, `tool_version` | Utf8 | program that wrote the file |
//! | `created` | Timestamp(µs) | creation time in UTC |
//! | `warnings` | List(Utf8) | warnings from opening the file |
//! | `problem` | Utf8 | why the file cannot be accessed now |
//!
//! # `tet_datasets()`
//!
//! A row per table that is an array: datasets and wide tables of files, and external tables. Tables
//! that consist of blocks without axes are listed as well: columns that do not apply to blocks are
//! NULL.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema`, `table_name` | Utf8 | the table |
//! | `dataset` | Utf8 | dataset of the table; NULL for a wide table |
//! | `value_columns` | List(Utf8) | all columns except the dimensions |
//! | `path` | Utf8 | the file, or the first of several |
//! | `files` | UInt64 | number of files with arrays |
//! | `format` | Utf8 | format of the files |
//! | `stored_type` | Utf8 | type of the values in the file (`f32`); NULL for a wide table |
//! | `data_type` | Utf8 | type of the value column; NULL for a wide table |
//! | `dimensions` | List(Utf8) | names of the dimensions |
//! | `shape` | List(UInt64) | length of each dimension; NULL if files differ |
//! | `chunk_shape` | List(UInt64) | shape of a chunk; for a wide table, of a block |
//! | `chunks` | UInt64 | chunks of the grid, summed over all datasets; or blocks |
//! | `cells` | UInt64 | rows of the table, if their number is known exactly |
//! | `codecs` | List(Utf8) | codecs of the chunks |
//! | `stored_bytes`, `raw_bytes` | UInt64 | size of the chunks in the file, and decoded |
//! | `fill` | Utf8 | fill value; NULL for a wide table |
//! | `units`, `long_name`, `standard_name` | Utf8 | value attributes; NULL for a wide table |
//! | `problems` | List(Utf8) | why some of the columns are incomplete |
//!
//! # `tet_dimensions()`
//!
//! A row per dimension of each of these tables. In a table of several files, axes with the same
//! bounds count once, and all others are concatenated. A table of blocks has dimensions if its
//! columns are marked as such; `min` and `max` are NULL unless they are known exactly.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema`, `table_name` | Utf8 | the table |
//! | `position` | UInt64 | ordinal of the dimension in the table, from 0 |
//! | `dimension` | Utf8 | name of the dimension |
//! | `extent` | UInt64 | length of the dimension |
//! | `data_type` | Utf8 | type of the coordinates |
//! | `min`, `max` | Utf8 | min and max coordinate, as text |
//! | `coordinates` | Utf8 | source of the coordinates |
//! | `direction` | Utf8 | `ascending`, `descending` or `none`; NULL for several files |
//! | `is_unique` | Boolean | `true` if no coordinate repeats; NULL for several files |
//! | `units`, `long_name` | Utf8 | attributes of the coordinates |
//! | `problem` | Utf8 | why the coordinates cannot be read |
//!
//! `direction` is `none` if coordinates repeat or change direction, and NULL for fewer than two
//! coordinates.
//!
//! # `tet_chunks('t')`
//!
//! A row per chunk of one table. `'t'` is a table name as in SQL, with or without schema and
//! catalog, or a path as in `FROM 'weather.tet#temperature'`. A wide table lists the chunks of each
//! of its datasets, and a table of several files those of each file.
//!
//! Rows come in batches, so a `LIMIT` stops early. Chunks are looked up in the file only for the
//! columns `codec`, `payload_offset`, `stored_bytes`, `raw_bytes` and `problem`.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `path`, `dataset` | Utf8 | file and dataset of the chunk |
//! | `chunk` | List(UInt64) | index of the chunk in the chunk grid |
//! | `start`, `extent` | List(UInt64) | first index and length along each dimension |
//! | `lat_first`, `lat_last`, ... | as the dimension | first and last coordinate of the chunk |
//! | `cells` | UInt64 | cells of the chunk |
//! | `codec` | Utf8 | `raw`, `zstd`, or the codecs as the format names them |
//! | `payload_offset` | UInt64 | file offset of the stored bytes, if they are contiguous |
//! | `stored_bytes`, `raw_bytes` | UInt64 | size in the file, and decoded |
//! | `minimum`, `maximum` | as the values | from zone maps; Float64 if dataset types differ |
//! | `nulls` | UInt64 | null cells, from zone maps |
//! | `problem` | Utf8 | why the chunk cannot be looked up; the query fails after 1024 such chunks |
//!
//! Zone maps are used as in scans: they are ignored if they are broken, or if `tet.zone_maps` is
//! false.
//!
//! A table that consists of blocks without axes lists its blocks. `chunk` has the ordinal of the
//! block as its only element, and columns that do not apply to blocks are NULL. In place of the
//! first and last coordinates, there are bounds of every column of the table:
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `x_min`, `x_max`, ... | as the column | bounds of the column in the block, if they are known |
//! | `cells` | UInt64 | rows of the block, or an upper bound of their number |
//! | `is_exact` | Boolean | `true` if `cells` is the exact number |
//!
//! # `tet_attributes()`
//!
//! A row per attribute of a column, and per attribute of a file (with NULL for the table).
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `table_catalog`, `table_schema`, `table_name` | Utf8 | the table |
//! | `dataset` | Utf8 | dataset of a value column; NULL for a dimension |
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
//! | `position` | UInt64 | ordinal of the step, from 0 for the oldest |
//! | `op`, `source` | Utf8 | operation, and its source |
//! | `at` | Utf8 | time of the step, as written in the file |
//! | `time` | Timestamp(µs) | `at` in UTC, if `at` is a number of seconds since 1970 |
//! | `parents` | List(Utf8) | inputs of the step |
//! | `params` | Utf8 | parameters of the step, as JSON |
//! | `agent`, `activity`, `entity` | Utf8 | terms of W3C PROV |
//!
//! # `tet_functions()`
//!
//! A row per name of each function of the session. Unlike `SHOW FUNCTIONS`, it includes functions
//! that accept arguments of any type.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `function_name` | Utf8 | name of the function |
//! | `function_type` | Utf8 | `SCALAR`, `AGGREGATE`, `WINDOW` or `TABLE` |
//! | `alias_of` | Utf8 | main name of the function, if `function_name` is an alias |
//! | `syntax_example` | Utf8 | example of a call |
//! | `description` | Utf8 | result of the function |
//!
//! # `information_schema`
//!
//! With the feature `sql`, `information_schema.columns` and `information_schema.tables` have two
//! more columns after DataFusion's own: `units`, and `description`, which is the first available of
//! the attributes `long_name`, `description` and `standard_name`. For a table, they come from its
//! only value column.

mod catalogs;
mod column;
mod column_attributes;
#[cfg(feature = "sql")]
mod information_schema;
mod listing;
pub(in crate::provider) mod lookup;
pub(in crate::provider) mod scan;
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

/// Returns every function with its name, ready to be registered in a session.
/// [`enable_arrays`](crate::enable_arrays) does so.
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

/// Registers the functions in a session, and adds units and descriptions to its
/// `information_schema`.
pub(super) fn register(ctx: &SessionContext) {
    for (name, function) in all() {
        ctx.register_udtf(name, function);
    }
    #[cfg(feature = "sql")]
    {
        use crate::provider::introspection::information_schema::InformationSchemaPlanner;
        // DataFusion's implementation always returns `Ok`.
        let _ = ctx
            .state_ref()
            .write()
            .register_relation_planner(Arc::new(InformationSchemaPlanner));
    }
}
