//! The sizes of the values that a call makes.

use std::cell::RefCell;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, IntervalMonthDayNanoType};
use datafusion::common::Result;
use regex::Regex;

use super::Growth;
use super::arguments::{Argument, DAY, Numbers, list_element};

/// The maximum length of a number or a time as text, in bytes.
const NUMBER_BYTES: i64 = 40;

/// The bytes of an element of a list of texts, without the text.
const OFFSET_BYTES: u64 = 8;

/// The maximum length of a field of a time per byte of the format: `%+` takes 35 bytes.
const FIELD_BYTES: i64 = 18;

/// The arguments that determine the size of each value.
pub(super) enum Sizes<'a> {
    /// `count` units of `bytes` bytes each.
    Units { count: Numbers, bytes: Numbers },
    /// A text, the substring to replace, and its replacement.
    Replaced([&'a Argument; 3]),
    /// A text, a regular expression, the replacement of its matches, and perhaps flags.
    Matched(&'a [Argument], Matcher),
    /// A text, a regular expression with groups, and perhaps flags.
    Captured(&'a [Argument], Matcher),
    /// A text, and the delimiter of its parts.
    Split([&'a Argument; 2]),
    /// The elements of a list: their size and number, and the sizes of what each element may add.
    Listed {
        bytes: Numbers,
        count: Numbers,
        added: Vec<Numbers>,
    },
    /// The sizes of the parts that are joined, and the number of times that each occurs.
    Joined(Vec<(Numbers, u64)>),
    /// A series from `start` to `stop` by `step`. `start` and `stop` have the factor that
    /// [`Argument::instants`] returns.
    Series {
        start: (Numbers, i128),
        stop: (Numbers, i128),
        step: Step<'a>,
    },
    /// Arguments that the function itself rejects.
    Unknown,
}

pub(super) enum Step<'a> {
    Number(Numbers),
    Interval(&'a Argument),
}

impl<'a> Sizes<'a> {
    pub fn of(growth: Growth, arguments: &'a [Argument]) -> Result<Self> {
        Ok(match (growth, arguments) {
            (Growth::Repeat, [text, count]) => Self::Units {
                count: count.numbers()?,
                bytes: text.lengths()?,
            },
            (Growth::Pad, [_, length, ..]) => Self::Units {
                count: length.numbers()?,
                // UTF-8 characters take up to four bytes, but the fill is usually ASCII.
                bytes: Numbers::all(match arguments.get(2).is_some_and(|fill| !is_ascii(fill)) {
                    true => 4,
                    false => 1,
                }),
            },
            (Growth::Replace, [text, from, to]) => Self::Replaced([text, from, to]),
            (Growth::RegularExpression, [_, _, _, ..]) => {
                Self::Matched(arguments, Matcher::default())
            }
            (Growth::Captures, [_, _, ..]) => Self::Captured(arguments, Matcher::default()),
            (Growth::Split, [text, delimiter, ..]) => Self::Split([text, delimiter]),
            (Growth::TimeText, [_, format]) if format.array.data_type().is_string() => {
                Self::Units {
                    count: format.lengths()?,
                    bytes: Numbers::all(FIELD_BYTES),
                }
            }
            (Growth::ListText, [list, texts @ ..])
                if list_element(list.array.data_type()).is_some() =>
            {
                // The texts between elements and in place of nulls, and numbers as texts.
                let added = texts.iter().map(Argument::lengths);
                let added = added.chain([Ok(Numbers::all(NUMBER_BYTES))]);
                let (bytes, count) = list.list_sizes()?;
                Self::Listed {
                    bytes,
                    count,
                    added: added.collect::<Result<_>>()?,
                }
            }
            (Growth::ListReplace, [list, _, to]) => {
                let (bytes, count) = list.list_sizes()?;
                let is_longer = to.array.data_type().primitive_width().is_none();
                let added = is_longer.then(|| to.bytes()).transpose()?;
                Self::Listed {
                    bytes,
                    count,
                    added: added.into_iter().collect(),
                }
            }
            (Growth::ListOf, parts) => {
                let parts = parts.iter().map(|part| Ok((part.bytes()?, 1)));
                Self::Joined(parts.collect::<Result<_>>()?)
            }
            (Growth::Encode, [value, ..]) if is_text_or_binary(value.array.data_type()) => {
                Self::Units {
                    count: value.lengths()?,
                    // Hexadecimal digits.
                    bytes: Numbers::all(2),
                }
            }
            (Growth::Concat, texts) => Self::Joined(joined(texts)?),
            (Growth::ConcatSeparated, [separator, texts @ ..]) => {
                let mut joined = joined(texts)?;
                joined.push((separator.lengths()?, texts.len().saturating_sub(1) as u64));
                Self::Joined(joined)
            }
            (Growth::ListRepeat, [element, count]) => Self::Units {
                count: count.numbers()?,
                bytes: element.element_bytes()?,
            },
            (Growth::ListResize, [list, length, ..]) => Self::Units {
                count: length.numbers()?,
                bytes: match arguments.get(2) {
                    Some(element) => element.element_bytes()?,
                    None => {
                        let element = list_element(list.array.data_type());
                        let width = element.and_then(DataType::primitive_width);
                        Numbers::all(width.unwrap_or(16) as i64)
                    }
                },
            },
            (Growth::Series, [stop]) => Self::Series {
                start: (Numbers::all(0), 1),
                stop: (stop.numbers()?, 1),
                step: Step::Number(Numbers::all(1)),
            },
            (Growth::Series, [start, stop, rest @ ..]) => Self::Series {
                start: start.instants()?,
                stop: stop.instants()?,
                step: match rest {
                    [step] if matches!(step.array.data_type(), DataType::Interval(_)) => {
                        Step::Interval(step)
                    }
                    [step] => Step::Number(step.numbers()?),
                    _ => Step::Number(Numbers::all(1)),
                },
            },
            _ => Self::Unknown,
        })
    }

    /// Returns the estimated size of a row's value in bytes, or `None` if the value is null. A text is
    /// searched for matches only if the size may exceed `limit`.
    pub fn of_row(&self, row: usize, limit: u64) -> Option<u64> {
        match self {
            Self::Units { count, bytes } => {
                let count = u64::try_from(count.get(row)?).unwrap_or(0);
                let bytes = u64::try_from(bytes.get(row).unwrap_or(16)).unwrap_or(0);
                Some(count.saturating_mul(bytes))
            }
            Self::Replaced([text, from, to]) => {
                let (text, from, to) = (text.text(row)?, from.text(row)?, to.text(row)?);
                let more = to.len().saturating_sub(from.len()) as u64;
                let count = match more {
                    0 => 0,
                    _ => text.matches(from).count() as u64,
                };
                Some((text.len() as u64).saturating_add(count.saturating_mul(more)))
            }
            Self::Matched(arguments, matcher) => matched(arguments, matcher, row, limit),
            Self::Captured(arguments, matcher) => captured(arguments, matcher, row, limit),
            Self::Split([text, delimiter]) => {
                let text = text.text(row)?;
                let size = |parts: u64| {
                    let offsets = parts.saturating_mul(OFFSET_BYTES);
                    offsets.saturating_add(text.len() as u64)
                };
                let most = size(text.len() as u64 + 1);
                if most <= limit {
                    return Some(most);
                }
                Some(size(match delimiter.text(row) {
                    // Without a delimiter, each character is a part.
                    None => text.chars().count() as u64,
                    Some("") => 1,
                    Some(delimiter) => text.matches(delimiter).count() as u64 + 1,
                }))
            }
            Self::Listed {
                bytes,
                count,
                added,
            } => {
                let number = |numbers: &Numbers| {
                    let number = numbers.get(row).unwrap_or(0);
                    u64::try_from(number).unwrap_or(0)
                };
                let each = added.iter().map(number).fold(0, u64::saturating_add);
                let all = number(count).saturating_mul(each);
                Some(all.saturating_add(number(bytes)))
            }
            Self::Joined(texts) => {
                let bytes = texts.iter().map(|(lengths, count)| {
                    let length = lengths
                        .get(row)
                        .and_then(|length| u64::try_from(length).ok());
                    length.unwrap_or(0).saturating_mul(*count)
                });
                Some(bytes.fold(0, u64::saturating_add))
            }
            Self::Series { start, stop, step } => {
                let at = |point: &(Numbers, i128)| Some(i128::from(point.0.get(row)?) * point.1);
                let span = (at(stop)? - at(start)?).unsigned_abs();
                let step = match step {
                    Step::Number(step) => i128::from(step.get(row)?),
                    Step::Interval(step) => {
                        let row = if step.is_scalar { 0 } else { row };
                        let array = step.array.as_primitive_opt::<IntervalMonthDayNanoType>()?;
                        let step = array.is_valid(row).then(|| array.value(row))?;
                        // Assume the shortest month, which gives an upper bound for the length of
                        // the series.
                        (i128::from(step.months) * 28 + i128::from(step.days)) * DAY
                            + i128::from(step.nanoseconds)
                    }
                };
                let count = span.checked_div(step.unsigned_abs())?;
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                Some(count.saturating_mul(size_of::<i64>() as u64))
            }
            Self::Unknown => None,
        }
    }
}

/// Returns an upper bound of the size of a text in which the matches of a regular expression are replaced.
/// `None` if an argument is null, or if the expression is not valid.
fn matched(arguments: &[Argument], matcher: &Matcher, row: usize, limit: u64) -> Option<u64> {
    let text = |index: usize| arguments.get(index)?.text(row);
    let (value, pattern, replacement) = (text(0)?, text(1)?, text(2)?);
    let flags = text(3).unwrap_or_default();
    // Each reference to a group, as in `\\1`, can insert a whole match.
    let references = replacement.matches(['\\', '$']).count() as u64;
    let (length, inserted) = (value.len() as u64, replacement.len() as u64);
    let size = |matches: u64| {
        let copies = length.saturating_mul(1 + references);
        copies.saturating_add(matches.saturating_mul(inserted))
    };
    if !flags.contains('g') {
        return Some(size(1));
    }
    let most = size(length + 1);
    if most <= limit {
        return Some(most);
    }
    let pattern = with_flags(pattern, &flags.replace('g', ""));
    matcher.measure(pattern, |regex| size(regex.find_iter(value).count() as u64))
}

/// Returns an upper bound of the size of a list with the groups of the first match of a regular
/// expression. `None` if an argument is null, or if the expression is not valid.
fn captured(arguments: &[Argument], matcher: &Matcher, row: usize, limit: u64) -> Option<u64> {
    let text = |index: usize| arguments.get(index)?.text(row);
    let (value, pattern) = (text(0)?, text(1)?);
    let size = |length: usize, groups: usize| {
        let bytes = (length as u64).saturating_add(OFFSET_BYTES);
        bytes.saturating_mul(groups as u64)
    };
    let most = size(value.len(), 1 + pattern.matches('(').count());
    if most <= limit {
        return Some(most);
    }
    let pattern = with_flags(pattern, text(2).unwrap_or_default());
    matcher.measure(pattern, |regex| {
        let length = regex.find(value).map_or(0, |found| found.len());
        size(length, regex.captures_len())
    })
}

/// Returns a regular expression with flags, as DataFusion composes it.
fn with_flags(pattern: &str, flags: &str) -> String {
    match flags.is_empty() {
        true => pattern.to_string(),
        false => format!("(?{flags}){pattern}"),
    }
}

/// Compiles regular expressions, and keeps the last one.
#[derive(Default)]
pub(super) struct Matcher(RefCell<Option<(String, Option<Regex>)>>);

impl Matcher {
    /// Returns a size that depends on an expression. `None` if the expression is not valid, which the
    /// function reports.
    fn measure(&self, pattern: String, size: impl FnOnce(&Regex) -> u64) -> Option<u64> {
        let mut last = self.0.borrow_mut();
        let (_, compiled) = match last.take() {
            Some(known) if known.0 == pattern => last.insert(known),
            _ => {
                let compiled = Regex::new(&pattern).ok();
                last.insert((pattern, compiled))
            }
        };
        Some(size(compiled.as_ref()?))
    }
}

/// Returns the lengths of texts and binary values. Other types, which the function itself rejects or
/// converts, count as short.
fn joined(texts: &[Argument]) -> Result<Vec<(Numbers, u64)>> {
    let lengths = texts.iter().map(|text| match text.array.data_type() {
        data_type if is_text_or_binary(data_type) => Ok((text.lengths()?, 1)),
        _ => Ok((Numbers::all(0), 1)),
    });
    lengths.collect()
}

/// Returns `true` if values are texts or binary values.
pub fn is_text_or_binary(data_type: &DataType) -> bool {
    data_type.is_string() || data_type.is_binary()
}

fn is_ascii(argument: &Argument) -> bool {
    (0..argument.array.len()).all(|row| argument.text(row).is_none_or(str::is_ascii))
}
