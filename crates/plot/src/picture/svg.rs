//! Writes a scene as SVG.

use super::png;
use super::scene::{Anchor, Mark, Scene};
use crate::palette::Rgb;
use std::fmt::Write;

/// The fonts, starting with those whose letters are as wide as the font that measured the texts.
const FONTS: &str = "DejaVu Sans, Verdana, Geneva, sans-serif";

/// Returns an SVG document, which can also be embedded in HTML.
pub fn text(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FONTS}\">\n"
    );
    // Writing to a string does not fail.
    let _ = writeln!(text, "<title>{}</title>", escaped(&scene.description));
    let _ = writeln!(
        text,
        "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"
    );
    for mark in &scene.marks {
        let _ = add(&mut text, mark);
    }
    text.push_str("</svg>\n");
    text
}

fn add(svg: &mut String, mark: &Mark) -> std::fmt::Result {
    match mark {
        Mark::Box {
            left,
            top,
            width,
            height,
            colour,
        } => writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
            short(*left),
            short(*top),
            short(*width),
            short(*height),
            hex(*colour)
        ),
        Mark::Line {
            points,
            colour,
            width,
            dash,
        } => {
            write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"",
                hex(*colour)
            )?;
            if let Some(dash) = dash {
                write!(svg, " stroke-dasharray=\"{dash} {dash}\"")?;
            }
            write!(svg, " stroke-linejoin=\"round\" points=\"")?;
            for (number, (x, y)) in points.iter().enumerate() {
                let space = if number == 0 { "" } else { " " };
                write!(svg, "{space}{},{}", short(*x), short(*y))?;
            }
            writeln!(svg, "\"/>")
        }
        Mark::Dot { at, radius, colour } => writeln!(
            svg,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"{}\"/>",
            short(at.0),
            short(at.1),
            hex(*colour)
        ),
        Mark::Text {
            at,
            text,
            size,
            anchor,
            is_upright,
            colour,
        } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let (x, y) = (short(at.0), short(at.1));
            write!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{}\"",
                hex(*colour)
            )?;
            if *is_upright {
                write!(svg, " transform=\"rotate(-90 {x} {y})\"")?;
            }
            writeln!(svg, ">{}</text>", escaped(text))
        }
        Mark::Image {
            left,
            top,
            width,
            height,
            columns,
            pixels,
        } => {
            let image = png::image(*columns, pixels);
            writeln!(
                svg,
                "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
                 style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>",
                short(*left),
                short(*top),
                short(*width),
                short(*height),
                base64(&image)
            )
        }
    }
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Rounds a length to a hundredth of a pixel.
fn short(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}

/// Escapes text for XML. Control characters, which XML forbids, have already been replaced.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Encodes bytes as Base64 with padding (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit <= three.len() {
                char::from(DIGITS[value as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // Test vectors of RFC 4648, section 10.
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn texts_are_no_markup() {
        assert_eq!(
            escaped("<a b=\"c\"> & d"),
            "&lt;a b=&quot;c&quot;&gt; &amp; d"
        );
    }
}
