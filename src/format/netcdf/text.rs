//! Arrays of characters: the strings of a variable, and the codes that stand for them.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::Categories;
use crate::format::netcdf::attributes::{Encoding, without_padding};

/// Maximum length of a string in bytes.
const MAX_TEXT: usize = 1024;
/// Maximum number of distinct strings of a variable, which are kept in memory.
const MAX_TEXTS: usize = 65_536;
/// Maximum number of bytes of strings in a file, which are read when the file is opened.
const MAX_BYTES: u64 = 32 << 20;
/// Maximum number of variables in a file of which every possible character gets a code.
const MAX_WHOLE: u32 = 256;
/// The code of null strings.
const MISSING: i64 = -1;
/// Marks a character without a code.
const UNASSIGNED: i16 = i16::MIN;

/// The codes of the strings of a variable.
#[derive(Debug)]
pub(super) enum Codes {
    /// The code of each byte, for single characters.
    Characters(Box<[i16; 256]>),
    /// The code of each string as stored, without padding.
    Texts(HashMap<Vec<u8>, i64>),
}

/// The unused part of the limits on the strings of a file. The variables of a short file can all claim the
/// same bytes.
pub(super) struct Budget {
    bytes: u64,
    whole: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: MAX_BYTES,
            whole: MAX_WHOLE,
        }
    }
}

/// A limit that the strings of a variable exceed.
pub(super) struct Exceeded {
    pub field: &'static str,
    pub found: u64,
    pub most: u64,
}

impl Exceeded {
    fn new(field: &'static str, found: usize, most: usize) -> Self {
        Self {
            field,
            found: found as u64,
            most: most as u64,
        }
    }
}

/// Assigns codes to strings in the order of first appearance.
pub(super) struct NewCodes {
    encoding: Encoding,
    codes: Codes,
    texts: BTreeMap<String, i64>,
    /// The number of strings that have the code for null.
    null_texts: i64,
}

impl NewCodes {
    /// Creates codes for strings of `width` bytes. The strings `nulls` have the code for null.
    ///
    /// # Errors
    /// Fails if the strings are too long.
    pub fn new(width: u64, encoding: Encoding, nulls: &[String]) -> Result<Self, Exceeded> {
        if width > MAX_TEXT as u64 {
            return Err(Exceeded {
                field: "length of strings",
                found: width,
                most: MAX_TEXT as u64,
            });
        }
        let codes = match width {
            1 => Codes::Characters(Box::new([UNASSIGNED; 256])),
            _ => Codes::Texts(HashMap::new()),
        };
        let texts: BTreeMap<_, _> = nulls.iter().map(|text| (text.clone(), MISSING)).collect();
        Ok(Self {
            encoding,
            codes,
            null_texts: texts.len() as i64,
            texts,
        })
    }

    /// Assigns a code to a string as stored.
    ///
    /// # Errors
    /// Fails if there are too many strings, or the string is too long.
    pub fn add(&mut self, stored: &[u8]) -> Result<(), Exceeded> {
        if self.codes.of(stored).is_some() {
            return Ok(());
        }
        // A string in UTF-8 and another in Latin-1 may be the same text.
        let text = self.encoding.text(stored);
        if text.len() > MAX_TEXT {
            return Err(Exceeded::new("length of a string", text.len(), MAX_TEXT));
        }
        let next = self.texts.len() as i64 - self.null_texts;
        let code = *self.texts.entry(text).or_insert(next);
        match &mut self.codes {
            Codes::Characters(codes) => {
                if let [byte] = stored {
                    // There are at most 256 characters.
                    codes[usize::from(*byte)] = code as i16;
                }
            }
            Codes::Texts(codes) if codes.len() == MAX_TEXTS => {
                let field = "number of distinct strings";
                return Err(Exceeded::new(field, MAX_TEXTS + 1, MAX_TEXTS));
            }
            Codes::Texts(codes) => {
                codes.insert(without_padding(stored).to_vec(), code);
            }
        }
        Ok(())
    }

    /// Returns `true` if strings of `bytes` bytes in all must be read to assign their codes. Of very
    /// many single characters, every possible one gets a code instead.
    ///
    /// # Errors
    /// Fails if the strings are too many to be read when the file is opened.
    pub fn must_read(&mut self, bytes: u64, budget: &mut Budget) -> Result<bool, Exceeded> {
        if let Some(left) = budget.bytes.checked_sub(bytes) {
            budget.bytes = left;
            return Ok(true);
        }
        if matches!(self.codes, Codes::Characters(_)) && budget.whole > 0 {
            budget.whole -= 1;
            (0..=u8::MAX).try_for_each(|byte| self.add(&[byte]))?;
            return Ok(false);
        }
        Err(Exceeded {
            field: "size of strings",
            found: bytes,
            most: budget.bytes,
        })
    }

    /// Returns the codes, and the attributes that hold the string of each.
    pub fn finish(mut self) -> (Codes, Vec<(String, String)>) {
        self.texts.retain(|_, code| *code != MISSING);
        let attributes = Categories::encode(&self.texts, MISSING, MAX_TEXT);
        (self.codes, attributes)
    }
}

impl Codes {
    /// Returns the code of a string as stored, or `None` if it has none.
    fn of(&self, stored: &[u8]) -> Option<i64> {
        match (self, stored) {
            (Self::Characters(codes), [byte]) => {
                let code = codes[usize::from(*byte)];
                (code != UNASSIGNED).then_some(code.into())
            }
            (Self::Characters(_), _) => None,
            (Self::Texts(codes), stored) => codes.get(without_padding(stored)).copied(),
        }
    }

    /// Appends the codes of strings of `width` bytes to `cells`.
    ///
    /// # Errors
    /// Fails if a string has no code, because the file was changed after it was opened.
    pub fn push(
        &self,
        stored: &[u8],
        width: u64,
        cells: &mut Vec<u8>,
        location: impl Fn() -> ErrorLocation,
    ) -> Result<()> {
        for text in stored.chunks_exact(width as usize) {
            let Some(code) = self.of(text) else {
                let found = format!("\"{}\"", without_padding(text).escape_ascii());
                let expected = "a string that the file had when it was opened";
                return Err(Error::malformed(location(), "string", found, expected));
            };
            cells.extend(code.to_le_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn categories(attributes: Vec<(String, String)>) -> Categories {
        Categories::of(&attributes.into_iter().collect())
            .unwrap()
            .unwrap()
    }

    fn new_codes(width: u64, encoding: Encoding) -> NewCodes {
        NewCodes::new(width, encoding, &[]).ok().unwrap()
    }

    #[test]
    fn strings_have_codes_by_first_appearance() {
        let mut codes = new_codes(3, Encoding::Utf8);
        let stored = b"b\0\0a\0\0b\0\0\0\0\0\xc3\xa9\0\xe9\0\0";
        for text in stored.chunks(3) {
            assert!(codes.add(text).is_ok());
        }
        let (codes, attributes) = codes.finish();
        let categories = categories(attributes);
        let mut cells = Vec::new();
        let location = || ErrorLocation::file("a".as_ref());
        codes.push(stored, 3, &mut cells, location).unwrap();
        let texts = cells.as_chunks::<8>().0.iter();
        let texts = texts.map(|code| categories.text(i64::from_le_bytes(*code)).unwrap());
        assert_eq!(
            texts.collect::<Vec<_>>(),
            ["b", "a", "b", "", "\u{e9}", "\u{e9}"]
        );
        assert_eq!(categories.missing(), Some(-1));
        codes.push(b"zzz", 3, &mut cells, location).unwrap_err();
    }

    #[test]
    fn single_characters_have_a_code_per_byte() {
        let mut codes = new_codes(1, Encoding::Utf8);
        let budget = &mut Budget::default();
        assert!(codes.must_read(MAX_BYTES, budget).ok().unwrap());
        assert!(!codes.must_read(1, budget).ok().unwrap());
        let (codes, attributes) = codes.finish();
        let categories = categories(attributes);
        let text = |byte| categories.text(codes.of(&[byte]).unwrap()).unwrap();
        assert_eq!(categories.len(), 256);
        assert_eq!((text(b'a'), text(0), text(0xe9)), ("a", "", "\u{e9}"));
    }

    #[test]
    fn missing_strings_have_the_code_for_null() {
        for (width, stored) in [(1, b"a-b-".as_slice()), (2, b"a\0-\0b\0-\0")] {
            let missing = ["-", "-", "?"].map(str::to_string);
            let codes = NewCodes::new(width, Encoding::Utf8, &missing);
            let mut codes = codes.ok().unwrap();
            for text in stored.chunks(width as usize) {
                assert!(codes.add(text).is_ok());
            }
            let (codes, attributes) = codes.finish();
            let texts = stored.chunks(width as usize).map(|text| codes.of(text));
            assert_eq!(texts.flatten().collect::<Vec<_>>(), [0, -1, 1, -1]);
            assert_eq!(categories(attributes).len(), 2);
        }
    }

    #[test]
    fn limits() {
        assert!(NewCodes::new(1025, Encoding::Utf8, &[]).is_err());
        let mut codes = new_codes(600, Encoding::Latin1);
        assert!(codes.add(&[0xe9; 600]).is_err());
        for number in 0..MAX_TEXTS {
            assert!(codes.add(&number.to_be_bytes()).is_ok());
        }
        assert!(codes.add(b"another").is_err());
        assert!(codes.add(&[0; 8]).is_ok());
        let budget = &mut Budget::default();
        assert!(codes.must_read(MAX_BYTES + 1, budget).is_err());
        assert!(codes.must_read(MAX_BYTES, budget).is_ok());
    }
}
