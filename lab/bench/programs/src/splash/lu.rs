//! A matrix as the product of a lower and an upper triangle, block by block (SPLASH-2 `lu`).
//!
//! Without pivoting: the diagonal of the input is heavy enough.

use crate::{Job, Scale, checksum};

const SIZE: usize = 800;
const BLOCK: usize = 16;

pub(crate) fn prepare(scale: Scale) -> Job {
    let size = scale.side(SIZE, 3);
    let matrix = matrix(size);
    Box::new(move || {
        let mut matrix = matrix.clone();
        factor(&mut matrix, size);
        checksum(matrix.into_iter().map(f64::to_bits))
    })
}

fn matrix(size: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(12);
    let mut matrix: Vec<f64> = (0..size * size).map(|_| random.f64()).collect();
    (0..size).for_each(|at| matrix[at * size + at] += size as f64);
    matrix
}

/// Both triangles in place of the matrix; the diagonal of the lower one is 1 and not kept.
fn factor(matrix: &mut [f64], size: usize) {
    for k in (0..size).step_by(BLOCK) {
        let end = (k + BLOCK).min(size);
        factor_diagonal(matrix, size, k, end);
        for i in (end..size).step_by(BLOCK) {
            divide_column_block(matrix, size, k, end, i, (i + BLOCK).min(size));
        }
        for j in (end..size).step_by(BLOCK) {
            divide_row_block(matrix, size, k, end, j, (j + BLOCK).min(size));
        }
        for i in (end..size).step_by(BLOCK) {
            for j in (end..size).step_by(BLOCK) {
                subtract_product(matrix, size, k, end, (i, (i + BLOCK).min(size)), (j, (j + BLOCK).min(size)));
            }
        }
    }
}

fn factor_diagonal(matrix: &mut [f64], size: usize, begin: usize, end: usize) {
    for k in begin..end {
        for i in k + 1..end {
            matrix[i * size + k] /= matrix[k * size + k];
            let factor = matrix[i * size + k];
            for j in k + 1..end {
                matrix[i * size + j] -= factor * matrix[k * size + j];
            }
        }
    }
}

/// A block below the diagonal one.
fn divide_column_block(matrix: &mut [f64], size: usize, begin: usize, end: usize, top: usize, bottom: usize) {
    for i in top..bottom {
        for k in begin..end {
            matrix[i * size + k] /= matrix[k * size + k];
            let factor = matrix[i * size + k];
            for j in k + 1..end {
                matrix[i * size + j] -= factor * matrix[k * size + j];
            }
        }
    }
}

/// A block to the right of the diagonal one.
fn divide_row_block(matrix: &mut [f64], size: usize, begin: usize, end: usize, left: usize, right: usize) {
    for k in begin..end {
        for i in k + 1..end {
            let factor = matrix[i * size + k];
            for j in left..right {
                matrix[i * size + j] -= factor * matrix[k * size + j];
            }
        }
    }
}

/// An inner block.
fn subtract_product(
    matrix: &mut [f64],
    size: usize,
    begin: usize,
    end: usize,
    rows: (usize, usize),
    columns: (usize, usize),
) {
    for i in rows.0..rows.1 {
        for k in begin..end {
            let factor = matrix[i * size + k];
            for j in columns.0..columns.1 {
                matrix[i * size + j] -= factor * matrix[k * size + j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_triangles_multiply_to_the_matrix() {
        for size in [1, 15, 16, 50] {
            let before = matrix(size);
            let mut after = before.clone();
            factor(&mut after, size);
            let lower = |i: usize, k: usize| if i == k { 1.0 } else { after[i * size + k] };
            for i in 0..size {
                for j in 0..size {
                    let product: f64 = (0..=i.min(j)).map(|k| lower(i, k) * after[k * size + j]).sum();
                    assert!((product - before[i * size + j]).abs() < 1e-9, "{i}, {j} of {size}");
                }
            }
        }
    }
}
