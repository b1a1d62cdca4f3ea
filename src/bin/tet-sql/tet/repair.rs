//! `tet repair` and `tet index`.

use std::io::Write;

use tet_sql::Access;
use tet_sql::format::tet::repair::{Repair, index, repair};
use tet_sql::format::tet::verify::{Severity, VerifyOptions};

use super::Failure;
use super::arguments::{IndexArguments, RepairArguments};
use super::cancel;
use super::lines::{clean, write_json};
use super::other;

/// Plans or makes repairs. Returns `true` if the file is sound, or would be after the repairs.
pub fn run(arguments: &RepairArguments, output: &mut dyn Write) -> Result<bool, Failure> {
    other::refuse(&arguments.file, "repair")?;
    if arguments.apply {
        cancel::end_tidily(|| false)?;
    }
    let options = VerifyOptions {
        deep: true,
        access: Access::Pread,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let repair = repair(&arguments.file, arguments.apply, options)?;
    if arguments.json {
        write_json(output, &repair)?;
    } else {
        text(&repair, output)?;
    }
    Ok(repair.report.ok || (!repair.applied && !repair.steps.is_empty()))
}

fn text(repair: &Repair, output: &mut dyn Write) -> Result<(), Failure> {
    let path = clean(&repair.report.path.display().to_string());
    for step in &repair.steps {
        writeln!(output, "{}: {}", step.name, step.what)?;
        if let Some(kept) = &step.kept {
            writeln!(output, "  kept: {}", clean(&kept.display().to_string()))?;
        }
    }
    let errors = repair.report.findings.iter();
    let errors = errors
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    match (repair.steps.is_empty(), repair.applied, errors) {
        (true, _, 0) => writeln!(output, "{path}: sound, nothing to repair")?,
        (true, _, 1) => writeln!(
            output,
            "{path}: 1 error, which cannot be repaired; tet verify shows it"
        )?,
        (true, _, errors) => writeln!(
            output,
            "{path}: {errors} errors, none of which can be repaired; tet verify lists them"
        )?,
        (false, false, _) => writeln!(output, "{path}: nothing was changed; --apply does this")?,
        (false, true, 0) => writeln!(output, "{path}: repaired, and sound")?,
        (false, true, 1) => {
            writeln!(
                output,
                "{path}: repaired, but 1 error is left; tet verify shows it"
            )?;
        }
        (false, true, errors) => {
            writeln!(
                output,
                "{path}: repaired, but {errors} errors are left; tet verify lists them"
            )?;
        }
    }
    Ok(())
}

/// Creates or deletes zone maps.
pub fn run_index(arguments: &IndexArguments, output: &mut dyn Write) -> Result<bool, Failure> {
    other::refuse(&arguments.file, "index")?;
    cancel::end_tidily(|| false)?;
    index(&arguments.file, arguments.clear)?;
    let what = match arguments.clear {
        true => "no longer has zone maps",
        false => "has zone maps of all chunks",
    };
    writeln!(
        output,
        "{} {what}",
        clean(&arguments.file.display().to_string())
    )?;
    Ok(true)
}
