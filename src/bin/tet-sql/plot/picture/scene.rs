//! A picture as marks on a plane, whatever it is written as.

use crate::plot::palette::Rgb;

/// Where a text stands to the point that it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Behind it.
    Start,
    /// Around it.
    Middle,
    /// In front of it.
    End,
}

/// One mark. Lengths are in pixels of a screen, from the upper left corner.
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
        /// Dashes of this length.
        dash: Option<f64>,
    },
    /// A filled circle.
    Dot {
        at: (f64, f64),
        radius: f64,
        colour: Rgb,
    },
    /// A line of text on its base line.
    Text {
        at: (f64, f64),
        text: String,
        size: f64,
        anchor: Anchor,
        /// It is read from bottom to top.
        is_upright: bool,
        colour: Rgb,
    },
    /// Rectangles of one size, row by row from the upper left. None: there is none.
    Image {
        left: f64,
        top: f64,
        width: f64,
        height: f64,
        columns: usize,
        pixels: Vec<Option<Rgb>>,
    },
}

/// What a page tells about the place under the pointer.
#[derive(Debug, Clone)]
pub enum Hover {
    /// About the nearest place from left to right.
    Across(Vec<(f64, String)>),
    /// About the nearest place from top to bottom.
    Down(Vec<(f64, String)>),
    /// About a cell.
    Cells {
        /// Where columns begin, and where the last ends, with the texts of their middles.
        x_edges: Vec<f64>,
        x_texts: Vec<String>,
        /// The same of rows, from the bottom up or from the top down.
        y_edges: Vec<f64>,
        y_texts: Vec<String>,
        /// Row by row.
        values: Vec<Option<f64>>,
        /// What x, y and value are called.
        names: [String; 3],
        /// What the value is in.
        unit: String,
    },
}

/// A picture.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Pixels from left to right.
    pub width: f64,
    /// Pixels from top to bottom.
    pub height: f64,
    /// Later ones lie on top.
    pub marks: Vec<Mark>,
    /// Left, top, width and height of what is between the axes.
    pub plot: [f64; 4],
    /// What it shows, in words.
    pub description: String,
    /// What it tells.
    pub hover: Hover,
}
