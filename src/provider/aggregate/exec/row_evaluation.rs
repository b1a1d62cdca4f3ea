//! Feeds DataFusion's accumulators with the rows of chunks.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use crate::grid::reduce::AxisGroups;
use crate::grid::{Cells, Coordinates, Window};
use crate::provider::aggregate::exec::accumulators::add_rows;
use crate::provider::aggregate::exec::axis_expressions::AxisExpressions;
use crate::provider::aggregate::exec::job::Job;
use crate::provider::aggregate::exec::partial_states::PartialState;
use crate::provider::aggregate::plan::aggregation::Aggregate;
use crate::provider::planning::mask::mask;
use crate::provider::plans::below::{columns_in, replace_columns};
use crate::provider::source::WindowReader;

/// The state of row-by-row evaluation.
pub(crate) struct RowEvaluation {
    batch_size: usize,
    /// The number of rows added since the accumulators were last asked for their size.
    pub added: u64,
    axis_expressions: AxisExpressions,
    /// The grid that the axis expressions were last evaluated for, and their values.
    on_axes: Option<(usize, Vec<(usize, Coordinates)>)>,
    /// The columns that are needed: columns of the table, then axis expressions.
    columns: Vec<usize>,
    /// The schema of these columns.
    schema: SchemaRef,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The aggregates that DataFusion's accumulators compute, over these columns.
    aggregates: Vec<Aggregate>,
    /// The selected cells of the current chunk. `next` is the next row among them.
    cells: Option<Cells>,
    next: u64,
    groups: Vec<usize>,
}

/// A chunk whose rows are added.
pub(crate) struct RowsOfChunk<'a> {
    /// The index of the chunk's [`GridJob`](super::job::GridJob).
    pub part: usize,
    pub window: &'a Window,
    /// The terms of the group index along each axis, without those of the pair, and the base that is added for
    /// every cell.
    pub axes: &'a [AxisGroups],
    pub base: usize,
}

impl RowEvaluation {
    /// Prepares the evaluation of the aggregates that are computed row by row.
    pub fn try_new(job: &Job, batch_size: usize) -> Result<Self> {
        Self::with(job, batch_size, true)
    }

    /// Prepares the evaluation. If `uses_axes` is `true`, parts of expressions that use a single
    /// dimension are evaluated on its axis.
    fn with(job: &Job, batch_size: usize, uses_axes: bool) -> Result<Self> {
        let program = &job.program;
        let fields = job.schema.fields().len();
        let dimensions = if uses_axes { program.dimensions } else { 0 };
        let mut axis_expressions = AxisExpressions::new(fields, dimensions);
        let mut aggregates = Vec::new();
        for aggregate in program.by_row() {
            let mut replace = |expr| axis_expressions.replace_in(expr);
            let arguments = aggregate.arguments.iter().map(&mut replace);
            aggregates.push(Aggregate {
                function: Arc::clone(&aggregate.function),
                arguments: arguments.collect::<Result<_>>()?,
                filter: aggregate.filter.as_ref().map(replace).transpose()?,
            });
        }
        let predicate = program.predicate.as_ref();
        let predicate = predicate.map(|expr| axis_expressions.replace_in(expr));
        let mut predicate = predicate.transpose()?;

        let expressions = aggregates.iter();
        let expressions = expressions.flat_map(|one| one.arguments.iter().chain(&one.filter));
        let columns = columns_in(expressions.chain(&predicate));
        let fields = columns.iter().map(|column| {
            let field = axis_expressions.field(*column, &job.schema)?;
            Ok(field.unwrap_or_else(|| job.schema.field(*column).clone()))
        });
        let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?));
        let bind = |expr: &mut Arc<dyn PhysicalExpr>| {
            *expr = replace_columns(expr, &|column| {
                let index = columns.binary_search(&column).ok()?;
                Some(Arc::new(Column::new(schema.field(index).name(), index)))
            })?;
            Ok::<_, datafusion::error::DataFusionError>(())
        };
        let expressions = aggregates.iter_mut();
        let expressions =
            expressions.flat_map(|one| one.arguments.iter_mut().chain(&mut one.filter));
        expressions.chain(&mut predicate).try_for_each(bind)?;
        Ok(Self {
            batch_size,
            added: 0,
            axis_expressions,
            on_axes: None,
            columns,
            schema,
            predicate,
            aggregates,
            cells: None,
            next: 0,
            groups: Vec::new(),
        })
    }

    /// Returns `true` if no row of the current chunk was added yet.
    pub fn is_at_start(&self) -> bool {
        self.next == 0
    }

    /// Adds the next rows of a chunk. Returns `true` after the last row.
    pub fn add(
        &mut self,
        job: &Job,
        chunk: &RowsOfChunk<'_>,
        reader: Option<&mut Box<dyn WindowReader>>,
        found: &mut PartialState,
    ) -> Result<bool> {
        let part = &job.parts[chunk.part].part;
        let axes = part.grid.axes();
        if self
            .on_axes
            .as_ref()
            .is_none_or(|(of, _)| *of != chunk.part)
        {
            match self.axis_expressions.values(axes, part.selection.count())? {
                Some(values) => self.on_axes = Some((chunk.part, values)),
                None => {
                    *self = Self::with(job, self.batch_size, false)?;
                    self.on_axes = Some((chunk.part, Vec::new()));
                }
            }
        }
        let cells = self
            .cells
            .get_or_insert_with(|| Cells::new(chunk.window, &part.selection));
        let end = cells.rows().min(self.next + self.batch_size as u64);
        let rows = self.next..end;
        let count = (rows.end - rows.start) as usize;
        let mut values = Vec::new();
        if let Some(reader) = reader {
            let mut runs = Vec::new();
            cells.runs(rows.clone(), &mut runs);
            values = reader.read(&runs)?;
        }
        let on_axes = self.on_axes.iter().flat_map(|(_, values)| values);
        let mut on_axes = on_axes.map(|(axis, values)| (*axis, values));
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            if *column >= job.schema.fields().len() {
                // All axis expressions are needed, in the order of their columns.
                let Some((axis, values)) = on_axes.next() else {
                    return internal_err!("an expression was not evaluated on its axis");
                };
                columns.push(cells.coordinates(axis, values, rows.clone())?);
                continue;
            }
            let attribute = column.checked_sub(axes.len());
            let attribute =
                attribute.and_then(|a| job.program.attributes.iter().position(|b| *b == a));
            columns.push(match (axes.get(*column), attribute, &part.file) {
                (Some(axis), ..) => {
                    cells.coordinates(*column, axis.coordinates()?, rows.clone())?
                }
                (None, Some(attribute), _) => Arc::clone(&values[attribute]),
                (None, None, Some(file)) => {
                    ScalarValue::try_from_array(file, 0)?.to_array_of_size(count)?
                }
                (None, None, None) => return internal_err!("column {column} is not read"),
            });
        }
        self.groups.clear();
        self.groups.resize(count, chunk.base);
        for (axis, groups) in chunk.axes.iter().enumerate() {
            if let Some(terms) = &groups.terms {
                cells.add_terms(axis, terms, rows.clone(), &mut self.groups);
            }
        }
        if let Some(pair) = job.groups.pair() {
            let (grid, selection) = (job.parts[chunk.part].number, &part.selection);
            let rows = rows.clone();
            pair.add_terms(grid, chunk.window, selection, cells, rows, &mut self.groups);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.schema);
        let mut some = RecordBatch::try_new_with_options(schema, columns, &options)?;
        if let Some(predicate) = &self.predicate {
            let mask = mask(predicate, &some)?;
            some = filter_record_batch(&some, &mask)?;
            let mut kept = mask.values().iter();
            self.groups.retain(|_| kept.next().unwrap_or(false));
        }
        if let Some(rows) = &mut found.rows {
            self.groups.iter().for_each(|group| rows[*group] += 1);
        }
        self.added += some.num_rows() as u64;
        if some.num_rows() > 0 {
            let total = job.groups.count();
            let aggregates = self.aggregates.iter();
            add_rows(
                aggregates,
                &mut found.accumulated,
                &some,
                &self.groups,
                total,
            )?;
        }
        self.next = end;
        if end < cells.rows() {
            return Ok(false);
        }
        self.next = 0;
        self.cells = None;
        Ok(true)
    }
}
