//! Draws the rules and rows of tables.

use std::io::{self, Write};
use std::str::Split;

use anstyle::Effects;
use unicode_width::UnicodeWidthStr;

use crate::output::formats::widths::{ELLIPSIS, shortened};

/// The characters that a table is drawn with.
pub(super) struct Border {
    /// The left, inner and right corners of the rules above, inside and below the table.
    pub corners: [[&'static str; 3]; 3],
    pub horizontal: &'static str,
    pub vertical: &'static str,
    /// Marks rows that are left out.
    pub gap: &'static str,
}

pub(super) const LINES: Border = Border {
    corners: [["┌", "┬", "┐"], ["├", "┼", "┤"], ["└", "┴", "┘"]],
    horizontal: "─",
    vertical: "│",
    gap: "⋮",
};
pub(super) const ASCII: Border = Border {
    corners: [["+"; 3]; 3],
    horizontal: "-",
    vertical: "|",
    gap: "...",
};

/// A column that is shown.
pub(super) struct ShownColumn {
    pub column: usize,
    pub width: usize,
    pub is_right: bool,
    /// `true` if values may be shortened. A shortened number would be a different number.
    pub is_cut: bool,
}

/// Draws the rules and rows of a table.
pub(super) struct Canvas<W> {
    pub border: &'static Border,
    /// `true` if text may be dimmed or bold.
    pub is_styled: bool,
    pub sink: W,
}

/// The lines of a value that are not drawn yet.
struct Cell<'a> {
    lines: Split<'a, char>,
    width: usize,
    is_right: bool,
    is_cut: bool,
    effects: Effects,
}

impl<W: Write> Canvas<W> {
    /// Draws the rule above (0), inside (1) or below (2) the table.
    pub fn rule(&mut self, shown: &[Option<ShownColumn>], which: usize) -> io::Result<()> {
        let [left, between, right] = self.border.corners[which];
        let widths = shown
            .iter()
            .map(|column| column.as_ref().map_or(1, |column| column.width));
        let parts: Vec<_> = widths
            .map(|width| self.border.horizontal.repeat(width + 2))
            .collect();
        writeln!(self.sink, "{left}{}{right}", parts.join(between))
    }

    /// Draws a row, on as many lines as its tallest value has. `value` returns the text of a
    /// column, its style, and `true` if it may be shortened. The columns that are left out have the
    /// style `left_out`.
    pub fn row<'a>(
        &mut self,
        shown: &[Option<ShownColumn>],
        left_out: Effects,
        value: impl Fn(&ShownColumn) -> (&'a str, Effects, bool),
    ) -> io::Result<()> {
        let cells = shown.iter().map(|column| {
            let (text, effects, is_cut) =
                column.as_ref().map_or((ELLIPSIS, left_out, false), &value);
            Cell {
                lines: text.split('\n'),
                width: column.as_ref().map_or(1, |column| column.width),
                is_right: column.as_ref().is_some_and(|column| column.is_right),
                is_cut,
                effects,
            }
        });
        let mut cells: Vec<Cell> = cells.collect();
        let height = cells.iter().map(|cell| cell.lines.clone().count()).max();
        let vertical = self.border.vertical;
        for _ in 0..height.unwrap_or(1) {
            for cell in &mut cells {
                let text = cell.lines.next().unwrap_or_default();
                let text = match cell.is_cut {
                    true => shortened(text, cell.width),
                    false => text.into(),
                };
                let space = cell.width.saturating_sub(text.width());
                let (before, after) = if cell.is_right {
                    (space, 0)
                } else {
                    (0, space)
                };
                let style = self.style(cell.effects);
                write!(
                    self.sink,
                    "{vertical} {style}{}{text}{}{style:#} ",
                    " ".repeat(before),
                    " ".repeat(after),
                )?;
            }
            writeln!(self.sink, "{vertical}")?;
        }
        Ok(())
    }

    pub fn style(&self, effects: Effects) -> anstyle::Style {
        let effects = if self.is_styled {
            effects
        } else {
            Effects::new()
        };
        anstyle::Style::new().effects(effects)
    }
}
