//! Molecules of water in a box that repeats itself; every pair within a cutoff acts on each other (SPLASH-2
//! `water-nsquared`).

use crate::{Job, Scale, checksum};

const MOLECULES: usize = 900;
const STEPS: usize = 4;
/// The share of the box's side up to which molecules act on each other.
const CUTOFF: f64 = 0.45;
/// Each molecule has about as much room as in the liquid, in cubic ångström.
const ROOM: f64 = 30.0;
const STEP: f64 = 0.0005;
const SPRING: f64 = 450.0;
/// Oxygen, and two hydrogens.
const CHARGES: [f64; 3] = [-0.82, 0.41, 0.41];
const MASSES: [f64; 3] = [16.0, 1.0, 1.0];
/// What one charge does to another, in kcal ångström.
const COULOMB: f64 = 332.0;
/// How oxygens repel and attract each other.
const REPULSION: f64 = 629_400.0;
const ATTRACTION: f64 = 625.5;
/// Between an oxygen and a hydrogen, and between two hydrogens, in ångström.
const BONDS: [(usize, usize, f64); 3] = [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.633)];

type Vector = [f64; 3];
type Molecule = [Vector; 3];

#[derive(Clone)]
struct Water {
    side: f64,
    positions: Vec<Molecule>,
    velocities: Vec<Molecule>,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let water = Water::on_a_lattice(scale.side(MOLECULES, 2));
    Box::new(move || {
        let mut water = water.clone();
        let mut energy = 0.0;
        for _ in 0..STEPS {
            energy = water.step();
        }
        checksum(water.positions.iter().flatten().flatten().chain([&energy]).map(|it| it.to_bits()))
    })
}

impl Water {
    fn on_a_lattice(count: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(16);
        let side = (count as f64 * ROOM).cbrt();
        let across = (1..).find(|across| across * across * across >= count).unwrap_or(1);
        let spacing = side / across as f64;
        let molecule = |at: usize| {
            let place = [at % across, at / across % across, at / across / across];
            let oxygen = place.map(|it| (it as f64 + 0.4 + 0.2 * random.f64()) * spacing);
            [[0.0; 3], [0.816_5, 0.577_4, 0.0], [-0.816_5, 0.577_4, 0.0]].map(|by| add(oxygen, by))
        };
        let positions = (0..count).map(molecule).collect();
        Self { side, positions, velocities: vec![[[0.0; 3]; 3]; count] }
    }

    /// Moves all by one step. The energy of position before it.
    fn step(&mut self) -> f64 {
        let (forces, energy) = self.forces();
        for ((molecule, velocities), forces) in self.positions.iter_mut().zip(&mut self.velocities).zip(&forces) {
            for atom in 0..3 {
                for axis in 0..3 {
                    velocities[atom][axis] += STEP * forces[atom][axis] / MASSES[atom];
                    molecule[atom][axis] += STEP * velocities[atom][axis];
                }
            }
        }
        energy
    }

    fn forces(&self) -> (Vec<Molecule>, f64) {
        let mut forces = vec![[[0.0; 3]; 3]; self.positions.len()];
        let mut energy = 0.0;
        for (molecule, forces) in self.positions.iter().zip(&mut forces) {
            energy += within(molecule, forces);
        }
        let cutoff = (CUTOFF * self.side).powi(2);
        for first in 0..self.positions.len() {
            for second in first + 1..self.positions.len() {
                let shift = self.shift(self.positions[first][0], self.positions[second][0]);
                let apart = add(subtract(self.positions[first][0], self.positions[second][0]), shift);
                if squared(apart) < cutoff {
                    energy += self.between(first, second, shift, &mut forces);
                }
            }
        }
        (forces, energy)
    }

    /// What brings the first as near to the second as one of its copies is.
    fn shift(&self, first: Vector, second: Vector) -> Vector {
        subtract(first, second).map(|apart| -self.side * (apart / self.side).round())
    }

    /// All atoms of one molecule with all of another.
    fn between(&self, first: usize, second: usize, shift: Vector, forces: &mut [Molecule]) -> f64 {
        let mut energy = 0.0;
        for a in 0..3 {
            for b in 0..3 {
                let apart = add(subtract(self.positions[first][a], self.positions[second][b]), shift);
                let squared = squared(apart);
                let coulomb = COULOMB * CHARGES[a] * CHARGES[b] / squared.sqrt();
                let mut push = coulomb / squared;
                energy += coulomb;
                if a == 0 && b == 0 {
                    let sixth = 1.0 / (squared * squared * squared);
                    energy += sixth * (REPULSION * sixth - ATTRACTION);
                    push += sixth * (12.0 * REPULSION * sixth - 6.0 * ATTRACTION) / squared;
                }
                for axis in 0..3 {
                    forces[first][a][axis] += push * apart[axis];
                    forces[second][b][axis] -= push * apart[axis];
                }
            }
        }
        energy
    }
}

/// The springs of one molecule.
fn within(molecule: &Molecule, forces: &mut Molecule) -> f64 {
    let mut energy = 0.0;
    for (a, b, length) in BONDS {
        let apart = subtract(molecule[a], molecule[b]);
        let distance = squared(apart).sqrt();
        let stretch = distance - length;
        energy += SPRING * stretch * stretch;
        for axis in 0..3 {
            let pull = 2.0 * SPRING * stretch * apart[axis] / distance;
            forces[a][axis] -= pull;
            forces[b][axis] += pull;
        }
    }
    energy
}

fn add(a: Vector, b: Vector) -> Vector {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn subtract(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn squared(vector: Vector) -> f64 {
    vector.iter().map(|it| it * it).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forces_are_the_slope_of_the_energy() {
        let water = Water::on_a_lattice(20);
        let (forces, _) = water.forces();
        let energy = |molecule: usize, atom: usize, axis: usize, by: f64| {
            let mut moved = water.clone();
            moved.positions[molecule][atom][axis] += by;
            moved.forces().1
        };
        // Of a hydrogen: whether a pair is within the cutoff depends on the oxygens, and the energy jumps there.
        for (molecule, atom, axis) in [(0, 1, 0), (7, 2, 1), (19, 1, 2)] {
            let slope = (energy(molecule, atom, axis, 1e-5) - energy(molecule, atom, axis, -1e-5)) / 2e-5;
            let force = forces[molecule][atom][axis];
            assert!((slope + force).abs() < 1e-4 * (1.0 + force.abs()), "{slope} and {force}");
        }
    }

    #[test]
    fn what_the_molecules_do_to_each_other_adds_up_to_nothing() {
        let (forces, _) = Water::on_a_lattice(40).forces();
        for axis in 0..3 {
            let sum: f64 = forces.iter().flatten().map(|force| force[axis]).sum();
            assert!(sum.abs() < 1e-8, "{sum}");
        }
    }
}
