//! Groups of arrays and groups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::place::Place;
use crate::format::tiledb::array::OpenOptions;
use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::codecs::EncryptionKey;
use crate::format::tiledb::directory::{MetadataValue, Stamp, TimeWindow, files, metadata};
use crate::format::tiledb::fault::{Decoded, Fault};

/// The version of group files and members that is read.
const GROUP_VERSION: u32 = 2;
/// The file that marks a directory as a group.
const MARKER: &str = "__tiledb_group.tdb";

/// An open group.
#[derive(Debug)]
pub struct TileDbGroup {
    place: Place,
    window: TimeWindow,
    key: Option<EncryptionKey>,
    members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMember {
    /// The name of the member, if it has one.
    pub name: Option<String>,
    /// `true` for a group, `false` for an array.
    pub is_group: bool,
    /// `true` if the location is relative to the group's directory.
    pub is_relative: bool,
    /// The location: a path or a URI.
    pub location: String,
}

impl TileDbGroup {
    /// Returns `true` if a directory is that of a group.
    pub fn recognises(place: impl Into<Place>) -> bool {
        match place.into() {
            Place::Local(path) => path.join(MARKER).is_file(),
            #[cfg(feature = "remote")]
            // Errors are reported when the group is opened.
            place => place.list().is_ok_and(|names| names.contains(MARKER)),
        }
    }

    /// Opens the group in a directory, as of the end of the window in the options.
    ///
    /// # Errors
    /// Fails if there is no group or its members cannot be read.
    pub fn open(place: impl Into<Place>, options: &OpenOptions) -> Result<Self> {
        let place = place.into();
        if !Self::recognises(&place) {
            let location = ErrorLocation::file(place.path());
            let expected = "a directory with __tiledb_group.tdb";
            return Err(Error::malformed(
                location,
                "path",
                "no TileDB group",
                expected,
            ));
        }
        let window = options.window();
        let key = options.key.clone();
        let mut members = Vec::new();
        let directory = place.join("__group");
        for name in directory.list()? {
            if Stamp::parse(&name).is_some_and(|stamp| window.contains(&stamp)) {
                let file = directory.join(&name);
                let payload = files::read_generic(&file, key.as_ref())?;
                let applied = apply(&payload, &mut members);
                applied.map_err(|fault| fault.at(ErrorLocation::file(file.path())))?;
            }
        }
        Ok(Self {
            place,
            window,
            key,
            members,
        })
    }

    /// The path as given to [`Self::open`].
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// The members, in the order in which they were added.
    pub fn members(&self) -> &[GroupMember] {
        &self.members
    }

    /// Reads the metadata of the group.
    pub fn metadata(&self) -> Result<BTreeMap<String, MetadataValue>> {
        metadata::read(&self.place, self.window, self.key.as_ref())
    }

    /// Returns the path of a member, or its URL if the group is behind a URL. Returns `None` if the member
    /// is elsewhere. A relative location is below the group's directory.
    pub fn member_path(&self, member: &GroupMember) -> Option<PathBuf> {
        let below = |location: &str| {
            let place = files::place_below(&self.place, location)?;
            Some(place.path().to_path_buf())
        };
        if member.is_relative {
            return below(&member.location);
        }
        if !self.place.is_local() {
            // A group from elsewhere must not lead to files of this machine.
            let location = member.location.strip_prefix(self.path().to_str()?)?;
            return location.starts_with('/').then(|| below(location))?;
        }
        let path = member
            .location
            .strip_prefix("file://")
            .unwrap_or(&member.location);
        path.starts_with('/').then(|| PathBuf::from(path))
    }
}

/// Applies the changes of one group file.
fn apply(payload: &[u8], members: &mut Vec<GroupMember>) -> Decoded<()> {
    let mut fields = Fields::new(payload);
    let check = |field, version| match version {
        GROUP_VERSION => Ok(()),
        other => Err(Fault::new(field, other, GROUP_VERSION)),
    };
    check("group version", fields.u32("group version")?)?;
    for _ in 0..fields.count_u64("number of group members", 16)? {
        check("member version", fields.u32("member version")?)?;
        let is_group = match fields.u8("member type")? {
            1 => true,
            2 => false,
            other => return Err(Fault::new("member type", other, "1 or 2")),
        };
        let is_relative = fields.flag("relative location")?;
        let location = fields.text_u64("member location")?;
        let name = match fields.flag("has a name")? {
            true => Some(fields.text_u64("member name")?),
            false => None,
        };
        let is_deleted = fields.flag("deleted")?;
        let member = GroupMember {
            name,
            is_group,
            is_relative,
            location,
        };
        // A later file replaces or deletes members of earlier ones by name, or else by location.
        let key = |member: &GroupMember| member.name.clone().unwrap_or(member.location.clone());
        let known = members.iter().position(|other| key(other) == key(&member));
        match (known, is_deleted) {
            (Some(index), true) => {
                members.remove(index);
            }
            (Some(index), false) => members[index] = member,
            (None, false) => members.push(member),
            (None, true) => {}
        }
    }
    fields.finish("group")
}
