//! Places the elements of a circuit so that its wires are short, by swaps of which at first also bad ones are kept
//! (PARSEC `canneal`).

use crate::{Job, Scale, checksum};

const ELEMENTS: usize = 200_000;
const INPUTS: usize = 5;
const SWAPS_PER_TEMPERATURE: usize = 15_000;
const TEMPERATURES: usize = 10;
const HOTTEST: f64 = 2000.0;
const COOLING: f64 = 1.5;

type Place = (i32, i32);

struct Circuit {
    /// Of each element those that it is wired to, in either direction.
    wires: Vec<Vec<u32>>,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let (circuit, places) = Circuit::random(scale.of(ELEMENTS));
    let swaps = scale.of(SWAPS_PER_TEMPERATURE);
    Box::new(move || {
        let mut places = places.clone();
        let change = circuit.anneal(&mut places, swaps, TEMPERATURES, &mut fastrand::Rng::with_seed(25));
        let places = places.iter().map(|&(x, y)| (x as u64) << 32 | y as u64);
        checksum(places.chain([change as u64]))
    })
}

impl Circuit {
    /// Most wires are short in the order of the elements; their places are at random.
    fn random(count: usize) -> (Self, Vec<Place>) {
        let mut random = fastrand::Rng::with_seed(24);
        let mut wires = vec![Vec::new(); count];
        for element in 0..count {
            for _ in 0..INPUTS {
                let other = match random.u32(0..10) {
                    0 => random.usize(0..count),
                    _ => (element + random.usize(0..count.min(100))) % count,
                };
                wires[element].push(other as u32);
                wires[other].push(element as u32);
            }
        }
        let across = (count as f64).sqrt().ceil() as usize;
        let mut places: Vec<Place> = (0..count).map(|at| ((at % across) as i32, (at / across) as i32)).collect();
        random.shuffle(&mut places);
        (Self { wires }, places)
    }

    /// What the wires' length changed by.
    fn anneal(&self, places: &mut [Place], swaps: usize, temperatures: usize, random: &mut fastrand::Rng) -> i64 {
        let mut change = 0;
        let mut temperature = HOTTEST;
        for _ in 0..temperatures {
            temperature /= COOLING;
            for _ in 0..swaps {
                let (a, b) = (random.usize(0..places.len()), random.usize(0..places.len()));
                let by = self.change_by_swap(places, a, b);
                if by < 0 || random.f64() < (-(by as f64) / temperature).exp() {
                    places.swap(a, b);
                    change += by;
                }
            }
        }
        change
    }

    fn change_by_swap(&self, places: &[Place], a: usize, b: usize) -> i64 {
        let (at_a, at_b) = (places[a], places[b]);
        let mut change = 0;
        for (element, from, to, other) in [(a, at_a, at_b, b), (b, at_b, at_a, a)] {
            for &wired in &self.wires[element] {
                let wired = wired as usize;
                // A wire between the two stays as long as it is, as does one from an element to itself.
                if wired != other && wired != element {
                    change += distance(to, places[wired]) - distance(from, places[wired]);
                }
            }
        }
        change
    }
}

fn distance(a: Place, b: Place) -> i64 {
    i64::from((a.0 - b.0).abs() + (a.1 - b.1).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(circuit: &Circuit, places: &[Place]) -> i64 {
        let of = |(element, wires): (usize, &Vec<u32>)| -> i64 {
            wires.iter().map(|&other| distance(places[element], places[other as usize])).sum()
        };
        // Each wire is listed at both of its ends.
        circuit.wires.iter().enumerate().map(of).sum::<i64>() / 2
    }

    #[test]
    fn the_change_it_reports_is_that_of_all_wires_and_makes_them_shorter() {
        let (circuit, before) = Circuit::random(500);
        let mut after = before.clone();
        let change = circuit.anneal(&mut after, 20_000, 20, &mut fastrand::Rng::with_seed(1));
        let (long, short) = (length(&circuit, &before), length(&circuit, &after));
        assert_eq!(short - long, change);
        assert!(short < long * 3 / 4, "{long} became {short}");
        let sorted = |mut places: Vec<Place>| {
            places.sort_unstable();
            places
        };
        assert_eq!(sorted(before), sorted(after), "every place has one element still");
    }
}
