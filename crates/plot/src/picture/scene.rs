//! A picture as marks on a plane, independent of the file format.

use crate::palette::Rgb;

/// The alignment of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text starts at the point.
    Start,
    /// The text is centred on the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// One mark. Lengths are in pixels from the upper left corner.
#[derive(Debug, Clone)]
pub enum Mark {
    /// A filled rectangle.
    Box {
        left: f64,
        top: f64,
        width: f64,
        height: f64,
        colour: Rgb,
    },
    /// A line through points.
    Line {
        points: Vec<(f64, f64)>,
        colour: Rgb,
        width: f64,
        /// The length of dashes and gaps.
        dash: Option<f64>,
    },
    /// A filled circle.
    Dot {
        at: (f64, f64),
        radius: f64,
        colour: Rgb,
    },
    /// A line of text on its baseline.
    Text {
        at: (f64, f64),
        text: String,
        size: f64,
        anchor: Anchor,
        /// `true` if the text reads from bottom to top.
        is_upright: bool,
        colour: Rgb,
    },
    /// A grid of cells of one size, row by row from the upper left. `None` is transparent.
    Image {
        left: f64,
        top: f64,
        width: f64,
        height: f64,
        columns: usize,
        pixels: Vec<Option<Rgb>>,
    },
}

/// The tooltips of an HTML page.
#[derive(Debug, Clone)]
pub enum Hover {
    /// The text at the x coordinate nearest to the pointer.
    Across(Vec<(f64, String)>),
    /// The text at the y coordinate nearest to the pointer.
    Down(Vec<(f64, String)>),
    /// The values of the cell under the pointer.
    Cells {
        /// The bounds of the columns in pixels: one more than `x_texts`, the labels of their
        /// centres.
        x_edges: Vec<f64>,
        x_texts: Vec<String>,
        /// The bounds of the rows in pixels: one more than `y_texts`, the labels of their centres.
        /// Rows go from top to bottom or from bottom to top.
        y_edges: Vec<f64>,
        y_texts: Vec<String>,
        /// The value of each cell, row by row.
        values: Vec<Option<f64>>,
        /// The names of x, y and the value.
        names: [String; 3],
        /// The unit of the value.
        unit: String,
    },
}

/// A picture.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The width in pixels.
    pub width: f64,
    /// The height in pixels.
    pub height: f64,
    /// The marks, in drawing order: later marks cover earlier ones.
    pub marks: Vec<Mark>,
    /// The left, top, width and height of the plot area.
    pub plot: [f64; 4],
    /// A description of the picture, for its title.
    pub description: String,
    /// The tooltips.
    pub hover: Hover,
}
