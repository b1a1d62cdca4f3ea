//! Repairs of damage that can be repaired without doubt: an unreadable footer, stale statistics,
//! and the locks of interrupted publications. Payloads, chunk index and dataset directory are never
//! changed.

pub mod anatomy;
pub(crate) mod tail;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::format::io::storage::Access;
use crate::format::io::target;
use crate::format::tet::file::{OpenOptions, TetFile};
use crate::format::tet::package::is_package;
use crate::format::tet::repair::anatomy::Anatomy;
use crate::format::tet::repair::tail::FileTail;
use crate::format::tet::verify::{Report, VerifyOptions, verify};

/// A publication without a heartbeat for this long counts as dead, as in the reference.
const STALE: Duration = Duration::from_secs(60 * 60);

/// One step of a repair.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Step {
    /// The name of the step.
    pub name: &'static str,
    /// A description of the damage, and of what the step does about it.
    pub what: String,
    /// The file that keeps the removed bytes, or the new path of a lock, once the step is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
}

/// The steps of a repair, and the state of the file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Repair {
    /// The steps that were applied, or would be.
    pub steps: Vec<Step>,
    /// `true` if the steps were applied.
    pub applied: bool,
    /// The verification report. If steps were applied, it describes the repaired file.
    pub report: Report,
}

/// Embeds zone maps of all chunks in a file. With `clear`, removes the zone maps and the secondary
/// index instead. Replaces the whole file.
///
/// # Errors
/// Fails for a package, if a chunk or the footer cannot be read, if payloads and footer overlap, or
/// if the file cannot be replaced.
pub fn index(path: &Path, clear: bool) -> Result<()> {
    refuse_package(path)?;
    let file = Arc::new(TetFile::open(path, OpenOptions::default())?);
    let payloads = file.last_payload_end(Access::Pread)?;
    if payloads > file.payload_end() {
        let message = format!(
            "the footer's regions start at offset {}, but payloads end at offset {payloads}; cannot tell which \
             is wrong; write the file again from its source",
            file.payload_end()
        );
        return Err(Error::invalid(path, message));
    }
    let mut ending = FileTail::of(&file, Access::Pread)?;
    if clear {
        if ending.zone_maps.is_none() && ending.secondary_index.is_none() {
            return Ok(());
        }
        ending.zone_maps = None;
        ending.secondary_index = None;
    } else {
        ending.zone_maps = Some(tail::zone_maps(&file, Access::Pread)?);
        if file.value_postings(Access::Pread).is_err() {
            ending.secondary_index = None;
        }
        ending.note("index", "tet index");
    }
    tail::replace(path, file.payload_end(), ending)
}

fn refuse_package(path: &Path) -> Result<()> {
    if is_package(path) {
        let message = "is a package, whose generations are sealed; publish a new one, or work on a copy of its packed.tet";
        return Err(Error::invalid(path, message));
    }
    Ok(())
}

/// Verifies a file, finds the steps that would repair it, and, with `apply`, applies them.
///
/// # Errors
/// Fails if there is no file to verify, or if it cannot be replaced.
pub fn repair(path: &Path, apply: bool, options: VerifyOptions) -> Result<Repair> {
    let options = VerifyOptions {
        deep: true,
        ..options
    };
    let report = verify(path, options, &|_, _| {})?;
    let mut repair = Repair {
        steps: Vec::new(),
        applied: apply,
        report,
    };
    if path.is_dir() {
        locks(path, apply, &mut repair.steps)?;
    } else {
        footer(path, apply, &mut repair)?;
        indexes(path, apply, &mut repair)?;
    }
    if apply && !repair.steps.is_empty() {
        repair.report = verify(path, options, &|_, _| {})?;
    }
    Ok(repair)
}

fn has_errors(report: &Report, check: &str) -> bool {
    // Count errors by check: the report keeps only the first findings of each check.
    let mut checks = report.checks.iter();
    checks.any(|known| known.name == check && known.errors > 0)
}

/// Cuts off a footer that cannot be read. A truncated file has no footer: the bytes at its end
/// belong to a chunk and stay, and only the flag is cleared.
fn footer(path: &Path, apply: bool, repair: &mut Repair) -> Result<()> {
    if !has_errors(&repair.report, "footer") {
        return Ok(());
    }
    let anatomy = Anatomy::of(path, Access::Pread)?;
    let Some(file) = &anatomy.opened else {
        return Ok(());
    };
    let truncated = file.truncated_rows(Access::Pread)?;
    let end = match truncated {
        0 => file.last_payload_end(Access::Pread)?,
        _ => anatomy.length,
    };
    let mut step = match truncated {
        0 => Step {
            name: "cut_footer",
            what: format!(
                "the footer cannot be read: cut off the {} bytes after the payloads, clear flag bit 0; names, \
                 labels and attributes are lost",
                anatomy.length - end
            ),
            kept: None,
        },
        count => Step {
            name: "clear_footer_flag",
            what: format!(
                "the file is truncated to {} bytes: the footer is lost, and {count} of {} chunks are lost or cut off; clear \
                 flag bit 0, so that the other chunks can be read, without names, labels and attributes",
                anatomy.length,
                file.chunk_rows()
            ),
            kept: None,
        },
    };
    if apply {
        let removed = file
            .storage()
            .read_range(Access::Pread, end..anatomy.length)?;
        step.kept = keep(path, "footer", &removed)?;
        tail::replace(path, end, FileTail::default())?;
    }
    repair.steps.push(step);
    Ok(())
}

/// Rebuilds zone maps that do not match the cells, and drops a secondary index that cannot be read
/// or does not match the cells. Drops the zone maps instead if not all cells can be read.
fn indexes(path: &Path, apply: bool, repair: &mut Repair) -> Result<()> {
    let stale = has_errors(&repair.report, "zone_maps");
    let broken = has_errors(&repair.report, "secondary_index");
    let of_data = [
        "parse",
        "datasets",
        "chunk_rows",
        "chunk_coverage",
        "chunk_decode",
    ];
    let is_readable = !of_data
        .iter()
        .any(|check| has_errors(&repair.report, check));
    if !(stale || broken) {
        return Ok(());
    }
    let file = Arc::new(TetFile::open(path, OpenOptions::default())?);
    if file.last_payload_end(Access::Pread)? > file.payload_end() {
        // Either the footer's regions are so long that they cover payloads, or an index row is
        // wrong. The file does not tell which.
        return Ok(());
    }
    let mut zone_step = stale.then(|| Step {
        name: match is_readable {
            true => "rebuild_zone_maps",
            false => "drop_zone_maps",
        },
        what: match is_readable {
            true => match mismatched_chunks(&repair.report) {
                None => "the zone maps do not match the cells: rebuild them".to_string(),
                Some(chunks) => format!(
                    "the zone maps do not match the cells of {chunks}: rebuild them; if the cells are damaged, not the \
                     zone maps, they stay damaged, and nothing shows it afterwards: compare them with their source"
                ),
            },
            false => {
                "the zone maps do not match the cells, and not all cells can be read: drop them"
                    .to_string()
            }
        },
        kept: None,
    });
    let mut index_step = broken.then(|| Step {
        name: "drop_secondary_index",
        what: "the secondary index cannot be read, or does not match the cells: drop it"
            .to_string(),
        kept: None,
    });
    if apply {
        let mut ending = FileTail::of(&file, Access::Pread)?;
        if let Some(step) = &mut zone_step {
            step.kept = keep(
                path,
                "zone-maps",
                &ending.zone_maps.take().unwrap_or_default(),
            )?;
            if is_readable {
                ending.zone_maps = Some(tail::zone_maps(&file, Access::Pread)?);
            }
        }
        if let Some(step) = &mut index_step {
            let removed = ending.secondary_index.take().unwrap_or_default();
            step.kept = keep(path, "secondary-index", &removed)?;
        }
        ending.note("repair", "tet repair");
        tail::replace(path, file.payload_end(), ending)?;
    }
    repair.steps.extend(zone_step);
    repair.steps.extend(index_step);
    Ok(())
}

/// Describes the chunks whose cells do not match their zone maps: the first one, and the number of others. The format has no
/// checksums, so either may be damaged.
fn mismatched_chunks(report: &Report) -> Option<String> {
    let mut findings = report.findings.iter();
    let (dataset, chunk) = findings.find_map(|finding| {
        let is_zone = finding.check == "zone_maps";
        finding
            .dataset
            .as_ref()
            .zip(finding.chunk.as_ref())
            .filter(|_| is_zone)
    })?;
    let check = report.checks.iter().find(|check| check.name == "zone_maps");
    let others = match check.map_or(0, |check| check.errors.saturating_sub(1)) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!("dataset {dataset:?}, chunk {chunk:?}{others}"))
}

/// Saves removed bytes to a new file beside `path`, which is complete or does not exist.
fn keep(path: &Path, what: &str, bytes: &[u8]) -> Result<Option<PathBuf>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut temporary = target::create_beside(path)?;
    let written = temporary
        .write_all(bytes)
        .and_then(|()| temporary.as_file().sync_all());
    written.map_err(Error::io(path, "save the removed bytes"))?;
    for number in 1u32.. {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".removed-{what}-{number}"));
        let kept = PathBuf::from(name);
        match temporary.persist_noclobber(&kept) {
            Ok(()) => return Ok(Some(kept)),
            Err((error, again)) if error.kind() == io::ErrorKind::AlreadyExists => {
                temporary = again;
            }
            Err((error, _)) => return Err(Error::io(&kept, "create")(error)),
        }
    }
    Ok(None)
}

/// Quarantines the locks of dead publications by renaming them.
fn locks(path: &Path, apply: bool, steps: &mut Vec<Step>) -> Result<()> {
    let publishing = path.join("publishing");
    if !publishing.is_dir() {
        return Ok(());
    }
    let entries = publishing
        .read_dir()
        .map_err(Error::io(&publishing, "list"))?;
    for entry in entries {
        let entry = entry.map_err(Error::io(&publishing, "list"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let lock = entry.path();
        if name.contains("quarantine") || !lock.is_dir() {
            continue;
        }
        let heartbeat = lock.join("HEARTBEAT");
        let sign = if heartbeat.is_file() {
            &heartbeat
        } else {
            &lock
        };
        let modified = sign.metadata().and_then(|metadata| metadata.modified());
        let modified = modified.map_err(Error::io(sign, "read the metadata"))?;
        let age = SystemTime::now()
            .duration_since(modified)
            .unwrap_or_default();
        if age <= STALE {
            continue;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let aside = publishing.join(format!("{name}.quarantine-{}", now.as_secs()));
        if apply {
            fs::rename(&lock, &aside).map_err(Error::io(&lock, "quarantine"))?;
        }
        steps.push(Step {
            name: "quarantine_lock",
            what: format!(
                "publishing/{name} has had no heartbeat for {} minutes: quarantine it, so that others can publish",
                age.as_secs() / 60
            ),
            kept: apply.then_some(aside),
        });
    }
    Ok(())
}
