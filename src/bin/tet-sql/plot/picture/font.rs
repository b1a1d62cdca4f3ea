//! The font of pictures, which is part of the program: a machine may have none.
//!
//! It is DejaVu Sans without the scripts that names and units rarely use; `font/LICENSE` has its terms.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

static FILE: &[u8] = include_bytes!("../font/DejaVuSans-subset.ttf");
/// What is drawn for characters that the font does not have.
const UNKNOWN: char = '\u{fffd}';

/// The font.
pub struct Font(Face<'static>);

impl Font {
    /// Reads it.
    pub fn new() -> Result<Self, String> {
        let face = Face::parse(FILE, 0).map_err(|error| format!("the font: {error}"))?;
        Ok(Self(face))
    }

    /// Pixels that a text is wide.
    pub fn width(&self, text: &str, size: f64) -> f64 {
        text.chars()
            .map(|c| self.advance(self.glyph(c), size))
            .sum()
    }

    /// Draws the outlines of a text. The builder is told where each letter begins, in pixels, and how many pixels a unit
    /// of its outline has.
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
