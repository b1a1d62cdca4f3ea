//! Parses the arguments of meta-commands.

use std::path::PathBuf;

/// Parses a text, and removes the quotes around it.
pub fn text(word: &str) -> String {
    let word = word.trim();
    for quote in ['\'', '"'] {
        let inner = word.strip_prefix(quote);
        if let Some(inner) = inner.and_then(|inner| inner.strip_suffix(quote))
            // The double quotes in `"a"."b"` belong to the parts of a qualified name.
            && (quote == '\'' || !inner.contains('"'))
        {
            return match quote {
                '\'' => inner.replace("''", "'"),
                _ => inner.to_owned(),
            };
        }
    }
    word.to_owned()
}

/// Parses a path, which may be in quotes. A leading `~/` stands for the home directory.
pub fn path(word: &str) -> PathBuf {
    let text = text(word);
    let home = text.strip_prefix("~/").zip(etcetera::home_dir().ok());
    match home {
        Some((rest, home)) => home.join(rest),
        None => PathBuf::from(text),
    }
}

/// Parses `on` or `off`, or one of their synonyms such as `yes` and `0`.
pub fn on_or_off(word: &str) -> Result<bool, String> {
    match word.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("'{word}' is neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_taken_off() {
        assert_eq!(text(" 'it''s' "), "it's");
        assert_eq!(text("\"a b\""), "a b");
        assert_eq!(text("\"a\".\"b\""), "\"a\".\"b\"");
        assert_eq!(text("'"), "'");
        assert_eq!(path("a'b"), PathBuf::from("a'b"));
        assert!(path("~/x").is_absolute());
    }
}
