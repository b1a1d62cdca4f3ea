//! The members of a collection as tables that are opened when blocks of them are needed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt};

use crate::error::{Error, ErrorLocation};
use crate::format::io::place::Place;
use crate::format::io::storage::Access;
use crate::format::tatami::{Member, ValueBounds};
use crate::grid::KeptRows;
use crate::provider::adapters::tatami::table::{BytesAs, DocumentTable, TextOptions, stem};
use crate::provider::adapters::tatami::values::column_bounds;
use crate::provider::catalog::description::TableDescription;
use crate::provider::catalog::settings::options::{ArrayOptions, ReadOptions};
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::planning::pruning::prune_blocks;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    Availability, BlockList, BlockReader, BlockSource, BlockStatistics, ColumnKind, FetchedBlock,
    ReadCounts, RowCount, SelectedBlocks,
};

/// The table of a member. The manifest tells its number of rows and the zones of its columns, so that the
/// file is opened only if it may hold a row that satisfies the filters of a query.
#[derive(Debug)]
pub(super) struct MemberTable {
    member: Arc<Member>,
    place: Place,
    location: String,
    name: String,
    schema: SchemaRef,
    access: Access,
    text: TextOptions,
    options: ArrayOptions,
    opened: OnceLock<Arc<DocumentTable>>,
}

impl MemberTable {
    /// Creates the tables of all members of a collection. Opens the first one, whose columns all members
    /// must have.
    pub fn all(
        members: Vec<(Place, Member)>,
        access: Access,
        options: &ArrayOptions,
    ) -> Result<Vec<Arc<Self>>, Error> {
        let mut tables: Vec<Arc<Self>> = Vec::with_capacity(members.len());
        for (place, member) in members {
            let path = place.path();
            let text = TextOptions::parse(path, &options.format_options)?;
            let mut table = Self {
                member: Arc::new(member),
                location: path.display().to_string(),
                name: stem(path),
                place,
                schema: Arc::new(Schema::empty()),
                access,
                text,
                options: options.clone(),
                opened: OnceLock::new(),
            };
            table.schema = match tables.first() {
                Some(first) => Arc::clone(&first.schema),
                None => {
                    let first = Arc::new(table.open()?);
                    // The columns of other members may have nulls.
                    let fields = first.schema().fields().iter();
                    let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
                    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                    table.opened = OnceLock::from(first);
                    schema
                }
            };
            tables.push(Arc::new(table));
        }
        Ok(tables)
    }

    /// Returns the table of the file, which is opened on first use.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is not the one that the manifest describes, or has other columns
    /// than the first member.
    pub fn table(&self) -> Result<&Arc<DocumentTable>, Error> {
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let table = self.open()?;
        let columns = |schema: &Schema| {
            let fields = schema.fields().iter();
            let fields = fields.map(|field| format!("{} {}", field.name(), field.data_type()));
            fields.collect::<Vec<_>>().join(", ")
        };
        let (found, expected) = (columns(table.schema()), columns(&self.schema));
        if found != expected {
            return Err(Error::malformed(
                ErrorLocation::file(self.place.path()),
                "columns",
                format!("({found})"),
                format!("({expected}), as in the first member of the collection"),
            ));
        }
        Ok(self.opened.get_or_init(|| Arc::new(table)))
    }

    fn open(&self) -> Result<DocumentTable, Error> {
        let file = self.member.open_at(&self.place, self.access)?;
        DocumentTable::try_new(Arc::new(file), self.name.clone(), &self.options)
    }

    /// The messages of the file, if it is open.
    pub fn warnings(&self) -> &[String] {
        self.opened.get().map_or(&[], |table| table.warnings())
    }

    /// The file as a single block, without opening it.
    fn unopened(&self) -> UnopenedMember {
        UnopenedMember {
            member: Arc::clone(&self.member),
            schema: Arc::clone(&self.schema),
            text: self.text,
            is_selected: true,
        }
    }
}

impl BlockSource for MemberTable {
    fn format(&self) -> &'static str {
        "tatami"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn location(&self) -> Option<&str> {
        Some(&self.location)
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn column_kind(&self, column: usize) -> ColumnKind {
        match self.opened.get() {
            Some(table) => table.column_kind(column),
            None => ColumnKind::Stored,
        }
    }

    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
        options: &ReadOptions,
    ) -> Result<SelectedBlocks> {
        let mut unopened = self.unopened();
        if !columns.is_empty() {
            if let Some(predicate) = conjunction_opt(filters.iter().map(Arc::clone)) {
                let whole = PlannedBlocks::new(Arc::new(unopened.clone()), BlockOrder::All);
                let pruned = prune_blocks(self, &whole, &predicate, options)?;
                unopened.is_selected = pruned.steps.is_none_or(|steps| steps.count() > 0);
            }
            if unopened.is_selected {
                return self.table()?.select(filters, columns, options);
            }
        }
        Ok(SelectedBlocks {
            blocks: Arc::new(unopened),
            kept: None,
            residual: Vec::new(),
        })
    }

    /// Returns `None`: the collection opens its members again.
    fn recipe(&self) -> Result<Option<Recipe>> {
        Ok(None)
    }

    fn describe(&self) -> Result<TableDescription> {
        self.table()?.describe()
    }
}

/// A member that is answered from the manifest, without being opened. Its single block has all rows
/// of the member, for queries that read no column, or none if the zones rule out all rows.
#[derive(Debug, Clone)]
struct UnopenedMember {
    member: Arc<Member>,
    schema: SchemaRef,
    text: TextOptions,
    is_selected: bool,
}

impl UnopenedMember {
    /// Returns the bounds of a column, if the manifest has a zone for it.
    fn bounds(&self, column: usize) -> Option<ValueBounds<'_>> {
        let name = self.schema.field(column).name();
        let zone = self.member.zones.iter().find(|zone| &zone.column == name)?;
        // The zone of a column without values is empty.
        let is_empty = zone.bounds.min.is_empty() && zone.bounds.max.is_empty();
        let is_changed = self.text.of(zone.column_type) == BytesAs::LossyText;
        (!is_empty && !is_changed).then(|| zone.value_bounds())
    }
}

impl BlockList for UnopenedMember {
    fn total(&self) -> Option<u64> {
        Some(1)
    }

    fn count(&self) -> Option<u64> {
        Some(self.is_selected.into())
    }

    fn rows(&self) -> RowCount {
        RowCount::Exact(if self.is_selected {
            self.member.rows
        } else {
            0
        })
    }

    fn rows_in(&self, blocks: &[u64]) -> Result<RowCount> {
        Ok(RowCount::Exact(self.member.rows * blocks.len() as u64))
    }

    fn is_read(&self, columns: &[usize]) -> bool {
        !columns.is_empty()
    }

    fn block_bytes(&self, _block: u64, _options: &ReadOptions) -> Result<u64> {
        Ok(self.member.bytes)
    }

    fn availability(&self, column: usize, options: &ReadOptions) -> Availability {
        Availability {
            is_known: options.zone_maps && self.bounds(column).is_some(),
            unusable: None,
        }
    }

    fn statistics(
        &self,
        columns: &[usize],
        blocks: &[u64],
        _options: &ReadOptions,
    ) -> Result<BlockStatistics> {
        let columns = columns.iter().map(|column| {
            let Some(bounds) = self.bounds(*column) else {
                return Ok(None);
            };
            let data_type = self.schema.field(*column).data_type();
            let bounds = vec![bounds; blocks.len()];
            let nulls = UInt64Array::new_null(blocks.len());
            column_bounds(&bounds, nulls, false, data_type).map(Some)
        });
        Ok(BlockStatistics {
            columns: columns.collect::<Result<_>>()?,
            rows: UInt64Array::from(vec![self.member.rows; blocks.len()]),
        })
    }

    fn reader(
        &self,
        columns: &[usize],
        max_rows: usize,
        _options: &ReadOptions,
    ) -> Result<Box<dyn BlockReader>> {
        if !columns.is_empty() {
            return internal_err!("{} is not open", self.member.path.display());
        }
        Ok(Box::new(RowCounter {
            rows: self.member.rows,
            max_rows: max_rows.max(1) as u64,
        }))
    }
}

/// Counts the rows of a member.
struct RowCounter {
    rows: u64,
    max_rows: u64,
}

impl BlockReader for RowCounter {
    fn open(&mut self, _block: u64, _fetched: Option<FetchedBlock>) -> Result<()> {
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn batch(&self, first: u64) -> Range<u64> {
        first..self.rows.min(first.saturating_add(self.max_rows))
    }

    fn read(&mut self, _rows: Range<u64>, _kept: Option<&KeptRows>) -> Result<Vec<ArrayRef>> {
        Ok(Vec::new())
    }

    fn counts(&self) -> ReadCounts {
        ReadCounts::default()
    }
}
