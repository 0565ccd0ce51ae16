//! What options are worth, by the formula of Black and Scholes (PARSEC `blackscholes`).

use crate::{Job, Scale, checksum};

const OPTIONS: usize = 1_500_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Call,
    Put,
}

#[derive(Clone, Copy, Debug)]
struct Contract {
    kind: Kind,
    spot: f64,
    strike: f64,
    /// The interest without risk, a year.
    rate: f64,
    volatility: f64,
    /// Until it ends.
    years: f64,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(21);
    let mut contract = || Contract {
        kind: if random.bool() { Kind::Call } else { Kind::Put },
        spot: 20.0 + 100.0 * random.f64(),
        strike: 20.0 + 100.0 * random.f64(),
        rate: 0.02 + 0.1 * random.f64(),
        volatility: 0.1 + 0.5 * random.f64(),
        years: 0.1 + random.f64(),
    };
    let contracts: Vec<Contract> = (0..scale.of(OPTIONS)).map(|_| contract()).collect();
    Box::new(move || checksum(contracts.iter().map(|contract| price(contract).to_bits())))
}

fn price(contract: &Contract) -> f64 {
    let Contract { kind, spot, strike, rate, volatility, years } = *contract;
    let spread = volatility * years.sqrt();
    let d1 = ((spot / strike).ln() + (rate + volatility * volatility / 2.0) * years) / spread;
    let d2 = d1 - spread;
    let discounted = strike * (-rate * years).exp();
    match kind {
        Kind::Call => spot * normal(d1) - discounted * normal(d2),
        Kind::Put => discounted * (1.0 - normal(d2)) - spot * (1.0 - normal(d1)),
    }
}

/// The share of the normal distribution below `x`, by Hull's polynomial; right to six places.
fn normal(x: f64) -> f64 {
    const WEIGHTS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    const DENSITY_AT_ZERO: f64 = 0.398_942_280_401_432_7;
    let k = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let polynomial = WEIGHTS.iter().rev().fold(0.0, |sum, weight| (sum + weight) * k);
    let above = DENSITY_AT_ZERO * (-0.5 * x * x).exp() * polynomial;
    if x < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HULL: Contract =
        Contract { kind: Kind::Call, spot: 42.0, strike: 40.0, rate: 0.1, volatility: 0.2, years: 0.5 };

    #[test]
    fn the_example_of_hulls_textbook_has_its_prices() {
        assert!((price(&HULL) - 4.76).abs() < 0.005);
        assert!((price(&Contract { kind: Kind::Put, ..HULL }) - 0.81).abs() < 0.005);
    }

    #[test]
    fn a_call_less_a_put_is_the_spot_less_the_discounted_strike() {
        for strike in [10.0, 40.0, 90.0] {
            let call = Contract { strike, ..HULL };
            let parity = 42.0 - strike * (-0.05_f64).exp();
            assert!((price(&call) - price(&Contract { kind: Kind::Put, ..call }) - parity).abs() < 1e-12);
        }
    }
}
