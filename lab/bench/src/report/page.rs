//! The page itself.

use super::bars;
use super::data::{Data, Kind, Run, Service};
use super::panel::escape;
use super::plots::{self, Line};
use super::scale;
use super::tables;
use super::verdict;
use super::waterfall;
use crate::stages::Sample;

/// The page as HTML.
pub fn page(data: &Data) -> String {
    let services: String = data.services.iter().enumerate().map(|(index, it)| service(data, it, index)).collect();
    format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\">\
         <title>{title}</title><style>{style}</style></head><body>\
         <header><h1>{title}</h1><p class=lead>{lead}</p><p class=small>{commit} · {machine}</p></header>\
         {tiles}{services}{method}</body></html>\n",
        title = escape(&data.title),
        style = include_str!("page.css"),
        lead = escape(&data.lead),
        commit = escape(&data.commit),
        machine = escape(&data.machine.describe()),
        tiles = tiles(data),
        method = method(data),
    )
}

/// The one or two figures of each service that matter most.
fn tiles(data: &Data) -> String {
    let of = |it| [overload_tile(data, it), tight_tile(data, it), changes_tile(data, it)];
    let tiles: String = data.services.iter().flat_map(of).flatten().collect();
    format!("<section class=tiles>{tiles}</section>")
}

/// Goodput under the highest load: the best system's beside the first one's.
fn overload_tile(data: &Data, service: &Service) -> Option<String> {
    let load = plots::loads(service).last().copied()?;
    let (baseline, best) = ends(data, service, load, |run| Some(-run.total.goodput_per_s))?;
    let share = |run: &Run| scale::percent(plots::share_of_capacity(service, run.total.goodput_per_s));
    let what = format!("of capacity answered in time by {} at load {}", best.system, scale::percent(load));
    Some(tile(&service.name, &share(best), &what, &format!("{}: {}", baseline.system, share(baseline))))
}

/// Misses of the tightest class under the highest load that the service can still carry.
fn tight_tile(data: &Data, service: &Service) -> Option<String> {
    let load = plots::loads(service).into_iter().rfind(|&load| load <= 1.0)?;
    let missed = |run: &Run| {
        let tightest = run.classes.iter().min_by_key(|class| class.deadline)?;
        Some((tightest.name.clone(), tightest.figures.missed_share))
    };
    let (baseline, best) = ends(data, service, load, |run| missed(run).map(|(_, share)| share))?;
    let ((class, best_share), (_, share)) = (missed(best)?, missed(baseline)?);
    let what = format!("of the {class} class missed by {} at load {}", best.system, scale::percent(load));
    Some(tile(
        &service.name,
        &scale::percent(best_share),
        &what,
        &format!("{}: {}", baseline.system, scale::percent(share)),
    ))
}

/// How many figures got worse, and how many better.
fn changes_tile(data: &Data, service: &Service) -> Option<String> {
    let changes = verdict::changes(data, service);
    let better = changes.iter().filter(|change| change.better).count();
    let worse = (changes.len() - better).to_string();
    let what = format!("figures got noticeably worse than under {}", data.systems.first()?.name);
    Some(tile(&service.name, &worse, &what, &format!("better: {better}")))
}

/// The first system's run at a load, and the run among the others' for which `badness` is least.
fn ends<'a>(
    data: &Data,
    service: &'a Service,
    load: f64,
    badness: impl Fn(&Run) -> Option<f64>,
) -> Option<(&'a Run, &'a Run)> {
    let first = &data.systems.first()?.name;
    let runs = || service.runs.iter().filter(|run| run.load == load);
    let baseline = runs().find(|run| run.system == *first)?;
    let others = runs().filter(|run| run.system != *first);
    let scored = others.filter_map(|run| Some((run, badness(run)?)));
    Some((baseline, scored.min_by(|a, b| a.1.total_cmp(&b.1))?.0))
}

fn tile(service: &str, figure: &str, what: &str, beside: &str) -> String {
    let [service, what, beside] = [service, what, beside].map(escape);
    format!(
        "<div class=tile><div class=small>{service}</div><div class=big>{figure}</div><p>{what}<br><b>{beside}</b></p></div>"
    )
}

fn service(data: &Data, service: &Service, index: usize) -> String {
    let loads = plots::loads(service);
    let misses: String = loads.iter().map(|&load| bars::misses(data, service, load)).collect();
    let first = data.systems.first().map_or("", |system| &system.name);
    let details = by_load(&format!("d{index}"), &loads, |load| details(data, service, load));
    format!(
        "<section><h2>{name}</h2><p>{about}. Capacity: {capacity} requests per second.</p>{key}\
         <h3>Goodput and misses</h3><div class=\"grid two\">{goodput}{misses}</div>\
         <h3>What got better, what got worse</h3>{changes}\
         <h3>Where the time goes</h3>{details}<h3>All figures</h3>{figures}</section>",
        name = escape(&service.name),
        about = escape(&service.about),
        capacity = scale::count(service.capacity_per_s),
        key = key(data),
        goodput = plots::goodput(data, service),
        changes = tables::changes(first, &verdict::changes(data, service)),
        figures = tables::figures(data, service),
    )
}

/// The systems and how they are drawn.
fn key(data: &Data) -> String {
    let entry = |(index, system): (usize, &super::data::System)| {
        format!(
            "<li><svg viewBox=\"0 0 28 10\"><path class=\"line s{index}\" d=\"M0 5H28\"/></svg><span><b class=\"name \
             s{index}\">{}</b> {}</span></li>",
            escape(&system.name),
            escape(&system.about)
        )
    };
    format!("<ul class=key>{}</ul>", data.systems.iter().enumerate().map(entry).collect::<String>())
}

/// One block for each load, of which a screen shows the chosen one and paper shows all.
fn by_load(id: &str, loads: &[f64], block: impl Fn(f64) -> String) -> String {
    let shown = loads.iter().rposition(|&load| load <= 1.0).unwrap_or(0);
    let (mut buttons, mut blocks) = (String::new(), String::new());
    for (index, &load) in loads.iter().enumerate() {
        let checked = if index == shown { " checked" } else { "" };
        let load_text = format!("load {}", scale::percent(load));
        buttons.push_str(&format!(
            "<input type=radio name={id} id={id}-{index}{checked}><label for={id}-{index}>{load_text}</label>"
        ));
        blocks.push_str(&format!("<div class=block><h4 class=paper>At {load_text}</h4>{}</div>", block(load)));
    }
    format!("<div class=tabs>{buttons}<div class=blocks>{blocks}</div></div>")
}

fn details(data: &Data, service: &Service, load: f64) -> String {
    let runs: Vec<(usize, &Run)> = data
        .systems
        .iter()
        .enumerate()
        .flat_map(|(index, system)| {
            let its = move |run: &&Run| run.system == system.name && run.load == load;
            service.runs.iter().filter(its).map(move |run| (index, run))
        })
        .collect();
    format!(
        "<h4>From the scheduled send to the answer, by class</h4><p class=small>A curve ends below 100% where the other \
         requests were never answered with a result. Where it crosses the deadline is the share in time.</p>\
         <div class=grid>{}</div>\
         <h4>In each stage: queue and service</h4><div class=grid>{}</div>\
         <h4>One request's budget, from its receipts</h4>{}",
        classes(&runs),
        stages(&runs),
        waterfalls(&runs)
    )
}

fn classes(runs: &[(usize, &Run)]) -> String {
    let Some((_, any)) = runs.first() else { return String::new() };
    let deadlines: Vec<f64> = any.classes.iter().map(|class| class.deadline.as_nanos() as f64).collect();
    let curves = runs.iter().flat_map(|(_, run)| &run.classes).map(|class| &class.figures.results);
    let range = plots::time_axis(curves, &deadlines);
    let mut panels = String::new();
    for (class, &deadline) in any.classes.iter().zip(&deadlines) {
        let lines: Vec<Line<'_>> = runs
            .iter()
            .filter_map(|&(index, run)| {
                let same = run.classes.iter().find(|other| other.name == class.name)?;
                Some(Line { system: &run.system, index, curve: &same.figures.results })
            })
            .collect();
        let name = &class.name;
        let cdf = plots::cumulative(&format!("{name}: answered within (CDF)"), &lines, range, Some(deadline));
        let pdf = plots::density(&format!("{name}: how often (PDF)"), &lines, range, Some(deadline));
        panels.push_str(&format!("<div class=pair>{cdf}{pdf}</div>"));
    }
    panels
}

fn stages(runs: &[(usize, &Run)]) -> String {
    let Some((_, any)) = runs.iter().max_by_key(|(_, run)| run.stages.len()) else { return String::new() };
    let curves = runs.iter().flat_map(|(_, run)| &run.stages).map(|stage| &stage.here);
    let range = plots::time_axis(curves, &[]);
    let mut panels = String::new();
    for stage in &any.stages {
        let lines: Vec<Line<'_>> = runs
            .iter()
            .filter_map(|&(index, run)| {
                let same = run.stages.iter().find(|other| other.name == stage.name)?;
                Some(Line { system: &run.system, index, curve: &same.here })
            })
            .collect();
        let cdf = plots::cumulative(&format!("{}: done within (CDF)", stage.name), &lines, range, None);
        let pdf = plots::density(&format!("{}: how often (PDF)", stage.name), &lines, range, None);
        panels.push_str(&format!("<div class=pair>{cdf}{pdf}</div>"));
    }
    panels
}

/// Of the tightest class, a typical and a slow request under each system.
fn waterfalls(runs: &[(usize, &Run)]) -> String {
    let chosen: Vec<(&Run, Vec<(Kind, &Sample)>)> = runs.iter().map(|&(_, run)| (run, of_tightest(run))).collect();
    let all = || chosen.iter().flat_map(|(_, samples)| samples);
    let axis = |kind| waterfall::axis(all().filter(move |(other, _)| *other == kind).map(|(_, sample)| *sample));
    let mut panels = String::new();
    for (kind, word) in [(Kind::Typical, "a typical request"), (Kind::Slow, "a slow request (p95)")] {
        let axis = axis(kind);
        let mut row = String::new();
        for (run, samples) in &chosen {
            for (_, sample) in samples.iter().filter(|(other, _)| *other == kind) {
                row.push_str(&waterfall::waterfall(&format!("{}: {word}", run.system), sample, axis));
            }
        }
        panels.push_str(&format!("<div class=grid>{row}</div>"));
    }
    let key: String = ["network", "queue", "service", "waiting"]
        .iter()
        .map(|kind| {
            let about = if *kind == "waiting" { "waiting for other stages" } else { kind };
            format!(
                "<li><svg viewBox=\"0 0 28 10\"><rect class=\"part {kind}\" width=28 height=10 /></svg>{about}</li>"
            )
        })
        .collect();
    let lines = "<li><svg viewBox=\"0 0 28 10\"><path class=deadline d=\"M14 0V10\"/></svg>deadline</li>\
                 <li><svg viewBox=\"0 0 28 10\"><path class=answered d=\"M14 0V10\"/></svg>answer</li>";
    format!("<ul class=key>{key}{lines}</ul>{panels}")
}

/// The sampled requests of the class with the shortest deadline.
fn of_tightest(run: &Run) -> Vec<(Kind, &Sample)> {
    let tightest = run.classes.iter().min_by_key(|class| class.deadline).map(|class| &class.name);
    let its = run.samples.iter().filter(|(_, sample)| Some(&sample.class) == tightest);
    its.map(|(kind, sample)| (*kind, sample)).collect()
}

/// How it was measured: what the caller says, and what the runs say.
fn method(data: &Data) -> String {
    let runs = || data.services.iter().flat_map(|service| &service.runs);
    let lag = runs().map(|run| run.max_send_lag).max().unwrap_or_default();
    let requests: u64 = runs().map(|run| run.total.scheduled).sum();
    let own = [
        format!(
            "{} runs, {} requests. Times count from the scheduled send: when the generator was late (by at most {}), \
             that is part of the latency. No request was skipped, and what was due during the warm-up is left out.",
            runs().count(),
            scale::count(requests as f64),
            scale::time(lag.as_nanos() as f64)
        ),
        "A miss is anything but a result within the expected deadline: a late result, a refusal, an error, silence. \
         Quantiles are those of results, late ones included, so they have to be read beside the misses."
            .to_owned(),
        "Listed as changed: goodput by more than 5%, a share by more than one percentage point, a p99 by more than a \
         factor of 1.25. A p99 that fell while more was missed isn't listed as better."
            .to_owned(),
        "Wasted work is the share of service time, taken from receipts, that went into requests that missed."
            .to_owned(),
    ];
    let paragraphs: String = data.method.iter().chain(&own).map(|text| format!("<p>{}</p>", escape(text))).collect();
    let machine = escape(&data.machine.describe());
    format!("<section class=method><h2>How it was measured</h2>{paragraphs}<p>{machine}.</p></section>")
}
