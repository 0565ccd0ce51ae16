//! Tables for terminals.

use std::fmt;

/// What a table shows where nothing was measured.
pub const MISSING: &str = "–";

/// Rows of text under headings. The first column is aligned to the left, the others, which hold numbers, to the right.
#[derive(Clone, Debug)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Self {
        Self { headings: headings.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells that are missing stay empty, cells beyond the last heading are left out.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.headings.len(), String::new());
        self.rows.push(cells);
    }

    /// Sets the rows after this apart from those before it, if there are any.
    pub fn gap(&mut self) {
        if self.rows.last().is_some_and(|row| !row.is_empty()) {
            self.rows.push(Vec::new());
        }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(Vec::is_empty)
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|heading| heading.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        write_row(out, &self.headings, &widths)?;
        writeln!(out, "{}", "─".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)))?;
        let shown = self.rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
        self.rows[..shown].iter().try_for_each(|row| write_row(out, row, &widths))
    }
}

fn write_row(out: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize]) -> fmt::Result {
    let mut line = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        match index {
            0 => line.push_str(&format!("{cell:<width$}")),
            _ => line.push_str(&format!("  {cell:>width$}")),
        }
    }
    writeln!(out, "{}", line.trim_end())
}

/// A number with three significant digits, or as many as its whole part has: `0.0123`, `1.23`, `12.3`, `1234`.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { MISSING.to_owned() };
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_line_up_on_the_right_and_names_on_the_left() {
        let mut table = Table::new(["system", "p50"]);
        table.row(["fifo", "1.5"]);
        table.gap();
        table.row(["least-laxity", "11.5"]);
        let expected = "system         p50\n──────────────────\nfifo           1.5\n\nleast-laxity  11.5\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown = [0.0, 0.012_345, 1.234_5, 12.345, 123.45, 12_345.6, f64::NAN].map(significant);
        assert_eq!(shown, ["0", "0.0123", "1.23", "12.3", "123", "12346", "–"]);
    }
}
