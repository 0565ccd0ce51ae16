//! What queueing theory says of response times, for one kind of server each: what simulations are checked by.
//!
//! Times are in the unit in which they come in. `load` is the share of the time in which the server is busy, 0 to 1 without 1;
//! elsewhere what is returned means nothing.

/// M/M/1 and every other server with one core that serves exponential work without knowing it: the mean response time.
#[must_use]
pub fn mm1_response(load: f64, mean: f64) -> f64 {
    mean / (1.0 - load)
}

/// The response time of M/M/1 under first come, first served that a share of `quantile` stays within.
#[must_use]
pub fn mm1_quantile(load: f64, mean: f64, quantile: f64) -> f64 {
    -(1.0 - quantile).ln() * mm1_response(load, mean)
}

/// M/G/1, first come, first served: the mean response time by Pollaczek and Khinchine, of the work's mean and mean square.
#[must_use]
pub fn mg1_fcfs_response(load: f64, mean: f64, square: f64) -> f64 {
    mean + load * square / mean / (2.0 * (1.0 - load))
}

/// M/G/1, processor sharing: the mean response time, which depends on nothing but the work's mean.
#[must_use]
pub fn mg1_ps_response(load: f64, mean: f64) -> f64 {
    mean / (1.0 - load)
}

/// The probability by Erlang that a job has to wait for one of `workers`.
#[must_use]
pub fn erlang_c(workers: usize, load: f64) -> f64 {
    let offered = load * workers as f64;
    // Erlang's B by its recursion, which overflows for no number of workers.
    let blocked = (1..=workers).fold(1.0, |blocked, worker| offered * blocked / (worker as f64 + offered * blocked));
    blocked / (1.0 - load * (1.0 - blocked))
}

/// M/M/k, first come, first served: the mean response time.
#[must_use]
pub fn erlang_c_response(workers: usize, load: f64, mean: f64) -> f64 {
    mean + erlang_c(workers, load) * mean / (workers as f64 * (1.0 - load))
}

/// Workers that get jobs in turns, each with a queue of its own, exponential work: the mean response time. To a worker jobs come by
/// an Erlang distribution of as many phases as there are workers, so each is an Ek/M/1.
///
/// To give each job to the shortest queue is better than this (Winston, 1977), and no better than [one queue for
/// all](erlang_c_response).
#[must_use]
pub fn round_robin_response(workers: usize, load: f64, mean: f64) -> f64 {
    let phases = load * workers as f64;
    // The probability that a job finds its worker busy: the least fixed point, to which the iteration rises.
    let mut waits: f64 = 0.0;
    loop {
        let next = (phases / (phases + 1.0 - waits)).powf(workers as f64);
        if next - waits < 1e-13 {
            return mean / (1.0 - next);
        }
        waits = next;
    }
}

/// Two workers, each with a queue of its own, exponential work, each job to the shorter queue: the mean response time.
///
/// There is no closed form, so it is the balance of the Markov chain of both queues' lengths, found by iteration; queues are cut
/// where they are as likely as one in 10^12.
#[must_use]
pub fn shorter_of_two_response(load: f64, mean: f64) -> f64 {
    let most = ((-12.0 * 10_f64.ln() / load.ln() / 2.0) as usize + 4).min(400);
    let place = |one: usize, other: usize| one.min(other) * (most + 1) + one.max(other);
    let all = 2.0 * load + 2.0;
    let mut likely = vec![0.0; (most + 1) * (most + 1)];
    likely[0] = 1.0;
    let mut unfinished = 0.0;
    loop {
        for _ in 0..1000 {
            let mut next = vec![0.0; likely.len()];
            for short in 0..=most {
                for long in short..=most {
                    let here = likely[place(short, long)] / all;
                    let arrives = place((short + 1).min(most), long);
                    next[arrives] += 2.0 * load * here;
                    for (one, other) in [(short, long), (long, short)] {
                        next[place(one.saturating_sub(1), other)] += here;
                    }
                }
            }
            likely = next;
        }
        let rows = likely.chunks_exact(most + 1).enumerate();
        let sums = rows
            .flat_map(|(short, row)| row.iter().enumerate().map(move |(long, likely)| (short + long) as f64 * likely));
        let now: f64 = sums.sum();
        // Little's law.
        if (now - unfinished).abs() < 1e-9 * now {
            return now / (2.0 * load) * mean;
        }
        unfinished = now;
    }
}

/// A distribution of works by its tail, as the formulae for orders by work need it.
#[derive(Debug)]
pub struct Tail {
    /// Instants from 0 on, evenly spaced, and how likely work is longer than each.
    step: f64,
    longer: Vec<f64>,
}

impl Tail {
    /// The distribution for which `longer(work)` is the probability that work is longer, up to `most`, in so many steps.
    #[must_use]
    pub fn new(most: f64, steps: usize, longer: impl Fn(f64) -> f64) -> Self {
        let step = most / steps as f64;
        Self { step, longer: (0..=steps).map(|at| longer(at as f64 * step)).collect() }
    }

    /// M/G/1 by the shortest remaining work (Schrage and Miller, 1966): the mean response time at this rate of arrivals.
    #[must_use]
    pub fn srpt_response(&self, rate: f64) -> f64 {
        let (mut mean, mut moment, mut residence, mut capped) = (0.0, 0.0, 0.0, 0.0);
        for (at, pair) in self.longer.windows(2).enumerate() {
            let (here, work) = (f64::midpoint(pair[0], pair[1]), (at as f64 + 0.5) * self.step);
            moment += 2.0 * work * here * self.step;
            capped += here * self.step;
            // Of work up to this one: the capped mean less what those beyond contribute.
            let busy = rate * (capped - work * here);
            residence += self.step / (1.0 - busy);
            let response = rate * moment / (2.0 * (1.0 - busy).powi(2)) + residence;
            mean += response * (pair[0] - pair[1]);
        }
        mean
    }

    /// M/G/1 by the least attained service (foreground-background): the mean response time at this rate of arrivals.
    #[must_use]
    pub fn las_response(&self, rate: f64) -> f64 {
        let (mut mean, mut moment, mut capped) = (0.0, 0.0, 0.0);
        for (at, pair) in self.longer.windows(2).enumerate() {
            let (here, work) = (f64::midpoint(pair[0], pair[1]), (at as f64 + 0.5) * self.step);
            moment += 2.0 * work * here * self.step;
            capped += here * self.step;
            let left = 1.0 - rate * capped;
            mean += (rate * moment / (2.0 * left * left) + work / left) * (pair[0] - pair[1]);
        }
        mean
    }
}

/// The throughput of a TCP connection by the square-root law (Mathis et al., 1997), in segments a second: at this round trip,
/// and this share of segments lost at random, each acknowledged. Its constant for random losses is 1.31.
#[must_use]
pub fn tcp_segments_per_s(round_trip: f64, loss: f64) -> f64 {
    1.31 / loss.sqrt() / round_trip
}

/// The same law as it is derived: losses are as far apart as they can be, and the constant is the square root of 3/2.
#[must_use]
pub fn tcp_segments_per_s_by_even_losses(round_trip: f64, loss: f64) -> f64 {
    (1.5 / loss).sqrt() / round_trip
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(this: f64, that: f64) {
        assert!((this / that - 1.0).abs() < 2e-3, "{this} and {that}");
    }

    /// Exponential work: all orders that don't know it have the same mean, and the shortest remaining work does better.
    #[test]
    fn orders_that_do_not_know_exponential_work_are_alike() {
        let tail = Tail::new(40.0, 400_000, |work| (-work).exp());
        near(tail.las_response(0.7), mm1_response(0.7, 1.0));
        near(mg1_fcfs_response(0.7, 1.0, 2.0), mm1_response(0.7, 1.0));
        assert!(tail.srpt_response(0.7) < 0.8 * mm1_response(0.7, 1.0));
    }

    /// Each bound is on its side, and all are the same where there is one worker or nobody waits.
    #[test]
    fn the_shorter_queue_is_between_its_bounds() {
        near(round_robin_response(1, 0.7, 2.0), mm1_response(0.7, 2.0));
        near(round_robin_response(4, 0.01, 1.0), 1.0);
        near(shorter_of_two_response(0.01, 1.0), 1.0);
        for load in [0.3, 0.6, 0.8] {
            let (least, shorter, most) = (
                erlang_c_response(2, load, 1.0),
                shorter_of_two_response(load, 1.0),
                round_robin_response(2, load, 1.0),
            );
            assert!(least < shorter && shorter < most && most < mm1_response(load, 1.0), "{least} {shorter} {most}");
        }
    }

    /// Values that can be found in tables.
    #[test]
    fn erlang_is_as_in_tables() {
        near(erlang_c(1, 0.5), 0.5);
        near(erlang_c(2, 0.5), 1.0 / 3.0);
        near(erlang_c(10, 0.8), 0.4092);
        near(erlang_c_response(1, 0.7, 2.0), mm1_response(0.7, 2.0));
        assert!(erlang_c(4000, 0.9).is_finite());
    }
}
