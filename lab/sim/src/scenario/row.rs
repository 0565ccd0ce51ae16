//! What a run says.

use std::fmt;

/// A run's values by name: what varied, its seed, what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    cells: Vec<(String, Cell)>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A number; times are in microseconds.
    Number(f64),
    /// A text.
    Text(String),
}

impl Row {
    pub(super) fn push(&mut self, name: impl Into<String>, cell: Cell) {
        self.cells.push((name.into(), cell));
    }

    pub(super) fn add(&mut self, name: impl Into<String>, number: f64) {
        self.push(name, Cell::Number(number));
    }

    /// Names and values, in the order in which they are shown.
    #[must_use]
    pub fn cells(&self) -> &[(String, Cell)] {
        &self.cells
    }

    /// The number of this name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.cell(name)? {
            Cell::Number(number) => Some(*number),
            Cell::Text(_) => None,
        }
    }

    /// The value of this name.
    #[must_use]
    pub fn cell(&self, name: &str) -> Option<&Cell> {
        self.cells.iter().find(|(of, _)| of == name).map(|(_, cell)| cell)
    }

    /// Why the run was cut, if it was.
    #[must_use]
    pub fn cut(&self) -> Option<&str> {
        match self.cell("cut")? {
            Cell::Text(why) => Some(why.as_str()).filter(|why| !why.is_empty()),
            Cell::Number(_) => None,
        }
    }

    /// The names as a line of CSV.
    #[must_use]
    pub fn csv_head(&self) -> String {
        self.cells.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(",")
    }

    /// The values as a line of CSV.
    #[must_use]
    pub fn csv(&self) -> String {
        self.cells.iter().map(|(_, cell)| quoted(&cell.to_string())).collect::<Vec<_>>().join(",")
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Numbers with six significant digits.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{}", rounded(*number)),
        }
    }
}

/// To six significant digits, whole numbers as they are.
fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() || (number.fract() == 0.0 && number.abs() < 1e15) {
        return number;
    }
    let scale = 10_f64.powf(5.0 - number.abs().log10().floor());
    (number * scale).round() / scale
}
