//! The means of a matrix's rows and the covariances between them: the first steps of a principal component analysis
//! (Phoenix `pca`).

use crate::{Job, Scale, checksum};

const ROWS: usize = 400;
const COLUMNS: usize = 1000;
/// Values are below this.
const GRID: i32 = 100;

pub(crate) fn prepare(scale: Scale) -> Job {
    let rows = scale.side(ROWS, 2);
    let mut random = fastrand::Rng::with_seed(5);
    let matrix: Vec<Vec<i32>> = (0..rows).map(|_| (0..COLUMNS).map(|_| random.i32(0..GRID)).collect()).collect();
    Box::new(move || {
        let means = means(&matrix);
        let covariances = covariances(&matrix, &means);
        checksum(means.into_iter().map(|it| it as u64).chain(covariances.into_iter().flatten().map(|it| it as u64)))
    })
}

/// Whole numbers, as in the original.
fn means(matrix: &[Vec<i32>]) -> Vec<i32> {
    matrix.iter().map(|row| row.iter().sum::<i32>() / row.len() as i32).collect()
}

/// Between each row and those from it on.
fn covariances(matrix: &[Vec<i32>], means: &[i32]) -> Vec<Vec<i32>> {
    let mut covariances = Vec::new();
    for i in 0..matrix.len() {
        let mut of_row = Vec::new();
        for j in i..matrix.len() {
            let products = matrix[i].iter().zip(&matrix[j]).map(|(a, b)| (a - means[i]) * (b - means[j]));
            of_row.push(products.sum::<i32>() / (matrix[i].len() as i32 - 1));
        }
        covariances.push(of_row);
    }
    covariances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covariances_are_those_of_the_textbook() {
        let rows = vec![vec![2, 4, 6, 8], vec![1, 1, 3, 3], vec![8, 6, 4, 2]];
        let means = means(&rows);
        assert_eq!(means, [5, 2, 5]);
        // By hand: the second row's deviations are -1, -1, 1, 1 against -3, -1, 1, 3 of the first.
        assert_eq!(covariances(&rows, &means), [vec![20 / 3, 8 / 3, -20 / 3], vec![4 / 3, -8 / 3], vec![20 / 3]]);
    }
}
