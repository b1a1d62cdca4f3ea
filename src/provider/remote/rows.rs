//! Files of rows (Parquet, CSV, JSON, Arrow) behind URLs, which DataFusion reads.
//! DataFusion reports a file that cannot be opened as an unknown table, and accepts patterns only in local paths.

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{DataFusionError, Result, TableReference, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use futures::StreamExt;
use glob::Pattern;
use object_store::path::Path as ObjectPath;
use object_store::{Error as StoreError, ObjectMeta, ObjectStoreExt};
use url::{Position, Url};

use crate::error::Error;
use crate::format::io::remote::{is_url, redacted, refused, without_secrets};
use crate::provider::error::{describe, store_error};
use crate::provider::remote::stores::{RemoteStores, has_signature, no_store};

/// Opens the table of a URL in place of a table: `FROM 's3://bucket/rows*.csv'`. The extension of the
/// first file decides the format.
///
/// # Errors
/// Returns an error if there is no such file, if it cannot be read, or if it is not a file of rows.
pub(crate) async fn open_rows(text: &str, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let url = RowUrl::parse(&unsigned(text, state)?)?;
    let first = url.first_file(state).await?;
    let options = url.options(&first, state)?;
    let table = url.table(options, state).await;
    Ok(Arc::new(table.map_err(|error| url.explained(error))?))
}

/// Creates the table of `CREATE EXTERNAL TABLE`. Patterns in URLs are handled here, all other locations by
/// `factory`.
///
/// # Errors
/// Returns an error if there is no such file, if it cannot be read, or if a clause is not supported.
pub(crate) async fn create_rows(
    state: &dyn Session,
    command: &CreateExternalTable,
    factory: &dyn TableProviderFactory,
) -> Result<Arc<dyn TableProvider>> {
    let session = state.as_any().downcast_ref::<SessionState>();
    let format = session.and_then(|state| state.get_file_format_factory(&command.file_type));
    // Not a file format of DataFusion: the factory interprets the URL itself.
    let Some(format) = format else {
        return factory.create(state, command).await;
    };
    let mut command = command.clone();
    for location in &mut command.locations {
        *location = unsigned(location, state)?;
    }
    let command = &command;
    let locations = command.locations.iter().filter(|text| is_url(text));
    let urls: Vec<_> = locations
        .map(|text| RowUrl::parse(text))
        .collect::<Result<_>>()?;
    // With a list of columns, the files can be written later.
    if command.schema.fields().is_empty() {
        for url in &urls {
            url.first_file(state).await?;
        }
    }
    let created = match urls.iter().find(|url| url.is_pattern()) {
        Some(url) => {
            let format = format.create(state, &command.options)?;
            url.create(format, state, command).await
        }
        None => factory.create(state, command).await,
    };
    created.map_err(|error| match urls.as_slice() {
        [url] => url.explained(error),
        _ => error,
    })
}

/// Returns the URL of a file without its signature, which the session keeps and sends with each request. Other locations
/// stay as they are.
fn unsigned(text: &str, state: &dyn Session) -> Result<String> {
    let stores = RemoteStores::of(state.config());
    let is_signed = |url: Url| has_signature(&url) && !url.path().contains(['*', '[']);
    let shown = match is_url(text) && Url::parse(text).is_ok_and(is_signed) {
        true => stores.admit(text)?,
        false => text.to_string(),
    };
    stores.admit_file(&shown)?;
    Ok(shown)
}

/// The URL of a file of rows, of a directory, or of the files that match a pattern.
struct RowUrl {
    listing: ListingTableUrl,
    /// The URL without secrets.
    shown: String,
}

impl RowUrl {
    /// Parses a URL, whose last part may be a pattern with `*` and `[...]`.
    fn parse(text: &str) -> Result<Self> {
        let mut url = Url::parse(text).map_err(|error| {
            plan_datafusion_err!("{}: is not a valid URL: {error}", without_secrets(text))
        })?;
        let shown = redacted(&url);
        let path = url.path().to_string();
        let pattern = match path.find(['*', '[']) {
            None => None,
            Some(first) => {
                let start = path[..first].rfind('/').map_or(0, |slash| slash + 1);
                let (directory, pattern) = path.split_at(start);
                if pattern.contains('/') || pattern.contains("**") {
                    return plan_err!(
                        "{shown}: patterns of Parquet, CSV, JSON and Arrow files can only be in the last part of a URL, and cannot contain **; name the directory before it"
                    );
                }
                url.set_path(directory);
                // Names in stores are compared without the encoding of URLs.
                let pattern = ObjectPath::from_url_path(pattern)?;
                let pattern = Pattern::new(pattern.as_ref()).map_err(|error| {
                    plan_datafusion_err!("{shown}: the pattern is malformed: {error}")
                })?;
                Some(pattern)
            }
        };
        // DataFusion keeps lists of files by table and path, which are the same in several stores.
        let store = TableReference::bare(&url[..Position::BeforePath]);
        let listing = ListingTableUrl::try_new(url, pattern)?.with_table_ref(store);
        Ok(Self { listing, shown })
    }

    fn is_pattern(&self) -> bool {
        self.listing.get_glob().is_some()
    }

    /// Returns the first file. If there is none, the error gives the store's reason.
    async fn first_file(&self, state: &dyn Session) -> Result<ObjectMeta> {
        let path = Path::new(&self.shown);
        let store = state.runtime_env().object_store(&self.listing);
        let url = self.listing.get_url();
        let store = store.map_err(|error| no_store(url, &self.shown, &error))?;
        let missing = || Error::invalid(path, "there is no such file (404 Not Found)");
        if !self.listing.is_collection() {
            match store.head(self.listing.prefix()).await {
                Ok(file) => return Ok(file),
                // Web servers rarely list directories, and the error of listing would hide this one.
                Err(StoreError::NotFound { source, .. }) if url.scheme().starts_with("http") => {
                    // The store returns `NotFound` for both 404 and 405.
                    return Err(match source.to_string().contains("status code: 405") {
                        true => Error::invalid(
                            path,
                            "cannot open: the server allows no HEAD requests (405 Method Not Allowed), which \
                             tell the size of a file",
                        ),
                        false => missing(),
                    }
                    .into());
                }
                // Perhaps a directory without a slash at the end.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(refused(path, "open", &error).into()),
            }
        }
        let mut files = self
            .listing
            .list_all_files(state, store.as_ref(), "")
            .await
            .map_err(|error| self.unlisted(error))?;
        match files.next().await {
            Some(file) => file.map_err(|error| self.unlisted(error)),
            None if self.is_pattern() => {
                plan_err!("{}: no file matches the pattern", self.shown)
            }
            None => Err(missing().into()),
        }
    }

    /// Returns the options of the format that the extension of a file names.
    fn options(&self, file: &ObjectMeta, state: &SessionState) -> Result<ListingOptions> {
        let name = file.location.as_ref();
        let (extension, compression) =
            ListingTableConfig::infer_file_extension_and_compression_type(name)?;
        let Some(format) = state.get_file_format_factory(&extension) else {
            return plan_err!(
                "{}: the extension of {name} is not that of a file format; expected one such as .parquet, .csv, \
                 .json or .arrow",
                self.shown
            );
        };
        let compression = compression.as_ref();
        let given = compression.map(|name| ("format.compression".to_string(), name.clone()));
        let format = format.create(state, &given.into_iter().collect())?;
        let extension = match compression {
            Some(compression) => format!("{extension}.{compression}"),
            None => extension,
        };
        Ok(ListingOptions::new(format).with_file_extension(extension))
    }

    /// Creates the table of the files, whose columns are in the files.
    async fn table(&self, options: ListingOptions, state: &dyn Session) -> Result<ListingTable> {
        let config = ListingTableConfig::new(self.listing.clone()).with_listing_options(options);
        let config = config.infer_partitions_from_path(state).await?;
        ListingTable::try_new(config.infer_schema(state).await?)
    }

    /// Creates the table of a statement over a pattern, as DataFusion does over other locations.
    async fn create(
        &self,
        format: Arc<dyn FileFormat>,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        if command.locations.len() > 1 || !command.table_partition_cols.is_empty() {
            return plan_err!(
                "{}: a pattern in a URL cannot be one of several locations, nor have PARTITIONED BY; name the \
                 directory instead",
                self.shown
            );
        }
        // The pattern alone chooses the files.
        let options = ListingOptions::new(format)
            .with_file_extension("")
            .with_file_sort_order(command.order_exprs.clone());
        let table = if command.schema.fields().is_empty() {
            self.table(options, state).await?
        } else {
            let config = ListingTableConfig::new(self.listing.clone())
                .with_listing_options(options)
                .with_schema(Arc::clone(command.schema.inner()));
            ListingTable::try_new(config)?
        };
        let table = table
            .with_cache(state.runtime_env().cache_manager.get_file_statistic_cache())
            .with_definition(command.definition.clone())
            .with_constraints(command.constraints.clone())
            .with_column_defaults(command.column_defaults.clone());
        Ok(Arc::new(table))
    }

    /// Returns the error of listing a directory.
    fn unlisted(&self, error: DataFusionError) -> DataFusionError {
        let path = Path::new(&self.shown);
        match store_error(&error).map(|error| refused(path, "list", error)) {
            Some(error) if self.is_pattern() => plan_datafusion_err!(
                "{}: the files of this pattern are not known: {error}",
                self.shown
            ),
            Some(error) => error.into(),
            None => error,
        }
    }

    /// Returns the error of reading a file with its URL, and with the store's reason if it is one of the store.
    fn explained(&self, error: DataFusionError) -> DataFusionError {
        let path = Path::new(&self.shown);
        if let Some(error) = store_error(&error) {
            return refused(path, "read", error).into();
        }
        let text = describe(&error);
        if text.contains(&self.shown) {
            return error;
        }
        // The error of a single file begins with its path in the store.
        let prefix = format!("{}: ", self.listing.prefix());
        Error::invalid(path, text.strip_prefix(&prefix).unwrap_or(&text)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_split_from_urls() {
        for (text, directory, pattern) in [
            ("s3://b/rows*.csv", "s3://b/", Some("rows*.csv")),
            ("s3://b/d/a%20[12].csv", "s3://b/d/", Some("a [12].csv")),
            ("http://[::1]:8/a.csv?x=*", "http://[::1]:8/a.csv?x=*", None),
        ] {
            let url = RowUrl::parse(text).unwrap();
            assert_eq!(url.listing.as_str(), directory);
            let found = url.listing.get_glob().as_ref().map(Pattern::as_str);
            assert_eq!(found, pattern);
        }
        for (text, expected) in [
            ("s3://b/*/a.csv", "only be in the last part"),
            ("s3://b/**.csv", "cannot contain **"),
            ("s3://b/[.csv", "malformed"),
            ("http://u:p@/a.csv", "is not a valid URL"),
        ] {
            let error = RowUrl::parse(text).err().unwrap().to_string();
            assert!(
                error.contains(expected) && !error.contains("u:p"),
                "{error}"
            );
        }
    }
}
