//! Names beside lines, where there is room for them.

use super::panel::escape;

/// A line's name and the points of the picture that it runs through.
pub(super) struct Labelled<'a> {
    pub(super) text: &'a str,
    pub(super) class: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Height of a line of text, and the mean width of a letter.
const HEIGHT: f64 = 11.0;
const LETTER: f64 = 6.0;
/// How far a name is set off from its line, and from any other at least.
const GAP: f64 = 4.0;

#[derive(Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// Names set beside their lines within `area` (left, top, right, bottom), each where the other lines are farthest. A
/// name for which there is no room is left out: the key above the plots has them all.
pub(super) fn beside(lines: &[Labelled<'_>], area: [f64; 4], taken: &[[f64; 4]]) -> String {
    let mut svg = String::new();
    let mut placed: Vec<Area> =
        taken.iter().map(|&[left, top, right, bottom]| Area { left, top, right, bottom }).collect();
    for (index, line) in lines.iter().enumerate() {
        let width = line.text.chars().count() as f64 * LETTER;
        let spots = dense(&line.points).into_iter().flat_map(|at| around(at, width));
        let scored = spots.filter(|spot| spot.is_within(area)).map(|spot| (spot, room(&spot, index, lines, &placed)));
        let best = scored.max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((spot, _)) = best.filter(|(_, room)| *room >= GAP) {
            let (x, y) = (spot.left, spot.bottom - 2.5);
            svg.push_str(&format!(
                "<text class=\"name halo {}\" x={x:.1} y={y:.1}>{}</text>",
                line.class,
                escape(line.text)
            ));
            placed.push(spot);
        }
    }
    svg
}

/// Names in a column at the right edge, each at the height of its line's end or as near as the others allow.
pub(super) fn at_the_end(lines: &[Labelled<'_>], x: f64, top: f64, bottom: f64) -> String {
    let mut ends: Vec<(f64, &Labelled<'_>)> =
        lines.iter().filter_map(|line| Some((line.points.last()?.1, line))).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted: Vec<f64> = ends.iter().map(|end| end.0).collect();
    let mut svg = String::new();
    for ((_, line), y) in ends.iter().zip(spread(&wanted, HEIGHT + 1.0, top, bottom)) {
        let y = y + 3.5;
        svg.push_str(&format!(
            "<text class=\"name halo {}\" x={x:.1} y={y:.1}>{}</text>",
            line.class,
            escape(line.text)
        ));
    }
    svg
}

/// Places in ascending order, `apart` from each other and as near to the wanted ones as that allows.
fn spread(wanted: &[f64], apart: f64, top: f64, bottom: f64) -> Vec<f64> {
    // Groups of spots that touch: where the first is, and how many there are. A group sits where its members want it
    // to on average; groups that would overlap become one.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for &want in wanted {
        let mut group = (want, 1);
        while let Some(&(first, count)) = groups.last()
            && first + count as f64 * apart > group.0
        {
            groups.pop();
            let shifted = group.0 - count as f64 * apart;
            let all = count + group.1;
            group = ((first * count as f64 + shifted * group.1 as f64) / all as f64, all);
        }
        let most = bottom - (group.1 - 1) as f64 * apart;
        group.0 = group.0.min(most).max(top);
        groups.push(group);
    }
    groups.into_iter().flat_map(|(first, count)| (0..count).map(move |n| first + n as f64 * apart)).collect()
}

/// The boxes in which a name may stand at a point of its line.
fn around((x, y): (f64, f64), width: f64) -> [Area; 4] {
    let at = |left: f64, top: f64| Area { left, top, right: left + width, bottom: top + HEIGHT };
    let left = x - width - GAP - 1.0;
    [at(x + GAP + 1.0, y - HEIGHT / 2.0), at(left, y - HEIGHT / 2.0), at(left, y - HEIGHT - GAP), at(x + GAP, y + GAP)]
}

/// How far a spot is from everything that it must not touch, its own line included but for the gap.
fn room(spot: &Area, own: usize, lines: &[Labelled<'_>], placed: &[Area]) -> f64 {
    let names = placed.iter().map(|other| spot.distance_to(other));
    let others = lines.iter().enumerate().flat_map(|(index, line)| {
        // A name may be nearer to its own line than to others, but not on it.
        let weight = if index == own { 3.0 } else { 1.0 };
        dense(&line.points)
            .into_iter()
            .map(move |(x, y)| weight * spot.distance_to(&Area { left: x, top: y, right: x, bottom: y }))
    });
    names.chain(others).fold(f64::INFINITY, f64::min)
}

/// Points of a line, none farther than a few units from the next.
fn dense(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut dense = Vec::new();
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let steps = ((b.0 - a.0).hypot(b.1 - a.1) / 5.0).ceil().max(1.0);
        let part = |n: usize| (a.0 + (b.0 - a.0) * n as f64 / steps, a.1 + (b.1 - a.1) * n as f64 / steps);
        dense.extend((0..steps as usize).map(part));
    }
    dense.extend(points.last());
    dense
}

impl Area {
    fn is_within(&self, [left, top, right, bottom]: [f64; 4]) -> bool {
        self.left >= left && self.right <= right && self.top >= top && self.bottom <= bottom
    }

    fn distance_to(&self, other: &Self) -> f64 {
        let x = (other.left - self.right).max(self.left - other.right).max(0.0);
        let y = (other.top - self.bottom).max(self.top - other.bottom).max(0.0);
        x.hypot(y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_overlap_move_apart_and_stay_within() {
        assert_eq!(spread(&[10.0, 50.0], 12.0, 0.0, 100.0), [10.0, 50.0]);
        assert_eq!(spread(&[50.0, 50.0, 50.0], 12.0, 0.0, 100.0), [38.0, 50.0, 62.0]);
        assert_eq!(spread(&[99.0, 100.0], 12.0, 0.0, 100.0), [88.0, 100.0]);
        assert_eq!(spread(&[0.0, 1.0], 12.0, 0.0, 100.0), [0.0, 12.0]);
    }

    #[test]
    fn a_name_without_room_is_left_out() {
        let line =
            |class: &str| Labelled { text: "edf", class: class.to_owned(), points: vec![(0.0, 5.0), (30.0, 5.0)] };
        let names = |area| beside(&[line("a")], area, &[]);
        assert!(names([0.0, 0.0, 60.0, 60.0]).contains("edf"));
        assert!(names([0.0, 0.0, 8.0, 8.0]).is_empty());
    }
}
