//! Builds the plan of an operator from the windows of DataFusion's operators.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::stddev::{Stddev, StddevPop};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::functions_aggregate::variance::{VariancePopulation, VarianceSample};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::window::SlidingAggregateWindowExpr;
use datafusion::physical_plan::windows::{
    PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr, WindowUDFExpr,
};

use crate::provider::functions::extremes::is_max;
use crate::provider::plans::below::columns_in;
use crate::provider::source::for_columns;
use crate::provider::window::plan::frames::{self, Pick, reversed};
use crate::provider::window::plan::needs::{
    PlaneNeeds, mirrored, mirrored_partitions, mirrored_planes,
};
use crate::provider::window::plan::order::{SeriesRows, WindowInput};
use crate::provider::window::plan::ranks;
use crate::provider::window::plan::rule::has_filter;
use crate::provider::window::plan::spec::{
    OutputColumn, PlaneExpr, SeriesAggregate, SeriesFunction, SeriesRank, WindowSpec,
    planes_being_read, width,
};
use crate::provider::window::plan::tiles::Tiles;

/// The approximate number of bytes that the planes and states of a tile may take.
const MAX_TILE_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 48 << 20 };
/// The maximum number of tiles that the series of a chunk are divided into, each of which decodes the
/// chunk unless it is kept. With more, DataFusion's sort is faster.
const MAX_TILES_PER_CHUNK: u64 = if cfg!(test) { 1 << 10 } else { 32 };

/// Collects the planes, aggregates and output columns of an operator.
pub(in crate::provider::window) struct SpecBuilder<'a> {
    input: &'a WindowInput<'a>,
    axis: usize,
    planes: Vec<PlaneExpr>,
    aggregates: Vec<SeriesAggregate>,
    outputs: Vec<OutputColumn>,
    descriptions: Vec<String>,
    /// The order of the first window, as EXPLAIN shows it.
    order: Option<String>,
}

impl<'a> SpecBuilder<'a> {
    /// Returns the plan of an operator that outputs some columns of the windows' operator, which has
    /// this schema; `None` if one of the windows is not supported.
    pub fn build(
        input: &'a WindowInput<'a>,
        windows: &[Arc<dyn WindowExpr>],
        axis: usize,
        columns: &[usize],
        schema: &SchemaRef,
        config: &ConfigOptions,
    ) -> Result<Option<WindowSpec>> {
        let mut builder = Self {
            input,
            axis,
            planes: Vec::new(),
            aggregates: Vec::new(),
            outputs: Vec::new(),
            descriptions: Vec::new(),
            order: None,
        };
        let below = &input.side.below.columns;
        for column in columns {
            let output = match below.get(*column) {
                Some(expr) => builder.cells(expr),
                None => {
                    let Some(window) = windows.get(column - below.len()) else {
                        return Ok(None);
                    };
                    // An expression that cannot be evaluated while planning is left to DataFusion.
                    let Ok(Some(output)) = builder.window(window) else {
                        return Ok(None);
                    };
                    output
                }
            };
            builder.outputs.push(output);
        }
        let schema = Arc::new(schema.project(columns)?);
        builder.finish(schema, config)
    }

    /// Returns the output column of an expression over the table.
    fn cells(&mut self, expr: &Arc<dyn PhysicalExpr>) -> OutputColumn {
        let column = expr.downcast_ref::<Column>().map(Column::index);
        match column.filter(|column| *column < self.input.side.part.grid.axes().len()) {
            Some(axis) => OutputColumn::Axis(axis),
            None => OutputColumn::Plane(self.plane(Arc::clone(expr))),
        }
    }

    /// Returns the index of an expression among the planes, adding it if it is new.
    fn plane(&mut self, expr: Arc<dyn PhysicalExpr>) -> usize {
        let known = self.planes.iter().position(|plane| plane.expr.eq(&expr));
        known.unwrap_or_else(|| {
            let data_type = self.data_type(&expr).unwrap_or(DataType::Null);
            self.planes.push(PlaneExpr { expr, data_type });
            self.planes.len() - 1
        })
    }

    fn data_type(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<DataType> {
        expr.data_type(self.input.side.below.node.source().schema())
    }

    /// Returns the output column of a window; `None` if the window is not supported.
    fn window(&mut self, window: &Arc<dyn WindowExpr>) -> Result<Option<OutputColumn>> {
        let order = window.order_by().iter().map(ToString::to_string);
        let order: Vec<_> = order.collect();
        if let Some((value, rank)) = ranks::rank(window, self.input, self.axis)? {
            if !is_number(&self.data_type(&value)?) {
                return Ok(None);
            }
            let name = standard(window).map(|function| function.fun().name());
            self.descriptions
                .push(format!("{}()", name.unwrap_or_default()));
            self.order.get_or_insert_with(|| order.join(", "));
            let plane = self.plane(value);
            return Ok(Some(OutputColumn::Rank(SeriesRank { plane, ..rank })));
        }
        let Some(rows) = self.input.series(window, self.axis)? else {
            return Ok(None);
        };
        let any = window.as_any();
        let aggregate = any
            .downcast_ref::<PlainAggregateWindowExpr>()
            .map(PlainAggregateWindowExpr::get_aggregate_expr)
            .or_else(|| {
                let sliding = any.downcast_ref::<SlidingAggregateWindowExpr>()?;
                Some(sliding.get_aggregate_expr())
            });
        if aggregate.is_some() && has_filter(window) {
            return Ok(None);
        }
        let mut is_along_axis = true;
        let mut over_table = Vec::new();
        for expr in &window.expressions() {
            let Some(expr) = self.input.over_table(expr)? else {
                return Ok(None);
            };
            let dimensions = self.input.dimensions_of(&expr);
            is_along_axis &=
                dimensions.is_some_and(|dimensions| dimensions.iter().all(|one| *one == self.axis));
            over_table.push(expr);
        }
        self.order.get_or_insert_with(|| order.join(", "));
        let (output, function) = match (is_along_axis, aggregate) {
            (true, aggregate) => {
                let data_type = window.field()?.data_type().clone();
                if data_type.is_nested() {
                    return Ok(None);
                }
                let values = frames::values(window, &rows)?;
                let name = aggregate.map(|aggregate| aggregate.fun().name().to_string());
                let name = name.or_else(|| Some(standard(window)?.fun().name().to_string()));
                (Some(OutputColumn::Values(values)), name)
            }
            (false, Some(aggregate)) => {
                let name = aggregate.fun().name().to_string();
                let output = self.aggregate(window, aggregate, over_table.clone(), &rows)?;
                (output, Some(name))
            }
            (false, None) => {
                let name = standard(window).map(|function| function.fun().name().to_string());
                let argument = over_table.first().map(Arc::clone);
                (self.pick(window, argument, &rows)?, name)
            }
        };
        let arguments: Vec<_> = over_table.iter().map(ToString::to_string).collect();
        self.descriptions.push(format!(
            "{}({}) {}",
            function.unwrap_or_default(),
            arguments.join(", "),
            window.get_window_frame()
        ));
        Ok(output)
    }

    /// Returns the output column of an aggregate of cells.
    fn aggregate(
        &mut self,
        window: &Arc<dyn WindowExpr>,
        aggregate: &AggregateFunctionExpr,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        rows: &SeriesRows,
    ) -> Result<Option<OutputColumn>> {
        let Ok([argument]) = <[_; 1]>::try_from(arguments) else {
            return Ok(None);
        };
        if aggregate.is_distinct() || aggregate.ignore_nulls() || aggregate.is_reversed() {
            return Ok(None);
        }
        let data_type = self.data_type(&argument)?;
        let result = window.field()?.data_type().clone();
        let Some(function) = function_of(aggregate, &data_type, &result) else {
            return Ok(None);
        };
        let Some(frames) = frames::frames(window, rows)? else {
            return Ok(None);
        };
        let argument = match function {
            SeriesFunction::Count | SeriesFunction::Min | SeriesFunction::Max => argument,
            _ => self.without_cast(argument)?,
        };
        let aggregate = SeriesAggregate {
            plane: self.plane(argument),
            frames,
            function,
        };
        self.aggregates.push(aggregate);
        Ok(Some(OutputColumn::Aggregate(self.aggregates.len() - 1)))
    }

    /// Returns the argument of a cast that the sums apply to each cell themselves.
    fn without_cast(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(cast) = expr.downcast_ref::<CastExpr>() else {
            return Ok(expr);
        };
        use DataType::{Float32, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        let from = self.data_type(cast.expr())?;
        let is_exact = match cast.cast_type() {
            DataType::Float64 => from.is_integer() || from == Float32,
            Int64 => matches!(from, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32),
            UInt64 => matches!(from, UInt8 | UInt16 | UInt32),
            _ => false,
        };
        Ok(match is_exact {
            true => Arc::clone(cast.expr()),
            false => expr,
        })
    }

    /// Returns the output column of a function that takes values from other rows.
    fn pick(
        &mut self,
        window: &Arc<dyn WindowExpr>,
        argument: Option<Arc<dyn PhysicalExpr>>,
        rows: &SeriesRows,
    ) -> Result<Option<OutputColumn>> {
        let (Some(function), Some(argument)) = (standard(window), argument) else {
            return Ok(None);
        };
        let is_taken = matches!(
            function.fun().name(),
            "lag" | "lead" | "first_value" | "last_value" | "nth_value"
        );
        // DataFusion keeps these properties to itself.
        let debug = format!("{function:?}");
        if !is_taken
            || debug.contains("ignore_nulls: true")
            || debug.contains("is_reversed: true")
            || self.data_type(&argument)? != *window.field()?.data_type()
        {
            return Ok(None);
        }
        let Pick { ranks, default } = frames::pick(window, function, self.input, rows)?;
        Ok(Some(OutputColumn::Pick {
            plane: self.plane(argument),
            planes: ranks,
            default,
        }))
    }

    /// Chooses the walking order and the tiles.
    fn finish(self, schema: SchemaRef, config: &ConfigOptions) -> Result<Option<WindowSpec>> {
        let side = self.input.side;
        let selection = side.part.selection.clone();
        let count = selection.axes()[self.axis].count() as usize;
        let descending = (
            self.outputs
                .iter()
                .map(mirrored_output)
                .collect::<Result<Vec<_>>>()?,
            self.aggregates
                .iter()
                .map(|aggregate| SeriesAggregate {
                    frames: mirrored(&aggregate.frames),
                    ..aggregate.clone()
                })
                .collect::<Vec<_>>(),
        );
        let ascending = (self.outputs, self.aggregates);
        let planes = columns_in(self.planes.iter().map(|plane| &plane.expr));
        let grid = for_columns(&side.part.grid, &planes);
        let bytes_per_plane: usize = self
            .planes
            .iter()
            .map(|plane| width(&plane.data_type))
            .sum();
        let chunk_series =
            Tiles::new(grid.chunk_grid(), &selection, self.axis, u64::MAX).max_series();

        let ranks = ascending.0.iter().filter_map(OutputColumn::rank);
        let ranks = ranks.count() * count * SeriesRank::BYTES;
        let mut best: Option<(usize, bool, bool, usize)> = None;
        for totals_first in [false, true] {
            for (is_descending, (outputs, aggregates)) in [(false, &ascending), (true, &descending)]
            {
                let needs = PlaneNeeds::new(outputs, aggregates, 0..count, totals_first);
                let states = aggregates.iter().zip(&needs.states);
                let states: usize = states
                    .map(|(aggregate, states)| (states + 2) * aggregate.state_bytes())
                    .sum();
                let per_series = needs.planes * bytes_per_plane + states + ranks;
                let is_better = best.as_ref().is_none_or(|(least, ..)| per_series < *least);
                if is_better {
                    best = Some((per_series, totals_first, is_descending, needs.reach));
                }
            }
            let fits = best.as_ref().is_some_and(|(per_series, ..)| {
                *per_series as u64 * chunk_series <= MAX_TILE_BYTES
            });
            if fits {
                break;
            }
        }
        let Some((per_series, totals_first, is_descending, reach)) = best else {
            return Ok(None);
        };
        let is_scattered = selection.axes()[..self.axis]
            .iter()
            .any(|set| set.count() > 1);
        let being_read = planes_being_read(is_scattered);
        let read_ahead = (being_read * bytes_per_plane) as u64;
        let most = MAX_TILE_BYTES / (per_series as u64 + read_ahead).max(1);
        if chunk_series > most.saturating_mul(MAX_TILES_PER_CHUNK) {
            return Ok(None);
        }
        let mut tiles = Tiles::new(grid.chunk_grid(), &selection, self.axis, most);
        let reach = if totals_first { count } else { reach };
        tiles.distribute(config.execution.target_partitions, count, reach);
        let table = side.below.node.source().schema();
        let fields = planes.iter().map(|column| {
            let field = table.field(*column);
            Field::new(field.name(), field.data_type().clone(), field.is_nullable())
        });
        let read_schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut exprs = self.planes;
        for plane in &mut exprs {
            plane.expr = reassign_expr_columns(Arc::clone(&plane.expr), &read_schema)?;
        }
        let (outputs, aggregates) = match is_descending {
            true => descending,
            false => ascending,
        };
        Ok(Some(WindowSpec {
            grid,
            selection,
            options: side.below.node.plan().options,
            axis: self.axis,
            count,
            is_descending,
            planes: exprs,
            columns: planes,
            read_schema,
            aggregates,
            outputs,
            schema,
            tiles,
            planes_being_read: being_read,
            totals_first,
            descriptions: self.descriptions,
            order: self.order.unwrap_or_default(),
        }))
    }
}

/// Returns the function of a window that is not an aggregate.
pub(super) fn standard(window: &Arc<dyn WindowExpr>) -> Option<&WindowUDFExpr> {
    let standard = window.as_any().downcast_ref::<StandardWindowExpr>()?;
    standard.get_standard_func_expr().as_any().downcast_ref()
}

/// Returns the function of an aggregate of cells of this type; `None` if it is not supported.
fn function_of(
    aggregate: &AggregateFunctionExpr,
    data_type: &DataType,
    result: &DataType,
) -> Option<SeriesFunction> {
    let inner = aggregate.fun().inner();
    let is_float = *data_type == DataType::Float64 && *result == DataType::Float64;
    if inner.is::<Count>() {
        // Other types, such as dictionaries, have nulls that are not in the array's own null buffer.
        let is_plain = data_type.is_primitive()
            || data_type.is_string()
            || data_type.is_binary()
            || *data_type == DataType::Boolean;
        return is_plain.then_some(SeriesFunction::Count);
    } else if inner.is::<Sum>() {
        return match (data_type, result) {
            (DataType::Float64, DataType::Float64) => Some(SeriesFunction::FloatSum),
            (DataType::Int64, DataType::Int64) => Some(SeriesFunction::IntegerSum),
            (DataType::UInt64, DataType::UInt64) => Some(SeriesFunction::UnsignedSum),
            _ => None,
        };
    } else if inner.is::<Avg>() {
        return is_float.then_some(SeriesFunction::Mean);
    } else if let Some(is_max) = is_max(inner.as_ref()) {
        let is_ordered = match data_type {
            DataType::Float32 | DataType::Float64 => true,
            DataType::Interval(_) => false,
            other => other.is_integer() || other.is_temporal(),
        };
        return (is_ordered && data_type == result).then_some(match is_max {
            true => SeriesFunction::Max,
            false => SeriesFunction::Min,
        });
    }
    let (is_sample, is_root) = if inner.is::<VarianceSample>() {
        (true, false)
    } else if inner.is::<VariancePopulation>() {
        (false, false)
    } else if inner.is::<Stddev>() {
        (true, true)
    } else if inner.is::<StddevPop>() {
        (false, true)
    } else {
        return None;
    };
    is_float.then_some(SeriesFunction::Deviation { is_sample, is_root })
}

/// Returns `true` for the types of cells that are ranked.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Returns an output column in the opposite walking order.
fn mirrored_output(output: &OutputColumn) -> Result<OutputColumn> {
    Ok(match output {
        OutputColumn::Values(values) => {
            let values: ArrayRef = reversed(values)?;
            OutputColumn::Values(values)
        }
        OutputColumn::Pick {
            plane,
            planes,
            default,
        } => OutputColumn::Pick {
            plane: *plane,
            planes: mirrored_planes(planes),
            default: default.clone(),
        },
        OutputColumn::Rank(rank) => OutputColumn::Rank(SeriesRank {
            partitions: mirrored_partitions(&rank.partitions),
            ..rank.clone()
        }),
        other => other.clone(),
    })
}
