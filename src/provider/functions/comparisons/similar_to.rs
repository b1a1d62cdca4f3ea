//! The patterns of `SIMILAR TO` as regular expressions.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The function that translates patterns which are not constant: `tet_similar_pattern(pattern, escape)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SimilarPattern {
    signature: Signature,
}

impl SimilarPattern {
    /// The name of the function.
    pub const NAME: &str = "tet_similar_pattern";

    /// Creates the function.
    pub fn new() -> Self {
        let texts = vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];
        Self {
            signature: Signature::uniform(2, texts, Volatility::Immutable),
        }
    }
}

impl Default for SimilarPattern {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalarUDFImpl for SimilarPattern {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [patterns, escape] = take_function_args(self.name(), &arguments.args)?;
        let ColumnarValue::Scalar(escape) = escape else {
            return exec_err!("SIMILAR TO: the escape character is not constant");
        };
        let escape = escape.try_as_str().flatten();
        let Some(escape) = escape.and_then(|escape| escape.chars().next()) else {
            return exec_err!("SIMILAR TO: there is no escape character");
        };
        let is_scalar = matches!(patterns, ColumnarValue::Scalar(_));
        let patterns = cast(&patterns.to_array(1)?, &DataType::Utf8)?;
        let patterns = patterns.as_string::<i32>().iter();
        let translated = patterns.map(|pattern| {
            pattern
                .map(|pattern| regular_expression(pattern, escape))
                .transpose()
        });
        let translated: ArrayRef = Arc::new(translated.collect::<Result<StringArray>>()?);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&translated, 0)?),
            false => ColumnarValue::Array(translated),
        })
    }
}

/// Returns the regular expression that matches the same texts as a pattern of `SIMILAR TO`, from the first to the last
/// character:
///
/// ```text
///  a%        ^(?s:a.*)$
///  (a|b)_    ^(?s:(?:a|b).)$
///  1.5       ^(?s:1\.5)$
/// ```
///
/// # Errors
/// Fails if a bracket or a parenthesis is not closed or not opened, or nothing follows the escape character.
pub fn regular_expression(pattern: &str, escape: char) -> Result<String> {
    let mut translated = Translation {
        pattern,
        rest: pattern.chars().peekable(),
        escape,
        expression: String::from("^(?s:"),
    };
    let mut depth = 0usize;
    while let Some(next) = translated.rest.next() {
        match next {
            _ if next == escape => {
                let plain = translated.escaped()?;
                translated.push_plain(plain);
            }
            '%' => translated.expression.push_str(".*"),
            '_' => translated.expression.push('.'),
            '[' => translated.push_set()?,
            '(' => {
                depth += 1;
                translated.expression.push_str("(?:");
            }
            ')' => {
                // An unopened bracket would close the group of the whole expression.
                let Some(outer) = depth.checked_sub(1) else {
                    return exec_err!("SIMILAR TO '{pattern}': a parenthesis is not opened");
                };
                depth = outer;
                translated.expression.push(')');
            }
            '|' | '*' | '+' | '?' | '{' | '}' => translated.expression.push(next),
            plain => translated.push_plain(plain),
        }
    }
    if depth > 0 {
        return exec_err!("SIMILAR TO '{pattern}': a parenthesis is not closed");
    }
    translated.expression.push_str(")$");
    Ok(translated.expression)
}

struct Translation<'a> {
    pattern: &'a str,
    rest: Peekable<Chars<'a>>,
    escape: char,
    expression: String,
}

impl Translation<'_> {
    /// Appends a character that has no meaning of its own.
    fn push_plain(&mut self, plain: char) {
        let mut buffer = [0; 4];
        let plain = regex::escape(plain.encode_utf8(&mut buffer));
        self.expression.push_str(&plain);
    }

    /// Returns the character after the escape character.
    fn escaped(&mut self) -> Result<char> {
        self.rest.next().ok_or_else(|| {
            exec_datafusion_err!(
                "SIMILAR TO '{}': nothing follows the escape character",
                self.pattern
            )
        })
    }

    /// Appends a set of characters, such as `[a-z_]` or `[^[:digit:]]`, whose opening bracket was read.
    fn push_set(&mut self) -> Result<()> {
        self.expression.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.expression.push('^');
        }
        let mut is_first = true;
        loop {
            // A closing bracket in front is a member.
            if !is_first && self.rest.next_if_eq(&']').is_some() {
                self.expression.push(']');
                return Ok(());
            }
            is_first = false;
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('[') && ahead.next() == Some(':') {
                self.rest = ahead;
                self.push_class()?;
                continue;
            }
            let start = self.member()?;
            self.push_plain(start);
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && ahead.next().is_some_and(|end| end != ']') {
                self.rest.next();
                let end = self.member()?;
                self.expression.push('-');
                self.push_plain(end);
            }
        }
    }

    /// Appends a class of characters, such as `[:alpha:]`, whose first colon was read.
    fn push_class(&mut self) -> Result<()> {
        self.expression.push_str("[:");
        loop {
            match self.rest.next() {
                Some(letter) if letter.is_ascii_alphabetic() => self.expression.push(letter),
                Some(':') if self.rest.next_if_eq(&']').is_some() => {
                    self.expression.push_str(":]");
                    return Ok(());
                }
                _ => return Err(self.unclosed()),
            }
        }
    }

    /// Returns the next member of a set.
    fn member(&mut self) -> Result<char> {
        match self.rest.next() {
            Some(next) if next == self.escape => self.escaped(),
            Some(next) => Ok(next),
            None => Err(self.unclosed()),
        }
    }

    fn unclosed(&self) -> DataFusionError {
        exec_datafusion_err!(
            "SIMILAR TO '{}': a square bracket is not closed",
            self.pattern
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_translated() {
        for (pattern, expected) in [
            ("", "^(?s:)$"),
            ("a%_", "^(?s:a.*.)$"),
            ("(ab|c)+", "^(?s:(?:ab|c)+)$"),
            ("a{2,3}b*c?", "^(?s:a{2,3}b*c?)$"),
            ("1.5^$", r"^(?s:1\.5\^\$)$"),
            (r"\%\(\\", r"^(?s:%\(\\)$"),
            ("[a-c%]", "^(?s:[a-c%])$"),
            ("[^[:digit:]-]", r"^(?s:[^[:digit:]\-])$"),
            ("[]&&[]", r"^(?s:[\]\&\&\[])$"),
            ("[+--]", r"^(?s:[\+-\-])$"),
            (r"[\]a]", r"^(?s:[\]a])$"),
        ] {
            let found = regular_expression(pattern, '\\').unwrap();
            assert_eq!(found, expected, "{pattern}");
            assert!(regex::Regex::new(&found).is_ok(), "{found}");
        }
        assert_eq!(regular_expression("#%\\", '#').unwrap(), r"^(?s:%\\)$");
        for (pattern, message) in [
            ("a)|(b", "not opened"),
            ("(a", "not closed"),
            ("[a", "square bracket is not closed"),
            ("[[:alpha]", "square bracket is not closed"),
            ("a\\", "nothing follows"),
        ] {
            let error = regular_expression(pattern, '\\').unwrap_err().to_string();
            assert!(error.contains(message), "{pattern}: {error}");
        }
    }
}
