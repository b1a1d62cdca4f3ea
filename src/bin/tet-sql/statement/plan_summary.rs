//! Sums up in a sentence what a plan reads and computes.

use crate::size::human_size;
use crate::statement::reading::{Reading, grouped};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use tet_sql::ArrayTable;
use tet_sql::provider::aggregate::ArrayJoinAggregateExec;
use tet_sql::provider::join::lookup::ArrayLookupJoinExec;
use tet_sql::provider::plans::planned_reads::{ComputedFrom, PlannedRead, planned_reads};
use tet_sql::provider::window::ArrayWindowExec;

/// Returns a sentence about a plan that has not run yet, or `None` if the query names no arrays.
pub fn planned(logical: &LogicalPlan, plan: &dyn ExecutionPlan) -> Option<String> {
    let reads = planned_reads(plan);
    let first = match reads.as_slice() {
        [] if !has_arrays(logical) => return None,
        [] => "reads nothing: the answer is known from coordinates and metadata".to_owned(),
        [read] => format!("reads {}", chunks(read, false)),
        reads => {
            let parts: Vec<String> = reads.iter().map(|read| chunks(read, true)).collect();
            format!("reads {}", listed(&parts))
        }
    };
    Some(sentence(first, &reads, plan))
}

/// Returns a sentence about a plan that has run, or `None` if the query names no arrays.
pub fn done(logical: &LogicalPlan, plan: &dyn ExecutionPlan) -> Option<String> {
    let reading = Reading::of(plan);
    if reading.total == 0 {
        return has_arrays(logical)
            .then(|| "read nothing: the answer is known from coordinates and metadata".to_owned());
    }
    let mut first = match reading.read {
        0 => format!("read none of {} chunks", grouped(reading.total)),
        read => format!(
            "read {} of {} chunks",
            grouped(read),
            grouped(reading.total)
        ),
    };
    if reading.bytes > 0 {
        first += &format!(", {}", human_size(reading.bytes as u64));
    }
    Some(sentence(first, &planned_reads(plan), plan))
}

fn sentence(mut text: String, reads: &[PlannedRead], plan: &dyn ExecutionPlan) -> String {
    let mut steps = Vec::new();
    for read in reads {
        add_computed(read, &mut steps);
    }
    add_steps(plan, &mut steps);
    let mut said: Vec<String> = Vec::new();
    for step in steps {
        if !said.contains(&step) {
            text += "; ";
            text += &step;
            said.push(step);
        }
    }
    text
}

/// Describes the chunks that a scan reads and their size: `3 of 24 chunks, 57.0 KiB`.
fn chunks(read: &PlannedRead, is_named: bool) -> String {
    let number = |count: Option<u64>| match count {
        Some(count) => grouped(usize::try_from(count).unwrap_or(usize::MAX)),
        None => "2^64 or more".to_owned(),
    };
    let name = match is_named {
        true => format!(" of {}", crate::terminal::escape_controls(&read.table)),
        false => String::new(),
    };
    if read.chunks == Some(0) {
        return format!("none of {} chunks{name}", number(read.total));
    }
    let most = if read.may_read_less { "at most " } else { "" };
    let size = read.bytes.filter(|bytes| *bytes > 0).map(|bytes| {
        let about = if read.is_exact { "" } else { "about " };
        match is_named {
            true => format!(" ({about}{})", human_size(bytes)),
            false => format!(", {about}{}", human_size(bytes)),
        }
    });
    format!(
        "{most}{} of {} chunks{name}{}",
        number(read.chunks),
        number(read.total),
        size.unwrap_or_default()
    )
}

/// Adds the aggregates that an operator of this crate computes.
fn add_computed(read: &PlannedRead, steps: &mut Vec<String>) {
    for (from, how) in [
        (ComputedFrom::Cells, "computed on stored cells"),
        (ComputedFrom::Axis, "computed on coordinates"),
        (ComputedFrom::Rows, "computed row by row"),
    ] {
        let functions = read.aggregates.iter().filter(|(_, of)| *of == from);
        let names: Vec<&str> = functions.map(|(name, _)| name.as_str()).collect();
        steps.extend(computed_step(&names, how));
    }
}

/// Adds the steps of DataFusion's own operators.
fn add_steps(plan: &dyn ExecutionPlan, steps: &mut Vec<String>) {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let merges = matches!(
            aggregate.mode(),
            AggregateMode::Final | AggregateMode::FinalPartitioned | AggregateMode::PartialReduce
        );
        if !merges {
            let functions = aggregate.aggr_expr().iter();
            let names: Vec<&str> = functions.map(|function| function.fun().name()).collect();
            let step = computed_step(&names, "computed row by row");
            steps.push(step.unwrap_or_else(|| "rows are grouped by hash".to_owned()));
        }
    } else if let Some(aggregate) = plan.downcast_ref::<ArrayJoinAggregateExec>() {
        if !aggregate.merges_states() {
            let functions: Vec<&str> = aggregate.functions().collect();
            let step = computed_step(&functions, "computed row by row");
            steps.push(step.unwrap_or_else(|| "rows are grouped by position".to_owned()));
        }
    } else if plan.downcast_ref::<HashJoinExec>().is_some() {
        steps.push("rows are joined by hash".to_owned());
    } else if plan.downcast_ref::<ArrayLookupJoinExec>().is_some() {
        steps.push("matches of cells are looked up by position".to_owned());
    } else if plan.downcast_ref::<ArrayWindowExec>().is_some() {
        steps.push("windows slide along an axis".to_owned());
    } else if plan.downcast_ref::<SortMergeJoinExec>().is_some() {
        steps.push("sorted rows are merged".to_owned());
    } else if plan.downcast_ref::<NestedLoopJoinExec>().is_some() {
        steps.push("all pairs of rows are compared".to_owned());
    } else if plan.downcast_ref::<CrossJoinExec>().is_some() {
        steps.push("all pairs of rows are formed".to_owned());
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        steps.push(match sort.fetch() {
            Some(rows) => format!("the first {} rows are kept while sorting", grouped(rows)),
            None => "rows are sorted".to_owned(),
        });
    }
    for child in plan.children() {
        add_steps(child.as_ref(), steps);
    }
}

/// Describes a step: `the mean and the maximum are computed on stored cells`.
fn computed_step(functions: &[&str], how: &str) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    for function in functions {
        let word = match *function {
            "avg" => "the mean",
            "count" => "the count",
            "max" => "the maximum",
            "median" => "the median",
            "min" => "the minimum",
            "stddev" | "stddev_pop" => "the standard deviation",
            "sum" => "the sum",
            "var" | "var_pop" => "the variance",
            other => other,
        };
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    let verb = if words.len() == 1 { "is" } else { "are" };
    (!words.is_empty()).then(|| format!("{} {verb} {how}", listed(&words)))
}

/// Joins words to a list: `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns `true` if a query names an array, even if the optimizer found that no array has to be
/// read.
fn has_arrays(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // If the traversal fails, the arrays found so far count.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            found |= provider.downcast_ref::<ArrayTable>().is_some();
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_words() {
        assert_eq!(
            computed_step(&["avg"], "computed").unwrap(),
            "the mean is computed"
        );
        assert_eq!(
            computed_step(&["min", "max", "arg_max", "min"], "computed").unwrap(),
            "the minimum, the maximum and arg_max are computed"
        );
        assert_eq!(computed_step(&[], "computed"), None);
    }
}
