//! Writes plans as text, after a sentence that sums them up.

use crate::failure::Failure;
use crate::output::Output;
use crate::output::appearance::Format;
use crate::output::formats::Markup;
use crate::output::progress::Progress;
use crate::output::wrapping::wrapped;
use crate::session::worker_threads::Cancellation;
use crate::statement::outcome::{Error, Outcome};
use crate::statement::plan_summary;
use crate::statement::reading::Reading;
use crate::statement::{StatementOptions, settle};
use crate::terminal::on_lines;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::format::ExplainFormat;
use datafusion::logical_expr::{Explain, LogicalPlan};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use unicode_width::UnicodeWidthStr;

/// The indentation of continuation lines relative to the first line.
const HANGING: usize = 4;

/// Writes the output of EXPLAIN as text.
pub async fn show(
    context: &SessionContext,
    plan: LogicalPlan,
    output: &Output,
    manner: StatementOptions,
    cancellation: Cancellation,
) -> Result<Outcome, Error> {
    let width = output.style().width;
    let (sentence, sections, reading) = match &plan {
        LogicalPlan::Analyze(analyze) => {
            let physical = context.state().create_physical_plan(&plan).await?;
            let mut progress = Progress::of(&physical, manner.progress, &cancellation);
            let batches = collect(Arc::clone(&physical), context.task_ctx()).await?;
            progress.end();
            let sentence = plan_summary::done(&analyze.input, physical.as_ref());
            let reading = Reading::of(physical.as_ref());
            (sentence, sections(&batches)?, reading)
        }
        LogicalPlan::Explain(explain) => {
            // EXPLAIN itself reports errors in the plan.
            let physical = context.state().create_physical_plan(&explain.plan).await;
            let sentence = match &physical {
                Ok(physical) => plan_summary::planned(&explain.plan, physical.as_ref()),
                Err(_) => None,
            };
            let sections = explained(context, explain, width).await?;
            (sentence, sections, Reading::default())
        }
        _ => (None, Vec::new(), Reading::default()),
    };
    let finished = Some(Instant::now());
    let text = match output.format() {
        Format::Markdown => document(sentence, &sections, "", "\n\n", ("```text\n", "```\n")),
        Format::Html => {
            let sections = sections.iter().map(|section| Section {
                title: section.title.clone(),
                lines: section.lines.iter().map(|line| escaped(line)).collect(),
            });
            let sections: Vec<_> = sections.collect();
            let sentence = sentence.map(|sentence| escaped(&sentence));
            document(
                sentence,
                &sections,
                "<p>",
                "</p>\n",
                ("<pre>\n", "</pre>\n"),
            )
        }
        Format::Latex => {
            let sentence = sentence.map(|text| format!("% {text}"));
            let environment = ("\\begin{verbatim}\n", "\\end{verbatim}\n");
            document(sentence, &sections, "", "\n", environment)
        }
        _ => {
            let sections = sections.iter().map(|section| section.wrapped(width));
            let sentence = sentence.map(|sentence| wrapped(&sentence, width, 0));
            document(
                sentence,
                &sections.collect::<Vec<_>>(),
                "",
                "\n\n",
                ("", ""),
            )
        }
    };
    let text = match width {
        Some(_) => on_lines(&text),
        None => text,
    };
    let mut sink = output.sink(cancellation);
    let result = sink.write_all(text.as_bytes());
    settle(result.map_err(Failure::from), &mut sink)?;
    Ok(Outcome {
        is_silent: true,
        finished,
        reading,
        ..Outcome::default()
    })
}

/// Returns the plans of an EXPLAIN. A tree that is wider than the screen is replaced by an indented
/// plan.
async fn explained(
    context: &SessionContext,
    explain: &Explain,
    width: Option<usize>,
) -> Result<Vec<Section>, Error> {
    let plan = LogicalPlan::Explain(explain.clone());
    let batches = context.execute_logical_plan(plan).await?.collect().await?;
    let found = sections(&batches)?;
    let lines = found.iter().flat_map(|section| &section.lines);
    let widest = lines.map(|line| line.width()).max();
    let is_tree = matches!(explain.explain_format, ExplainFormat::Tree);
    if !is_tree || width.is_none() || widest <= width {
        return Ok(found);
    }
    let explain = Explain {
        explain_format: ExplainFormat::Indent,
        ..explain.clone()
    };
    let plan = LogicalPlan::Explain(explain);
    let batches = context.execute_logical_plan(plan).await?.collect().await?;
    let mut found = sections(&batches)?;
    found.retain(|section| section.title != "logical plan");
    Ok(found)
}

/// A plan, or another section of EXPLAIN's output.
struct Section {
    title: String,
    lines: Vec<String>,
}

impl Section {
    fn wrapped(&self, width: Option<usize>) -> Self {
        // Sections are indented by two.
        let width = width.map(|width| width.saturating_sub(2));
        let lines = self.lines.iter().map(|line| wrapped(line, width, HANGING));
        Self {
            title: self.title.clone(),
            lines: lines.collect(),
        }
    }
}

/// Converts the rows of EXPLAIN to sections.
fn sections(batches: &[RecordBatch]) -> Result<Vec<Section>, Error> {
    let mut found = Vec::new();
    for batch in batches {
        let [kinds, plans] = batch.columns() else {
            return Err(Failure::message("EXPLAIN gave no plan").into());
        };
        let texts = |column: &ArrayRef| cast(column, &DataType::Utf8);
        let both = texts(kinds).and_then(|kinds| Ok((kinds, texts(plans)?)));
        let (kinds, plans) = both.map_err(Failure::from)?;
        let pairs = kinds
            .as_string::<i32>()
            .iter()
            .zip(plans.as_string::<i32>());
        found.extend(pairs.map(|(kind, plan)| {
            Section {
                title: kind.unwrap_or_default().replace('_', " ").to_lowercase(),
                lines: plan
                    .unwrap_or_default()
                    .lines()
                    .map(str::to_owned)
                    .collect(),
            }
        }));
    }
    Ok(found)
}

fn document(
    sentence: Option<String>,
    sections: &[Section],
    before: &str,
    after: &str,
    (begin, end): (&str, &str),
) -> String {
    let mut text = String::new();
    if let Some(sentence) = sentence {
        text += before;
        text += &sentence;
        text += after;
    }
    for (number, section) in sections.iter().enumerate() {
        if sections.len() > 1 {
            if number > 0 {
                text.push('\n');
            }
            text += before;
            text += &section.title;
            text += if begin.is_empty() { "\n" } else { after };
        }
        text += begin;
        let indent = if sections.len() > 1 && begin.is_empty() {
            "  "
        } else {
            ""
        };
        for line in section.lines.iter().flat_map(|line| line.lines()) {
            text += indent;
            text += line.trim_end();
            text.push('\n');
        }
        text += end;
    }
    text
}

fn escaped(text: &str) -> String {
    Markup::Html.escape(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_section_has_no_title() {
        let section = |title: &str| Section {
            title: title.to_owned(),
            lines: vec!["a".to_owned(), "  b".to_owned()],
        };
        let text = |sections: &[Section]| {
            document(Some("reads".to_owned()), sections, "", "\n\n", ("", ""))
        };
        assert_eq!(text(&[section("x")]), "reads\n\na\n  b\n");
        assert_eq!(
            text(&[section("x"), section("y")]),
            "reads\n\nx\n  a\n    b\n\ny\n  a\n    b\n"
        );
    }
}
