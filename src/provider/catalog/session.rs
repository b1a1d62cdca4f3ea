//! Registers array files in a session.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::error::Error;
use crate::provider::adapters::registry::FormatRegistry;
#[cfg(feature = "tatami")]
use crate::provider::adapters::tatami;
#[cfg(feature = "tiledb")]
use crate::provider::adapters::tiledb;
use crate::provider::attributes::AttributedResults;
use crate::provider::catalog::external::{ArrayTableFactory, ArrayUrlFactory, RegularFilesFactory};
use crate::provider::catalog::schema::ArraySchema;
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::catalog::url_catalogs::UrlCatalogs;
#[cfg(feature = "tatami")]
use crate::provider::copy::document_format_factory;
#[cfg(feature = "tiledb")]
use crate::provider::copy::tiledb_format_factory;
use crate::provider::copy::{ArrayFormatFactory, RowFormatFactory};
use crate::provider::functions;
use crate::provider::functions::bounded::{bounded, concatenation};
use crate::provider::functions::memory::SessionMemory;
use crate::provider::introspection;
#[cfg(feature = "remote")]
use crate::provider::remote::{RemoteStores, admitted};
use crate::provider::rules::analysis::BoundedFunctions;
use crate::provider::rules::logic::ChangedRows;
#[cfg(feature = "sql")]
use crate::provider::rules::optimizer::DerivedTables;
use crate::provider::rules::order;
#[cfg(feature = "sql")]
use crate::provider::sql::execution::PreparedStatements;
#[cfg(feature = "sql")]
use crate::provider::sql::operators::Operators;
use crate::provider::window::shifts::shifts;

/// Names that a schema cannot have.
const RESERVED: [&str; 1] = ["information_schema"];

/// Opens and registers array files in a [`SessionContext`], like `register_parquet` and
/// `read_parquet` do for Parquet.
///
/// ```
/// # use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
/// use datafusion::prelude::SessionContext;
/// use tet_sql::{ArrayOptions, ArraySessionExt};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("weather.tet");
/// # let spec = DatasetSpec::new("temperature", Dtype::U8, &[2, 3], &[2, 2]);
/// # let spec = spec.with_dim_names(["lat", "lon"]);
/// # let mut writer = TetWriter::create(&path, vec![spec])?;
/// # writer.write_dataset(0, &[1, 2, 3, 4, 5, 6])?;
/// # writer.finish()?;
/// let ctx = SessionContext::new();
/// ctx.register_array_file(&path, ArrayOptions::new()).await?;
/// let by_lat = ctx
///     .sql("SELECT lat, avg(value) FROM weather.temperature GROUP BY lat")
///     .await?;
/// assert_eq!(by_lat.count().await?, 2);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ArraySessionExt {
    /// Registers a file, or a package (a directory `X.tet.d`), as a schema in the default catalog.
    /// The name of the schema is the stem of the file name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or a schema of that name exists.
    async fn register_array_file(
        &self,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<Arc<ArraySchema>>;

    /// Registers a file as a schema of this name in the default catalog.
    ///
    /// # Errors
    /// Returns the errors of [`Self::register_array_file`].
    async fn register_array_file_as(
        &self,
        schema: &str,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<Arc<ArraySchema>>;

    /// Registers every `*.tet` file and every package in a directory as a schema named after its
    /// stem, in the order of the names. Files that cannot be opened are left out and reported.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read, or a schema of one of the names exists. In
    /// that case no schema is registered.
    async fn register_array_directory(
        &self,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<RegisteredDirectory>;

    /// Registers one dataset as a table: the dataset that `options.dataset` names, else the only
    /// dataset of the file.
    ///
    /// # Errors
    /// Returns the errors of [`ArrayTable::open`].
    async fn register_array(
        &self,
        table: TableReference,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<()>;

    /// Reads one dataset as a [`DataFrame`], without registering a table.
    ///
    /// # Errors
    /// Returns the errors of [`ArrayTable::open`].
    async fn read_array(&self, path: &Path, options: ArrayOptions) -> Result<DataFrame>;
}

/// Returns a session with all features of this crate.
///
/// - SQL can open array files, with `CREATE EXTERNAL TABLE ... STORED AS TET` or with a quoted path
///   in place of a table: `FROM 'weather.tet#temperature'`. Quoted paths of other formats work too,
///   as with [`SessionContext::enable_url_table`]. Such tables are opened with the options
///   `defaults`, unless the statement overrides them.
/// - Aggregates, joins and windows over arrays run in array space.
/// - Times in text may be abbreviated: `time = '2024-06'`, `'2024-06-15 12:00'`. Intervals can be
///   multiplied by numbers, and compared with durations.
/// - The [functions] of this crate are registered.
///
/// SQL in such a session can read every file that the process can read.
///
/// ```
/// # use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
/// use datafusion::prelude::SessionContext;
/// use tet_sql::{ArrayOptions, enable_arrays};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("weather.tet");
/// # let spec = DatasetSpec::new("a", Dtype::U8, &[2, 3], &[2, 2]);
/// # let mut writer = TetWriter::create(&path, vec![spec])?;
/// # writer.write_dataset(0, &[1, 2, 3, 4, 5, 6])?;
/// # writer.finish()?;
/// let ctx = enable_arrays(SessionContext::new(), ArrayOptions::new());
/// let query = format!("SELECT value FROM '{}' WHERE dim_1 = 2", path.display());
/// assert_eq!(ctx.sql(&query).await?.count().await?, 2);
/// # Ok(())
/// # }
/// ```
pub fn enable_arrays(ctx: SessionContext, defaults: ArrayOptions) -> SessionContext {
    add_config(&ctx);
    let listing = Arc::new(DynamicListTableFactory::default());
    let urls = ArrayUrlFactory::new(defaults.clone(), Arc::clone(&listing));
    let catalogs = Arc::clone(ctx.state_ref().read().catalog_list());
    let catalogs = UrlCatalogs::new(catalogs, Arc::new(urls));
    let session_id = ctx.session_id();
    let mut rules = ctx.state_ref().read().physical_optimizers().to_vec();
    order::add_physical_rules(&mut rules);
    let planner = Arc::clone(ctx.state_ref().read().query_planner());
    let mut builder = ctx
        .into_state_builder()
        .with_query_planner(Arc::new(AttributedResults::new(planner)))
        .with_session_id(session_id)
        .with_catalog_list(Arc::new(catalogs))
        .with_physical_optimizer_rules(rules);
    order::add_analyzer_rules(builder.analyzer().get_or_insert_default());
    order::add_optimizer_rules(builder.optimizer().get_or_insert_default());
    // First, because the first planner of an expression takes it.
    #[cfg(feature = "sql")]
    {
        let planners = builder.expr_planners().get_or_insert_default();
        planners.insert(0, Arc::new(Operators));
        DerivedTables::add_to(builder.relation_planners().get_or_insert_default());
    }
    let ctx: SessionContext = builder.build().into();
    #[cfg(feature = "remote")]
    RemoteStores::install(&ctx);
    for factory in ctx.state_ref().write().table_factories_mut().values_mut() {
        *factory = Arc::new(RegularFilesFactory(Arc::clone(factory)));
    }
    let formats = FormatRegistry::of(ctx.state_ref().read().config());
    // Reversed, so that the first of several formats with the same keyword is registered.
    for format in formats.formats().iter().rev() {
        for keyword in format.keywords() {
            let factory = ArrayTableFactory::new(Arc::clone(format), defaults.clone());
            let state = ctx.state_ref();
            let mut state = state.write();
            let factories = state.table_factories_mut();
            factories.insert((*keyword).to_string(), Arc::new(factory));
        }
    }
    let ours = formats.formats().iter().rev();
    let ours = ours.flat_map(|format| ArrayFormatFactory::of(format.as_ref()));
    let ours = ours.map(|format| -> Arc<dyn FileFormatFactory> { Arc::new(format) });
    let of_rows = RowFormatFactory::all(&ctx.state()).into_iter();
    let of_rows = of_rows.map(|format| -> Arc<dyn FileFormatFactory> { Arc::new(format) });
    #[cfg(feature = "tatami")]
    let of_rows = of_rows.chain([document_format_factory()]);
    #[cfg(feature = "tiledb")]
    let of_rows = of_rows.chain([tiledb_format_factory()]);
    for format in of_rows.chain(ours) {
        // Registering with `overwrite` never fails.
        let _ = ctx.state_ref().write().register_file_format(format, true);
    }
    let memory = SessionMemory::of(&ctx);
    for function in functions::aggregates(&memory) {
        ctx.register_udaf(function);
    }
    for function in shifts() {
        ctx.register_udwf(function);
    }
    let own = functions::scalars().into_iter();
    for function in own.chain(functions::replacements()) {
        ctx.register_udf(function);
    }
    let state = ctx.state();
    let functions = state.scalar_functions().values();
    for function in functions.filter_map(|function| bounded(function, &memory)) {
        ctx.register_udf(function);
    }
    // Registered, so that a session that decodes a plan finds the function by its name.
    let concatenation = concatenation(&memory);
    ctx.register_udf(concatenation.clone());
    ctx.add_analyzer_rule(Arc::new(BoundedFunctions::new(concatenation, memory)));
    // Last, because no later rule sees the expressions that it keeps.
    ctx.add_analyzer_rule(Arc::new(ChangedRows));
    introspection::register(&ctx);
    #[cfg(feature = "tatami")]
    tatami::register(&ctx);
    #[cfg(feature = "tiledb")]
    tiledb::register(&ctx);
    listing.session_store().with_state(ctx.state_weak_ref());
    ctx
}

#[async_trait]
impl ArraySessionExt for SessionContext {
    async fn register_array_file(
        &self,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<Arc<ArraySchema>> {
        let config = config_of(self);
        let path = &admitted(path, &config)?;
        let formats = FormatRegistry::of(&config);
        self.register_array_file_as(&stem(path, &formats)?, path, options)
            .await
    }

    async fn register_array_file_as(
        &self,
        schema: &str,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<Arc<ArraySchema>> {
        let config = config_of(self);
        let path = &admitted(path, &config)?;
        let schema = ArraySchema::open_in(&config, schema.to_string(), path, options)?;
        let schema = Arc::new(schema);
        register_schemas(self, std::slice::from_ref(&schema))?;
        Ok(schema)
    }

    async fn register_array_directory(
        &self,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<RegisteredDirectory> {
        let config = self.copied_config();
        let mut folder = RegisteredDirectory {
            schemas: Vec::new(),
            refused: Vec::new(),
        };
        let mut names = HashSet::new();
        let formats = FormatRegistry::of(&config);
        for file in files_in(path, &formats)? {
            let Ok(name) = stem(&file, &formats) else {
                let message = "the file name is not valid UTF-8 and cannot name a schema";
                folder.refused.push(Error::invalid(&file, message));
                continue;
            };
            match ArraySchema::open_in(&config, name, &file, options.clone()) {
                Ok(schema) if !names.insert(schema.name().to_string()) => {
                    let message = "another file in the directory has the same stem";
                    folder.refused.push(Error::invalid(&file, message));
                }
                Ok(schema) => folder.schemas.push(Arc::new(schema)),
                Err(error) => folder.refused.push(error),
            }
        }
        register_schemas(self, &folder.schemas)?;
        Ok(folder)
    }

    async fn register_array(
        &self,
        table: TableReference,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<()> {
        add_config(self);
        let config = config_of(self);
        let path = &admitted(path, &config)?;
        let opened = ArrayTable::open_in(&config, path, &options)?;
        self.register_table(table, Arc::new(opened))?;
        Ok(())
    }

    async fn read_array(&self, path: &Path, options: ArrayOptions) -> Result<DataFrame> {
        add_config(self);
        let config = config_of(self);
        let path = &admitted(path, &config)?;
        let opened = ArrayTable::open_in(&config, path, &options)?;
        self.read_table(Arc::new(opened))
    }
}

/// Returns the configuration of a session, with its object stores.
fn config_of(context: &SessionContext) -> SessionConfig {
    #[cfg(feature = "remote")]
    RemoteStores::install(context);
    context.copied_config()
}

/// Returns a path as it is, in builds without object stores.
#[cfg(not(feature = "remote"))]
fn admitted(path: &Path, _session: &SessionConfig) -> Result<PathBuf, Error> {
    Ok(path.to_path_buf())
}

/// The result of registering a directory.
#[derive(Debug)]
pub struct RegisteredDirectory {
    /// The schemas of the files that were registered.
    pub schemas: Vec<Arc<ArraySchema>>,
    /// The errors of the files that could not be opened.
    pub refused: Vec<Error>,
}

/// Registers all of these schemas, or none if one of them is refused.
fn register_schemas(ctx: &SessionContext, schemas: &[Arc<ArraySchema>]) -> Result<()> {
    let catalog_name = ctx
        .copied_config()
        .options()
        .catalog
        .default_catalog
        .clone();
    let Some(catalog) = ctx.catalog(&catalog_name) else {
        return plan_err!("the session has no catalog \"{catalog_name}\"");
    };
    let mut names: HashSet<String> = catalog.schema_names().into_iter().collect();
    for schema in schemas {
        let name = schema.name();
        let file = schema.path().display();
        if RESERVED.contains(&name) {
            return plan_err!("{file}: \"{name}\" is a reserved schema name; choose another name");
        }
        if !names.insert(name.to_string()) {
            return plan_err!(
                "{file}: a schema named \"{name}\" already exists; choose another name"
            );
        }
    }
    add_config(ctx);
    for schema in schemas {
        let provider: Arc<ArraySchema> = Arc::clone(schema);
        catalog.register_schema(schema.name(), provider)?;
    }
    Ok(())
}

/// Adds the settings `tet....` to the session, so that `SET` can change them.
fn add_config(ctx: &SessionContext) {
    let state = ctx.state_ref();
    let mut state = state.write();
    #[cfg(feature = "sql")]
    PreparedStatements::install(state.config_mut());
    let extensions = &mut state.config_mut().options_mut().extensions;
    if extensions.get::<ArraySettings>().is_none() {
        extensions.insert(ArraySettings::default());
    }
}

/// The file name without its extension; for a package, without `.tet.d`.
fn stem(path: &Path, formats: &FormatRegistry) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let (Some(name), Some(stem)) = (name, stem) else {
        return plan_err!(
            "{}: the file name is not valid UTF-8 and cannot name a schema; choose another name",
            path.display()
        );
    };
    let extensions = formats.formats().iter().flat_map(|one| one.extensions());
    let compound = extensions.filter(|extension| extension.contains('.'));
    let mut stems = compound.filter_map(|extension| {
        let (stem, dot) = name.split_at_checked(name.len().checked_sub(extension.len() + 1)?)?;
        let found = dot.strip_prefix('.')?;
        (found.eq_ignore_ascii_case(extension) && !stem.is_empty()).then_some(stem)
    });
    Ok(stems.next().unwrap_or(stem).to_string())
}

/// The files in a directory that need not be named, such as `*.tet` and packages, sorted.
fn files_in(folder: &Path, formats: &FormatRegistry) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(Error::io(folder, "list"))? {
        let path = entry.map_err(Error::io(folder, "list"))?.path();
        if formats.finds_in_directories(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_called_after_files_without_their_extension() {
        for (path, expected) in [
            ("a/era.tet", "era"),
            ("a/era.h5.tet", "era.h5"),
            ("a/era.tet.d", "era"),
            ("a/era.TET.D", "era"),
            ("a/era.d", "era"),
            ("a/.tet.d", ".tet"),
        ] {
            assert_eq!(
                stem(Path::new(path), &FormatRegistry::default()).unwrap(),
                expected
            );
        }
    }
}
