//! What a simulation predicts beside what is measured here: `greenwave sim compare` of one, two and three stages, by costs
//! that `greenwave sim calibrate` measured just before.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use greenwave_bench::benchmark::{Benchmark, Wanted};
use greenwave_bench::claims::Aim::Within;
use greenwave_bench::claims::{Claim, claim};
use greenwave_bench::result::{Results, bench_folder};
use serde::Deserialize;

/// Chains of so many stages on one head.
const CASES: [(&str, &str); 3] = [("stages-1", "1"), ("stages-2", "2"), ("stages-3", "3")];

const MEASURED: &str = "measured";
const PREDICTED: &str = "predicted";

/// Rounds of a comparison in a quick run; otherwise as many as it has by itself.
const QUICK: &str = "40";

const OVER: &str = "_over_measured";

const CLAIMS: [Claim; 2] = [
    claim("the median within 15 %", "*", PREDICTED, "p50_over_measured", Within(0.85, 1.15)),
    claim("the tail within 30 %", "*", PREDICTED, "p999_over_measured", Within(0.7, 1.3)),
];

/// What a comparison prints, as far as it is shown here.
#[derive(Deserialize)]
struct Compared {
    per_second: f64,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    of: String,
    quantile: String,
    measured_us: f64,
    least_us: f64,
    most_us: f64,
    predicted_us: f64,
}

/// Measures what is wanted, prints it and writes it.
pub(crate) fn run(wanted: &Wanted) -> Result<()> {
    let names = CASES.map(|(name, _)| name.to_owned());
    let (cases, _) = wanted.choose_cases(&names, |_| true)?;
    wanted.choose_systems(&[MEASURED, PREDICTED])?;
    let greenwave = std::env::current_exe().context("this program's own path")?.with_file_name("greenwave");
    ensure!(greenwave.is_file(), "there is no {}; cargo xtask bench predict builds it", greenwave.display());
    let mut bench = Benchmark::new("predict", 1 + cases.len());
    bench.progress.step("what a head costs here");
    let folder = bench_folder();
    std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let costs = folder.join("machine.toml");
    output(Command::new(&greenwave).args(["sim", "calibrate", "--out"]).arg(&costs))?;
    for (name, stages) in CASES.into_iter().filter(|(name, _)| cases.iter().any(|case| case == name)) {
        bench.progress.step(name);
        let done = compare(&greenwave, &costs, stages, wanted.quick);
        if let Some(compared) = bench.settle(name, done) {
            push(&mut bench.results, name, &compared);
        }
    }
    bench.finish(&CLAIMS, &cases, |results| println!("{}", results.table(&[])))?;
    Ok(())
}

fn compare(greenwave: &Path, costs: &Path, stages: &str, quick: bool) -> Result<Compared> {
    let mut command = Command::new(greenwave);
    command.args(["sim", "compare", "--anew", "--json", "--stages", stages, "--costs"]).arg(costs);
    if quick {
        command.args(["--rounds", QUICK]);
    }
    let printed = output(&mut command)?;
    serde_json::from_slice(&printed).context("what `greenwave sim compare --json` printed can't be read")
}

/// What a command printed, which has to end well.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let told = format!("{command:?}");
    let done = command.stderr(Stdio::inherit()).output().with_context(|| format!("{told} can't be started"))?;
    ensure!(done.status.success(), "{told} ended with {}", done.status);
    Ok(done.stdout)
}

fn push(results: &mut Results, case: &str, compared: &Compared) {
    results.push(case, MEASURED, "per_s", compared.per_second);
    for Row { of, quantile, measured_us, least_us, most_us, predicted_us } in &compared.rows {
        // What isn't of a class is of all calls.
        let class = if of == "all" { String::new() } else { format!("{of}/") };
        results.push(case, MEASURED, format!("{class}{quantile}_us"), *measured_us);
        results.push(case, MEASURED, format!("{class}least_{quantile}_us"), *least_us);
        results.push(case, MEASURED, format!("{class}most_{quantile}_us"), *most_us);
        results.push(case, PREDICTED, format!("{class}{quantile}_us"), *predicted_us);
        results.push(case, PREDICTED, format!("{class}{quantile}{OVER}"), predicted_us / measured_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"{ "per_second": 50899.0, "max_send_lag_us": 3.0, "rows": [
        { "of": "all", "quantile": "p50", "measured_us": 40.0, "least_us": 30.0, "most_us": 90.0, "predicted_us": 36.0, "off": -0.1 },
        { "of": "short", "quantile": "p999", "measured_us": 50.0, "least_us": 30.0, "most_us": 90.0, "predicted_us": 60.0, "off": 0.2 }
    ] }"#;

    #[test]
    fn what_a_comparison_prints_becomes_rows() {
        let compared: Compared = serde_json::from_str(PRINTED).unwrap();
        let mut results = Results::new("predict");
        push(&mut results, "stages-2", &compared);
        let value = |system, metric| results.value("stages-2", system, metric);
        assert_eq!(value(MEASURED, "p50_us"), Some(40.0));
        assert_eq!(value(MEASURED, "most_p50_us"), Some(90.0));
        assert_eq!(value(PREDICTED, "p50_over_measured"), Some(0.9));
        assert_eq!(value(PREDICTED, "short/p999_over_measured"), Some(1.2));
        assert_eq!(value(MEASURED, "per_s"), Some(50899.0));
    }
}
