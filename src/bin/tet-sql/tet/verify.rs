//! `tet verify`.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tet_sql::Access;
use tet_sql::format::tet::verify::{Report, Severity, VerifyOptions, verify, verify_arrays};

use super::Failure;
use super::arguments::VerifyArguments;
use super::lines::{clean, counted, shape, write_json};
use super::other;
#[cfg(feature = "tiledb")]
use super::tiledb;
#[cfg(feature = "tatami")]
use super::{collection, documents};

/// Checks a file and writes the findings. Returns `true` if the file is sound.
pub fn run(arguments: &VerifyArguments, output: &mut dyn Write) -> Result<bool, Failure> {
    #[cfg(feature = "tatami")]
    if let Some(file) = documents::open(&arguments.file)? {
        return documents::check(&file, arguments.deep, arguments.json, output);
    }
    #[cfg(feature = "tatami")]
    if let Some(members) = collection::open(&arguments.file)? {
        return collection::check(&members, arguments.deep, arguments.json, output);
    }
    #[cfg(feature = "tiledb")]
    if let Some(arrays) = tiledb::open(&arguments.file, arguments.key_file.as_deref())? {
        return arrays.check(arguments.deep, arguments.json, output);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = VerifyOptions {
        deep: arguments.deep,
        access: Access::Pread,
        threads: arguments.threads.map_or(cores, usize::from),
    };
    let bar = bar();
    let progress = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let report = match other::open(&arguments.file, "verify")? {
        Some(file) => Ok(verify_arrays(&file, options, &progress)),
        None => verify(&arguments.file, options, &progress),
    };
    bar.finish_and_clear();
    let report = report?;
    if arguments.json {
        write_json(output, &report)?;
    } else {
        text(&report, output)?;
    }
    Ok(report.ok)
}

/// Returns a progress bar on a terminal, and a hidden one elsewhere.
fn bar() -> ProgressBar {
    let target = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(None, target);
    let style =
        ProgressStyle::with_template("{wide_bar} {pos} of {len} chunks, {per_sec}, {eta} left");
    // The template is a valid constant.
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn text(report: &Report, output: &mut dyn Write) -> io::Result<()> {
    for check in &report.checks {
        let verdict = match (check.errors, check.warnings) {
            (0, 0) => "ok".to_string(),
            (0, warnings) => counted(warnings, "warning"),
            (1, 0) => "1 ERROR".to_string(),
            (errors, 0) => format!("{errors} ERRORS"),
            (1, warnings) => format!("1 ERROR, {}", counted(warnings, "warning")),
            (errors, warnings) => format!("{errors} ERRORS, {}", counted(warnings, "warning")),
        };
        writeln!(output, "{:<18}{verdict:<12}{}", check.name, check.note)?;
        let of_check = report
            .findings
            .iter()
            .filter(|found| found.check == check.name);
        let mut shown = 0;
        for finding in of_check {
            shown += 1;
            let severity = match finding.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            let dataset = finding
                .dataset
                .as_deref()
                .filter(|name| !finding.message.contains(&format!("{name:?}")));
            let mut location =
                dataset.map_or_else(String::new, |name| format!("dataset {name:?}, "));
            if let (Some(chunk), Some(_)) = (&finding.chunk, dataset) {
                location.push_str(&format!("chunk {}, ", shape(chunk)));
            }
            writeln!(
                output,
                "  {severity}: {location}{}",
                clean(&finding.message)
            )?;
            writeln!(output, "    {}", finding.remedy)?;
        }
        let more = (check.errors + check.warnings).saturating_sub(shown);
        if more > 0 {
            writeln!(output, "  and {more} more")?;
        }
    }
    let has_warnings = report.checks.iter().any(|check| check.warnings > 0);
    let verdict = match (report.ok, has_warnings) {
        (true, false) => "sound",
        (true, true) => "sound, apart from the warnings",
        (false, _) => "NOT SOUND",
    };
    writeln!(
        output,
        "{}: {verdict}; {}, {}",
        clean(&report.path.display().to_string()),
        counted(report.datasets, "dataset"),
        counted(report.chunks, "chunk")
    )
}
