//! Encodes searches, so that they can be sent to another process.

use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use crate::provider::adapters::tatami::search::function::result_schema;
use crate::provider::adapters::tatami::search::scan::SearchScan;
use crate::provider::adapters::tatami::table::DocumentTable;
use crate::provider::codec::{carried, carrier};
use crate::provider::source::BlockSource;
use crate::provider::source::recipe::Recipe;

/// A search without its filter: the recipes of its tables, the words, and the columns to read.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::provider) struct EncodedSearch {
    pub tables: Vec<Recipe>,
    /// The values of the column `file`, if the tables have it.
    files: Option<Vec<String>>,
    name: String,
    words: String,
    mode: String,
    projection: Vec<usize>,
    fetch: Option<usize>,
}

impl SearchScan {
    /// Encodes the search. Returns a [`carrier`] of its filter beside it.
    pub fn encoded(&self) -> Result<(EncodedSearch, Arc<dyn ExecutionPlan>)> {
        let tables = self.documents.iter().map(|table| {
            let recipe = table.recipe()?;
            Recipe::required(recipe, table.name())
        });
        let search = EncodedSearch {
            tables: tables.collect::<Result<_>>()?,
            files: self.files.as_ref().map(|files| files.to_vec()),
            name: self.name.clone(),
            words: self.words.clone(),
            mode: self.mode.to_string(),
            projection: self.projection.clone(),
            fetch: self.fetch,
        };
        Ok((search, carrier(&self.filter, &self.table)?))
    }
}

impl EncodedSearch {
    /// Decodes the search in opened tables, with its filter.
    ///
    /// # Errors
    /// Returns an error if a table is not that of a `.tatami` file, or if the columns of the search do not
    /// match the tables.
    pub fn decode(
        self,
        tables: Vec<Arc<dyn BlockSource>>,
        filter: &Arc<dyn ExecutionPlan>,
    ) -> Result<SearchScan> {
        let documents = tables.into_iter().map(DocumentTable::of_source);
        let documents = documents.collect::<Option<Vec<_>>>().unwrap_or_default();
        let (false, Ok(mode)) = (documents.is_empty(), self.mode.parse()) else {
            return plan_err!(
                "an encoded search of {} has no valid mode or tables",
                self.name
            );
        };
        if self
            .files
            .as_ref()
            .is_some_and(|files| files.len() != documents.len())
        {
            return plan_err!("the files of an encoded search do not match {}", self.name);
        }
        let schema = result_schema(&documents, self.files.is_some());
        let filter = carried(filter, &schema)?.pop();
        if self
            .projection
            .iter()
            .any(|column| *column >= schema.fields().len())
        {
            return plan_err!(
                "the columns of an encoded search do not match {}",
                self.name
            );
        }
        let query = (self.words, mode);
        let (projection, fetch) = (self.projection, self.fetch);
        SearchScan::try_new(
            self.name,
            (documents, self.files.map(Arc::from)),
            schema,
            query,
            projection,
            filter,
            fetch,
        )
    }
}
