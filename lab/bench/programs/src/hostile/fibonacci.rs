//! Fibonacci's numbers by their definition: nothing but calls.

use crate::{Job, Scale};

/// Takes 1.6 times as long for each one more.
const NUMBER: f64 = 37.0;

pub(crate) fn prepare(scale: Scale) -> Job {
    let golden = (1.0 + 5.0_f64.sqrt()) / 2.0;
    let number = (NUMBER + scale.share().log(golden)).round().max(1.0) as u64;
    Box::new(move || fibonacci(std::hint::black_box(number)))
}

fn fibonacci(number: u64) -> u64 {
    if number < 2 { number } else { fibonacci(number - 1) + fibonacci(number - 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_the_sum_of_the_two_before() {
        let (mut last, mut next) = (0, 1);
        for number in 0..25 {
            assert_eq!(fibonacci(number), last);
            (last, next) = (next, last + next);
        }
    }
}
