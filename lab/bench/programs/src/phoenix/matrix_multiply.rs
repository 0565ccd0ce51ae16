//! The product of two square matrices by three loops (Phoenix `matrix_multiply`).

use crate::{Job, Scale, checksum};

const SIZE: usize = 480;

pub(crate) fn prepare(scale: Scale) -> Job {
    let size = scale.side(SIZE, 3);
    let mut random = fastrand::Rng::with_seed(4);
    let mut matrix = || -> Vec<f64> { (0..size * size).map(|_| random.f64()).collect() };
    let (a, b) = (matrix(), matrix());
    Box::new(move || checksum(multiply(&a, &b, size).into_iter().map(f64::to_bits)))
}

fn multiply(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let mut product = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..size {
            let mut sum = 0.0;
            for inner in 0..size {
                sum += a[row * size + inner] * b[inner * size + column];
            }
            product[row * size + column] = sum;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_applied_to_a_vector_is_both_factors_applied_in_turn() {
        let size = 9;
        let matrix = |seed: usize| -> Vec<f64> { (0..size * size).map(|at| (at * seed % 17) as f64).collect() };
        let apply = |matrix: &[f64], vector: &[f64]| -> Vec<f64> {
            matrix.chunks(size).map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
        };
        let (a, b) = (matrix(5), matrix(11));
        let vector: Vec<f64> = (0..size).map(|at| at as f64 - 3.0).collect();
        assert_eq!(apply(&multiply(&a, &b, size), &vector), apply(&a, &apply(&b, &vector)));
    }
}
