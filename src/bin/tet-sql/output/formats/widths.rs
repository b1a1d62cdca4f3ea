//! Chooses the columns of a table that are shown, and their widths.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Marks text and columns that are left out.
pub const ELLIPSIS: &str = "…";
/// The width below which texts are not shortened as long as columns can be left out instead.
const MIN_TEXT_WIDTH: usize = 12;

/// A column of a table with the widths of its texts.
pub struct Column {
    /// The text above the column.
    pub name: String,
    /// The width of the name, or 0 if names are not shown.
    pub name_width: usize,
    /// The width of the widest value.
    pub values_width: usize,
    /// `true` if the values are numbers.
    pub is_number: bool,
}

impl Column {
    /// Returns the width of the widest text of the column.
    pub fn width(&self) -> usize {
        self.values_width.max(self.name_width)
    }

    /// Returns the width below which the column is not shortened as long as columns can be left out
    /// instead. Numbers keep their full width, because a shortened number would be a different
    /// number.
    fn min_width(&self) -> usize {
        match self.is_number {
            true => self.values_width.max(MIN_TEXT_WIDTH.min(self.width())),
            false => self.width().min(MIN_TEXT_WIDTH),
        }
    }
}

/// Chooses columns and widths that fit into the available width. Shortens long texts first, then
/// leaves out columns in the middle, and shortens everything if nothing else helps.
///
/// Returns the indices of the shown columns with their widths. A `None` stands for the columns that
/// are left out.
pub fn fit(columns: &[Column], available: Option<usize>) -> Vec<Option<(usize, usize)>> {
    let mut widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let whole = |widths: Vec<usize>| widths.into_iter().enumerate().map(Some).collect();
    let Some(available) = available else {
        return whole(widths);
    };
    cut(&mut widths, available, |column| columns[column].min_width());
    if table_width(&widths) <= available {
        return whole(widths);
    }
    // The columns on the left usually identify a row and those on the right hold its results, so
    // columns in the middle are left out.
    let count = columns.len();
    for shown in (2..count).rev() {
        let (left, right) = (shown.div_ceil(2), shown / 2);
        let kept: Vec<usize> = (0..left).chain(count - right..count).collect();
        let mut kept_widths: Vec<usize> = kept.iter().map(|&column| widths[column]).collect();
        if table_width(&kept_widths) + ELLIPSIS.width() + 3 > available && shown > 2 {
            continue;
        }
        cut(&mut kept_widths, available - 4.min(available), |_| 1);
        let mut shown: Vec<_> = kept.into_iter().zip(kept_widths).map(Some).collect();
        shown.insert(left, None);
        return shown;
    }
    cut(&mut widths, available, |_| 1);
    whole(widths)
}

/// Narrows the widest columns until the table fits, or every column has its minimum width.
fn cut(widths: &mut [usize], available: usize, min: impl Fn(usize) -> usize) {
    let capped = |widths: &[usize], cap: usize| -> Vec<usize> {
        let widths = widths.iter().enumerate();
        widths
            .map(|(column, width)| *width.min(&cap.max(min(column))))
            .collect()
    };
    let has_place = |cap: usize| table_width(&capped(widths, cap)) <= available;
    // A value may be a million characters long, so a binary search finds the largest cap that fits.
    let (mut narrow, mut wide) = (0, widths.iter().max().copied().unwrap_or(0));
    while narrow < wide {
        let middle = (narrow + wide).div_ceil(2);
        match has_place(middle) {
            true => narrow = middle,
            false => wide = middle - 1,
        }
    }
    widths.copy_from_slice(&capped(widths, narrow));
}

/// Returns the width of a table, with a border around each column and a space on both sides of each
/// value.
fn table_width(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + 3).sum::<usize>() + 1
}

/// Returns the width of the widest line of a text.
pub fn text_width(text: &str) -> usize {
    text.split('\n').map(str::width).max().unwrap_or(0)
}

/// Shortens a text to at most this width.
pub fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return text.into();
    }
    let mut left = width.saturating_sub(ELLIPSIS.width());
    let end = text.char_indices().find(|(_, character)| {
        let wide = character.width().unwrap_or(0);
        let is_over = wide > left;
        left = left.saturating_sub(wide);
        is_over
    });
    let kept = end.map_or(text, |(end, _)| &text[..end]);
    format!("{kept}{ELLIPSIS}").into()
}
