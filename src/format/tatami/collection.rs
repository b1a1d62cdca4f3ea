//! Collections: several files that a manifest lists with their rows and zones. A manifest is a log of
//! added and removed members.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::fault::Fault;
use crate::format::io::place::Place;
use crate::format::io::storage::Access;
use crate::format::tatami::bytes::Cursor;
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::bounds::ValueBounds;
use crate::format::tatami::layout::checks::check_bounds;
use crate::format::tatami::layout::header::check_crc;
use crate::format::tatami::layout::row_group::Bounds;
use crate::format::tatami::layout::schema::column_type;
use crate::format::tatami::layout::types::ColumnType;

/// The file name of a manifest.
pub const MANIFEST_NAME: &str = "tatami.manifest";
/// The first four bytes of a manifest.
pub const MANIFEST_MAGIC: [u8; 4] = *b"TMAN";

/// The largest manifest that is read, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 1 << 30;

pub(super) const MANIFEST_VERSION: u8 = 1;
pub(super) const RECORD_ADD: u8 = 1;
pub(super) const RECORD_REMOVE: u8 = 2;
pub(super) const RECORD_SET_TIER: u8 = 3;

/// The bounds of a column over a whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberZone {
    /// The name of the column.
    pub column: String,
    /// The type of the column.
    pub column_type: ColumnType,
    /// The bounds.
    pub bounds: Bounds,
}

impl MemberZone {
    /// Returns the bounds of the values of the column, nulls excluded.
    pub fn value_bounds(&self) -> ValueBounds<'_> {
        ValueBounds::new(self.column_type, Some(&self.bounds))
    }
}

/// A member of a collection: one file, as the manifest describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The path, relative to the directory of the manifest.
    pub path: PathBuf,
    /// The identifier of the member.
    pub uuid: [u8; 16],
    /// The number of rows.
    pub rows: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The bounds of the sort key, if there is one.
    pub sort_key: Option<MemberZone>,
    /// The zones of columns.
    pub zones: Vec<MemberZone>,
    /// The storage tier, a number chosen by the program that manages the collection.
    pub tier: u8,
    /// The names of the web crawls that the rows come from.
    pub crawls: Vec<String>,
    /// The creation time in milliseconds since 1970-01-01, or 0.
    pub created_ms: u64,
    /// The checksum of the file's footer.
    pub footer_crc: u32,
}

/// A collection: the live members of a manifest, which were added and not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    path: PathBuf,
    log: Log,
}

/// The contents of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Log {
    /// The live members.
    pub members: Vec<Member>,
    /// The number of bytes from the first record that is cut off or has a wrong checksum to the end.
    pub unread_bytes: usize,
}

impl Collection {
    /// Reads a manifest. The log ends before the first record that is cut off or has a wrong checksum, since
    /// such a record is left by an interrupted append.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a manifest of version 1, or has a complete record that
    /// breaks a rule of the format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(&path.as_ref().into())
    }

    /// Reads a manifest like [`Self::open`], also one in an object store.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub(crate) fn open_in(place: &Place) -> Result<Self> {
        let path = place.path();
        let bytes = place.read(MAX_MANIFEST_BYTES)?;
        let log = parse(&bytes);
        let log = log.map_err(|fault| fault.at(ErrorLocation::part(path, "manifest")))?;
        Ok(Self {
            path: path.to_path_buf(),
            log,
        })
    }

    /// The path of the manifest.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The live members, in the order in which they were added.
    pub fn members(&self) -> &[Member] {
        &self.log.members
    }

    /// Returns an error if the log ends before the end of the manifest. An interrupted append leaves such a
    /// manifest, and so does damage, after which members may be missing.
    pub fn check_end(&self) -> Result<()> {
        let bytes = self.log.unread_bytes;
        if bytes == 0 {
            return Ok(());
        }
        let found = format!("cut off or has a wrong checksum, {bytes} bytes before the end");
        let fault = Fault::new("record", found, "records up to the end of the manifest");
        Err(fault.at(ErrorLocation::part(&self.path, "manifest")))
    }

    /// Opens the file of a member.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or is not the one that the manifest describes.
    pub fn open_member(&self, member: &Member, access: Access) -> Result<TatamiFile> {
        member.open_at(&self.member_path(member).into(), access)
    }

    /// Returns the path of a member's file.
    pub fn member_path(&self, member: &Member) -> PathBuf {
        match self.path.parent() {
            Some(directory) => directory.join(&member.path),
            None => member.path.clone(),
        }
    }
}

/// Reads a manifest up to the first record that is cut off or has a wrong checksum.
pub(super) fn parse(bytes: &[u8]) -> Result<Log, Fault> {
    let mut log = Cursor::new(bytes);
    let magic = log.array::<4>("magic")?;
    let version = log.byte("version")?;
    if (magic, version) != (MANIFEST_MAGIC, MANIFEST_VERSION) {
        let found = format!("{:?} version {version}", magic.escape_ascii().to_string());
        return Err(Fault::new("magic", found, "\"TMAN\" version 1"));
    }
    let mut members: Vec<Member> = Vec::new();
    let mut unread_bytes = log.remaining();
    while let Ok((kind, body)) = next_record(&mut log) {
        unread_bytes = log.remaining();
        let mut body = Cursor::new(body);
        match kind {
            RECORD_ADD => {
                let member = Member::parse(&mut body)?;
                match members.iter_mut().find(|other| other.uuid == member.uuid) {
                    Some(other) => *other = member,
                    None => members.push(member),
                }
            }
            RECORD_REMOVE => {
                let uuid = body.array("removed member")?;
                members.retain(|member| member.uuid != uuid);
            }
            RECORD_SET_TIER => {
                let uuid = body.array("member")?;
                let tier = body.byte("tier")?;
                for member in members.iter_mut().filter(|member| member.uuid == uuid) {
                    member.tier = tier;
                }
            }
            _ => {}
        }
    }
    Ok(Log {
        members,
        unread_bytes,
    })
}

/// Reads the next record. Fails at the end of the log.
fn next_record<'a>(log: &mut Cursor<'a>) -> Result<(u8, &'a [u8]), Fault> {
    let record = log.rest();
    let kind = log.byte("record kind")?;
    let body = log.byte_string("record length")?;
    let checked = &record[..record.len() - log.remaining()];
    check_crc("record checksum", checked, log.u32("record checksum")?)?;
    Ok((kind, body))
}

impl Member {
    /// Opens the file at a place. Fails if it is not the one that the manifest describes.
    pub(crate) fn open_at(&self, place: &Place, access: Access) -> Result<TatamiFile> {
        let file = TatamiFile::open_in(place, access)?;
        let found = (file.rows(), file.trailer().footer_crc);
        let expected = (self.rows, self.footer_crc);
        if found != expected {
            let text = |(rows, crc)| format!("{rows} rows and the footer checksum {crc:#010x}");
            return Err(Error::malformed(
                ErrorLocation::file(place.path()),
                "content",
                text(found),
                format!("{}, as the manifest states", text(expected)),
            ));
        }
        Ok(file)
    }

    fn parse(body: &mut Cursor<'_>) -> Result<Self, Fault> {
        let path = PathBuf::from(body.text("member path")?);
        if !is_inside(&path) {
            let expected = "a path inside the directory of the manifest";
            return Err(Fault::new("member path", path.display(), expected));
        }
        let uuid = body.array("member uuid")?;
        let rows = body.varint("number of rows")?;
        let bytes = body.varint("length in bytes")?;
        let sort_column = body.text("sort column")?;
        let sort_type = body.byte("sort type")?;
        let sort_bounds = Bounds::parse(body)?;
        let sort_key = match sort_column.is_empty() {
            true => None,
            false => Some(zone(sort_column, sort_type, sort_bounds)?),
        };
        let zones = body.list("number of zones", 4, |body| {
            let column = body.text("zone column")?;
            let id = body.byte("zone type")?;
            zone(column, id, Bounds::parse(body)?)
        })?;
        Ok(Self {
            path,
            uuid,
            rows,
            bytes,
            sort_key,
            zones,
            tier: body.byte("tier")?,
            crawls: body.list("number of crawls", 1, |body| {
                body.text("crawl").map(str::to_string)
            })?,
            created_ms: body.varint("created")?,
            footer_crc: body.u32("footer checksum")?,
        })
    }
}

/// Returns `true` if the path of a member lies inside the directory of the manifest.
pub(super) fn is_inside(path: &Path) -> bool {
    let mut parts = path.components();
    !path.as_os_str().is_empty()
        && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn zone(column: &str, id: u8, bounds: Bounds) -> Result<MemberZone, Fault> {
    let column_type = column_type("zone type", id, column)?;
    // The zone of a column without values has empty bounds.
    if !(bounds.min.is_empty() && bounds.max.is_empty()) {
        check_bounds(column_type, &bounds)?;
    }
    Ok(MemberZone {
        column: column.to_string(),
        column_type,
        bounds,
    })
}
