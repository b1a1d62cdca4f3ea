//! Pipelines as text: `byteshuffle, zstd(5)`.

use std::str::FromStr;

use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Filter, Pipeline};

/// The form of a filter in texts.
const FILTERS: &str = "noop, gzip, zstd, lz4, bzip2 (each with a level in parentheses), rle, double-delta, delta, \
                       dictionary, bit-width-reduction, positive-delta (each with a window in parentheses), \
                       byteshuffle, bitshuffle, xor, float-scale(scale=S, offset=O, width=W), md5 or sha-256";

impl FromStr for Pipeline {
    type Err = Fault;

    /// Parses filters that are separated by commas, in the form in which they are displayed. Names of
    /// options may be left out, and so may options. `none` stands for no filters.
    fn from_str(text: &str) -> Decoded<Self> {
        if text.trim().eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        let (mut filters, mut depth, mut start) = (Vec::new(), 0, 0);
        for (position, letter) in text.char_indices().chain([(text.len(), ',')]) {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    let filter = text[start..position].trim();
                    start = position + 1;
                    let unknown = || Fault::new("filter", format!("{filter:?}"), FILTERS);
                    filters.push(parse(filter).ok_or_else(unknown)?);
                }
                _ => {}
            }
        }
        match depth {
            0 => Ok(Self::new(filters)),
            _ => Err(Fault::new(
                "filters",
                format!("{text:?}"),
                "closed parentheses",
            )),
        }
    }
}

/// Parses one filter.
fn parse(text: &str) -> Option<Filter> {
    let (name, options) = match text.split_once('(') {
        Some((name, options)) => (name.trim(), options.strip_suffix(')')?),
        None => (text, ""),
    };
    let mut values = options
        .split(',')
        .map(|option| match option.split_once('=') {
            Some((_, value)) => value.trim(),
            None => option.trim(),
        });
    let values: Vec<&str> = values.by_ref().filter(|value| !value.is_empty()).collect();
    let name = name.to_ascii_lowercase();
    let level = |default: i32| match values.as_slice() {
        [] => Some(default),
        [level] => level.parse().ok(),
        _ => None,
    };
    let window = |default: u32| match values.as_slice() {
        [] => Some(default),
        [window] => window.parse().ok(),
        _ => None,
    };
    Some(match name.as_str() {
        "gzip" => Filter::Gzip { level: level(-1)? },
        "zstd" => Filter::Zstd { level: level(3)? },
        "lz4" => Filter::Lz4 { level: level(-1)? },
        "bzip2" => Filter::Bzip2 { level: level(9)? },
        "bit-width-reduction" => Filter::BitWidthReduction {
            max_window: window(256)?,
        },
        "positive-delta" => Filter::PositiveDelta {
            max_window: window(1024)?,
        },
        "float-scale" => {
            let [scale, offset, width] = values.as_slice() else {
                return None;
            };
            let width = width
                .parse()
                .ok()
                .filter(|width| matches!(width, 1 | 2 | 4 | 8))?;
            Filter::FloatScale {
                scale: scale.parse().ok()?,
                offset: offset.parse().ok()?,
                width,
            }
        }
        _ if !values.is_empty() => return None,
        "noop" => Filter::Noop,
        "rle" => Filter::Rle,
        "double-delta" => Filter::DoubleDelta { reinterpret: None },
        "delta" => Filter::Delta { reinterpret: None },
        "dictionary" => Filter::Dictionary,
        "byteshuffle" => Filter::Byteshuffle,
        "bitshuffle" => Filter::Bitshuffle,
        "xor" => Filter::Xor,
        "md5" => Filter::Md5,
        "sha-256" | "sha256" => Filter::Sha256,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_are_parsed_as_they_are_displayed() {
        let text = "gzip(level=6), zstd(level=-1), lz4(level=1), bzip2(level=9), noop, rle, double-delta, delta, \
                    dictionary, bit-width-reduction(window=16), positive-delta(window=9), byteshuffle, bitshuffle, \
                    xor, float-scale(scale=0.5, offset=-1, width=2), md5, sha-256";
        let pipeline: Pipeline = text.parse().unwrap();
        assert_eq!(pipeline.filters().len(), 17);
        assert_eq!(pipeline.to_string(), text);
        let short: Pipeline = "Byteshuffle,zstd(5)".parse().unwrap();
        assert_eq!(short.to_string(), "byteshuffle, zstd(level=5)");
        assert_eq!("none".parse::<Pipeline>().unwrap(), Pipeline::default());
        for text in [
            "",
            "zip",
            "zstd(x)",
            "zstd(1,2)",
            "rle(3)",
            "zstd(3",
            "float-scale(1,0,3)",
        ] {
            assert!(text.parse::<Pipeline>().is_err(), "{text}");
        }
    }
}
