//! Zarr element types, and the dataset types that they are read as.

use serde_json::{Value, json};

use crate::format::array::Dtype;

/// Maximum number of characters of a fixed-length string.
const MAX_CHARACTERS: u64 = 1 << 20;

/// The element type of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    /// The type that cells are read as.
    pub dtype: Dtype,
    pub kind: CellKind,
    /// The type that `zarrs` gets in place of the element type, as the array's version of Zarr
    /// spells it. For strings, it is a type of bytes.
    pub stand_in: Value,
}

/// The conversion of stored cells to cells of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// No conversion.
    Number,
    /// A byte, which becomes 0 or 1.
    Boolean,
    /// An `i64`, with the attribute `units`, and `calendar` for instants.
    Time { units: String, is_instant: bool },
    /// A string, which becomes an `i64` code.
    Text(TextKind),
}

/// The encoding of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Strings of any length, each with its length before it.
    Variable,
    /// Strings of 32-bit code points, zero-padded to a fixed length.
    Utf32 {
        characters: u64,
        is_big_endian: bool,
    },
    /// Byte strings, zero-padded to a fixed length.
    Bytes { length: u64 },
}

impl TextKind {
    /// Returns the number of bytes of a string, if it is the same for all.
    pub fn size(self) -> Option<u64> {
        match self {
            Self::Variable => None,
            Self::Utf32 { characters, .. } => Some(characters * 4),
            Self::Bytes { length } => Some(length),
        }
    }
}

impl Element {
    fn number(dtype: Dtype, stand_in: Value) -> Self {
        Self {
            dtype,
            kind: CellKind::Number,
            stand_in,
        }
    }

    /// Parses a `dtype` of `.zarray`, in NumPy's notation such as `<f4`. Returns `None` if the type
    /// is not supported.
    pub fn of_v2(dtype: &Value) -> Option<Self> {
        let text = dtype.as_str()?;
        let order = text.chars().next().filter(|order| "<>|".contains(*order))?;
        let rest = &text[1..];
        let is_big_endian = order == '>';
        let number = |dtype| Some(Self::number(dtype, json!(text)));
        let texts = |kind| {
            Some(Self {
                dtype: Dtype::I64,
                kind: CellKind::Text(kind),
                stand_in: json!("|u1"),
            })
        };
        match rest {
            "b1" => Some(Self::boolean(json!("|u1"))),
            "i1" => Some(Self::number(Dtype::I8, json!("|i1"))),
            "u1" => Some(Self::number(Dtype::U8, json!("|u1"))),
            "O" => texts(TextKind::Variable),
            // All other types have a byte order, which must be stated.
            _ if order == '|' && !rest.starts_with('S') => None,
            "i2" => number(Dtype::I16),
            "i4" => number(Dtype::I32),
            "i8" => number(Dtype::I64),
            "u2" => number(Dtype::U16),
            "u4" => number(Dtype::U32),
            "u8" => number(Dtype::U64),
            "f2" => number(Dtype::F16),
            "f4" => number(Dtype::F32),
            "f8" => number(Dtype::F64),
            _ => {
                if let Some(count) = rest.strip_prefix('U') {
                    return texts(TextKind::Utf32 {
                        characters: count_of(count)?,
                        is_big_endian,
                    });
                }
                if let Some(count) = rest.strip_prefix('S') {
                    let length = count_of(count)?;
                    return texts(TextKind::Bytes { length });
                }
                let is_instant = rest.starts_with("M8[");
                let unit = rest
                    .strip_prefix("M8[")
                    .or_else(|| rest.strip_prefix("m8["))?
                    .strip_suffix(']')?;
                Self::time(unit, is_instant, json!(format!("{order}i8")))
            }
        }
    }

    /// Parses a `data_type` of `zarr.json`. Returns `None` if the type is not supported.
    pub fn of_v3(data_type: &Value, is_big_endian: bool) -> Option<Self> {
        let name = match data_type {
            Value::String(name) => name.as_str(),
            other => other.get("name")?.as_str()?,
        };
        let configuration = data_type.get("configuration");
        let count = |key: &str| configuration?.get(key)?.as_u64();
        let number = |dtype| Some(Self::number(dtype, json!(name)));
        let texts = |kind| {
            Some(Self {
                dtype: Dtype::I64,
                kind: CellKind::Text(kind),
                stand_in: json!("uint8"),
            })
        };
        match name {
            "bool" => Some(Self::boolean(json!("uint8"))),
            "int8" => number(Dtype::I8),
            "int16" => number(Dtype::I16),
            "int32" => number(Dtype::I32),
            "int64" => number(Dtype::I64),
            "uint8" => number(Dtype::U8),
            "uint16" => number(Dtype::U16),
            "uint32" => number(Dtype::U32),
            "uint64" => number(Dtype::U64),
            "float16" => number(Dtype::F16),
            "float32" => number(Dtype::F32),
            "float64" => number(Dtype::F64),
            "string" | "numpy.variable_length_utf8" => texts(TextKind::Variable),
            "fixed_length_utf32" => {
                let bytes = count("length_bytes").filter(|bytes| bytes % 4 == 0)?;
                let characters = Some(bytes / 4).filter(|count| is_length(*count))?;
                texts(TextKind::Utf32 {
                    characters,
                    is_big_endian,
                })
            }
            "null_terminated_bytes" => {
                let length = count("length_bytes").filter(|count| is_length(*count))?;
                texts(TextKind::Bytes { length })
            }
            "numpy.datetime64" | "numpy.timedelta64" => {
                if count("scale_factor").unwrap_or(1) != 1 {
                    return None;
                }
                let unit = configuration?.get("unit")?.as_str()?;
                Self::time(unit, name == "numpy.datetime64", json!("int64"))
            }
            _ => None,
        }
    }

    fn boolean(stand_in: Value) -> Self {
        Self {
            dtype: Dtype::U8,
            kind: CellKind::Boolean,
            stand_in,
        }
    }

    /// Returns the type of times in a NumPy unit, or `None` if the unit is not supported.
    ///
    /// Years and months have no fixed length, and CF has no names for multiples of units.
    fn time(unit: &str, is_instant: bool, stand_in: Value) -> Option<Self> {
        let unit = match unit {
            "W" => "weeks",
            "D" => "days",
            "h" => "hours",
            "m" => "minutes",
            "s" => "seconds",
            "ms" => "milliseconds",
            "us" | "μs" => "microseconds",
            "ns" => "nanoseconds",
            _ => return None,
        };
        let units = if is_instant {
            format!("{unit} since 1970-01-01 00:00:00")
        } else {
            unit.to_string()
        };
        Some(Self {
            dtype: Dtype::I64,
            kind: CellKind::Time { units, is_instant },
            stand_in,
        })
    }

    /// Applies the attribute `_Unsigned` of the NetCDF conventions: the bytes of an integer type
    /// are read as unsigned, or as signed.
    pub fn with_unsigned(mut self, unsigned: &Value) -> Self {
        let is_unsigned = match unsigned {
            Value::Bool(unsigned) => *unsigned,
            Value::String(text) if text == "true" => true,
            Value::String(text) if text == "false" => false,
            _ => return self,
        };
        if self.kind != CellKind::Number {
            return self;
        }
        self.dtype = match (is_unsigned, self.dtype) {
            (true, Dtype::I8) => Dtype::U8,
            (true, Dtype::I16) => Dtype::U16,
            (true, Dtype::I32) => Dtype::U32,
            (true, Dtype::I64) => Dtype::U64,
            (false, Dtype::U8) => Dtype::I8,
            (false, Dtype::U16) => Dtype::I16,
            (false, Dtype::U32) => Dtype::I32,
            (false, Dtype::U64) => Dtype::I64,
            (_, dtype) => dtype,
        };
        self
    }

    /// Returns the min, the max and the number of distinct values of a cell, if cells are integers.
    pub fn integers(&self) -> Option<(i128, i128, i128)> {
        let bits = match (&self.kind, self.dtype) {
            (CellKind::Text(_), _) | (_, Dtype::F16 | Dtype::F32 | Dtype::F64) => return None,
            (_, dtype) => dtype.size() * 8,
        };
        let count = 1i128 << bits;
        Some(match self.dtype {
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => (0, count - 1, count),
            _ => (-count / 2, count / 2 - 1, count),
        })
    }

    /// Returns the number of bytes of a stored cell, if it is the same for all.
    pub fn stored_size(&self) -> Option<u64> {
        match &self.kind {
            CellKind::Text(kind) => kind.size(),
            _ => Some(self.dtype.size()),
        }
    }

    /// Converts the fill value for the stand-in type. Codecs do not use the fill value of strings.
    pub fn stand_in_fill(&self, fill: &Value, is_v3: bool) -> Value {
        match (&self.kind, fill) {
            // Like zarr-python, read times without a fill value as NaT.
            (CellKind::Time { .. }, Value::Null) => json!(i64::MIN),
            (CellKind::Text(_), _) | (_, Value::Null) if is_v3 => json!(0),
            (CellKind::Text(_), _) => Value::Null,
            (CellKind::Boolean, Value::Bool(fill)) => json!(u8::from(*fill)),
            (CellKind::Time { .. }, Value::String(fill)) if fill == "NaT" => json!(i64::MIN),
            _ => fill.clone(),
        }
    }
}

fn count_of(text: &str) -> Option<u64> {
    text.parse().ok().filter(|count| is_length(*count))
}

fn is_length(count: u64) -> bool {
    (1..=MAX_CHARACTERS).contains(&count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_version_2() {
        let of = |text: &str| Element::of_v2(&json!(text));
        assert_eq!(of("<f4").unwrap().dtype, Dtype::F32);
        assert_eq!(of(">u2").unwrap().dtype, Dtype::U16);
        assert_eq!(of("|b1").unwrap().kind, CellKind::Boolean);
        let texts = TextKind::Utf32 {
            characters: 5,
            is_big_endian: true,
        };
        assert_eq!(of(">U5").unwrap().kind, CellKind::Text(texts));
        let time = of("<M8[ns]").unwrap();
        let units = "nanoseconds since 1970-01-01 00:00:00".to_string();
        let is_instant = true;
        assert_eq!(time.kind, CellKind::Time { units, is_instant });
        assert_eq!(time.stand_in, json!("<i8"));
        for text in [
            "",
            "<",
            "f4",
            "|f4",
            "<f16",
            "<c8",
            "|V8",
            "<U",
            "<U0",
            "<U-1",
            "|S99999999999",
            "<M8[M]",
            "<M8[10ns]",
            "<M8",
            "<M8[",
            "\u{b5}",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(Element::of_v2(&json!([["a", "<f4"]])), None);
    }

    #[test]
    fn the_attribute_unsigned_changes_how_bytes_are_read() {
        let of = |dtype: &str, unsigned: Value| {
            let element = Element::of_v2(&json!(dtype)).unwrap();
            let stored = element.stored_size();
            let element = element.with_unsigned(&unsigned);
            assert_eq!(element.stored_size(), stored, "{dtype}");
            (element.dtype, element.integers())
        };
        assert_eq!(of("|i1", json!("true")), (Dtype::U8, Some((0, 255, 256))));
        assert_eq!(of("<i4", json!(true)).0, Dtype::U32);
        assert_eq!(
            of("|u1", json!("false")),
            (Dtype::I8, Some((-128, 127, 256)))
        );
        assert_eq!(of(">u2", json!("false")).0, Dtype::I16);
        // Nothing changes if the sign already matches, the type has none, or the value is invalid.
        assert_eq!(of("<u2", json!("true")).0, Dtype::U16);
        assert_eq!(of("<f4", json!("true")), (Dtype::F32, None));
        assert_eq!(of("|b1", json!("false")).0, Dtype::U8);
        for other in [json!("yes"), json!(1), Value::Null] {
            assert_eq!(of("<i2", other).0, Dtype::I16);
        }
    }

    #[test]
    fn types_of_version_3() {
        let of = |value: Value| Element::of_v3(&value, false);
        assert_eq!(of(json!("float16")).unwrap().dtype, Dtype::F16);
        assert_eq!(of(json!({"name": "int8"})).unwrap().dtype, Dtype::I8);
        let time = |unit: &str, factor: u64| {
            let configuration = json!({"unit": unit, "scale_factor": factor});
            of(json!({"name": "numpy.timedelta64", "configuration": configuration}))
        };
        let kind = CellKind::Time {
            units: "seconds".to_string(),
            is_instant: false,
        };
        assert_eq!(time("s", 1).unwrap().kind, kind);
        assert_eq!(time("s", 10), None);
        assert_eq!(time("M", 1), None);
        for value in [
            json!("complex64"),
            json!("r16"),
            json!(7),
            json!({}),
            Value::Null,
        ] {
            assert_eq!(of(value.clone()), None, "{value}");
        }
    }
}
