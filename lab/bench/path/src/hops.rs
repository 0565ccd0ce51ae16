//! Five hops that do nothing but call the next one: how exact are budgets and receipts?
//!
//! All hops read the same monotonic clock, so the truth is known. The last hop replies with what it believes is left and
//! the time at which it believes so; the client compares that with its own deadline. And what the receipts say adds up to
//! some time, which the client compares with what its own clock measured.

use anyhow::{Context as _, Result};
use greenwave::{Address, Channel, ChannelConfig, Context, MethodId, Router, Server, ServerConfig, ServerHandle, Wait};
use greenwave_bench::clock;
use greenwave_bench::latencies::Latencies;
use greenwave_bench::result::Results;
use std::time::Duration;

const RELAY: &str = "greenwave.Relay/Pass";
const HOPS: usize = 5;
const EXPECTED: Duration = Duration::from_millis(100);

/// Serves one hop, which calls the next one if there is one.
fn serve(name: String, next: Option<Address>) -> Result<ServerHandle> {
    let next = next.map(channel).transpose()?;
    let method = MethodId::of(RELAY);
    let router = Router::new().method(RELAY, move |context, request, reply| {
        match &next {
            Some(next) => reply.extend_from_slice(&next.call(context, method, request)?.body),
            None => {
                // The budget and the time at which it was read belong together.
                let (now, left) = (clock::now(), context.budget());
                reply.extend_from_slice(&now.as_nanos().to_le_bytes());
                reply.extend_from_slice(&left.as_nanos().to_le_bytes());
            }
        }
        Ok(())
    });
    let listen = vec!["tcp://127.0.0.1:0".parse().context("the loopback address")?];
    Ok(Server::start(ServerConfig::default().name(name).listen(listen).wait(Wait::Block), router)?)
}

fn channel(to: Address) -> Result<Channel> {
    Ok(Channel::new(to, ChannelConfig::default().wait(Wait::Block))?)
}

/// Measures, and adds the rows of the case `five-hops`.
///
/// # Errors
/// When a hop doesn't start or more than one call in a hundred fails.
pub(crate) fn measure(calls: usize, results: &mut Results) -> Result<()> {
    let mut hops: Vec<ServerHandle> = Vec::new();
    for hop in (1..=HOPS).rev() {
        let next = hops.last().map(|next| next.addresses()[0].clone());
        hops.push(serve(format!("hop-{hop}"), next)?);
    }
    let first = hops.last().context("there are hops")?;
    let channel = channel(first.addresses()[0].clone())?;
    let method = MethodId::of(RELAY);
    let mut exact = Exactness::default();
    for call in 0..calls + calls / 10 {
        let begun = clock::now();
        let context = Context::with_deadline(EXPECTED);
        let expires = context.deadline().expires().context("the call has a deadline")?;
        let reply = match channel.call(&context, method, &[]) {
            Ok(reply) => reply,
            // A machine may be busy with something else for a while; hops that don't work at all are another matter.
            Err(_) if exact.failed < calls / 100 => {
                exact.failed += 1;
                continue;
            }
            Err(status) => return Err(status).context("more than one call in a hundred failed"),
        };
        let measured = clock::now().since(begun);
        // The first tenth lets connections open and estimates settle.
        if call < calls / 10 {
            continue;
        }
        let summed = reply.network + reply.receipt.critical_path();
        exact.receipts.record(measured.abs_diff(summed));
        exact.round_trips.record(measured);
        let (at, left) = reply.body.split_first_chunk::<8>().context("the last hop's clock")?;
        let left: [u8; 8] = left.try_into().context("the last hop's budget")?;
        let truth = i128::from(expires.as_nanos()) - i128::from(u64::from_le_bytes(*at));
        let error = (i128::from(i64::from_le_bytes(left)) - truth).unsigned_abs();
        exact.budgets.record(Duration::from_nanos(u64::try_from(error).unwrap_or(u64::MAX)));
    }
    exact.report(results);
    Ok(())
}

/// How far off things were.
#[derive(Default)]
struct Exactness {
    /// Calls without an answer, which tell nothing of exactness.
    failed: usize,
    receipts: Latencies,
    budgets: Latencies,
    round_trips: Latencies,
}

impl Exactness {
    fn report(&self, results: &mut Results) {
        let rows = [
            ("budget_error_p50_us", &self.receipts, 0.5),
            ("budget_error_p99_us", &self.receipts, 0.99),
            ("last_hop_budget_error_p50_us", &self.budgets, 0.5),
            ("last_hop_budget_error_p99_us", &self.budgets, 0.99),
            ("round_trip_p50_us", &self.round_trips, 0.5),
            ("round_trip_p99_us", &self.round_trips, 0.99),
        ];
        for (metric, errors, quantile) in rows {
            if let Some(error) = errors.quantile(quantile) {
                results.push("five-hops", "greenwave", metric, error.as_secs_f64() * 1e6);
            }
        }
        results.push("five-hops", "greenwave", "failed_calls", self.failed as f64);
    }
}
