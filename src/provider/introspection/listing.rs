//! Table functions without arguments that list the schemas of a session.

use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::introspection::catalogs::{self, ListedSchema};
use crate::provider::introspection::column::{Column, repeated};
use crate::provider::introspection::scan::{Batches, Request, RowScan, RowSource, batch};

/// Maximum number of rows per batch. Small, because computing a single row may look up every chunk
/// of an array, and a query can be cancelled only between batches.
const MAX_BATCH_ROWS: usize = 64;
/// The first columns of every listing, which name the schema.
const SCHEMA_COLUMNS: [&str; 2] = ["table_catalog", "table_schema"];

/// The rows and columns of one table function.
pub(super) trait Listing: Send + Sync + 'static {
    /// The data behind one row.
    type Row: Send + 'static;
    /// The name of the function.
    const NAME: &'static str;
    /// The columns after [`SCHEMA_COLUMNS`].
    const COLUMNS: &'static [Column<Self::Row>];

    /// Returns the rows of one schema. Anything expensive is left to the columns, which are
    /// computed only if a query asks for them.
    fn rows(schema: &ListedSchema) -> Vec<Self::Row>;
}

/// The table function of a [`Listing`].
pub(super) struct ListingFunction<L>(PhantomData<L>);

impl<L: Listing> ListingFunction<L> {
    /// Returns the function together with its name, for registration.
    pub fn named() -> (&'static str, Arc<dyn TableFunctionImpl>) {
        (L::NAME, Arc::new(Self(PhantomData)))
    }
}

impl<L: Listing> Debug for ListingFunction<L> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(L::NAME)
    }
}

impl<L: Listing> TableFunctionImpl for ListingFunction<L> {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            let name = L::NAME;
            return plan_err!("{name} takes no arguments: SELECT * FROM {name}()");
        }
        let of_schema = SCHEMA_COLUMNS.map(|name| Field::new(name, DataType::Utf8, true));
        let of_rows = L::COLUMNS.iter().map(Column::field);
        let fields: Vec<_> = of_schema.into_iter().chain(of_rows).collect();
        Ok(Arc::new(ListingTable::<L> {
            schema: Arc::new(Schema::new(fields)),
            listing: PhantomData,
        }))
    }
}

/// The table that the function returns. It does not refer to the session, because the session may
/// hold a view over this table.
struct ListingTable<L> {
    schema: SchemaRef,
    listing: PhantomData<L>,
}

impl<L: Listing> Debug for ListingTable<L> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(L::NAME)
    }
}

#[async_trait]
impl<L: Listing> TableProvider for ListingTable<L> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let catalogs = state.catalog_list();
        let schemas = catalogs::list(catalogs.as_ref()).await?;
        let rows = Arc::new(ListingRows::<L> {
            schemas,
            listing: PhantomData,
        });
        let scan = RowScan::try_new(rows, &self.schema, projection, limit)?;
        Ok(scan.into_exec())
    }
}

/// The rows over the schemas of the session at planning time.
struct ListingRows<L> {
    schemas: Vec<ListedSchema>,
    listing: PhantomData<L>,
}

impl<L: Listing> Debug for ListingRows<L> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(L::NAME)
    }
}

impl<L: Listing> ListingRows<L> {
    /// Computes the column with this index for some rows of the schema with this index.
    fn column(&self, number: usize, schema: usize, rows: &[L::Row]) -> Result<ArrayRef> {
        let name = &self.schemas[schema].name;
        match number {
            0 => Ok(repeated(&name.catalog, rows.len())),
            1 => Ok(repeated(&name.schema, rows.len())),
            _ => L::COLUMNS[number - SCHEMA_COLUMNS.len()].over(rows),
        }
    }
}

impl<L: Listing> RowSource for ListingRows<L> {
    fn label(&self) -> String {
        format!("{}()", L::NAME)
    }

    fn count(&self) -> Option<u64> {
        None
    }

    fn read(self: Arc<Self>, request: Request) -> Batches {
        let mut left = request.fetch;
        let listing = Arc::clone(&self);
        let rows = (0..self.schemas.len()).flat_map(move |schema| {
            let mut rows = L::rows(&listing.schemas[schema]);
            rows.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= rows.len() as u64;
            let batches = batches(rows, request.batch_size.min(MAX_BATCH_ROWS));
            batches.map(move |rows| (schema, rows))
        });
        let (columns, fields) = (request.columns, request.schema);
        Box::new(rows.map(move |(schema, rows)| {
            let columns = columns.iter();
            let columns = columns.map(|number| self.column(*number, schema, &rows));
            batch(&fields, columns.collect::<Result<_>>()?, rows.len())
        }))
    }
}

fn batches<R>(rows: Vec<R>, size: usize) -> impl Iterator<Item = Vec<R>> {
    let mut rows = rows.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<R> = rows.by_ref().take(size).collect();
        (!batch.is_empty()).then_some(batch)
    })
}
