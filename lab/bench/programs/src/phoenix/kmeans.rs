//! Groups points around means that move until no point changes its group (Phoenix `kmeans`).

use crate::{Job, Scale, checksum};

const DIMENSIONS: usize = 3;
const MEANS: usize = 50;
const POINTS: usize = 50_000;
/// Coordinates are below this.
const GRID: i32 = 1000;
/// Where the input is large it takes long until nothing changes at all, and other than in time all rounds are alike.
const ROUNDS: usize = 20;

type Point = [i32; DIMENSIONS];

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(2);
    let mut point = || [(); DIMENSIONS].map(|()| random.i32(0..GRID));
    let points: Vec<Point> = (0..scale.of(POINTS).max(MEANS)).map(|_| point()).collect();
    Box::new(move || {
        let (means, clusters) = kmeans(&points, MEANS, ROUNDS);
        checksum(means.iter().flatten().map(|&it| it as u64).chain(clusters.iter().map(|&it| it as u64)))
    })
}

/// The means, and which one each point is nearest to.
fn kmeans(points: &[Point], count: usize, rounds: usize) -> (Vec<Point>, Vec<usize>) {
    let mut means = points[..count].to_vec();
    let mut clusters = vec![usize::MAX; points.len()];
    for _ in 0..rounds {
        if !assign(points, &means, &mut clusters) {
            break;
        }
        move_means(points, &clusters, &mut means);
    }
    (means, clusters)
}

/// Gives each point to its nearest mean. Whether any changed.
fn assign(points: &[Point], means: &[Point], clusters: &mut [usize]) -> bool {
    let mut changed = false;
    for (point, cluster) in points.iter().zip(clusters) {
        let mut nearest = 0;
        let mut least = distance(point, &means[0]);
        for (index, mean) in means.iter().enumerate().skip(1) {
            let distance = distance(point, mean);
            if distance < least {
                (nearest, least) = (index, distance);
            }
        }
        if *cluster != nearest {
            *cluster = nearest;
            changed = true;
        }
    }
    changed
}

fn move_means(points: &[Point], clusters: &[usize], means: &mut [Point]) {
    let mut sums = vec![[0_i64; DIMENSIONS]; means.len()];
    let mut sizes = vec![0; means.len()];
    for (point, &cluster) in points.iter().zip(clusters) {
        for (sum, &coordinate) in sums[cluster].iter_mut().zip(point) {
            *sum += i64::from(coordinate);
        }
        sizes[cluster] += 1;
    }
    for ((mean, sum), &size) in means.iter_mut().zip(&sums).zip(&sizes) {
        if size > 0 {
            *mean = sum.map(|sum| (sum / size) as i32);
        }
    }
}

/// The square of it.
fn distance(a: &Point, b: &Point) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a - b).unsigned_abs().pow(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_that_lie_apart_are_found_with_their_middles() {
        let corners = [[0, 0, 0], [500, 0, 0], [0, 700, 900]];
        let around = [[1, 0, 0], [-1, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 3], [0, 0, -3]];
        let points: Vec<Point> = around
            .iter()
            .flat_map(|by| corners.map(|corner| [corner[0] + by[0], corner[1] + by[1], corner[2] + by[2]]))
            .collect();
        let (means, clusters) = kmeans(&points, 3, 100);
        assert_eq!(means, corners);
        assert!(clusters.iter().enumerate().all(|(point, &cluster)| cluster == point % 3));
    }

    #[test]
    fn at_the_end_no_point_is_nearer_to_another_mean() {
        let mut random = fastrand::Rng::with_seed(7);
        let points: Vec<Point> = (0..500).map(|_| [0; 3].map(|_: i32| random.i32(0..100))).collect();
        let (means, clusters) = kmeans(&points, 5, usize::MAX);
        for (point, &cluster) in points.iter().zip(&clusters) {
            assert!(means.iter().all(|mean| distance(point, mean) >= distance(point, &means[cluster])));
        }
    }
}
