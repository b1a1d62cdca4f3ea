//! A grid of dots, several of which share a character.

/// The bit of each dot of a Braille character, by column and row.
const BRAILLE: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
/// The characters of four quadrants. Bits 0 to 3 are the upper left, lower left, upper right and
/// lower right quadrant.
const QUADRANTS: [char; 16] = [
    ' ', '▘', '▖', '▌', '▝', '▀', '▞', '▛', '▗', '▚', '▄', '▙', '▐', '▜', '▟', '█',
];

/// A grid of dots, each of which is empty or belongs to a line.
pub struct Dots {
    width: usize,
    height: usize,
    dots: Vec<Option<u8>>,
}

impl Dots {
    /// Creates an empty grid.
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            dots: vec![None; width * height],
        }
    }

    /// Returns the column and row of a dot. `x` and `y` go from 0 at the left and bottom to 1.
    pub fn place(&self, x: f64, y: f64) -> (i64, i64) {
        let (last_column, last_row) = ((self.width - 1) as f64, (self.height - 1) as f64);
        let column = (x.clamp(0.0, 1.0) * last_column).round();
        let row = ((1.0 - y.clamp(0.0, 1.0)) * last_row).round();
        (column as i64, row as i64)
    }

    /// Draws straight segments between successive dots, for the line with index `number`.
    pub fn line(&mut self, places: &[(i64, i64)], number: usize) {
        if let [only] = places {
            self.set(*only, number);
        }
        for pair in places.windows(2) {
            let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
            let steps = (to_x - x).abs().max((to_y - y).abs()).max(1);
            for step in 0..=steps {
                let along = |from: i64, to: i64| {
                    let part = (to - from) as f64 * step as f64 / steps as f64;
                    from + part.round() as i64
                };
                self.set((along(x, to_x), along(y, to_y)), number);
            }
        }
    }

    fn set(&mut self, (column, row): (i64, i64), number: usize) {
        let inside =
            |place: i64, size: usize| usize::try_from(place).ok().filter(|place| *place < size);
        if let (Some(column), Some(row)) = (inside(column, self.width), inside(row, self.height)) {
            self.dots[row * self.width + column] = Some(number as u8);
        }
    }

    /// Returns the dots of one character, one bit per dot and column by column, and the lowest
    /// index of their lines.
    pub fn cell(&self, column: usize, row: usize, wide: usize, high: usize) -> (u32, usize) {
        let mut bits = 0;
        let mut number = u8::MAX;
        for x in 0..wide {
            for y in 0..high {
                if let Some(line) = self.dots[(row + y) * self.width + column + x] {
                    bits |= 1 << (x * high + y);
                    number = number.min(line);
                }
            }
        }
        (bits, usize::from(number))
    }
}

/// Returns the Braille character for two columns and four rows of dots.
pub fn braille(bits: u32) -> char {
    let dots = (0..8).filter(|dot| bits & (1 << dot) != 0);
    let all = dots.map(|dot| BRAILLE[dot / 4][dot % 4]).sum::<u32>();
    char::from_u32(0x2800 + all).unwrap_or(' ')
}

/// Returns the block character for two columns and two rows of dots.
pub fn quadrants(bits: u32) -> char {
    QUADRANTS[(bits & 15) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_become_characters() {
        let mut dots = Dots::new(4, 4);
        dots.line(&[(0, 3), (3, 0)], 2);
        assert_eq!(dots.cell(0, 0, 2, 4), (0b0100_1000, 2));
        assert_eq!(braille(dots.cell(0, 0, 2, 4).0), '⡠');
        assert_eq!(braille(dots.cell(2, 0, 2, 4).0), '⠊');
        assert_eq!(quadrants(dots.cell(0, 2, 2, 2).0), '▞');
        assert_eq!(braille(0xff), '⣿');
    }
}
