//! What the figures are summed up to, beside what is aimed at.

use greenwave_bench::capacity::median;
use greenwave_bench::result::Results;
use greenwave_programs::Program;

use super::{QUANTA, Setting, gap, overhead};

/// What probes should cost at most, over all programs.
const MEAN_AIM: f64 = 1.02;
/// And in the worst of them.
const WORST_AIM: f64 = 1.10;
/// What costs more than this is named.
const DEAR: f64 = 1.05;

const MEAN: &str = "probe-overhead/geometric-mean";
const WORST: &str = "probe-overhead/worst";

/// Adds what all programs' ratios come to.
pub(super) fn push_ratios(setting: &Setting, results: &mut Results) {
    for system in ["probes", QUANTA[0].0, QUANTA[1].0] {
        let ratios: Vec<f64> = ratios(setting, results, system, "ratio").map(|(_, ratio)| ratio).collect();
        results.push(MEAN, system, "ratio", geometric_mean(&ratios));
        results.push(WORST, system, "ratio", ratios.iter().copied().fold(f64::NAN, f64::max));
    }
    for metric in ["ratio_to_control", "instructions_ratio", "instructions_ratio_to_control"] {
        let ratios: Vec<f64> = ratios(setting, results, "probes", metric).map(|(_, ratio)| ratio).collect();
        results.push(MEAN, "probes", metric, geometric_mean(&ratios));
        results.push(WORST, "probes", metric, ratios.iter().copied().fold(f64::NAN, f64::max));
    }
}

/// What probes cost over all programs, and of which they cost too much.
pub(super) fn overhead(setting: &Setting, results: &Results) -> Vec<String> {
    let value = |case, system, metric| results.value(case, system, metric).unwrap_or(f64::NAN);
    let mut lines = vec![format!(
        "probes: geometric mean {:.3} (aim {MEAN_AIM}), worst {:.3} (aim {WORST_AIM})",
        value(MEAN, "probes", "ratio"),
        value(WORST, "probes", "ratio")
    )];
    let others = [
        ("ratio_to_control", "beside the control, which is built alike but has no probes"),
        ("instructions_ratio", "instructions"),
        ("instructions_ratio_to_control", "instructions beside the control"),
    ];
    for (metric, said) in others {
        let (mean, worst) = (value(MEAN, "probes", metric), value(WORST, "probes", metric));
        if mean.is_finite() {
            lines.push(format!("{said}: geometric mean {mean:.3}, worst {worst:.3}"));
        }
    }
    for (system, _) in QUANTA {
        let (mean, worst) = (value(MEAN, system, "ratio"), value(WORST, system, "ratio"));
        lines.push(format!("{system}, every yield included: geometric mean {mean:.3}, worst {worst:.3}"));
    }
    let mut dear: Vec<_> = ratios(setting, results, "probes", "ratio").filter(|(_, ratio)| *ratio > DEAR).collect();
    dear.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let dear: Vec<_> = dear.iter().map(|(program, ratio)| format!("{} {ratio:.3}", program.name)).collect();
    lines.push(match dear.is_empty() {
        true => format!("probes: no program above {DEAR}"),
        false => format!("probes: above {DEAR} are {}", dear.join(", ")),
    });
    lines
}

/// How exactly quanta end in the middling program and in the worst.
pub(super) fn gaps(setting: &Setting, results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for (system, _) in QUANTA {
        for metric in ["overshoot_p50_ns", "overshoot_p99_ns", "overshoot_p999_ns", "undisturbed_p999_ns"] {
            let of = |program: &&'static Program| {
                let value = |system| results.value(&gap::case(program), system, metric);
                Some((value(system)?, value(&gap::raw_spin(system))?, program.name))
            };
            let values: Vec<_> = setting.programs.iter().filter_map(of).collect();
            let middle = median(&values.iter().map(|it| it.0).collect::<Vec<_>>());
            let limit = median(&values.iter().map(|it| it.1).collect::<Vec<_>>());
            if let Some((worst, _, name)) = values.iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
                lines.push(format!(
                    "{system}: {metric} is {middle:.0} in the middling program and {worst:.0} in the worst ({name}); \
                     raw-spin {limit:.0}"
                ));
            }
        }
    }
    lines
}

fn ratios<'a>(
    setting: &'a Setting,
    results: &'a Results,
    system: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = (&'static Program, f64)> + 'a {
    let of = move |program: &Program| results.value(&overhead::case(program), system, metric);
    setting.programs.iter().filter_map(move |program| Some((*program, of(program)?)))
}

/// Not a number if there are none.
fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_bench::machine::Machine;
    use greenwave_programs::PROGRAMS;

    fn measured(values: [f64; 3]) -> (Setting, Results) {
        let programs = PROGRAMS[..3].iter().collect();
        let setting =
            Setting { plain: "".into(), probes: "".into(), layouts: Vec::new(), core: 0, quick: true, programs };
        let mut results = Results::new("preempt");
        results.machine = Machine::default();
        for (program, value) in setting.programs.iter().zip(values) {
            results.push(&overhead::case(program), "probes", "ratio", value);
        }
        push_ratios(&setting, &mut results);
        (setting, results)
    }

    #[test]
    fn the_geometric_mean_of_halves_and_doubles_is_one() {
        let (_, results) = measured([0.5, 2.0, 1.0]);
        assert!((results.value(MEAN, "probes", "ratio").unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(results.value(WORST, "probes", "ratio"), Some(2.0));
        assert_eq!(results.value(MEAN, "quantum-2us", "ratio"), None);
    }

    #[test]
    fn programs_that_pay_too_much_are_named_the_worst_first() {
        let (setting, results) = measured([1.06, 1.0, 1.3]);
        let lines = overhead(&setting, &results);
        let expected = format!("above 1.05 are {} 1.300, {} 1.060", PROGRAMS[2].name, PROGRAMS[0].name);
        assert!(lines.iter().any(|line| line.ends_with(&expected)), "{lines:?}");
        let (setting, results) = measured([1.01, 1.0, 1.02]);
        assert!(overhead(&setting, &results).iter().any(|line| line.contains("no program above")));
    }
}
