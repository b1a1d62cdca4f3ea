//! The font of pictures, built into the program because a machine may have no fonts.
//!
//! The font is DejaVu Sans without the scripts that names and units rarely use. `font/LICENSE` has
//! its terms.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

static FILE: &[u8] = include_bytes!("../font/DejaVuSans-subset.ttf");
/// The replacement for characters that the font lacks.
const UNKNOWN: char = '\u{fffd}';

/// The built-in font.
pub struct Font(Face<'static>);

impl Font {
    /// Parses the built-in font.
    pub fn new() -> Result<Self, String> {
        let face = Face::parse(FILE, 0).map_err(|error| format!("the font: {error}"))?;
        Ok(Self(face))
    }

    /// Returns the width of a text in pixels.
    pub fn width(&self, text: &str, size: f64) -> f64 {
        text.chars()
            .map(|c| self.advance(self.glyph(c), size))
            .sum()
    }

    /// Passes the outlines of a text to `builder`. Before each letter, `place` gets the builder,
    /// the x offset of the letter in pixels and the number of pixels per font unit.
    pub fn draw<B: OutlineBuilder>(
        &self,
        text: &str,
        size: f64,
        builder: &mut B,
        place: impl Fn(&mut B, f64, f64),
    ) {
        let mut x = 0.0;
        for c in text.chars() {
            let glyph = self.glyph(c);
            place(builder, x, self.scale(size));
            self.0.outline_glyph(glyph, builder);
            x += self.advance(glyph, size);
        }
    }

    fn glyph(&self, c: char) -> GlyphId {
        let known = self
            .0
            .glyph_index(c)
            .or_else(|| self.0.glyph_index(UNKNOWN));
        known.unwrap_or_default()
    }

    fn advance(&self, glyph: GlyphId, size: f64) -> f64 {
        f64::from(self.0.glyph_hor_advance(glyph).unwrap_or_default()) * self.scale(size)
    }

    fn scale(&self, size: f64) -> f64 {
        size / f64::from(self.0.units_per_em())
    }
}
