//! Options on swaps, valued by simulated paths of the forward rates in the model of Heath, Jarrow and Morton (PARSEC
//! `swaptions`).

use crate::{Job, Scale, checksum};

const SWAPTIONS: usize = 4;
const TRIALS: usize = 30_000;
/// Points in time.
const STEPS: usize = 11;
const FACTORS: usize = 3;
/// From now to the last point.
const YEARS: f64 = 5.5;
const STEP: f64 = YEARS / STEPS as f64;
/// The option can be used at this point, and the swap lasts from there to the end, with one payment a step.
const MATURITY: usize = 2;

#[derive(Clone, Debug)]
struct Swaption {
    strike: f64,
    /// Forward rates today.
    forward: [f64; STEPS],
    /// How far each factor moves the rate of each maturity.
    volatility: [[f64; STEPS - 1]; FACTORS],
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    mean: f64,
    standard_error: f64,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let swaptions: Vec<Swaption> = (0..SWAPTIONS).map(|at| Swaption::new(0.04 + 0.01 * at as f64)).collect();
    let trials = scale.of(TRIALS);
    Box::new(move || {
        let values = (1..).zip(&swaptions).map(|(seed, swaption)| value(swaption, trials, &mut Uniform(seed * 1979)));
        checksum(values.flat_map(|value| [value.mean, value.standard_error]).map(f64::to_bits))
    })
}

impl Swaption {
    fn new(strike: f64) -> Self {
        let mut forward = [0.0; STEPS];
        forward.iter_mut().enumerate().for_each(|(at, rate)| *rate = 0.05 + 0.001 * at as f64);
        let level = [0.01; STEPS - 1];
        let (mut slope, mut twist) = (level, level);
        for (maturity, (slope, twist)) in slope.iter_mut().zip(&mut twist).enumerate() {
            *slope = 0.008 * (-0.1 * maturity as f64).exp();
            *twist = 0.004 * (1.0 - 0.2 * maturity as f64);
        }
        Self { strike, forward, volatility: [level, slope, twist] }
    }

    /// What keeps the model free of arbitrage: how far the rate of each maturity drifts a year.
    fn drifts(&self) -> [f64; STEPS - 1] {
        let mut total = [0.0; STEPS - 1];
        for factor in &self.volatility {
            let mut before = 0.0;
            for (drift, volatility) in total.iter_mut().zip(factor) {
                let sum = before + volatility;
                *drift += (sum * sum - before * before) * STEP / 2.0;
                before = sum;
            }
        }
        total
    }
}

fn value(swaption: &Swaption, trials: usize, random: &mut Uniform) -> Value {
    let drifts = swaption.drifts();
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..trials {
        let path = path(swaption, &drifts, random);
        let value = discount_to_maturity(&path) * payoff(swaption, &path[MATURITY]);
        sum += value;
        squares += value * value;
    }
    let count = trials as f64;
    let mean = sum / count;
    Value { mean, standard_error: ((squares / count - mean * mean).max(0.0) / count).sqrt() }
}

/// The forward rates at each point in time, from that point on.
fn path(swaption: &Swaption, drifts: &[f64; STEPS - 1], random: &mut Uniform) -> Vec<[f64; STEPS]> {
    let mut shocks = [[0.0; FACTORS]; STEPS];
    for shock in shocks.iter_mut().skip(1).flatten() {
        *shock = normal_below(random.next());
    }
    let mut path = vec![[0.0; STEPS]; STEPS];
    path[0] = swaption.forward;
    for time in 1..STEPS {
        for maturity in 0..STEPS - time {
            let mut shock = 0.0;
            for (volatility, random) in swaption.volatility.iter().zip(&shocks[time]) {
                shock += volatility[maturity] * random;
            }
            path[time][maturity] = path[time - 1][maturity + 1] + drifts[maturity] * STEP + STEP.sqrt() * shock;
        }
    }
    path
}

/// By the short rates until then.
fn discount_to_maturity(path: &[[f64; STEPS]]) -> f64 {
    path[..MATURITY].iter().map(|rates| (-rates[0] * STEP).exp()).product()
}

/// At maturity, of a swap that pays the strike and is paid at par.
fn payoff(swaption: &Swaption, rates: &[f64; STEPS]) -> f64 {
    let payments = STEPS - MATURITY;
    let mut discount = 1.0;
    let mut swap = 0.0;
    for (payment, rate) in rates[..payments].iter().enumerate() {
        discount *= (-rate * STEP).exp();
        swap += discount * swaption.strike * STEP;
        if payment + 1 == payments {
            swap += discount;
        }
    }
    (swap - 1.0).max(0.0)
}

/// Park's and Miller's generator.
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        const MODULUS: u64 = (1 << 31) - 1;
        self.0 = self.0 * 16_807 % MODULUS;
        self.0 as f64 / MODULUS as f64
    }
}

/// The point below which this share of the normal distribution lies, by Moro's method; right to eight places.
fn normal_below(share: f64) -> f64 {
    const A: [f64; 4] = [2.506_628_238_84, -18.615_000_625_29, 41.391_197_735_34, -25.441_060_496_37];
    const B: [f64; 4] = [-8.473_510_930_90, 23.083_367_437_43, -21.062_241_018_26, 3.130_829_098_33];
    const C: [f64; 9] = [
        0.337_475_482_272_614_7,
        0.976_169_019_091_718_6,
        0.160_797_971_491_820_9,
        0.027_643_881_033_386_3,
        0.003_840_572_937_360_9,
        0.000_395_189_651_191_9,
        0.000_032_176_788_176_8,
        0.000_000_288_816_736_4,
        0.000_000_396_031_518_7,
    ];
    let x = share - 0.5;
    if x.abs() < 0.42 {
        let square = x * x;
        let over = A.iter().rev().fold(0.0, |sum, a| sum * square + a);
        let under = B.iter().rev().fold(0.0, |sum, b| (sum + b) * square) + 1.0;
        return x * over / under;
    }
    let tail = if x > 0.0 { 1.0 - share } else { share };
    let log = (-tail.ln()).ln();
    let far = C.iter().rev().fold(0.0, |sum, c| sum * log + c);
    if x > 0.0 { far } else { -far }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (share, expected) in [(0.5, 0.0), (0.841_344_746, 1.0), (0.975, 1.959_963_985), (0.001, -3.090_232_306)] {
            assert!((normal_below(share) - expected).abs() < 1e-7, "{share}: {}", normal_below(share));
        }
    }

    #[test]
    fn without_volatility_the_value_is_that_of_the_forward_rates() {
        let swaption = Swaption { volatility: [[0.0; STEPS - 1]; FACTORS], ..Swaption::new(0.2) };
        let discount = |until: usize| (-swaption.forward[..until].iter().sum::<f64>() * STEP).exp();
        let coupons: f64 = (MATURITY + 1..=STEPS).map(|at| 0.2 * STEP * discount(at)).sum();
        let expected = coupons + discount(STEPS) - discount(MATURITY);
        let Value { mean, standard_error } = value(&swaption, 10, &mut Uniform(1));
        assert!((mean - expected).abs() < 1e-12 && standard_error < 1e-8, "{mean}, not {expected}");
    }

    #[test]
    fn simulated_bonds_cost_what_the_forward_rates_say() {
        let swaption = Swaption::new(0.05);
        let (drifts, mut random) = (swaption.drifts(), Uniform(5));
        let trials = 20_000;
        let bond = |path: &[[f64; STEPS]]| path.iter().map(|rates| (-rates[0] * STEP).exp()).product::<f64>();
        let mean = (0..trials).map(|_| bond(&path(&swaption, &drifts, &mut random))).sum::<f64>() / f64::from(trials);
        let expected = (-swaption.forward.iter().sum::<f64>() * STEP).exp();
        assert!((mean / expected - 1.0).abs() < 0.005, "{mean}, not {expected}");
    }
}
