//! Collections of documents (`tatami.manifest`) in `tet info` and `tet verify`.

use std::io::Write;
use std::path::Path;

use serde_json::json;
use tet_sql::format::tatami::search::Segment;
use tet_sql::format::tatami::{Collection, MANIFEST_MAGIC, Member, verify_collection};
use tet_sql::{Access, Candidate, Error};

use super::Failure;
use super::lines::{clean, counted, listed, row, table, write_json, write_problems};

/// Opens a manifest. Returns `None` for any other file.
pub fn open(path: &Path) -> Result<Option<Collection>, Failure> {
    match Candidate::new(path).start().starts_with(&MANIFEST_MAGIC) {
        true => Ok(Some(Collection::open(path)?)),
        false => Ok(None),
    }
}

/// Writes a description of a collection with its members. Returns `true` if the whole manifest and all members
/// could be read.
pub fn info(
    collection: &Collection,
    is_json: bool,
    output: &mut dyn Write,
) -> Result<bool, Failure> {
    let mut problems: Vec<String> = Vec::new();
    let end = collection.check_end();
    problems.extend(end.err().map(|error| error.to_string()));
    let mut lines = vec![row([
        "member", "rows", "live", "deleted", "bytes", "tier", "sort_key",
    ])];
    for member in collection.members() {
        let sort_key = member.sort_key.as_ref().map(|key| key.column.as_str());
        let (live, deleted) = match deleted_rows(collection, member) {
            Ok(deleted) => {
                let live = member.rows.saturating_sub(deleted);
                (live.to_string(), deleted.to_string())
            }
            Err(error) => {
                problems.push(error.to_string());
                ("unknown".to_string(), "unknown".to_string())
            }
        };
        lines.push(vec![
            clean(&member.path.display().to_string()),
            member.rows.to_string(),
            live,
            deleted,
            member.bytes.to_string(),
            member.tier.to_string(),
            clean(sort_key.unwrap_or_default()),
        ]);
    }
    let path = collection.path().display().to_string();
    if is_json {
        let value = json!({
            "path": path,
            "format": "tatami.manifest",
            "rows": rows(collection),
            "members": listed(&lines),
            "problems": problems,
        });
        write_json(output, &value)?;
        return Ok(problems.is_empty());
    }
    let (path, size) = (clean(&path), size(collection));
    writeln!(output, "{path}: tatami collection, {size}")?;
    table(output, &lines)?;
    output.flush()?;
    for problem in &problems {
        // There is no way to report a failure of standard error.
        let _ = writeln!(std::io::stderr(), "error: {}", clean(problem));
    }
    Ok(problems.is_empty())
}

/// Returns the number of rows of a member that its search index marks as deleted.
fn deleted_rows(collection: &Collection, member: &Member) -> Result<u64, Error> {
    let file = collection.open_member(member, Access::Pread)?;
    let segment = Segment::open(&file)?;
    Ok(segment.map_or(0, |segment| {
        segment.documents().saturating_sub(segment.live_documents())
    }))
}

fn rows(collection: &Collection) -> u64 {
    let members = collection.members().iter();
    members.fold(0, |sum, member| sum.saturating_add(member.rows))
}

/// Returns the numbers of members and of rows.
fn size(collection: &Collection) -> String {
    let (members, rows) = (collection.members().len(), rows(collection));
    format!("{}, {}", counted(members, "member"), counted(rows, "row"))
}

/// Checks a collection and writes the problems. Returns `true` if there are none.
pub fn check(
    collection: &Collection,
    is_deep: bool,
    is_json: bool,
    output: &mut dyn Write,
) -> Result<bool, Failure> {
    let problems = verify_collection(collection, is_deep);
    let summary = size(collection);
    write_problems(
        output,
        collection.path(),
        &problems,
        &summary,
        is_deep,
        is_json,
    )
}
