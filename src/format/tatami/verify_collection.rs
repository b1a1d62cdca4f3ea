//! [`verify_collection`]: checks a manifest and the files of its members.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::fault::Fault;
use crate::format::io::storage::Access;
use crate::format::tatami::collection::{Collection, Member, MemberZone};
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::bounds::Scalar;
use crate::format::tatami::verify::{MAX_PROBLEMS, verify};

/// Checks a manifest and all members, and returns the problems found, at most 100. Members are checked as
/// by [`verify`], and must be the files that the manifest describes, with the columns of the first one, and
/// with values within the zones of the manifest.
pub fn verify_collection(collection: &Collection, is_deep: bool) -> Vec<Error> {
    let mut problems = Vec::new();
    problems.extend(collection.check_end().err());
    let mut columns = None;
    for member in collection.members() {
        if problems.len() >= MAX_PROBLEMS {
            break;
        }
        match collection.open_member(member, Access::Pread) {
            Err(error) => problems.push(error),
            Ok(file) => {
                let file = Arc::new(file);
                let expected = columns.get_or_insert_with(|| columns_of(&file));
                problems.extend(check_columns(&file, expected).err());
                problems.extend(check_zones(&file, member).err());
                problems.extend(verify(&file, is_deep));
            }
        }
    }
    problems.truncate(MAX_PROBLEMS);
    problems
}

fn columns_of(file: &TatamiFile) -> String {
    let fields = file.schema().fields.iter();
    let fields = fields.map(|field| format!("{} {}", field.name, field.column_type));
    fields.collect::<Vec<_>>().join(", ")
}

fn check_columns(file: &TatamiFile, expected: &str) -> Result<()> {
    let found = columns_of(file);
    match found == expected {
        true => Ok(()),
        false => Err(Error::malformed(
            ErrorLocation::file(file.path()),
            "columns",
            format!("({found})"),
            format!("({expected}), as in the first member of the collection"),
        )),
    }
}

/// Compares the length and the zones that the manifest states for a member with its file.
fn check_zones(file: &TatamiFile, member: &Member) -> Result<()> {
    let error = |fault: Fault| fault.at(ErrorLocation::file(file.path()));
    if member.bytes != file.length() {
        let expected = format!("{}, as the manifest states", member.bytes);
        return Err(error(Fault::new(
            "length in bytes",
            file.length(),
            expected,
        )));
    }
    let of_file = Member::of_file(&member.path, file);
    for zone in member.zones.iter().chain(&member.sort_key) {
        let actual = of_file.zones.iter();
        let actual = actual.filter(|actual| actual.column == zone.column);
        for actual in actual {
            if actual.column_type != zone.column_type || !includes(zone, actual) {
                let found = format!(
                    "a zone of column {:?} in the manifest without all values",
                    zone.column
                );
                return Err(error(Fault::new(
                    "zone",
                    found,
                    "the min and the max of the file",
                )));
            }
        }
    }
    Ok(())
}

/// Returns `true` if no bound of `inner` is outside of `outer`. Bounds without an order, such as NaN, are not
/// compared.
fn includes(outer: &MemberZone, inner: &MemberZone) -> bool {
    let compare = |one: &[u8], other: &[u8]| {
        let one = Scalar::parse(outer.column_type, one)?;
        one.compare(&Scalar::parse(inner.column_type, other)?)
    };
    compare(&outer.bounds.min, &inner.bounds.min) != Some(Ordering::Greater)
        && compare(&outer.bounds.max, &inner.bounds.max) != Some(Ordering::Less)
}
