//! The operators of a subquery, computed for all values of its domain.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, plan_err};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{Sort as SortKey, WindowFunction};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, FetchType, Filter, GroupingSet, Join, JoinConstraint,
    Limit, LogicalPlan, Projection, SkipType, SubqueryAlias, Union, Window, lit,
};

use super::references::{is_correlated, lateral_of, replaced, replaced_in, with_lateral};
use super::unnesting::{Unnested, Unnesting, columns_of, join};

impl Unnesting<'_> {
    /// Returns a plan that outputs the rows of the subquery for each value of the domain, with the columns of the plan and those of the
    /// domain.
    ///
    /// # Errors
    /// Returns an error for operators that cannot be computed for several values at once.
    pub fn unnested(&self, plan: &LogicalPlan) -> Result<Unnested> {
        if !is_correlated(plan)? {
            let domain = self.domain()?;
            if let LogicalPlan::EmptyRelation(table) = plan
                && table.produce_one_row
            {
                return Ok(domain);
            }
            let plan = join(
                Arc::new(plan.clone()),
                Arc::new(domain.plan),
                None,
                JoinType::Inner,
            )?;
            let domain = domain.domain;
            return Ok(Unnested { plan, domain });
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let input = self.unnested(&projection.input)?;
                self.projected(&projection.expr, input)
            }
            LogicalPlan::Filter(filter) => {
                let input = self.unnested(&filter.input)?;
                self.filtered(&filter.predicate, input)
            }
            // The rows of a subquery have no order.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.unnested(&sort.input),
            LogicalPlan::Limit(limit) => self.limited(limit),
            LogicalPlan::Window(window) => {
                let input = self.unnested(&window.input)?;
                self.windowed(&window.window_expr, input)
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregated(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Unnested { plan, domain } = self.unnested(input)?;
                let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
                Ok(Unnested { plan, domain })
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct),
            LogicalPlan::SubqueryAlias(alias) => {
                let Unnested { plan, domain } = self.unnested(&alias.input)?;
                let table = &alias.alias;
                let domain = domain.into_iter();
                let domain = domain.map(|one| Column::new(Some(table.clone()), one.name));
                let alias = SubqueryAlias::try_new(Arc::new(plan), table.clone())?;
                Ok(Unnested {
                    plan: LogicalPlan::SubqueryAlias(alias),
                    domain: domain.collect(),
                })
            }
            LogicalPlan::Union(union) => self.united(union),
            LogicalPlan::Join(join) => self.joined_inputs(join),
            LogicalPlan::Unnest(unnest) => {
                let input = self.unnested(&unnest.input)?;
                let domain = input.domain;
                let plan = plan.with_new_exprs(plan.expressions(), vec![input.plan])?;
                Ok(Unnested { plan, domain })
            }
            other => plan_err!(
                "a subquery must not refer to the query around it in or below {}",
                other.display()
            ),
        }
    }

    /// Returns a projection that also outputs the domain.
    fn projected(&self, expressions: &[Expr], input: Unnested) -> Result<Unnested> {
        let columns = self.expressions(expressions, &input)?;
        let mut columns = named_as(columns, expressions);
        columns.extend(input.values());
        let plan = Projection::try_new(columns, Arc::new(input.plan))?;
        Ok(Unnested {
            plan: LogicalPlan::Projection(plan),
            domain: input.domain,
        })
    }

    fn filtered(&self, predicate: &Expr, input: Unnested) -> Result<Unnested> {
        let predicate = self.expression(predicate, &input)?;
        let plan = Filter::try_new(predicate, Arc::new(input.plan))?;
        Ok(Unnested {
            plan: LogicalPlan::Filter(plan),
            domain: input.domain,
        })
    }

    /// Returns windows whose rows have the same values of the domain.
    fn windowed(&self, expressions: &[Expr], input: Unnested) -> Result<Unnested> {
        let windows = self.expressions(expressions, &input)?.into_iter();
        let windows = windows.zip(expressions).map(|(window, written)| {
            let name = written.schema_name().to_string();
            let mut window = window.unalias();
            if let Expr::WindowFunction(function) = &mut window {
                function.params.partition_by.extend(input.values());
            }
            window.alias(name)
        });
        let window = Window::try_new(windows.collect(), Arc::new(input.plan))?;
        Ok(Unnested {
            plan: LogicalPlan::Window(window),
            domain: input.domain,
        })
    }

    /// Returns the rows of a limit: those with the lowest numbers among the rows of the same values of the domain.
    fn limited(&self, limit: &Limit) -> Result<Unnested> {
        let bounds = (limit.get_skip_type()?, limit.get_fetch_type()?);
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = bounds else {
            return plan_err!(
                "LIMIT and OFFSET of a subquery that refers to the query around it must be numbers"
            );
        };
        // The columns of ORDER BY may not be among those of the projections above it.
        let (mut projections, mut rows) = (Vec::new(), &limit.input);
        while let LogicalPlan::Projection(projection) = rows.as_ref() {
            projections.push(projection);
            rows = &projection.input;
        }
        let (input, order) = match rows.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let input = self.unnested(&sort.input)?;
                let keys = self.sort_keys(&sort.expr, &input)?;
                (input, keys)
            }
            _ => {
                projections.clear();
                (self.unnested(&limit.input)?, Vec::new())
            }
        };
        let columns = columns_of(&input.plan);
        let name = self.names.next("row");
        let mut number = WindowFunction::new(row_number_udwf(), Vec::new());
        number.params.partition_by = input.values().collect();
        number.params.order_by = order;
        let number = Expr::WindowFunction(Box::new(number)).alias(&name);
        let window = Window::try_new(vec![number], Arc::new(input.plan))?;
        let number = Expr::Column(Column::new_unqualified(name));
        let mut is_kept = number.clone().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            is_kept = is_kept.and(number.lt_eq(lit((skip as u64).saturating_add(fetch as u64))));
        }
        let filter = Filter::try_new(is_kept, Arc::new(LogicalPlan::Window(window)))?;
        let kept = Projection::try_new(columns, Arc::new(LogicalPlan::Filter(filter)))?;
        let mut rows = Unnested {
            plan: LogicalPlan::Projection(kept),
            domain: input.domain,
        };
        for projection in projections.into_iter().rev() {
            rows = self.projected(&projection.expr, rows)?;
        }
        Ok(rows)
    }

    fn aggregated(&self, aggregate: &Aggregate) -> Result<Unnested> {
        let input = self.unnested(&aggregate.input)?;
        let groups = self.expressions(&aggregate.group_expr, &input)?;
        let groups = named_as(groups, &aggregate.group_expr);
        if groups.is_empty() {
            return self.totals(aggregate, input);
        }
        let groups = match groups.as_slice() {
            [Expr::GroupingSet(GroupingSet::GroupingSets(sets))]
                if !sets.iter().any(Vec::is_empty) =>
            {
                let sets = sets.iter().cloned();
                // First, so that they do not change the bits of `grouping`.
                let sets = sets.map(|set| input.values().chain(set).collect());
                vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets.collect()))]
            }
            [Expr::GroupingSet(_)] => {
                return plan_err!(
                    "ROLLUP, CUBE and an empty grouping set are not possible in a subquery that refers to the query around it; \
                     write GROUP BY, and a subquery without GROUP BY for the total"
                );
            }
            _ => groups.into_iter().chain(input.values()).collect(),
        };
        let functions = self.expressions(&aggregate.aggr_expr, &input)?;
        let functions = named_as(functions, &aggregate.aggr_expr);
        let plan = Aggregate::try_new(Arc::new(input.plan), groups, functions)?;
        Ok(Unnested {
            plan: LogicalPlan::Aggregate(plan),
            domain: input.domain,
        })
    }

    /// Returns the rows of an aggregation without GROUP BY: one for each value of the domain, even if there are no rows for it.
    fn totals(&self, aggregate: &Aggregate, input: Unnested) -> Result<Unnested> {
        let found = self.names.next("found");
        let columns = columns_of(&input.plan).into_iter();
        let columns = columns.chain([lit(true).alias(&found)]).collect();
        let rows = Projection::try_new(columns, Arc::new(input.plan))?;
        let all = self.domain()?;
        let equal = self.equal(&all.domain, &input.domain);
        let rows = join(
            Arc::new(all.plan),
            Arc::new(LogicalPlan::Projection(rows)),
            Some(equal),
            JoinType::Left,
        )?;
        let rows = Unnested {
            plan: rows,
            domain: all.domain,
        };
        let found = Expr::Column(Column::new_unqualified(found)).is_true();
        let functions = self.expressions(&aggregate.aggr_expr, &rows)?.into_iter();
        let functions = functions.zip(&aggregate.aggr_expr);
        let functions = functions.map(|(function, written)| {
            let name = written.schema_name().to_string();
            let mut function = function.unalias();
            if let Expr::AggregateFunction(call) = &mut function {
                let filter = call.params.filter.take().map(|filter| *filter);
                let filter = conjunction([found.clone()].into_iter().chain(filter));
                call.params.filter = filter.map(Box::new);
            }
            function.alias(name)
        });
        let groups = rows.values().collect();
        let plan = Aggregate::try_new(Arc::new(rows.plan), groups, functions.collect())?;
        Ok(Unnested {
            plan: LogicalPlan::Aggregate(plan),
            domain: rows.domain,
        })
    }

    fn distinct_on(&self, distinct: &DistinctOn) -> Result<Unnested> {
        let input = self.unnested(&distinct.input)?;
        let select = self.expressions(&distinct.select_expr, &input)?;
        let select = named_as(select, &distinct.select_expr).into_iter();
        let select = select.chain(input.values()).collect();
        let on = self.expressions(&distinct.on_expr, &input)?.into_iter();
        let on = input.values().chain(on).collect();
        let order = match &distinct.sort_expr {
            Some(keys) => {
                let first = input.values().map(|one| SortKey::new(one, true, false));
                Some(first.chain(self.sort_keys(keys, &input)?).collect())
            }
            None => None,
        };
        let plan = DistinctOn::try_new(on, select, order, Arc::new(input.plan))?;
        Ok(Unnested {
            plan: LogicalPlan::Distinct(Distinct::On(plan)),
            domain: input.domain,
        })
    }

    fn united(&self, union: &Union) -> Result<Unnested> {
        let mut inputs = Vec::with_capacity(union.inputs.len());
        let mut fields = None;
        // DataFusion finds the columns of unions in unions by name.
        let names = self.new_names();
        for input in &union.inputs {
            let columns = columns_of(input);
            let unnested = self.unnested(input)?;
            let count = columns.len();
            let domain = unnested.values().zip(&names);
            let domain = domain.map(|(value, name)| value.alias(name));
            let columns = columns.into_iter().chain(domain).collect();
            let plan = Projection::try_new(columns, Arc::new(unnested.plan))?;
            fields.get_or_insert_with(|| {
                let added = plan.schema.fields().iter().skip(count);
                added.map(|field| (None, Arc::clone(field))).collect()
            });
            inputs.push(Arc::new(LogicalPlan::Projection(plan)));
        }
        let added: Vec<_> = fields.unwrap_or_default();
        let domain = names.into_iter().map(Column::new_unqualified).collect();
        let given = union.schema.iter();
        let given = given.map(|(table, field)| (table.cloned(), Arc::clone(field)));
        let fields = given.chain(added).collect();
        let schema = DFSchema::new_with_metadata(fields, union.schema.metadata().clone())?;
        let schema = Arc::new(schema);
        Ok(Unnested {
            plan: LogicalPlan::Union(Union { inputs, schema }),
            domain,
        })
    }

    fn joined_inputs(&self, join: &Join) -> Result<Unnested> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        if lateral_of(join).is_some() {
            return self.joined_lateral(join);
        }
        let is_in = [is_correlated(&join.left)?, is_correlated(&join.right)?];
        // The side whose rows are all output has all values of the domain.
        let needs = match join.join_type {
            Inner if is_in == [false, false] => [true, false],
            Inner => is_in,
            Left | LeftSemi | LeftAnti | LeftMark => [true, is_in[1]],
            Right | RightSemi | RightAnti | RightMark => [is_in[0], true],
            Full => [true, true],
        };
        let side = |plan: &Arc<LogicalPlan>, is_needed: bool| match is_needed {
            true => self.unnested(plan),
            false => Ok(Unnested {
                plan: plan.as_ref().clone(),
                domain: Vec::new(),
            }),
        };
        let (left, right) = (side(&join.left, needs[0])?, side(&join.right, needs[1])?);
        let domain = match (join.join_type, left.domain.is_empty()) {
            (Right | RightSemi | RightAnti | RightMark, _) | (_, true) => right.domain.clone(),
            _ => left.domain.clone(),
        };
        let (mut on, mut filter) = (join.on.clone(), join.filter.clone());
        if let Some(written) = &filter {
            let schema = left.plan.schema().join(right.plan.schema())?;
            let replace = |column: &Column| self.replace(column, &domain);
            filter = Some(replaced(written.clone(), &schema, &replace)?);
        }
        if !left.domain.is_empty() && !right.domain.is_empty() {
            if join.null_equality == NullEquality::NullEqualsNull {
                let pairs = left.domain.iter().zip(&right.domain);
                on.extend(pairs.map(|(left, right)| {
                    (Expr::Column(left.clone()), Expr::Column(right.clone()))
                }));
            } else {
                let equal = self.equal(&left.domain, &right.domain);
                filter = conjunction(filter.into_iter().chain([equal]));
            }
        }
        let both = (left.domain.clone(), right.domain.clone());
        let plan = LogicalPlan::Join(Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            on,
            filter,
            join.join_type,
            JoinConstraint::On,
            join.null_equality,
            join.null_aware,
        )?);
        if join.join_type != Full {
            return Ok(Unnested { plan, domain });
        }
        // Where one side has no row, the other one has the values of the domain.
        let columns = join.schema.iter().map(Expr::from);
        let mut all: Vec<_> = columns.collect();
        let mut domain = Vec::new();
        for (left, right) in both.0.into_iter().zip(both.1) {
            let name = self.names.next("outer");
            all.push(coalesce(vec![Expr::Column(left), Expr::Column(right)]).alias(&name));
            domain.push(Column::new_unqualified(name));
        }
        let plan = LogicalPlan::Projection(Projection::try_new(all, Arc::new(plan))?);
        Ok(Unnested { plan, domain })
    }

    /// Returns a join with a LATERAL subquery, which refers to the left side, and through it to the domain.
    fn joined_lateral(&self, join: &Join) -> Result<Unnested> {
        let left = self.unnested(&join.left)?;
        let replace = |column: &Column| self.replace(column, &left.domain);
        let scope = join.left.schema().as_ref();
        let right = with_lateral(&join.right, &mut |lateral| {
            let lateral = replaced_in(lateral, scope.clone(), &mut Vec::new(), &replace)?;
            Ok(LogicalPlan::Subquery(lateral))
        })?;
        let filter = join.filter.clone().map(|filter| {
            let schema = left.plan.schema().join(right.schema())?;
            replaced(filter, &schema, &replace)
        });
        let plan = Join::try_new(
            Arc::new(left.plan),
            Arc::new(right),
            join.on.clone(),
            filter.transpose()?,
            join.join_type,
            JoinConstraint::On,
            join.null_equality,
            join.null_aware,
        )?;
        Ok(Unnested {
            plan: LogicalPlan::Join(plan),
            domain: left.domain,
        })
    }
}

/// Gives expressions the names that they had before references were replaced.
fn named_as(expressions: Vec<Expr>, written: &[Expr]) -> Vec<Expr> {
    let all = expressions.into_iter().zip(written);
    let all = all.map(|(expression, written)| {
        let (table, name) = written.qualified_name();
        let is_same = expression.qualified_name() == (table.clone(), name.clone());
        match is_same || matches!(expression, Expr::GroupingSet(_)) {
            true => expression,
            false => expression.unalias().alias_qualified(table, name),
        }
    });
    all.collect()
}
