//! Bodies that attract each other; those far away act as one (Barnes and Hut; SPLASH-2 `barnes`).

use crate::{Job, Scale, checksum};

const BODIES: usize = 12_000;
const STEPS: usize = 2;
const STEP: f64 = 0.025;
/// A cell acts as one body where its side is less than this share of its distance.
const OPENING: f64 = 1.0;
/// Keeps near bodies from flinging each other away.
const SOFTENING: f64 = 0.05;
/// Bodies nearer to each other than cells of this depth can tell share one.
const DEEPEST: u32 = 48;

type Vector = [f64; 3];

#[derive(Clone, Copy, Debug)]
struct Body {
    mass: f64,
    position: Vector,
    velocity: Vector,
}

/// A part of space with bodies in it.
enum Node {
    Leaf(Vec<usize>),
    Cell(Box<Cell>),
}

struct Cell {
    children: [Option<Node>; 8],
    mass: f64,
    /// Where its mass seems to be.
    position: Vector,
}

/// Where a node lies.
#[derive(Clone, Copy)]
struct Space {
    centre: Vector,
    side: f64,
    depth: u32,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let bodies = sphere(scale.of(BODIES));
    Box::new(move || {
        let mut bodies = bodies.clone();
        (0..STEPS).for_each(|_| step(&mut bodies));
        checksum(bodies.iter().flat_map(|body| body.position).map(f64::to_bits))
    })
}

/// Bodies that lie the closer the nearer they are to the middle.
fn sphere(count: usize) -> Vec<Body> {
    let mut random = fastrand::Rng::with_seed(14);
    let mut body = || loop {
        let position = [(); 3].map(|()| random.f64() * 2.0 - 1.0);
        let distance = norm(position);
        if distance < 1.0 {
            let velocity = [-0.3 * position[1], 0.3 * position[0], 0.0];
            return Body { mass: 1.0 / count as f64, position: position.map(|it| it * distance), velocity };
        }
    };
    (0..count).map(|_| body()).collect()
}

fn step(bodies: &mut [Body]) {
    let space = space_of(bodies);
    let mut root = Node::Leaf(Vec::new());
    for body in 0..bodies.len() {
        root.insert(body, bodies, space);
    }
    root.weigh(bodies);
    let forces: Vec<Vector> =
        (0..bodies.len()).map(|body| root.acceleration(body, bodies, space.side, OPENING)).collect();
    for (body, force) in bodies.iter_mut().zip(forces) {
        for ((velocity, position), force) in body.velocity.iter_mut().zip(&mut body.position).zip(force) {
            *velocity += STEP * force;
            *position += STEP * *velocity;
        }
    }
}

/// The cube around all bodies.
fn space_of(bodies: &[Body]) -> Space {
    let far = bodies.iter().flat_map(|body| body.position).fold(0.0, |far: f64, it| far.max(it.abs()));
    Space { centre: [0.0; 3], side: 2.0 * far + f64::EPSILON, depth: 0 }
}

impl Space {
    /// Which of the eight parts a position is in, and that part.
    fn part(self, position: Vector) -> (usize, Self) {
        let mut index = 0;
        let mut centre = self.centre;
        for axis in 0..3 {
            if position[axis] >= self.centre[axis] {
                index |= 1 << axis;
                centre[axis] += self.side / 4.0;
            } else {
                centre[axis] -= self.side / 4.0;
            }
        }
        (index, Self { centre, side: self.side / 2.0, depth: self.depth + 1 })
    }
}

impl Node {
    fn insert(&mut self, body: usize, bodies: &[Body], space: Space) {
        if let Self::Leaf(inside) = self {
            if inside.is_empty() || space.depth == DEEPEST {
                inside.push(body);
                return;
            }
            let mut cell = Cell { children: [const { None }; 8], mass: 0.0, position: [0.0; 3] };
            for &other in inside.iter() {
                cell.insert(other, bodies, space);
            }
            *self = Self::Cell(Box::new(cell));
        }
        if let Self::Cell(cell) = self {
            cell.insert(body, bodies, space);
        }
    }

    /// Finds each cell's mass and where it seems to be. What it found for this node.
    fn weigh(&mut self, bodies: &[Body]) -> (f64, Vector) {
        let mut mass = 0.0;
        let mut moment = [0.0; 3];
        let mut add = |(part, position): (f64, Vector)| {
            mass += part;
            moment.iter_mut().zip(position).for_each(|(sum, it)| *sum += part * it);
        };
        match self {
            Self::Leaf(inside) => inside.iter().for_each(|&body| add((bodies[body].mass, bodies[body].position))),
            Self::Cell(cell) => cell.children.iter_mut().flatten().for_each(|child| add(child.weigh(bodies))),
        }
        let position = moment.map(|it| it / mass);
        if let Self::Cell(cell) = self {
            (cell.mass, cell.position) = (mass, position);
        }
        (mass, position)
    }

    /// How this node, whose side is given, pulls at a body.
    fn acceleration(&self, body: usize, bodies: &[Body], side: f64, opening: f64) -> Vector {
        let mut sum = [0.0; 3];
        match self {
            Self::Leaf(inside) => {
                for &other in inside.iter().filter(|&&other| other != body) {
                    add(&mut sum, pull(bodies[body].position, bodies[other].mass, bodies[other].position));
                }
            }
            Self::Cell(cell) => {
                if side < opening * norm(difference(cell.position, bodies[body].position)) {
                    return pull(bodies[body].position, cell.mass, cell.position);
                }
                for child in cell.children.iter().flatten() {
                    add(&mut sum, child.acceleration(body, bodies, side / 2.0, opening));
                }
            }
        }
        sum
    }
}

impl Cell {
    fn insert(&mut self, body: usize, bodies: &[Body], space: Space) {
        let (index, part) = space.part(bodies[body].position);
        self.children[index].get_or_insert_with(|| Node::Leaf(Vec::new())).insert(body, bodies, part);
    }
}

fn pull(at: Vector, mass: f64, from: Vector) -> Vector {
    let apart = difference(from, at);
    let squared = apart.iter().map(|it| it * it).sum::<f64>() + SOFTENING * SOFTENING;
    apart.map(|it| it * mass / (squared * squared.sqrt()))
}

fn add(sum: &mut Vector, other: Vector) {
    sum.iter_mut().zip(other).for_each(|(sum, it)| *sum += it);
}

fn difference(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn norm(vector: Vector) -> f64 {
    vector.iter().map(|it| it * it).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(bodies: &[Body]) -> (Node, Space) {
        let space = space_of(bodies);
        let mut root = Node::Leaf(Vec::new());
        (0..bodies.len()).for_each(|body| root.insert(body, bodies, space));
        root.weigh(bodies);
        (root, space)
    }

    fn of_all_pairs(body: usize, bodies: &[Body]) -> Vector {
        let mut sum = [0.0; 3];
        for (_, other) in bodies.iter().enumerate().filter(|&(other, _)| other != body) {
            add(&mut sum, pull(bodies[body].position, other.mass, other.position));
        }
        sum
    }

    #[test]
    fn with_every_cell_opened_it_is_the_sum_over_all_pairs() {
        let bodies = sphere(200);
        let (root, space) = tree(&bodies);
        for body in 0..bodies.len() {
            let found = root.acceleration(body, &bodies, space.side, 0.0);
            assert!(norm(difference(found, of_all_pairs(body, &bodies))) < 1e-12);
        }
    }

    #[test]
    fn with_far_cells_taken_as_one_it_is_nearly_that() {
        let bodies = sphere(500);
        let (root, space) = tree(&bodies);
        let mut errors = 0.0;
        for body in 0..bodies.len() {
            let exact = of_all_pairs(body, &bodies);
            errors += norm(difference(root.acceleration(body, &bodies, space.side, OPENING), exact)) / norm(exact);
        }
        assert!(errors / 500.0 < 0.05, "mean error {}", errors / 500.0);
    }

    #[test]
    fn bodies_in_the_same_place_end_the_tree() {
        let bodies = vec![Body { mass: 1.0, position: [0.5; 3], velocity: [0.0; 3] }; 3];
        let (root, space) = tree(&bodies);
        assert_eq!(root.acceleration(0, &bodies, space.side, OPENING), [0.0; 3]);
    }
}
