//! Colours that people with colour vision deficiency can tell apart.

/// Red, green and blue.
pub type Rgb = [u8; 3];

/// Equidistant colours of the map "viridis", from dark to light. Equal steps look equally large.
const VIRIDIS: [Rgb; 9] = [
    [0x44, 0x01, 0x54],
    [0x47, 0x2d, 0x7b],
    [0x3b, 0x52, 0x8b],
    [0x2c, 0x72, 0x8e],
    [0x21, 0x91, 0x8c],
    [0x28, 0xae, 0x80],
    [0x5e, 0xc9, 0x62],
    [0xad, 0xdc, 0x30],
    [0xfd, 0xe7, 0x25],
];

/// The colours of Okabe and Ito, with a brown in place of the yellow, which is too light on white.
pub const LINES: [Rgb; 8] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x00, 0x00, 0x00],
    [0x8c, 0x56, 0x4b],
];

/// Returns the colour of a value from 0, the min, to 1, the max.
pub fn shade(value: f64) -> Rgb {
    let place = value.clamp(0.0, 1.0) * (VIRIDIS.len() - 1) as f64;
    let below = (place as usize).min(VIRIDIS.len() - 2);
    let part = place - below as f64;
    let mix = |channel: usize| {
        let (from, to) = (
            f64::from(VIRIDIS[below][channel]),
            f64::from(VIRIDIS[below + 1][channel]),
        );
        (from + (to - from) * part).round() as u8
    };
    [mix(0), mix(1), mix(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lightness of a colour, from 0 to 1.
    fn lightness([red, green, blue]: Rgb) -> f64 {
        (0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue)) / 255.0
    }

    #[test]
    fn greater_values_are_lighter() {
        let shades: Vec<f64> = (0..=100)
            .map(|step| lightness(shade(f64::from(step) / 100.0)))
            .collect();
        assert!(shades.is_sorted());
        assert!(shades[0] < 0.1 && shades[100] > 0.8);
        assert_eq!(shade(0.0), VIRIDIS[0]);
        assert_eq!(shade(2.0), VIRIDIS[8]);
    }
}
