//! The table functions `tatami_search('t', 'words')` and `tatami_terms('t')`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DFSchema, Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::conjunction_opt;
use datafusion::physical_plan::ExecutionPlan;

use crate::format::tatami::search::Mode;
use crate::provider::adapters::tatami::files::{TableFiles, table_files};
use crate::provider::adapters::tatami::row_table::RowTable;
use crate::provider::adapters::tatami::search::scan::SearchScan;
use crate::provider::adapters::tatami::search::terms::TermRows;
use crate::provider::adapters::tatami::table::DocumentTable;
use crate::provider::attributes::plain;
use crate::provider::catalog::many_files::{FILE, common_fields};
use crate::provider::introspection::lookup;
use crate::provider::source::BlockSource;

/// `tatami_search('t', 'words' [, mode])`: the documents that contain any or all of the words, with their
/// scores.
#[derive(Debug)]
pub(in crate::provider) struct Search;

impl Search {
    /// The name of the function.
    pub const NAME: &'static str = "tatami_search";
}

impl TableFunctionImpl for Search {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let texts = texts(args.exprs());
        let (table, words, mode) = match texts.as_deref() {
            Some([table, words]) => (table, words, Ok(Mode::default())),
            Some([table, words, mode]) => (table, words, mode.parse::<Mode>()),
            _ => {
                return plan_err!(
                    "{} takes the name of a table, words, and optionally a mode, as in SELECT * FROM {}('t', \
                     'red bicycle', 'all')",
                    Self::NAME,
                    Self::NAME
                );
            }
        };
        let mode = mode.map_err(|message| plan_datafusion_err!("{}: {message}", Self::NAME))?;
        let TableFiles { documents, files } = searched(Self::NAME, &args, table)?;
        let mut fields = documents[0].schema().fields().iter();
        if let Some(taken) = fields.find(|field| OWN.contains(&field.name().as_str())) {
            return plan_err!(
                "{}: the table {table} has a column {}, which the result adds",
                Self::NAME,
                taken.name()
            );
        }
        Ok(Arc::new(SearchTable {
            schema: result_schema(&documents, files.is_some()),
            name: table.clone(),
            documents,
            files,
            words: words.clone(),
            mode,
        }))
    }
}

/// `tatami_terms('t')`: the indexed words, with the number of documents that contain each.
#[derive(Debug)]
pub(in crate::provider) struct Terms;

impl Terms {
    /// The name of the function.
    pub const NAME: &'static str = "tatami_terms";
}

impl TableFunctionImpl for Terms {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let table = lookup::table_name(Self::NAME, args.exprs())?.to_string();
        let TableFiles { documents, .. } = searched(Self::NAME, &args, &table)?;
        let schema = Schema::new(vec![
            Field::new("path", DataType::Utf8, false),
            Field::new("term", DataType::Utf8, false),
            Field::new("documents", DataType::UInt64, false),
        ]);
        let rows = TermRows::new(format!("{}({table})", Self::NAME), documents);
        Ok(Arc::new(RowTable::new(Arc::new(rows), schema)))
    }
}

/// The columns that the result adds to those of the table.
const OWN: [&str; 2] = ["score", "doc"];

/// Returns the columns of the result of a search in these tables, which have the same columns.
pub(super) fn result_schema(tables: &[Arc<DocumentTable>], has_file_column: bool) -> SchemaRef {
    let schemas: Vec<&SchemaRef> = tables.iter().map(|table| table.schema()).collect();
    let file = has_file_column.then(|| Arc::new(Field::new(FILE, DataType::Utf8, false)));
    let own = [
        Arc::new(Field::new(OWN[0], DataType::Float32, false)),
        Arc::new(Field::new(OWN[1], DataType::UInt64, false)),
    ];
    let fields = common_fields(&schemas).into_iter().chain(file).chain(own);
    plain(&Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns the arguments as texts; `None` if one is not a text literal.
fn texts(arguments: &[Expr]) -> Option<Vec<String>> {
    let text = |argument: &Expr| match argument {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_string),
        _ => None,
    };
    arguments.iter().map(text).collect()
}

/// Returns the files that make up a table. Fails if a file has no search segment.
fn searched(function: &str, args: &TableFunctionArgs, name: &str) -> Result<TableFiles> {
    let files = table_files(function, args, name)?;
    for table in &files.documents {
        if table.segment()?.is_none() {
            let path = table.file().path().display();
            return plan_err!(
                "{function}: {path} has no search index; COPY writes one with the option search"
            );
        }
    }
    Ok(files)
}

/// The result of `tatami_search`.
#[derive(Debug)]
struct SearchTable {
    name: String,
    documents: Vec<Arc<DocumentTable>>,
    files: Option<Arc<[String]>>,
    schema: SchemaRef,
    words: String,
    mode: Mode,
}

#[async_trait]
impl TableProvider for SearchTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let answers = filters.iter().map(|filter| match filter.is_volatile() {
            true => TableProviderFilterPushDown::Unsupported,
            false => TableProviderFilterPushDown::Exact,
        });
        Ok(answers.collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = DFSchema::try_from(self.schema.as_ref().clone())?;
        let filters = filters
            .iter()
            .map(|filter| state.create_physical_expr(unnormalize_col(filter.clone()), &schema));
        let filter = conjunction_opt(filters.collect::<Result<Vec<_>>>()?);
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let scan = SearchScan::try_new(
            self.name.clone(),
            (self.documents.clone(), self.files.clone()),
            Arc::clone(&self.schema),
            (self.words.clone(), self.mode),
            projection,
            filter,
            limit,
        )?;
        Ok(scan.into_exec())
    }
}
