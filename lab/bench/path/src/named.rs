//! Four servers by name, of which one is ten times slower: how much of that is seen in the 99th percentile?
//!
//! Each serves one call after the other, in a millisecond or ten of a timer's time, so that four of them need not have four
//! cores. The load is half of what the three good ones can do. It is put on these three alone, on all four by the wait to be
//! expected, and on all four in turn. A DNS server of the benchmark's own knows the names.

use crate::comparison::Times;
use anyhow::{Context as _, Result};
use greenwave::{
    Address, BalanceRule, Channel, ChannelConfig, Promise, Router, Server, ServerConfig, ServerHandle, Wait, promise,
};
use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::classes::Classes;
use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::Measured;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::median;
use greenwave_bench::rpc::{Patience, RpcTarget};
use greenwave_bench::target::Rotation;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const CASE: &str = "four-servers";
/// The 99th percentile over that of the good servers alone: the median of the rounds.
pub(crate) const RATIO: &str = "p99_of_three_good";
/// Greenwave's own rule, over all four servers.
pub(crate) const BY_WAIT: &str = "expected-wait";
const METHOD: &str = "greenwave.Named/Serve";
/// So many times the rounds of other cases: one stall of the machine is more than one call in a hundred of a round.
pub(crate) const MORE_ROUNDS: usize = 3;
const GOOD: Duration = Duration::from_millis(1);
const SLOW: Duration = Duration::from_millis(10);

/// What is compared: how the calls are given to servers, and the name that stands for these.
pub(crate) const SYSTEMS: [(&str, BalanceRule, &str); 3] = [
    ("three-good", BalanceRule::ExpectedWait, "good.test"),
    (BY_WAIT, BalanceRule::ExpectedWait, "four.test"),
    ("round-robin", BalanceRule::RoundRobin, "four.test"),
];

/// A server of 127.0.0.`host` whose calls take so long, one after the other.
fn serve(host: u8, port: u16, takes: Duration) -> Result<ServerHandle> {
    let (line, calls) = mpsc::channel::<Promise<()>>();
    std::thread::spawn(move || {
        for call in calls {
            std::thread::sleep(takes);
            call.keep(());
        }
    });
    let router = Router::new().method(METHOD, move |context, _, _| {
        let (kept, awaited) = promise();
        if line.send(kept).is_err() {
            return Ok(());
        }
        awaited.wait(context)
    });
    let listen = vec![Address::Tcp((Ipv4Addr::new(127, 0, 0, host), port).into())];
    let config = ServerConfig::default().name(format!("server-{host}")).listen(listen).wait(Wait::Block);
    Ok(Server::start(config, router)?)
}

/// The first server is the slow one; all listen at the same port.
fn servers() -> Result<(Vec<ServerHandle>, u16)> {
    for _ in 0..100 {
        let slow = serve(1, 0, SLOW)?;
        let Address::Tcp(socket) = slow.addresses()[0].clone() else { anyhow::bail!("it listens at a socket") };
        // The port may be taken at another one's address.
        let good: Result<Vec<_>> = (2..=4).map(|host| serve(host, socket.port(), GOOD)).collect();
        if let Ok(good) = good {
            return Ok((std::iter::once(slow).chain(good).collect(), socket.port()));
        }
    }
    anyhow::bail!("no port is free at 127.0.0.1 to 127.0.0.4")
}

/// Answers queries for addresses: of four servers, or of the good ones where the name says so.
fn dns() -> Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let port = socket.local_addr()?.port();
    std::thread::spawn(move || {
        let mut query = [0; 1500];
        while let Ok((len, from)) = socket.recv_from(&mut query) {
            if let Some(answer) = answer(&query[..len]) {
                let _who_asked_may_ask_again = socket.send_to(&answer, from);
            }
        }
    });
    Ok(port)
}

/// RFC 1035, section 4: the header, the question as it came, and an A record for each address.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = query.split_at_checked(12)?;
    let name = rest.iter().position(|byte| *byte == 0)? + 1;
    let question = rest.get(..name + 4)?;
    let is_a = question[name..] == [0, 1, 0, 1];
    let hosts = if question[1..].starts_with(b"good") { 2..=4 } else { 1..=4_u8 };
    let hosts: Vec<u8> = if is_a { hosts.collect() } else { Vec::new() };
    let mut answer = [&header[..2], &[0x81, 0x80, 0, 1, 0, hosts.len() as u8, 0, 0, 0, 0], question].concat();
    for host in hosts {
        answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, host]);
    }
    Some(answer)
}

/// Measures, and adds the rows of the case `four-servers`.
///
/// # Errors
/// When a server doesn't start, or its name isn't found.
pub(crate) fn measure(times: &Times, seed: u64, results: &mut Results, progress: &mut Progress) -> Result<()> {
    let dns = dns()?;
    let mut sums: [Option<(Measured, f64)>; SYSTEMS.len()] = Default::default();
    let rounds = MORE_ROUNDS * times.rounds;
    // Of each round the 99th percentile of all calls; without end if one in a hundred was not answered.
    let mut tails = vec![[f64::INFINITY; SYSTEMS.len()]; rounds];
    for (round, tails) in tails.iter_mut().enumerate() {
        for place in 0..SYSTEMS.len() {
            let index = (place + round) % SYSTEMS.len();
            let (system, rule, name) = SYSTEMS[index];
            progress.step(format!("{CASE} {system}"));
            let (servers, port) = servers()?;
            let target = format!("dns://127.0.0.1:{dns}/{name}:{port}").parse().context("the name")?;
            let channel = Channel::to(target, ChannelConfig::default().wait(Wait::Block).balance(rule))?;
            let mut target = RpcTarget::by(&channel, METHOD, "server", Patience::Observed)?;
            let rate = 0.5 * 3.0 / GOOD.as_secs_f64();
            let classes = Classes::single(Duration::from_secs(1));
            let plan = Plan {
                warm_up: times.warm_up,
                drain: times.drain,
                seed: seed + round as u64,
                ..Plan::new(Arrivals::Poisson { per_second: rate }, classes, times.load)
            };
            let measured = load::run(&plan, &mut target, &mut Rotation::new(Vec::new()), progress);
            let calls: Vec<u64> = servers.iter().map(|server| server.counters().calls).collect();
            let slow = calls[0] as f64 / calls.iter().sum::<u64>() as f64;
            if let Some(p99) = measured.total.quantile_of_all(0.99) {
                tails[index] = p99.as_secs_f64();
            }
            match &mut sums[index] {
                Some((sum, share)) => {
                    sum.append(measured);
                    *share += slow;
                }
                none => *none = Some((measured, slow)),
            }
        }
    }
    for (index, ((system, ..), sum)) in SYSTEMS.iter().zip(sums).enumerate() {
        let Some((measured, share)) = sum else { continue };
        results.push_load(CASE, system, &measured);
        results.push(CASE, system, "share_of_slow", share / rounds as f64);
        // What is compared was measured in the same round. A tail without end is no figure of a table.
        let mut ratios: Vec<f64> = tails.iter().map(|tails| tails[index] / tails[0]).collect();
        ratios.sort_by(f64::total_cmp);
        let (least, middle, most) = (ratios[0], median(&ratios), ratios[rounds - 1]);
        for (metric, value) in [(RATIO, middle), ("least_p99_of_three_good", least), ("most_p99_of_three_good", most)] {
            if value.is_finite() {
                results.push(CASE, system, metric, value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_answered_with_the_servers_of_its_name() {
        let query = |name: &[u8], kind: u8| [&[7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], name, &[0, 0, kind, 0, 1]].concat();
        let count = |name: &[u8], kind| answer(&query(name, kind)).map(|answer| (answer[7], answer.len()));
        assert_eq!(count(b"\x04good\x04test", 1), Some((3, 12 + 15 + 3 * 16)));
        assert_eq!(count(b"\x04four\x04test", 1), Some((4, 12 + 15 + 4 * 16)));
        assert_eq!(count(b"\x04four\x04test", 28), Some((0, 12 + 15)));
        assert_eq!(answer(&[0; 11]), None);
        assert_eq!(answer(&query(b"\x04good", 1)[..14]), None);
    }
}
