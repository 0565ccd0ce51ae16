//! Shares: whatever mix of calls tenants bring, and whatever they claim, none gets more than its share while others wait.

use greenwave_policy::{
    Aside, Budget, CallOverhead, Criticality, Deadline, Order, ReadOverhead, Ready, ReadyQueue, Shares, Span, TenantId,
    Time, Urgency,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::Duration;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// A call: whose it is, and how long it takes.
type Call = (TenantId, Duration);

struct Queue(ReadyQueue<Call>);

impl Ready<Call> for Queue {
    fn take(&mut self, now: Time) -> Option<(TenantId, Urgency, Call)> {
        self.0.pop(now).map(|(urgency, call)| (call.0, urgency, call))
    }

    fn put_back(&mut self, now: Time, urgency: Urgency, call: Call) -> bool {
        self.0.put_back(now, urgency, call);
        true
    }
}

/// One core, which serves a call to its end.
struct Server {
    now: Time,
    shares: Shares,
    aside: Aside<Call>,
    queue: Queue,
}

impl Server {
    fn new(order: Order, weights: &[(u64, u32)]) -> Self {
        let queue = ReadyQueue::new(order);
        let now = Time::from_nanos(1_000_000_000);
        Self { now, shares: Shares::new(weights), aside: Aside::new(queue.clone()), queue: Queue(queue) }
    }

    /// A call comes, with so much time; what it takes is known only once it has run.
    fn comes(&mut self, tenant: TenantId, left: Duration, takes: Duration) {
        let deadline = Deadline::at(self.now, Budget::expected(left));
        let urgency = Urgency { arrived: self.now, birth: self.now, deadline, here: 20 * US, ..Urgency::default() };
        self.shares.came(tenant);
        self.queue.0.push(self.now, urgency, (tenant, takes));
    }

    fn waiting(&self) -> usize {
        self.queue.0.len() + self.aside.len()
    }

    fn serve(&mut self) -> Option<Call> {
        let (_, (tenant, takes)) = self.aside.next(self.now, &mut self.shares, &mut self.queue)?;
        self.now = self.now + takes;
        self.shares.charge(tenant, takes);
        self.shares.began(tenant);
        self.shares.went(tenant, true);
        Some((tenant, takes))
    }
}

fn micros(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_micros)
}

/// Weight 1's part of a time, among so much weight.
fn part(time: Duration, weight: u32) -> f64 {
    time.as_nanos() as f64 / f64::from(weight)
}

proptest! {
    /// Of tenants whose calls wait all the while none is ahead of another by more than a round and a call, whatever their
    /// deadlines, the lengths and the numbers of their calls, and the order.
    #[test]
    fn who_waits_all_the_while_gets_its_share(
        order in select(&Order::ALL[..]), weights in vec(1..20_u32, 2..6),
        mixes in vec((vec(micros(1..5000), 1..8), vec(micros(1..1_000_000), 1..8), 1..4_usize), 6),
    ) {
        let keyed: Vec<(u64, u32)> = weights.iter().enumerate().map(|(key, weight)| (key as u64, *weight)).collect();
        let mut server = Server::new(order, &keyed);
        let tenants: Vec<TenantId> = keyed.iter().map(|(key, _)| server.shares.tenant(*key)).collect();
        let (mut sent, mut had) = (vec![0_usize; tenants.len()], vec![Duration::ZERO; tenants.len()]);
        let come = |server: &mut Server, sent: &mut Vec<usize>, nth: usize| {
            let (takes, left, _) = &mixes[nth];
            server.comes(tenants[nth], left[sent[nth] % left.len()], takes[sent[nth] % takes.len()]);
            sent[nth] += 1;
        };
        // So many wait of each at any time that one does while another is served.
        for (nth, (_, _, depth)) in mixes.iter().take(tenants.len()).enumerate() {
            (0..=10 * depth).for_each(|_| come(&mut server, &mut sent, nth));
        }
        let all: u32 = weights.iter().sum();
        let longest = mixes.iter().flat_map(|(takes, ..)| takes).max().copied().unwrap_or_default();
        for _ in 0..400 {
            let (tenant, takes) = server.serve().expect("calls wait");
            let nth = tenants.iter().position(|one| *one == tenant).expect("one of them");
            had[nth] += takes;
            come(&mut server, &mut sent, nth);
            for (ahead, behind) in (0..tenants.len()).flat_map(|one| (0..tenants.len()).map(move |other| (one, other))) {
                let lead = part(had[ahead], weights[ahead]) - part(had[behind], weights[behind]);
                let most = part(Shares::ROUND, all) + part(longest, weights[ahead]);
                // Marks are whole parts of 2^-32 ns, and so are rates.
                prop_assert!(lead <= most * 1.001 + 1.0, "{ahead} is {lead} ahead of {behind}, at most {most}");
            }
        }
    }

    /// Whoever waits is served, whatever it had before: nothing is left undone, and all that came is served once.
    #[test]
    fn nothing_that_could_be_done_is_left_undone(
        order in select(&Order::ALL[..]), steps in vec((0..5_u64, micros(1..100_000), micros(1..20_000), any::<bool>()), 1..300),
    ) {
        let mut server = Server::new(order, &[(0, 3)]);
        let (mut came, mut served) = (Duration::ZERO, Duration::ZERO);
        for (key, left, takes, serve) in steps {
            let tenant = server.shares.tenant(key);
            server.comes(tenant, left, takes);
            came += takes;
            if serve {
                let waiting = server.waiting();
                served += server.serve().expect("one has just come").1;
                prop_assert_eq!(server.waiting(), waiting - 1);
            }
        }
        while server.waiting() > 0 {
            served += server.serve().expect("calls wait").1;
        }
        prop_assert_eq!(served, came);
        prop_assert!(server.serve().is_none());
    }

    /// One call that is in no hurry at all, among tenants whose calls are always urgent and never end, is served after a bounded
    /// time: a lead, a round, and a call of each.
    #[test]
    fn nobody_starves(
        order in select(&Order::ALL[..]), hogs in 1..40_u64, takes in vec(micros(100..3000), 1..8), before in 0..500_usize,
    ) {
        let mut server = Server::new(order, &[]);
        let hogs: Vec<TenantId> = (0..hogs).map(|key| server.shares.tenant(key)).collect();
        for nth in 0..2 * hogs.len() {
            server.comes(hogs[nth % hogs.len()], MS, takes[nth % takes.len()]);
        }
        let serve = |server: &mut Server, nth: usize| {
            let (tenant, _) = server.serve().expect("calls wait");
            server.comes(tenant, MS, takes[nth % takes.len()]);
            tenant
        };
        (0..before).for_each(|nth| { serve(&mut server, nth); });
        let patient = server.shares.tenant(1000);
        server.comes(patient, 1000 * MS, US);
        let began = server.now;
        let longest = takes.iter().max().copied().unwrap_or_default();
        let within = Shares::LEAD + 2 * Shares::ROUND + (hogs.len() as u32 + 2) * longest;
        let mut nth = 0;
        while serve(&mut server, nth) != patient {
            nth += 1;
            prop_assert!(server.now.since(began) <= within, "{within:?} are over");
        }
    }

    /// However many there are, and whatever they do, there are not more accounts than places, and the sums add up.
    #[test]
    fn tenants_are_bounded_whatever_comes(
        steps in vec((0..1500_u64, any::<bool>(), any::<u64>()), 0..2500), weights in vec((any::<u64>(), any::<u32>()), 0..5),
    ) {
        let mut shares = Shares::new(&weights);
        let mut here: Vec<TenantId> = Vec::new();
        for (key, comes, span) in steps {
            let tenant = shares.tenant(key);
            prop_assert!(tenant.index() < Shares::MOST);
            if comes {
                shares.came(tenant);
                here.push(tenant);
            } else if let Some(gone) = here.pop() {
                shares.charge(gone, Span::from_nanos(span));
                shares.went(gone, false);
            }
            let _ = (shares.is_over(tenant), shares.most_crowded(tenant));
        }
        prop_assert!(shares.tenants() <= Shares::MOST);
        let all: usize = (0..1500).map(|key| shares.tenant(key)).collect::<std::collections::HashSet<_>>()
            .into_iter().map(|tenant| shares.calls(tenant)).sum();
        prop_assert!(all <= here.len());
    }
}

proptest! {
    #[test]
    fn a_call_counts_for_what_calls_take_and_a_stall_for_little(
        takes in micros(1..40),
        posts in micros(0..10),
        batches in vec(1_usize..64, 2000),
        stalled in 0_usize..2000,
    ) {
        let mut overhead = CallOverhead::default();
        for (at, calls) in batches.iter().enumerate() {
            overhead.found(*calls, takes * *calls as u32);
            overhead.spent(posts * *calls as u32);
            if at == stalled {
                overhead.found(1, Duration::from_secs(1));
                overhead.spent(Duration::from_secs(1));
            }
        }
        let (each, expected) = (overhead.each(), takes + posts);
        // The time of a stall that counts is a quarter of what is remembered, and soon forgotten.
        prop_assert!(each >= expected.mul_f64(0.95) && each <= expected.mul_f64(1.4), "{each:?} of {expected:?}");
    }

    #[test]
    fn bytes_count_for_what_they_take_and_a_stall_for_little(
        nanos_of_64 in 4_u64..256,
        reads in vec(4096_usize..1 << 20, 2000),
        stalled in 0_usize..2000,
    ) {
        let mut overhead = ReadOverhead::default();
        let mut bytes_since = 0;
        for (at, bytes) in reads.iter().enumerate() {
            overhead.read(*bytes, Span::from_nanos(*bytes as u64 * nanos_of_64 / 64));
            bytes_since += bytes;
            if at == stalled {
                overhead.read(4096, Duration::from_secs(1));
                bytes_since = 0;
            }
        }
        let (of, expected) = (overhead.of(1 << 20), Duration::from_nanos((1 << 20) * nanos_of_64 / 64));
        // It counts as 64 us, and that is forgotten with the next ten milliseconds.
        let forgotten = expected.mul_f64(bytes_since as f64 / f64::from(1 << 20)) > Duration::from_millis(200);
        let most = if forgotten { 1.01 } else { 1.1 };
        prop_assert!(of >= expected.mul_f64(0.98) && of <= expected.mul_f64(most), "{of:?} of {expected:?}");
    }

    #[test]
    fn whatever_is_said_of_it_a_byte_counts_for_no_more_than_the_most(
        said in vec((any::<usize>(), any::<u64>()), 0..200),
        asked in any::<usize>(),
    ) {
        let mut overhead = ReadOverhead::default();
        for (bytes, took) in said {
            overhead.read(bytes, Span::from_nanos(took));
            prop_assert!(overhead.of(asked) <= Duration::from_nanos((asked as u64).saturating_mul(ReadOverhead::MOST)));
        }
    }

    #[test]
    fn whatever_is_said_of_it_a_call_counts_for_no_more_than_the_most(
        said in vec((any::<usize>(), any::<u64>(), any::<u64>()), 0..200),
    ) {
        let mut overhead = CallOverhead::default();
        for (calls, found, spent) in said {
            overhead.found(calls, Span::from_nanos(found));
            overhead.spent(Span::from_nanos(spent));
            prop_assert!(overhead.each() <= CallOverhead::MOST);
        }
    }
}

#[test]
fn a_call_that_is_here_keeps_its_tenants_place_and_who_finds_none_shares_one() {
    let mut shares = Shares::new(&[]);
    let kept = shares.tenant(0);
    shares.came(kept);
    let others: Vec<TenantId> = (1..Shares::MOST as u64 - 1).map(|key| shares.tenant(key)).collect();
    assert_eq!(shares.tenants(), Shares::MOST);
    // All of them are idle, so whoever comes takes one's place.
    assert!((5000..9000).all(|key| shares.tenant(key) != TenantId::REST));
    assert_eq!(shares.tenant(0), kept);
    others.iter().for_each(|tenant| shares.came(*tenant));
    assert_eq!((shares.tenant(20_000), shares.tenant(20_001)), (TenantId::REST, TenantId::REST));
    // Nor does anybody leave what it owes by being away.
    let mut shares = Shares::new(&[]);
    for key in 0..Shares::MOST as u64 - 1 {
        let tenant = shares.tenant(key);
        shares.charge(tenant, MS);
    }
    assert_eq!(shares.tenant(20_000), TenantId::REST);
}

#[test]
fn who_had_what_nobody_wanted_owes_nothing_for_it() {
    let mut server = Server::new(Order::Guarded, &[]);
    let (alone, late) = (server.shares.tenant(1), server.shares.tenant(2));
    for _ in 0..1000 {
        server.comes(alone, MS, MS);
        server.serve();
    }
    let mut had = [0, 0];
    for _ in 0..100 {
        server.comes(alone, MS, MS);
        server.comes(late, 1000 * MS, MS);
    }
    for _ in 0..100 {
        let (tenant, _) = server.serve().expect("calls wait");
        had[usize::from(tenant == late)] += 1;
    }
    // A lead and a round, each divided by two, are 15 calls, of which one has more and the other less.
    assert!(had[0] >= 34 && had[1] >= 34, "{had:?}");
}

#[test]
fn who_kept_a_call_here_and_used_nothing_is_not_paid_for_it() {
    let mut server = Server::new(Order::Guarded, &[]);
    let [idle, one, other] = [1, 2, 3].map(|key| server.shares.tenant(key));
    // A stream on which nothing is said, for as long as the others have thousands of turns.
    server.shares.came(idle);
    server.shares.began(idle);
    for _ in 0..3_600 {
        server.comes(one, MS, MS);
        server.comes(other, MS, MS);
        server.serve();
        server.serve();
    }
    for _ in 0..600 {
        [idle, one, other].into_iter().for_each(|tenant| server.comes(tenant, MS, MS));
    }
    let had = (0..300).filter_map(|_| server.serve()).filter(|(tenant, _)| *tenant == idle).count();
    // A third, a lead of 20 ms divided by three, and a round.
    assert!((90..=120).contains(&had), "{had}");
}

#[test]
fn a_tenant_whose_calls_run_makes_no_room_for_others() {
    let mut shares = Shares::new(&[]);
    let [streams, crowd, own] = [1, 2, 3].map(|key| shares.tenant(key));
    for _ in 0..1000 {
        shares.came(streams);
        shares.began(streams);
    }
    (0..90).for_each(|_| shares.came(crowd));
    assert_eq!(shares.most_crowded(own), Some((crowd, 44)));
    (0..90).for_each(|_| shares.went(crowd, false));
    assert_eq!(shares.most_crowded(own), None);
}

#[test]
fn a_deadline_counts_within_a_share_and_not_beyond() {
    let mut server = Server::new(Order::EarliestDeadline, &[]);
    let (hurried, patient) = (server.shares.tenant(1), server.shares.tenant(2));
    for _ in 0..1000 {
        server.comes(hurried, MS, 100 * US);
        server.comes(patient, 1000 * MS, 100 * US);
    }
    let first: Vec<bool> = (0..1000).filter_map(|_| server.serve()).map(|(tenant, _)| tenant == hurried).collect();
    // Half of a round is a tenant's share of it, and a call is let in as long as that isn't used up.
    let ahead = first.iter().take_while(|is_hurried| **is_hurried).count();
    assert!((40..=60).contains(&ahead), "{ahead}");
    let all = first.iter().filter(|is_hurried| **is_hurried).count();
    assert!((440..=560).contains(&all), "{all}");
}

#[test]
fn a_queue_is_cut_where_it_is_longest_for_its_weight() {
    let mut shares = Shares::new(&[(1, 10)]);
    let (heavy, hog, own) = (shares.tenant(1), shares.tenant(2), shares.tenant(3));
    (0..100).for_each(|_| shares.came(heavy));
    (0..90).for_each(|_| shares.came(hog));
    assert_eq!(shares.most_crowded(own), Some((hog, 44)));
    assert_eq!(shares.most_crowded(heavy), Some((hog, 39)));
    assert_eq!(shares.most_crowded(hog), None, "by its weight it is the one itself");
    (0..88).for_each(|_| shares.came(own));
    assert_eq!(shares.most_crowded(own), None, "there is nothing between them");
}

#[test]
fn what_is_aside_can_be_shed_and_nothing_of_it_is_lost() {
    let mut server = Server::new(Order::Guarded, &[]);
    let (hog, other) = (server.shares.tenant(1), server.shares.tenant(2));
    server.shares.charge(hog, 1000 * MS);
    (1..=10).for_each(|n| server.comes(hog, 1000 * MS, n * MS));
    server.comes(other, 1000 * MS, MS);
    assert_eq!(server.serve(), Some((other, MS)));
    assert_eq!(server.aside.len(), 10);
    let shed = server.aside.shed(hog, 3, |_, (_, takes)| (*takes > 5 * MS).then_some(*takes));
    let mut shed: Vec<u128> = shed.into_iter().map(|(_, (_, takes))| takes.as_millis()).collect();
    shed.sort_unstable();
    assert_eq!(shed, [8, 9, 10]);
    assert!(server.aside.shed(other, 3, |_, _| Some(0)).is_empty());
    assert_eq!(std::iter::from_fn(|| server.serve()).count(), 7);
}

#[test]
fn shedding_goes_by_what_it_is_told_in_every_order() {
    for order in Order::ALL {
        let mut queue = ReadyQueue::new(order);
        let at = |n: u32| Time::from_nanos(1) + n * US;
        for n in 0..40_u32 {
            let deadline = Deadline::at(at(n), Budget::expected(US * (n * 7 % 40)));
            let urgency = Urgency { arrived: at(n), deadline, here: US, ..Urgency::default() };
            queue.push(at(n), urgency, Criticality::ALL[n as usize % 4]);
        }
        // Some are found late, and wait elsewhere.
        let _ = queue.pop_due(at(30));
        let least = |_: &Urgency, one: &Criticality| (*one < Criticality::Critical).then_some(std::cmp::Reverse(*one));
        let shed = queue.shed_by(12, least);
        assert_eq!(shed.len(), 12, "{order}");
        assert!(shed.iter().filter(|(_, one)| *one == Criticality::Sheddable).count() >= 9, "{order}");
        assert!(shed.iter().all(|(_, one)| *one < Criticality::Critical), "{order}");
        assert_eq!(queue.drain(at(100)).count(), 27, "{order}");
    }
}

#[test]
fn criticality_is_what_its_name_says_and_nothing_else() {
    for one in Criticality::ALL {
        assert_eq!(one.to_string().parse(), Ok(one));
        assert_eq!(Criticality::parse(one.name().to_uppercase().as_bytes()), Some(one));
    }
    assert_eq!(Criticality::default(), Criticality::Critical);
    assert!(Criticality::ALL.is_sorted());
    for other in ["", "critical ", "criticalplus", "\u{fffd}", "sheddable\0"] {
        assert_eq!(Criticality::parse(other.as_bytes()), None, "{other:?}");
    }
}

#[test]
fn what_nobody_else_wanted_is_forgiven() {
    let mut shares = Shares::new(&[]);
    let [busy, other, third] = [1, 3, 5].map(|key| shares.tenant(key));
    [busy, other].into_iter().for_each(|tenant| shares.came(tenant));
    shares.charge(busy, 500 * MS);
    shares.charge(other, 100 * MS);
    assert!(shares.is_over(busy) && shares.is_over(other) && !shares.is_over(third));
    let mut alone = shares.clone();
    alone.forgive(busy);
    assert!(!alone.is_over(busy) && alone.is_over(other), "of one, where it was alone");
    // It is not paid for it either: a round more, and it is over again.
    alone.charge(busy, Shares::ROUND);
    assert!(alone.is_over(busy));
    shares.rest();
    assert!(
        ![busy, other, third].into_iter().any(|tenant| shares.is_over(tenant)),
        "of all, where nobody wants anything"
    );
    shares.charge(busy, 2 * Shares::ROUND);
    assert!(shares.is_over(busy) && !shares.is_over(other));
}

#[test]
fn of_those_that_are_over_it_is_the_turn_of_the_one_that_is_least_so() {
    let mut shares = Shares::new(&[]);
    let [much, less] = [1, 3].map(|key| shares.tenant(key));
    [much, less].into_iter().for_each(|tenant| shares.came(tenant));
    shares.charge(much, 500 * MS);
    shares.charge(less, 100 * MS);
    assert_eq!(shares.turn_among([much, less]), Some(less));
    assert!(!shares.is_over(less) && shares.is_over(much), "and so it is not over any more");
    assert_eq!(shares.turn_among([]), None);
}
