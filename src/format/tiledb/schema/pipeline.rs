//! Filter pipelines as schemas and generic tiles describe them.

use std::fmt;

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Datatype, Representation};

/// Maximum number of filters in a pipeline. Every filter costs a pass over the tile.
const MAX_FILTERS: usize = 64;

/// One filter of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)] // The names and options are those of the format's specification.
pub enum Filter {
    Noop,
    /// A zlib stream per part.
    Gzip {
        level: i32,
    },
    Zstd {
        level: i32,
    },
    /// A raw LZ4 block per part.
    Lz4 {
        level: i32,
    },
    Rle,
    Bzip2 {
        level: i32,
    },
    /// Second differences, bit-packed; of another datatype, if one is given.
    DoubleDelta {
        reinterpret: Option<Datatype>,
    },
    BitWidthReduction {
        max_window: u32,
    },
    Bitshuffle,
    Byteshuffle,
    PositiveDelta {
        max_window: u32,
    },
    /// Authenticated encryption with AES-256-GCM.
    Aes256Gcm,
    Md5,
    Sha256,
    Dictionary,
    /// Floating-point numbers as integers of `width` bytes: `scale * integer + offset`.
    FloatScale {
        scale: f64,
        offset: f64,
        width: u8,
    },
    Xor,
    /// Images, which are not decoded.
    Webp,
    /// First differences; of another datatype, if one is given.
    Delta {
        reinterpret: Option<Datatype>,
    },
}

impl Filter {
    fn read(fields: &mut Fields<'_>) -> Decoded<Self> {
        let id = fields.u8("filter id")?;
        let length = fields.u32("filter option length")?;
        let options = fields.take_u64("filter options", u64::from(length))?;
        let mut options = Fields::new(options);
        // The first byte of a compressor's options repeats the filter in another numbering.
        let mut level = || {
            options.u8("compressor")?;
            options.array("compression level").map(i32::from_le_bytes)
        };
        let filter = match id {
            0 => Self::Noop,
            1 => Self::Gzip { level: level()? },
            2 => Self::Zstd { level: level()? },
            3 => Self::Lz4 { level: level()? },
            4 => Self::Rle,
            5 => Self::Bzip2 { level: level()? },
            6 => {
                level()?;
                let reinterpret = reinterpreted(&mut options)?;
                Self::DoubleDelta { reinterpret }
            }
            7 => Self::BitWidthReduction {
                max_window: options.u32("maximum window size")?,
            },
            8 => Self::Bitshuffle,
            9 => Self::Byteshuffle,
            10 => Self::PositiveDelta {
                max_window: options.u32("maximum window size")?,
            },
            11 => Self::Aes256Gcm,
            12 => Self::Md5,
            13 => Self::Sha256,
            14 => Self::Dictionary,
            15 => {
                let scale = f64::from_le_bytes(options.array("scale")?);
                let offset = f64::from_le_bytes(options.array("offset")?);
                match options.u64("byte width")? {
                    width @ (1 | 2 | 4 | 8) => Self::FloatScale {
                        scale,
                        offset,
                        width: width as u8,
                    },
                    other => return Err(Fault::new("byte width", other, "1, 2, 4 or 8")),
                }
            }
            16 => Self::Xor,
            18 => Self::Webp,
            19 => {
                level()?;
                let reinterpret = reinterpreted(&mut options)?;
                Self::Delta { reinterpret }
            }
            other => return Err(Fault::new("filter id", other, "0 to 16, 18 or 19")),
        };
        Ok(filter)
    }

    /// Returns the datatype of the values that the filter hands on when writing, given the datatype
    /// of the values that it receives.
    pub(crate) fn output(self, input: Datatype) -> Datatype {
        use Datatype::*;
        match self {
            Self::Delta {
                reinterpret: Some(datatype),
            }
            | Self::DoubleDelta {
                reinterpret: Some(datatype),
            } => datatype,
            Self::FloatScale { width, .. } => signed_integer(usize::from(width)),
            Self::Xor => signed_integer(input.size()),
            Self::Aes256Gcm => Blob,
            _ => input,
        }
    }

    /// Returns `true` if the filter leaves values of the datatype as they are, and adds no metadata,
    /// in a file of the format version.
    pub(crate) fn passes_through(self, input: Datatype, version: u32) -> bool {
        let is_date = input.is_datetime() || input.is_time();
        match self {
            Self::Noop => true,
            Self::BitWidthReduction { .. } => {
                !(input.is_integer() && input.size() > 1 || is_date && version >= MIN_DATE_VERSION)
            }
            Self::PositiveDelta { .. } => match input {
                Datatype::Blob | Datatype::Bool | Datatype::GeometryWkb | Datatype::GeometryWkt => {
                    false
                }
                _ => !(input.is_integer() || is_date && version >= MIN_DATE_VERSION),
            },
            _ => false,
        }
    }
}

/// First format version whose integer filters apply to dates and durations.
const MIN_DATE_VERSION: u32 = 20;

fn signed_integer(size: usize) -> Datatype {
    match size {
        1 => Datatype::Int8,
        2 => Datatype::Int16,
        4 => Datatype::Int32,
        _ => Datatype::Int64,
    }
}

/// Reads the datatype that newer versions append to the options of delta filters.
fn reinterpreted(options: &mut Fields<'_>) -> Decoded<Option<Datatype>> {
    if options.remaining() == 0 {
        return Ok(None);
    }
    let code = options.u8("reinterpreted datatype")?;
    match Datatype::from_code("reinterpreted datatype", code)? {
        Datatype::Any => Ok(None),
        datatype if datatype.representation() == Representation::Float => Err(Fault::new(
            "reinterpreted datatype",
            datatype,
            "an integer datatype",
        )),
        datatype => Ok(Some(datatype)),
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noop => f.write_str("noop"),
            Self::Gzip { level } => write!(f, "gzip(level={level})"),
            Self::Zstd { level } => write!(f, "zstd(level={level})"),
            Self::Lz4 { level } => write!(f, "lz4(level={level})"),
            Self::Rle => f.write_str("rle"),
            Self::Bzip2 { level } => write!(f, "bzip2(level={level})"),
            Self::DoubleDelta { .. } => f.write_str("double-delta"),
            Self::BitWidthReduction { max_window } => {
                write!(f, "bit-width-reduction(window={max_window})")
            }
            Self::Bitshuffle => f.write_str("bitshuffle"),
            Self::Byteshuffle => f.write_str("byteshuffle"),
            Self::PositiveDelta { max_window } => write!(f, "positive-delta(window={max_window})"),
            Self::Aes256Gcm => f.write_str("aes-256-gcm"),
            Self::Md5 => f.write_str("md5"),
            Self::Sha256 => f.write_str("sha-256"),
            Self::Dictionary => f.write_str("dictionary"),
            Self::FloatScale {
                scale,
                offset,
                width,
            } => write!(
                f,
                "float-scale(scale={scale}, offset={offset}, width={width})"
            ),
            Self::Xor => f.write_str("xor"),
            Self::Webp => f.write_str("webp"),
            Self::Delta { .. } => f.write_str("delta"),
        }
    }
}

/// The filters of a field, in the order in which a writer applies them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pipeline {
    filters: Vec<Filter>,
}

impl Pipeline {
    /// Returns the pipeline of some filters, in the order in which a writer applies them.
    pub fn new(filters: Vec<Filter>) -> Self {
        Self { filters }
    }

    /// Reads a pipeline.
    pub(crate) fn read(fields: &mut Fields<'_>) -> Decoded<Self> {
        // Chunks state their lengths themselves.
        fields.u32("maximum chunk size")?;
        let count = fields.count("number of filters", 5)?;
        if count > MAX_FILTERS {
            return Err(Fault::new(
                "number of filters",
                count,
                format!("at most {MAX_FILTERS}"),
            ));
        }
        let filters = (0..count).map(|_| Filter::read(fields));
        Ok(Self {
            filters: filters.collect::<Decoded<_>>()?,
        })
    }

    /// The filters, in the order in which a writer applies them.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Returns the pipeline followed by a filter.
    pub(crate) fn followed_by(&self, filter: Filter) -> Self {
        let mut filters = self.filters.clone();
        filters.push(filter);
        Self { filters }
    }

    /// Returns `true` if texts of the field are stored without offsets: those of the datatype and
    /// format version are rebuilt from encoded runs or a dictionary.
    pub(crate) fn holds_offsets(&self, datatype: Datatype, version: u32) -> bool {
        let since = |ascii| match datatype {
            Datatype::StringAscii => version >= ascii,
            Datatype::StringUtf8 => version >= 17,
            _ => false,
        };
        self.filters.iter().any(|filter| match filter {
            Filter::Rle => since(12),
            Filter::Dictionary => since(13),
            _ => false,
        })
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, filter) in self.filters.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{filter}")?;
        }
        Ok(())
    }
}
