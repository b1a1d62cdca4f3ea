//! The choice between packed and unpacked values.

use std::fmt;
use std::str::FromStr;

use crate::format::array::Dtype;

/// When values are unpacked by the CF attributes `scale_factor` and `add_offset`, to Float64: the setting `tet.unpack`.
///
/// ```
/// use tet_sql::Unpack;
///
/// assert_eq!("never".parse(), Ok(Unpack::Never));
/// assert_eq!(Unpack::default().to_string(), "auto");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unpack {
    /// Integers are unpacked where the format's attributes describe the stored cells, as those of Zarr do. The
    /// attributes of `.tet` files do not: converters copy them from data that they have unpacked.
    #[default]
    Auto,
    /// Every dataset with one of the attributes is unpacked.
    Always,
    /// Values are the stored numbers.
    Never,
}

impl Unpack {
    /// Returns `true` if a dataset of this type is unpacked by its attributes, which describe the stored cells or
    /// may be stale.
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

    /// Reads one of the three names; `true` means `always` and `false` means `never`.
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
