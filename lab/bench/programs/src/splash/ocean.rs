//! Relaxes a grid towards the solution of Laplace's equation, red points and black ones in turns: what most of the time
//! goes into in a simulation of currents (SPLASH-2 `ocean`).

use crate::{Job, Scale, checksum};

const SIDE: usize = 514;
const SWEEPS: usize = 180;
const RELAXATION: f64 = 1.15;

pub(crate) fn prepare(scale: Scale) -> Job {
    let side = scale.side(SIDE, 2).max(3);
    let mut random = fastrand::Rng::with_seed(15);
    let grid: Vec<f64> = (0..side * side).map(|_| random.f64()).collect();
    Box::new(move || {
        let mut grid = grid.clone();
        let mut change = 0.0;
        for _ in 0..SWEEPS {
            change = sweep(&mut grid, side);
        }
        checksum(grid.into_iter().chain([change]).map(f64::to_bits))
    })
}

/// Relaxes every inner point once. How much they changed in all.
fn sweep(grid: &mut [f64], side: usize) -> f64 {
    let mut changes = 0.0;
    for colour in 0..2 {
        for row in 1..side - 1 {
            let first = 1 + (row + colour) % 2;
            for column in (first..side - 1).step_by(2) {
                let at = row * side + column;
                let around = grid[at - side] + grid[at + side] + grid[at - 1] + grid[at + 1];
                let change = RELAXATION * (around / 4.0 - grid[at]);
                grid[at] += change;
                changes += change.abs();
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_a_harmonic_border_the_grid_becomes_harmonic() {
        let side = 24;
        let harmonic = |at: usize| {
            let (x, y) = ((at % side) as f64, (at / side) as f64);
            x * x - y * y + 3.0 * x * y + 2.0 * x - y
        };
        let border = |at: usize| [0, side - 1].contains(&(at % side)) || [0, side - 1].contains(&(at / side));
        let mut grid: Vec<f64> = (0..side * side).map(|at| if border(at) { harmonic(at) } else { 0.0 }).collect();
        while sweep(&mut grid, side) > 1e-9 {}
        assert!(grid.iter().enumerate().all(|(at, &value)| (value - harmonic(at)).abs() < 1e-6));
    }
}
