//! The choice between packed and unpacked values.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::format::array::Dtype;

/// The setting `tet.unpack`: when to unpack values to Float64 by the CF attributes `scale_factor`
/// and `add_offset`.
///
/// ```
/// use tet_sql::Unpack;
///
/// assert_eq!("never".parse(), Ok(Unpack::Never));
/// assert_eq!(Unpack::default().to_string(), "auto");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Unpack {
    /// Unpacks integers if the format's attributes describe the stored cells, as in Zarr. The
    /// attributes of `.tet` files do not: converters copy them from data that is unpacked already.
    #[default]
    Auto,
    /// Unpacks every dataset that has one of the attributes.
    Always,
    /// Keeps the stored numbers.
    Never,
}

impl Unpack {
    /// Returns `true` if a dataset of this type is unpacked. `describe_cells` is `true` if the
    /// attributes describe the stored cells, `false` if they may be stale.
    pub(crate) fn applies(self, dtype: Dtype, describe_cells: bool) -> bool {
        match self {
            Self::Auto => describe_cells && !dtype.is_float(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

impl fmt::Display for Unpack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

impl FromStr for Unpack {
    type Err = String;

    /// Parses one of the three names, or `true` for `always` and `false` for `never`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "always" | "true" => Ok(Self::Always),
            "never" | "false" => Ok(Self::Never),
            _ => Err(format!(
                "unpack is '{text}', expected auto, always or never"
            )),
        }
    }
}
