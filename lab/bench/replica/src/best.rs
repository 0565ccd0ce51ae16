//! The best fixed setting that a search finds: what others are held against.
//!
//! 1. All settings of a grid are tried, with one seed.
//! 2. The best few, and settings between them and their neighbours, are tried again with further seeds: what was best with one
//!    seed may have been lucky with it.
//! 3. The one with the most in all of these is the best. It is scored as all others are, with seeds that had no part in this.

use greenwave_policy::replication::{Environment, Setting};
use greenwave_sim::replica::measure::grid;

use crate::parallel;

/// The seeds that choose. None of them is one that scores.
const CHOOSE: [u64; 3] = [101, 102, 103];

/// How many of the grid are looked at more closely.
const FINALISTS: usize = 3;

/// What is between a setting and its neighbours on the grid, which are twice as large or half.
const BETWEEN: [(f64, f64); 8] =
    [(0.75, 1.0), (1.5, 1.0), (1.0, 0.75), (1.0, 1.5), (0.75, 1.5), (1.5, 0.75), (1.5, 1.5), (0.75, 0.75)];

/// Of each environment the best setting, by what `rate` says of an environment's number, a setting and a seed. In a quick
/// search every fourth setting of the grid is tried, and nothing between.
///
/// # Errors
/// Those of `rate`.
pub(crate) fn settings(
    environments: &[&Environment],
    quick: bool,
    rate: impl Fn(usize, Setting, u64) -> anyhow::Result<f64> + Sync,
) -> anyhow::Result<Vec<Setting>> {
    let tried = try_all(environments.iter().map(|it| on_grid(it, quick)).collect(), &CHOOSE[..1], &rate)?;
    if quick {
        return Ok(tried.into_iter().map(|tried| best(&tried)).collect());
    }
    let finalists = tried.into_iter().map(|mut tried| {
        tried.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        tried.truncate(FINALISTS);
        around(&tried.into_iter().map(|(setting, _)| setting).collect::<Vec<_>>())
    });
    let tried = try_all(finalists.collect(), &CHOOSE, &rate)?;
    Ok(tried.into_iter().map(|tried| best(&tried)).collect())
}

/// The grid; in a quick search every fourth point of it.
pub(crate) fn on_grid(environment: &Environment, quick: bool) -> Vec<Setting> {
    let mut settings = grid(environment);
    let smallest = settings.first().map_or(1, Setting::batch_bytes);
    let is_even = |power_of_two: u64| power_of_two.trailing_zeros().is_multiple_of(2);
    settings.retain(|setting| !quick || is_even(setting.batch_bytes() / smallest) && is_even(setting.window()));
    settings
}

/// Settings, and what is between them and their neighbours on the grid, each once.
fn around(settings: &[Setting]) -> Vec<Setting> {
    let mut all = settings.to_vec();
    for setting in settings {
        for (batch, window) in BETWEEN {
            let scaled = |value: u64, by: f64| ((value as f64 * by).round() as u64).max(1);
            let between = Setting::with_window(scaled(setting.batch_bytes(), batch), scaled(setting.window(), window));
            if !all.contains(&between) {
                all.push(between);
            }
        }
    }
    all
}

struct Try {
    environment: usize,
    setting: Setting,
    seed: u64,
}

/// What each setting came to over all seeds.
fn try_all(
    settings: Vec<Vec<Setting>>,
    seeds: &[u64],
    rate: &(impl Fn(usize, Setting, u64) -> anyhow::Result<f64> + Sync),
) -> anyhow::Result<Vec<Vec<(Setting, f64)>>> {
    let tries: Vec<Try> = settings
        .iter()
        .enumerate()
        .flat_map(|(environment, settings)| settings.iter().map(move |&setting| (environment, setting)))
        .flat_map(|(environment, setting)| seeds.iter().map(move |&seed| Try { environment, setting, seed }))
        .collect();
    let name = |it: &Try| format!("best of environment {}: {:?}, seed {}", it.environment + 1, it.setting, it.seed);
    let mut found = parallel::run(&tries, name, |it| rate(it.environment, it.setting, it.seed))?.into_iter();
    let sums = settings.into_iter().map(|settings| {
        let sum = |setting| (setting, found.by_ref().take(seeds.len()).sum());
        settings.into_iter().map(sum).collect()
    });
    Ok(sums.collect())
}

fn best(tried: &[(Setting, f64)]) -> Setting {
    let best = tried.iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
    best.map_or(Setting::FIRST, |(setting, _)| *setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_sim::replica::environments::cases;

    #[test]
    fn a_quick_grid_is_a_part_of_the_grid_up_to_its_ends() {
        for case in cases().expect("none is out of range") {
            let [all, some] = [false, true].map(|quick| on_grid(&case.environment, quick));
            assert!(some.iter().all(|setting| all.contains(setting)) && some.len() * 3 < all.len(), "{}", case.name);
            assert!([1, 256].iter().all(|window| some.iter().any(|setting| setting.window() == *window)));
        }
    }

    /// Settings are as good as they are near to what is best, which isn't on the grid; and with one seed another one is
    /// lucky.
    #[test]
    fn the_search_goes_between_the_grids_settings_and_sees_through_luck() {
        let case = &cases().expect("none is out of range")[0];
        let smallest = on_grid(&case.environment, false)[0].batch_bytes();
        let (batch, window) = (smallest as f64 * 12.0, 24.0);
        let rate = |_, setting: Setting, seed| {
            let off = (setting.batch_bytes() as f64 / batch).ln().abs() + (setting.window() as f64 / window).ln().abs();
            let lucky = seed == CHOOSE[0] && (setting.batch_bytes(), setting.window()) == (smallest, 1);
            Ok(if lucky { 1.05 } else { 1.0 / (1.0 + off) })
        };
        let found = settings(&[&case.environment], false, rate).expect("no try fails");
        assert_eq!((found[0].batch_bytes(), found[0].window()), (batch as u64, window as u64));
    }
}
