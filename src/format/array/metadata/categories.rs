//! Text columns stored as codes.
//!
//! When the reference implementation converts CSV or Parquet, it writes a text column as `i64`
//! codes. The attribute `tetration_categories` holds the text of each code as JSON:
//! `{"codes":{"rain":0,"snow":1},"missing":-1}`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

/// Maximum length of a label in bytes.
///
/// An attribute of the reference implementation is at most this long as a whole. Since any row may
/// repeat a label, a longer one would cost far more memory than it takes in the file.
const MAX_LABEL: usize = 1024;
/// Number of characters of a file's text that an error message quotes.
const MAX_QUOTED: usize = 60;
/// Maximum number of characters of a JSON parser's message, which may quote any length of its
/// input.
const MAX_MESSAGE: usize = 200;

/// The texts that the codes of a column stand for, and the code for null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Categories {
    texts: Texts,
    missing: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Texts {
    /// The texts of the codes 0, 1, 2 and so on, which is how the reference implementation counts.
    Dense(Vec<String>),
    /// The texts of any other set of codes.
    Mapped(HashMap<i64, String>),
}

impl Categories {
    /// The name of the attribute that holds the categories.
    pub const ATTRIBUTE: &str = "tetration_categories";

    /// Parses the value of the attribute [`Self::ATTRIBUTE`].
    ///
    /// ```
    /// use tet_sql::format::tet::Categories;
    ///
    /// let categories = Categories::parse(r#"{"codes":{"rain":0,"snow":1},"missing":-1}"#)?;
    /// assert_eq!(categories.text(1), Some("snow"));
    /// assert_eq!(categories.missing(), Some(-1));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// Returns a message if the text is not such an object, if a label or a code occurs twice, or
    /// if a label has the code for null.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::of_parts(&[text])
    }

    /// Returns the categories in a dataset's attributes, or `None` if it has none.
    ///
    /// Categories that are longer than one attribute continue in `tetration_categories_2` and so
    /// on. This is an extension of the format, since an attribute holds at most 1024 bytes.
    pub(crate) fn of(attributes: &BTreeMap<String, String>) -> Option<Result<Self, String>> {
        let mut parts = vec![attributes.get(Self::ATTRIBUTE)?.as_str()];
        while let Some(part) = attributes.get(&Self::attribute(parts.len())) {
            parts.push(part);
        }
        Some(Self::of_parts(&parts))
    }

    /// Returns the name of the attribute that holds the given part, counted from 0.
    fn attribute(part: usize) -> String {
        match part {
            0 => Self::ATTRIBUTE.to_string(),
            part => format!("{}_{}", Self::ATTRIBUTE, part + 1),
        }
    }

    fn of_parts(parts: &[&str]) -> Result<Self, String> {
        let mut codes = BTreeMap::new();
        let mut missing = None;
        for text in parts {
            // serde would also accept an array that lists the struct's fields in order.
            if !text.trim_start().starts_with('{') {
                return Err(format!("{} is not a JSON object", quoted(text)));
            }
            let stored: CategoriesJson =
                serde_json::from_str(text).map_err(|error| clipped(&error.to_string()))?;
            missing = missing.or(stored.missing);
            for (label, code) in stored.codes.0 {
                if codes.contains_key(&label) {
                    return Err(format!("label {} occurs twice", quoted(&label)));
                }
                codes.insert(label, code);
            }
        }
        let mut texts = BTreeMap::new();
        for (label, code) in codes {
            let quoted_label = quoted(&label);
            if label.len() > MAX_LABEL {
                return Err(format!(
                    "label {quoted_label} has {} bytes, more than {MAX_LABEL}",
                    label.len()
                ));
            }
            if missing == Some(code) {
                return Err(format!(
                    "label {quoted_label} has code {code}, which stands for null"
                ));
            }
            if let Some(other) = texts.insert(code, label) {
                return Err(format!(
                    "labels {} and {quoted_label} have the same code, {code}",
                    quoted(&other)
                ));
            }
        }
        // Distinct codes are consecutive if the first is 0 and the last is their count less 1.
        let is_counted = match (texts.first_key_value(), texts.last_key_value()) {
            (Some((0, _)), Some((last, _))) => {
                usize::try_from(*last).is_ok_and(|last| last == texts.len() - 1)
            }
            _ => false,
        };
        Ok(Self {
            texts: if is_counted {
                Texts::Dense(texts.into_values().collect())
            } else {
                Texts::Mapped(texts.into_iter().collect())
            },
            missing,
        })
    }

    /// Encodes texts and their codes as names and values of attributes.
    ///
    /// Each value has at most `most_bytes` bytes, except that a single longer entry gets an
    /// attribute of its own.
    pub(crate) fn encode(
        texts: &BTreeMap<String, i64>,
        missing: i64,
        most_bytes: usize,
    ) -> Vec<(String, String)> {
        let text = |codes: &BTreeMap<&str, i64>| {
            serde_json::json!({ "codes": codes, "missing": missing }).to_string()
        };
        let mut by_code: Vec<_> = texts.iter().map(|(text, code)| (*code, text)).collect();
        by_code.sort_unstable();
        let mut parts = Vec::new();
        let mut codes = BTreeMap::new();
        let mut bytes = text(&codes).len();
        for (code, label) in by_code {
            // A quoted label, a colon, the code and a comma.
            let label_bytes = serde_json::json!(label).to_string().len();
            let more = label_bytes + code.to_string().len() + 2;
            if bytes + more > most_bytes && !codes.is_empty() {
                parts.push(text(&codes));
                codes.clear();
                bytes = text(&codes).len();
            }
            bytes += more;
            codes.insert(label.as_str(), code);
        }
        parts.push(text(&codes));
        let parts = parts.into_iter().enumerate();
        parts
            .map(|(number, text)| (Self::attribute(number), text))
            .collect()
    }

    /// Returns the text of a code, or `None` for the code for null and for unknown codes.
    pub fn text(&self, code: i64) -> Option<&str> {
        match &self.texts {
            Texts::Dense(texts) => texts.get(usize::try_from(code).ok()?),
            Texts::Mapped(texts) => texts.get(&code),
        }
        .map(String::as_str)
    }

    /// Returns the code for null, if there is one.
    pub fn missing(&self) -> Option<i64> {
        self.missing
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        match &self.texts {
            Texts::Dense(texts) => texts.len(),
            Texts::Mapped(texts) => texts.len(),
        }
    }

    /// Returns `true` if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Deserialize)]
struct CategoriesJson {
    codes: Codes,
    missing: Option<i64>,
}

/// The code of each label. Deserializing fails if a label occurs twice.
struct Codes(BTreeMap<String, i64>);

impl<'de> Deserialize<'de> for Codes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CodesVisitor)
    }
}

struct CodesVisitor;

impl<'de> Visitor<'de> for CodesVisitor {
    type Value = Codes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the code of each label")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Codes, A::Error> {
        let mut codes = BTreeMap::new();
        while let Some(label) = entries.next_key::<String>()? {
            if codes.contains_key(&label) {
                let label = quoted(&label);
                return Err(de::Error::custom(format_args!(
                    "label {label} occurs twice"
                )));
            }
            let code = entries.next_value()?;
            codes.insert(label, code);
        }
        Ok(Codes(codes))
    }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn clipped(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let message = Categories::parse(text).unwrap_err();
        assert!(message.len() < 500, "{message}");
        message
    }

    #[test]
    fn many_texts_take_several_attributes() {
        let texts: BTreeMap<String, i64> = (0..100).map(|n| (format!("text \"{n}\""), n)).collect();
        let attributes: BTreeMap<_, _> = Categories::encode(&texts, -1, 200).into_iter().collect();
        assert!(attributes.len() > 8);
        assert!(attributes.values().all(|text| text.len() <= 200));
        let categories = Categories::of(&attributes).unwrap().unwrap();
        assert_eq!((categories.len(), categories.missing()), (100, Some(-1)));
        assert!(
            texts
                .iter()
                .all(|(text, code)| categories.text(*code) == Some(text))
        );
        assert!(Categories::of(&BTreeMap::new()).is_none());
    }

    #[test]
    fn codes_that_count_from_zero() {
        let text = r#"{"codes":{"b":1,"a":2,"Sa\u00f1o \"x\"":0},"missing":-1}"#;
        let categories = Categories::parse(text).unwrap();
        assert!(matches!(categories.texts, Texts::Dense(_)));
        assert_eq!(categories.text(0), Some("Sa\u{f1}o \"x\""));
        assert_eq!(categories.text(1), Some("b"));
        assert_eq!(categories.text(2), Some("a"));
        for code in [-1, 3, i64::MIN, i64::MAX] {
            assert_eq!(categories.text(code), None);
        }
        assert_eq!(categories.missing(), Some(-1));
        assert_eq!(categories.len(), 3);
    }

    #[test]
    fn other_codes() {
        let text = format!(r#"{{"codes":{{"a":{},"b":{},"":7}}}}"#, i64::MAX, i64::MIN);
        let categories = Categories::parse(&text).unwrap();
        assert!(matches!(categories.texts, Texts::Mapped(_)));
        assert_eq!(categories.text(i64::MAX), Some("a"));
        assert_eq!(categories.text(i64::MIN), Some("b"));
        assert_eq!(categories.text(7), Some(""));
        assert_eq!(categories.text(0), None);
        assert_eq!((categories.missing(), categories.len()), (None, 3));
    }

    #[test]
    fn none_at_all_and_members_of_later_versions() {
        let text = "\n{\"codes\": {}, \"missing\": null, \"ordered\": [true]}";
        let categories = Categories::parse(text).unwrap();
        assert!(categories.is_empty());
        assert_eq!((categories.text(0), categories.missing()), (None, None));
    }

    #[test]
    fn ambiguous_categories_are_refused() {
        for (text, message) in [
            (
                r#"{"codes":{"a":0,"b":0}}"#,
                "labels \"a\" and \"b\" have the same code, 0",
            ),
            (r#"{"codes":{"a":0,"a":1}}"#, "label \"a\" occurs twice"),
            (
                r#"{"missing":0,"codes":{"a":0}}"#,
                "label \"a\" has code 0, which stands for null",
            ),
            (r#"{"codes":{},"codes":{}}"#, "duplicate field `codes`"),
            (r#"{"missing":-1}"#, "missing field `codes`"),
        ] {
            let found = refused(text);
            assert!(found.starts_with(message), "{found}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "null",
            r#"[{"a":0},-1]"#,
            r#"{"codes":["a","b"]}"#,
            r#"{"codes":{"a":1.0}}"#,
            r#"{"codes":{"a":1e0}}"#,
            r#"{"codes":{"a":"0"}}"#,
            r#"{"codes":{"a":null}}"#,
            r#"{"codes":{"a":true}}"#,
            r#"{"codes":{"a":9223372036854775808}}"#,
            r#"{"codes":{"a":99999999999999999999999999}}"#,
            r#"{"codes":{"a":0},"missing":0.5}"#,
            r#"{"codes":{"a":0},"missing":"-1"}"#,
            r#"{"codes":{"a":0}} x"#,
            r#"{"codes":{"a":0}"#,
            r#"{"codes":{"\ud800":0}}"#,
        ] {
            refused(text);
        }
    }

    #[test]
    fn hostile_text_costs_no_more_than_its_length() {
        let deep = "[".repeat(1 << 20);
        refused(&deep);
        refused(&format!(r#"{{"codes":{{"a":{deep}"#));
        refused(&format!(r#"{{"codes":{deep}"#));
        refused(&format!(r#"{{"other":{deep}"#));
        let objects = r#"{"codes":"#.repeat(1 << 18);
        refused(&objects);
        let long = "\u{e9}".repeat(1 << 20);
        refused(&long);
        refused(&format!(r#"{{"codes":{{"a":"{long}"}}}}"#));
        refused(&format!(r#"{{"codes":{{"{long}":0}}}}"#));
        refused(&format!(r#"{{"codes":{{"{long}":0,"{long}":1}}}}"#));
        let huge = format!(r#"{{"codes":{{"a":{}}}}}"#, "9".repeat(1 << 20));
        refused(&huge);
    }

    #[test]
    fn many_labels() {
        let entries: Vec<_> = (0..100_000)
            .map(|code| format!("\"{code}\":{code}"))
            .collect();
        let text = format!(r#"{{"codes":{{{}}},"missing":-1}}"#, entries.join(","));
        let categories = Categories::parse(&text).unwrap();
        assert_eq!(categories.text(99_999), Some("99999"));
        assert_eq!(categories.len(), 100_000);
    }
}
