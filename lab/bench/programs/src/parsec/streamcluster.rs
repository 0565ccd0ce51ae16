//! Opens centres among points so that the way of all points to their centres, and what centres cost, is short: local
//! search as for the k-median problem (PARSEC `streamcluster`).

use crate::{Job, Scale, checksum};

const POINTS: usize = 600;
const DIMENSIONS: usize = 32;
/// How many centres there should be.
const CENTRES: std::ops::RangeInclusive<usize> = 10..=20;
/// A search at one price goes on while it gains at least this share.
const LEAST_GAIN: f64 = 0.1;
const MOST_PRICES: usize = 6;

struct Points {
    dimensions: usize,
    coordinates: Vec<f32>,
}

/// Some points are centres, the others are assigned to them.
#[derive(Clone, Debug, PartialEq)]
struct Solution {
    /// Of each point the centre, which is a point itself.
    centre: Vec<usize>,
    /// Of each point the distance to it.
    distance: Vec<f64>,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(22);
    let coordinates = (0..scale.of(POINTS) * DIMENSIONS).map(|_| random.f32()).collect();
    let points = Points { dimensions: DIMENSIONS, coordinates };
    Box::new(move || {
        let solution = k_median(&points, &mut fastrand::Rng::with_seed(23));
        let distances = solution.distance.iter().map(|it| it.to_bits());
        checksum(solution.centre.iter().map(|&centre| centre as u64).chain(distances))
    })
}

impl Points {
    fn count(&self) -> usize {
        self.coordinates.len() / self.dimensions
    }

    fn point(&self, index: usize) -> &[f32] {
        &self.coordinates[index * self.dimensions..][..self.dimensions]
    }

    /// The square of it.
    fn distance(&self, a: usize, b: usize) -> f64 {
        f64::from(self.point(a).iter().zip(self.point(b)).map(|(a, b)| (a - b) * (a - b)).sum::<f32>())
    }
}

impl Solution {
    /// Opens the first point, and others the more likely the farther they are from all that are open (Meyerson).
    fn first(points: &Points, price: f64, random: &mut fastrand::Rng) -> Self {
        let mut solution = Self { centre: vec![0; points.count()], distance: vec![0.0; points.count()] };
        for index in 0..points.count() {
            solution.distance[index] = points.distance(index, 0);
        }
        for index in 1..points.count() {
            if random.f64() < solution.distance[index] / price {
                for other in 0..points.count() {
                    let distance = points.distance(index, other);
                    if distance < solution.distance[other] {
                        (solution.centre[other], solution.distance[other]) = (index, distance);
                    }
                }
            }
        }
        solution
    }

    fn is_open(&self, index: usize) -> bool {
        self.centre[index] == index
    }

    fn open(&self) -> usize {
        (0..self.centre.len()).filter(|&index| self.is_open(index)).count()
    }

    fn cost(&self, price: f64) -> f64 {
        self.distance.iter().sum::<f64>() + price * self.open() as f64
    }

    /// Opens a point as a centre and closes those that are then not worth their price, if that gains anything. What it
    /// gained.
    fn try_opening(&mut self, candidate: usize, points: &Points, price: f64) -> f64 {
        // What it would cost those that stay with each centre to go to the candidate instead.
        let mut closing = vec![0.0; points.count()];
        let mut switching = vec![None; points.count()];
        let mut change = if self.is_open(candidate) { 0.0 } else { price };
        for index in 0..points.count() {
            let distance = points.distance(index, candidate);
            let more = distance - self.distance[index];
            if more < 0.0 {
                switching[index] = Some(distance);
                change += more;
            } else {
                closing[self.centre[index]] += more;
            }
        }
        let closes: Vec<bool> = (0..points.count())
            .map(|centre| centre != candidate && self.is_open(centre) && closing[centre] < price)
            .collect();
        change += (0..points.count()).filter(|&it| closes[it]).map(|centre| closing[centre] - price).sum::<f64>();
        if change >= 0.0 {
            return 0.0;
        }
        for index in 0..points.count() {
            if switching[index].is_some() || closes[self.centre[index]] {
                let distance = switching[index].unwrap_or_else(|| points.distance(index, candidate));
                (self.centre[index], self.distance[index]) = (candidate, distance);
            }
        }
        -change
    }

    /// Tries points in a random order until a round gains little.
    fn search(&mut self, points: &Points, price: f64, random: &mut fastrand::Rng) {
        let mut candidates: Vec<usize> = (0..points.count()).collect();
        loop {
            random.shuffle(&mut candidates);
            let before = self.cost(price);
            let gain: f64 = candidates.iter().map(|&candidate| self.try_opening(candidate, points, price)).sum();
            if gain <= LEAST_GAIN * before {
                return;
            }
        }
    }
}

/// Looks for the price at which there are about as many centres as wanted, by halving.
fn k_median(points: &Points, random: &mut fastrand::Rng) -> Solution {
    let mut dearest: f64 = (0..points.count()).map(|index| points.distance(index, 0)).sum();
    let mut cheapest = 0.0;
    let mut solution = Solution::first(points, dearest / 2.0, random);
    for _ in 0..MOST_PRICES {
        let price = (cheapest + dearest) / 2.0;
        solution = Solution::first(points, price, random);
        solution.search(points, price, random);
        match solution.open() {
            few if few < *CENTRES.start() => dearest = price,
            many if many > *CENTRES.end() => cheapest = price,
            _ => break,
        }
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scattered(count: usize) -> Points {
        let mut random = fastrand::Rng::with_seed(3);
        Points { dimensions: 4, coordinates: (0..count * 4).map(|_| random.f32()).collect() }
    }

    #[test]
    fn what_opening_a_centre_gains_is_what_the_cost_falls_by() {
        let points = scattered(200);
        let mut random = fastrand::Rng::with_seed(4);
        let mut solution = Solution::first(&points, 5.0, &mut random);
        for candidate in 0..points.count() {
            let before = solution.cost(2.0);
            let gain = solution.try_opening(candidate, &points, 2.0);
            assert!((before - solution.cost(2.0) - gain).abs() < 1e-9);
        }
        assert!(solution.centre.iter().all(|&centre| solution.is_open(centre)));
    }

    #[test]
    fn heaps_that_lie_apart_get_a_centre_each() {
        let mut random = fastrand::Rng::with_seed(5);
        let heap = |at: usize| (at % 12) as f32 * 10.0;
        let coordinates = (0..240).flat_map(|at| [heap(at) + random.f32(), heap(at) - random.f32()]).collect();
        let points = Points { dimensions: 2, coordinates };
        let mut solution = Solution::first(&points, 50.0, &mut random);
        solution.search(&points, 50.0, &mut random);
        assert_eq!(solution.open(), 12);
        assert!((0..240).all(|at| solution.centre[at] % 12 == at % 12));
    }
}
