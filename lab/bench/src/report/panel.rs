//! The frame of a plot: axes, marks, grid and title, as SVG.
//!
//! Colours come from the page's style sheet (`.s0` to `.s5` are the systems), so that a plot is dark on a dark page and
//! black on paper. A panel is as wide as a phone, which keeps its text legible there; wide screens get several in a row.

use super::scale::{Scale, Tick};

const WIDTH: f64 = 360.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 38.0;
/// Height under the plot: the marks' labels, and the title of the axis if there is one.
const LABELS: f64 = 20.0;
const AXIS_TITLE: f64 = 15.0;

/// What an axis shows.
pub(super) struct Axis<'a> {
    pub(super) scale: Scale,
    pub(super) title: &'a str,
    pub(super) label: fn(f64) -> String,
    /// Where marks are, if not where the scale would have them.
    pub(super) at: Option<Vec<f64>>,
}

impl<'a> Axis<'a> {
    pub(super) fn new(scale: Scale, title: &'a str, label: fn(f64) -> String) -> Self {
        Self { scale, title, label, at: None }
    }

    fn ticks(&self) -> Vec<Tick> {
        match &self.at {
            Some(values) => values.iter().map(|&value| Tick { value, major: true }).collect(),
            None => self.scale.ticks(),
        }
    }
}

/// A plot under construction.
pub(super) struct Panel {
    x: Scale,
    y: Scale,
    height: f64,
    right: f64,
    bottom: f64,
    head: String,
    marks: String,
    /// Drawn over everything else.
    words: String,
}

impl Panel {
    /// A frame of this height with room for `right` units of text at the right edge.
    pub(super) fn new(title: &str, x: &Axis<'_>, y: &Axis<'_>, height: f64, right: f64) -> Self {
        let bottom = LABELS + if x.title.is_empty() { 0.0 } else { AXIS_TITLE };
        let [head, marks, words] = [const { String::new() }; 3];
        let mut panel = Self { x: x.scale, y: y.scale, height, right, bottom, head, marks, words };
        panel.head = format!(
            "<svg class=panel viewBox=\"0 0 {WIDTH} {height}\" role=img aria-label=\"{title}\">\
             <text class=title x=0 y=12>{title}</text>",
            title = escape(title)
        );
        panel.draw_x(x);
        panel.draw_y(y);
        panel
    }

    /// Where a point of the plot lies in the picture.
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (width, height) = self.size();
        (LEFT + self.x.position(x) * width, TOP + (1.0 - self.y.position(y)) * height)
    }

    /// Width and height of the plotting area.
    pub(super) fn size(&self) -> (f64, f64) {
        (WIDTH - LEFT - self.right, self.height - TOP - self.bottom)
    }

    /// The plotting area: left, top, right, bottom.
    pub(super) fn area(&self) -> [f64; 4] {
        let (width, height) = self.size();
        [LEFT, TOP, LEFT + width, TOP + height]
    }

    /// Adds SVG in the picture's own coordinates.
    pub(super) fn draw(&mut self, svg: &str) {
        self.marks.push_str(svg);
    }

    /// Draws a line through points of the plot.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let path = path(points.iter().map(|&(x, y)| self.at(x, y)));
        self.marks.push_str(&format!("<path class=\"line {class}\" d=\"{path}\"/>"));
    }

    /// Draws a line across the plot at `x`, with a word at its lower end, and returns the area that the word takes.
    pub(super) fn upright(&mut self, x: f64, word: &str) -> [f64; 4] {
        let [left, top, right, bottom] = self.area();
        let (at, _) = self.at(x, 0.0);
        let width = word.chars().count() as f64 * 5.6;
        let begin = if at + width + 4.0 > right { (at - width - 4.0).max(left) } else { at + 4.0 };
        let base = bottom - 5.0;
        self.marks.push_str(&format!("<path class=deadline d=\"M{at:.1} {top}V{bottom}\"/>"));
        self.words.push_str(&format!("<text class=\"note halo\" x={begin:.1} y={base:.1}>{}</text>", escape(word)));
        [begin, base - 9.0, begin + width, base + 2.0]
    }

    /// The picture.
    pub(super) fn finish(self) -> String {
        format!("{}{}{}</svg>", self.head, self.marks, self.words)
    }

    fn draw_x(&mut self, axis: &Axis<'_>) {
        let [_, top, right, bottom] = self.area();
        for tick in axis.ticks() {
            let (x, _) = self.at(tick.value, 0.0);
            let class = if tick.major { "grid" } else { "grid minor" };
            self.head.push_str(&format!("<path class=\"{class}\" d=\"M{x:.1} {top}V{bottom}\"/>"));
            if tick.major {
                let label = (axis.label)(tick.value);
                let half = label.chars().count() as f64 * 3.2;
                let (y, x) = (bottom + 13.0, x.min(WIDTH - half));
                self.head.push_str(&format!("<text class=tick text-anchor=middle x={x:.1} y={y:.1}>{label}</text>"));
            }
        }
        let (x, y) = (right, self.height - 6.0);
        self.head
            .push_str(&format!("<text class=axis text-anchor=end x={x:.1} y={y:.1}>{}</text>", escape(axis.title)));
    }

    fn draw_y(&mut self, axis: &Axis<'_>) {
        let [left, _, right, bottom] = self.area();
        for tick in axis.ticks() {
            let (_, y) = self.at(0.0, tick.value);
            let class = match tick.major {
                _ if y > bottom - 0.5 => "base",
                true => "grid",
                false => "grid minor",
            };
            self.head.push_str(&format!("<path class=\"{class}\" d=\"M{left} {y:.1}H{right}\"/>"));
            if tick.major {
                let (label, x, y) = ((axis.label)(tick.value), left - 6.0, y + 3.5);
                self.head.push_str(&format!("<text class=tick text-anchor=end x={x} y={y:.1}>{label}</text>"));
            }
        }
        self.head.push_str(&format!("<text class=axis x=0 y=25>{}</text>", escape(axis.title)));
    }
}

/// The path of a line, points that add nothing left out.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    let mut drawn: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if let [.., before, last] = drawn[..]
            && is_straight(before, last, point)
        {
            drawn.pop();
        }
        drawn.push(point);
    }
    for (index, (x, y)) in drawn.into_iter().enumerate() {
        path.push(if index == 0 { 'M' } else { 'L' });
        path.push_str(&format!("{x:.1} {y:.1}"));
    }
    path
}

fn is_straight(a: (f64, f64), b: (f64, f64), c: (f64, f64)) -> bool {
    ((b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0)).abs() < 0.1 && (b.0 - a.0) * (c.0 - b.0) >= 0.0
}

/// Text as it may stand in HTML and SVG, attributes included.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_straight_line_are_left_out() {
        let path = path([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 0.0)].into_iter());
        assert_eq!(path, "M0.0 0.0L2.0 2.0L3.0 0.0");
    }

    #[test]
    fn no_name_can_break_out_of_the_page() {
        assert_eq!(escape("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
    }
}
