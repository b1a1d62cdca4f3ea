//! Mending what can be mended without a doubt: what lies behind the payloads, and what an interrupted publication left.
//! Payloads, index and directory are never touched.

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
use crate::format::tet::repair::anatomy::Anatomy;
use crate::format::tet::repair::tail::Ending;
use crate::format::tet::verify::{Report, VerifyOptions, verify};

/// After so long without a sign of life, as in the reference, nobody publishes any more.
const STALE: Duration = Duration::from_secs(60 * 60);

/// Something that can be mended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// What is done.
    pub what: String,
    /// Where what is taken away is kept, once it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
}

/// What can be mended, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Repair {
    /// What is, or would be, done.
    pub steps: Vec<Step>,
    /// Whether it was done.
    pub applied: bool,
    /// The state of the file: before, or, if the steps were applied, behind them.
    pub report: Report,
}

/// Embeds zone maps of all chunks in a file, or takes those away that are there, together with the secondary index. The
/// file is replaced as a whole.
///
/// # Errors
/// If a chunk cannot be read, or the file cannot be replaced.
pub fn index(path: &Path, clear: bool) -> Result<()> {
    refuse_package(path)?;
    let file = Arc::new(TetFile::open(path, OpenOptions::default())?);
    let payloads = file.last_payload_end(Access::Pread)?;
    if payloads > file.payload_end() {
        let message = format!(
            "has a footer whose regions start at {}, but payloads up to {payloads}; nothing tells which is wrong",
            file.payload_end()
        );
        return Err(Error::invalid(path, message));
    }
    let mut ending = Ending::of(&file, Access::Pread)?;
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
    if path.is_dir() {
        let message = "is a package, whose generations are sealed; publish a new one, or work on a copy of its packed.tet";
        return Err(Error::invalid(path, message));
    }
    Ok(())
}

/// Finds what can be mended, and mends it if asked to.
///
/// # Errors
/// If there is no file to look at, or it cannot be replaced.
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
    // Not by the findings, of which only the first are kept.
    let mut checks = report.checks.iter();
    checks.any(|known| known.name == check && known.errors > 0)
}

/// A footer that cannot be read is cut off. That of a truncated file is not there: what lies at the end is the rest of a
/// chunk, which stays.
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
                "the footer cannot be read: cut off the {} bytes behind the payloads, clear flag bit 0; names, labels and \
                 attributes are lost",
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
        tail::replace(path, end, Ending::default())?;
    }
    repair.steps.push(step);
    Ok(())
}

/// Zone maps that are not those of the cells are made again, an index that cannot be read or is not that of the cells is
/// dropped.
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
        // The regions that the footer names are so long as to cover payloads, or a row is wrong: nothing tells which.
        return Ok(());
    }
    let mut zone_step = stale.then(|| Step {
        name: match is_readable {
            true => "rebuild_zone_maps",
            false => "drop_zone_maps",
        },
        what: match is_readable {
            true => "the zone maps are not those of the cells: make them again".to_string(),
            false => {
                "the zone maps are not those of the cells, not all of which can be read: drop them"
                    .to_string()
            }
        },
        kept: None,
    });
    let mut index_step = broken.then(|| Step {
        name: "drop_secondary_index",
        what: "the secondary index cannot be read, or is not that of the cells: drop it"
            .to_string(),
        kept: None,
    });
    if apply {
        let mut ending = Ending::of(&file, Access::Pread)?;
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

/// Keeps bytes that are taken away, in a new file beside, which is whole or not there.
fn keep(path: &Path, what: &str, bytes: &[u8]) -> Result<Option<PathBuf>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut temporary = target::create_beside(path)?;
    let written = temporary
        .write_all(bytes)
        .and_then(|()| temporary.as_file().sync_all());
    written.map_err(Error::io(path, "keep what is taken away from"))?;
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

/// Locks of publications that have stopped are put aside.
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
        let modified = modified.map_err(Error::io(sign, "look at"))?;
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
            fs::rename(&lock, &aside).map_err(Error::io(&lock, "put aside"))?;
        }
        steps.push(Step {
            name: "quarantine_lock",
            what: format!(
                "publishing/{name} has shown no sign of life for {} minutes: put it aside, so that others can publish",
                age.as_secs() / 60
            ),
            kept: apply.then_some(aside),
        });
    }
    Ok(())
}
