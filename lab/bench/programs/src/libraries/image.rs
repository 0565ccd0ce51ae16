//! Makes a picture smaller (crate `image`).

use image::imageops::{FilterType, resize};
use image::{Rgb, RgbImage};

use crate::{Job, Scale, checksum};

const SIDE: usize = 2000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let side = scale.side(SIDE, 2).max(8) as u32;
    let picture = picture(side);
    Box::new(move || checksum(smaller(&picture, side / 4).into_raw().into_iter().map(u64::from)))
}

fn smaller(picture: &RgbImage, side: u32) -> RgbImage {
    resize(picture, side, side, FilterType::Lanczos3)
}

/// A slope in two colours with noise on the third.
fn picture(side: u32) -> RgbImage {
    let mut random = fastrand::Rng::with_seed(37);
    RgbImage::from_fn(side, side, |x, y| Rgb([(255 * x / side) as u8, (255 * y / side) as u8, random.u8(..)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_stays_a_slope_and_noise_becomes_its_mean() {
        let smaller = smaller(&picture(400), 20);
        for (x, y, Rgb([red, green, blue])) in smaller.enumerate_pixels() {
            // Where a pixel's middle lies in the large picture; at the border the filter has one side only.
            let expected = |at: u32| f64::from(at) * 255.0 / 20.0 + 6.0;
            if (2..18).contains(&x) && (2..18).contains(&y) {
                assert!((f64::from(*red) - expected(x)).abs() < 2.0, "{red} at {x}");
                assert!((f64::from(*green) - expected(y)).abs() < 2.0, "{green} at {y}");
                assert!((60..196).contains(blue));
            }
        }
    }
}
