//! Counts how often each value occurs in each colour of a bitmap (Phoenix `histogram`).

use crate::{Job, Scale, checksum};

const PIXELS: usize = 60_000_000;

type Histogram = [[u32; 256]; 3];

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut bitmap = vec![0; 3 * scale.of(PIXELS)];
    fastrand::Rng::with_seed(1).fill(&mut bitmap);
    Box::new(move || checksum(histogram(&bitmap).into_iter().flatten().map(u64::from)))
}

/// Of the bytes blue, green, red, blue, ...
fn histogram(bitmap: &[u8]) -> Histogram {
    let mut histogram = [[0; 256]; 3];
    for pixel in bitmap.chunks_exact(3) {
        histogram[0][usize::from(pixel[0])] += 1;
        histogram[1][usize::from(pixel[1])] += 1;
        histogram[2][usize::from(pixel[2])] += 1;
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_colour_is_counted() {
        let bitmap: Vec<u8> = (0..3000_u32).map(|place| (place * place % 251) as u8).collect();
        for (colour, counts) in histogram(&bitmap).iter().enumerate() {
            for value in 0..=255 {
                let expected = bitmap.iter().skip(colour).step_by(3).filter(|&&it| it == value).count();
                assert_eq!(counts[usize::from(value)] as usize, expected, "{value} in colour {colour}");
            }
        }
    }
}
