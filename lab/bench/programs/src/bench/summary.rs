//! What the figures are summed up to, and what is claimed of that.

use greenwave_bench::claims::Aim::AtMost;
use greenwave_bench::claims::{Claim, claim};
use greenwave_bench::ratios::geometric_mean;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{median, range};
use greenwave_programs::Program;

use super::{QUANTA, Setting, gap, overhead};

/// What costs more than this is named.
const DEAR: f64 = 1.05;

const MEAN: &str = "probe-overhead/geometric-mean";
const WORST: &str = "probe-overhead/worst";

/// What probes should cost at most, over all programs and in the worst of them.
pub(super) const CLAIMS: [Claim; 2] = [
    claim("probes cost little", MEAN, "probes", "ratio", AtMost(1.02)),
    claim("probes cost little", WORST, "probes", "ratio", AtMost(1.10)),
];

/// What is summed up over all programs, and what is said of it.
const SUMS: [(&str, &str, &str); 6] = [
    ("probes", "ratio", "probes"),
    ("probes", "ratio_to_control", "beside the control, which is built alike but has no probes"),
    ("probes", "instructions_ratio", "instructions"),
    ("probes", "instructions_ratio_to_control", "instructions beside the control"),
    (QUANTA[0].0, "ratio", "every yield included, after 2 us"),
    (QUANTA[1].0, "ratio", "every yield included, after 5 us"),
];

/// Adds what all programs' ratios come to.
pub(super) fn push(setting: &Setting, results: &mut Results) {
    for (system, metric, _) in SUMS {
        let ratios: Vec<f64> = ratios(setting, results, system, metric).map(|(_, ratio)| ratio).collect();
        results.push(MEAN, system, metric, geometric_mean(&ratios));
        results.push(WORST, system, metric, range(&ratios).1);
    }
}

/// Prints what probes cost over all programs, and of which they cost too much.
pub(super) fn print_overhead(setting: &Setting, results: &Results) {
    for (system, metric, what) in SUMS {
        let [mean, worst] = [MEAN, WORST].map(|case| results.value(case, system, metric));
        if let Some((mean, worst)) = mean.zip(worst) {
            println!("{what}: geometric mean {mean:.3}, worst {worst:.3}");
        }
    }
    println!("{}\n", dear(setting, results));
}

fn dear(setting: &Setting, results: &Results) -> String {
    let mut dear: Vec<_> = ratios(setting, results, "probes", "ratio").filter(|(_, ratio)| *ratio > DEAR).collect();
    dear.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let dear: Vec<_> = dear.iter().map(|(program, ratio)| format!("{} {ratio:.3}", program.name)).collect();
    match dear.is_empty() {
        true => format!("probes: no program above {DEAR}"),
        false => format!("probes: above {DEAR} are {}", dear.join(", ")),
    }
}

/// How exactly quanta end in the middling program and in the worst.
pub(super) fn print_gaps(setting: &Setting, results: &Results) {
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
                println!(
                    "{system}: {metric} is {middle:.0} in the middling program and {worst:.0} in the worst ({name}); \
                     raw-spin {limit:.0}"
                );
            }
        }
    }
    println!();
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
        push(&setting, &mut results);
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
        let named = dear(&setting, &results);
        let expected = format!("above 1.05 are {} 1.300, {} 1.060", PROGRAMS[2].name, PROGRAMS[0].name);
        assert!(named.ends_with(&expected), "{named}");
        let (setting, results) = measured([1.01, 1.0, 1.02]);
        assert!(dear(&setting, &results).contains("no program above"));
    }
}
