//! Shares on a thread of a server: whose turn it is, and what is learned of each tenant's calls by itself.
//!
//! What a call teaches is kept for its tenant and method, so that nobody's calls are refused for what others' calls took or came
//! too late. Such pairs are bounded; beyond that a tenant is refused nothing by estimate.

use super::metering::{AT_ONCE, CALM, Metering, OWNERS, REST, STALE, TimeUsage};
use super::methods::{Known, Learned, Lesson};
use super::task::{Handler, Tasks};
use crate::config::ServerConfig;
use crate::net::{Net, PeerKey, SMALL};
use crate::shares::ShareConfig;
use greenwave_policy::{
    Admission, Aside, Budget, CallOverhead, Margin, ReadOverhead, Ready, Shares, Span, TenantId, Time, Urgency, Verdict,
};
use greenwave_proto::Peer;
use greenwave_quanta::Scheduler;
use greenwave_quanta::scheduler::JobId;
use std::time::Duration;

/// How many pairs of a tenant and a method something is kept of: some 6 KiB each.
const PAIRS: usize = 512;

/// What a read takes beside what is found.
const READ: Duration = Duration::from_micros(2);

/// For how long whoever calls is not alone, after another has called.
const CONTENDED: Duration = Duration::from_secs(1);

/// Of how many rows those are given up whose tenants have no calls, when there is no room for another pair.
const LOOKS: usize = 8;

/// What a thread knows of tenants.
pub(super) struct Sharing {
    config: ShareConfig,
    shares: Shares,
    aside: Aside<JobId>,
    overhead: CallOverhead,
    reading: ReadOverhead,
    /// By tenants.
    rows: Vec<Row>,
    pairs: usize,
    /// Which row is looked at next for pairs to give up.
    hand: usize,
    /// For those of whom nothing is kept: it knows no estimate.
    plain: Admission,
    server: ServerConfig,
    metering: Metering,
    /// Who called last, 0 if nobody has, and until when others count as being there too.
    last: u64,
    contended_until: Time,
    /// When a connection may next be read because it has waited for long.
    stale_next: Time,
}

/// The jobs of a thread.
pub(super) type Jobs = Scheduler<Handler, usize>;

/// What one tenant's calls taught.
#[derive(Default)]
struct Row {
    /// Whose it is: its place may be another's later.
    key: u64,
    /// When it was last seen to have had more than its share.
    over: Time,
    usage: TimeUsage,
    /// By methods.
    pairs: Vec<Option<Box<Pair>>>,
}

struct Pair {
    learned: Learned,
    admission: Admission,
}

/// A tenant, as a call knows it.
#[derive(Clone, Copy, Default)]
pub(super) struct Tenant {
    /// What other threads know it by.
    pub(super) key: u64,
    pub(super) id: TenantId,
}

impl Sharing {
    pub(super) fn new(server: &ServerConfig, config: &ShareConfig) -> Self {
        Self {
            config: config.clone(),
            shares: config.accounts(),
            aside: Aside::new(super::ready_queue(server)),
            overhead: CallOverhead::default(),
            reading: ReadOverhead::default(),
            rows: Vec::new(),
            pairs: 0,
            hand: 0,
            plain: Admission::new(server.admission),
            server: server.clone(),
            metering: Metering::default(),
            last: 0,
            contended_until: Time::ZERO,
            stale_next: Time::ZERO,
        }
    }

    /// Whose a call is that came in.
    pub(super) fn tenant(&mut self, peer: &Peer, metadata: Option<&[u8]>) -> Tenant {
        self.keyed(self.config.tenant(peer, metadata))
    }

    /// A call of this tenant's came, which is charged whether it is refused or its handler takes no time. What is long about it was
    /// [charged](Self::read_long) as it was read. Whether the tenant has had more than its share while others were there.
    pub(super) fn read(&mut self, now: Time, tenant: Tenant, bytes: usize) -> bool {
        let short = if bytes > SMALL { 0 } else { bytes };
        self.take_note(now, tenant, self.overhead.each() + self.reading.of(short))
    }

    /// Charges what was read that is long: the bytes of a call take their time before it is there, and those of one that was refused
    /// at its first do after. `took`: all that was found then was read in so long. How many connections are read in turn from now on.
    #[cold]
    pub(super) fn read_long(&mut self, now: Time, took: Span, net: &mut Net) -> usize {
        self.reading.read(net.long_bytes(), took);
        let mut begin = 0;
        while let Some((peer, bytes)) = net.next_long() {
            let Some((tenant, is_alone)) = self.carried(net, peer) else { continue };
            if self.take_note(now, tenant, self.reading.of(bytes)) && is_alone {
                begin += usize::from(self.meter(now, net, peer, tenant.key));
            }
        }
        begin
    }

    /// Whose calls a connection carries, or who has it if none came yet; and whether it carries nobody else's.
    pub(super) fn carried(&mut self, net: &mut Net, peer: PeerKey) -> Option<(Tenant, bool)> {
        let carried = net.carried(peer);
        let identity = net.identity(peer)?;
        let tenant = match carried {
            Ok(Some(key)) => self.keyed(key),
            _ => self.tenant(identity, None),
        };
        Some((tenant, carried.is_ok()))
    }

    /// A tenant has sent something, which took so long. Whether it has had more than its share while others were there.
    fn take_note(&mut self, now: Time, tenant: Tenant, took: Duration) -> bool {
        self.charge_read(tenant, took);
        if tenant.key != self.last {
            let is_first = std::mem::replace(&mut self.last, tenant.key) == 0;
            self.contended_until = if is_first { Time::ZERO } else { now + CONTENDED };
        }
        if now >= self.contended_until {
            // What nobody else wanted is nobody's loss.
            self.shares.forgive(tenant.id);
        }
        self.is_over(now, tenant)
    }

    fn charge_read(&mut self, tenant: Tenant, took: Duration) {
        self.shares.charge(tenant.id, took);
        if let Some(row) = self.rows.get_mut(tenant.id.index()) {
            row.usage.add_read(took.into());
        }
    }

    /// Whether a tenant has had more than its share while others were there, and not least by what it has sent; that is
    /// remembered.
    fn is_over(&mut self, now: Time, tenant: Tenant) -> bool {
        if now >= self.contended_until || !self.shares.is_over(tenant.id) {
            return false;
        }
        let Some(row) = self.rows.get_mut(tenant.id.index()).filter(|row| row.usage.is_much_read()) else {
            return false;
        };
        row.over = now;
        true
    }

    /// So many calls were found and dealt with in so long, posts of replies included.
    pub(super) fn found(&mut self, calls: usize, took: Span) {
        self.overhead.found(calls, took);
    }

    /// Replies were posted, which took so long.
    pub(super) fn posted(&mut self, took: Span) {
        self.overhead.spent(took);
    }

    /// Reads a connection of this owner's in turn from now on. Whether it was not before.
    #[cold]
    pub(super) fn meter(&mut self, now: Time, net: &mut Net, peer: PeerKey, owner: u64) -> bool {
        let begins = self.metering.has_room(owner) && net.meter(peer, owner);
        if begins {
            self.metering.wait(now, peer, owner, |peer| net.has(peer));
        }
        begins
    }

    /// Has metered connections read whose turn it is. `is_idle`: nobody has anything to do. Whether any is to be read now.
    pub(super) fn read_in_turn(&mut self, now: Time, is_idle: bool, net: &mut Net) -> bool {
        while let Some((peer, owner)) = net.next_read() {
            if owner == 0 {
                self.begin(now, net, peer);
                continue;
            }
            // Also if there was no call in it.
            let tenant = self.keyed(owner);
            self.charge_read(tenant, READ);
            self.metering.wait(now, peer, owner, |peer| net.has(peer));
        }
        if !self.metering.is_empty() {
            return self.give_turns(now, is_idle, net);
        }
        if is_idle {
            self.shares.rest();
        }
        false
    }

    /// A connection came in. If whoever has it is over the share, it is read in turn from the beginning: others have been, and who
    /// is over would only have to make new ones.
    fn begin(&mut self, now: Time, net: &mut Net, peer: PeerKey) {
        let Some(identity) = net.identity(peer) else { return };
        let owner = self.tenant(identity, None);
        if self.is_over(now, owner) && self.metering.has_room(owner.key) && net.meter(peer, owner.key) {
            net.post_receive(peer);
        }
    }

    #[cold]
    fn give_turns(&mut self, now: Time, is_idle: bool, net: &mut Net) -> bool {
        let mut any = false;
        for _ in 0..OWNERS.min(self.metering.len()) {
            let Some(owner) = self.metering.next_owner() else { break };
            let tenant = self.keyed(owner);
            if self.is_over(now, tenant) {
                let is_stale = self.metering.since(owner).is_some_and(|since| now.since(since) > STALE);
                if is_stale && now >= self.stale_next {
                    self.stale_next = now + REST;
                    any |= self.read_one(owner, |peer| net.post_receive(peer));
                }
                continue;
            }
            let is_calm = self.rows.get(tenant.id.index()).is_none_or(|row| now.since(row.over) > CALM);
            for _ in 0..AT_ONCE {
                any |= self.read_one(owner, |peer| {
                    if is_calm {
                        net.unmeter(peer);
                    }
                    is_calm || net.post_receive(peer)
                });
            }
        }
        // Of some owners no connection may be left.
        while !any && is_idle && !self.metering.is_empty() {
            let owners: Vec<u64> = self.metering.owners().collect();
            let tenants: Vec<Tenant> = owners.into_iter().map(|owner| self.keyed(owner)).collect();
            let first = self.shares.turn_among(tenants.iter().map(|tenant| tenant.id));
            let Some(owner) = tenants.iter().find(|tenant| Some(tenant.id) == first) else { break };
            any = self.read_one(owner.key, |peer| net.post_receive(peer));
        }
        any
    }

    /// Has one connection of an owner's read that is there still.
    fn read_one(&mut self, owner: u64, mut read: impl FnMut(PeerKey) -> bool) -> bool {
        while let Some(peer) = self.metering.take(owner) {
            if read(peer) {
                return true;
            }
        }
        false
    }

    /// The tenant that other threads know by this key.
    pub(super) fn keyed(&mut self, key: u64) -> Tenant {
        let id = self.shares.tenant(key);
        let index = id.index();
        if index >= self.rows.len() {
            self.rows.resize_with(index + 1, Row::default);
        }
        let row = &mut self.rows[index];
        if row.key != key && id != TenantId::REST {
            self.pairs -= row.pairs.iter().flatten().count();
            *row = Row { key, ..Row::default() };
        }
        Tenant { key, id }
    }

    /// A call was let in.
    #[inline]
    pub(super) fn came(&mut self, tenant: Tenant) {
        self.shares.came(tenant.id);
    }

    /// One that was let in begins, or waits elsewhere.
    #[inline]
    pub(super) fn began(&mut self, tenant: Tenant) {
        self.shares.began(tenant.id);
    }

    /// One that was let in is over, or somebody else's, and whether it had begun.
    pub(super) fn went(&mut self, tenant: Tenant, had_begun: bool) {
        if self.has_place(tenant) {
            self.shares.went(tenant.id, had_begun);
        }
    }

    /// Whether its place is the tenant's: what other threads say may be from before this thread was started anew.
    fn has_place(&self, tenant: Tenant) -> bool {
        tenant.id == TenantId::REST || self.rows.get(tenant.id.index()).is_some_and(|row| row.key == tenant.key)
    }

    /// A call was served for so long.
    #[inline]
    pub(super) fn charge(&mut self, tenant: Tenant, took: Span) {
        self.shares.charge(tenant.id, took);
        if let Some(row) = self.rows.get_mut(tenant.id.index()) {
            row.usage.add_served(took);
        }
    }

    /// How many wait for their tenants' turns.
    #[inline]
    pub(super) fn aside(&self) -> usize {
        self.aside.len()
    }

    /// Whose turn it is, and since when it has waited for that.
    pub(super) fn next(&mut self, now: Time, jobs: &mut Jobs, tasks: &mut Tasks) -> Option<(JobId, Time)> {
        let mut ready = Both { jobs, tasks, since: now };
        let (_, job) = self.aside.next(now, &mut self.shares, &mut ready)?;
        let Both { jobs, tasks, since } = ready;
        tasks[jobs.key(job)].is_aside = false;
        Some((job, since))
    }

    /// Who makes room for a call of this tenant's, if that isn't the tenant itself, and with how many at most.
    pub(super) fn most_crowded(&self, tenant: Tenant) -> Option<(TenantId, usize)> {
        self.shares.most_crowded(tenant.id)
    }

    /// Takes out up to `most` of what a tenant has aside and hasn't begun; `key` is greatest for those.
    pub(super) fn shed<K: Ord>(
        &mut self,
        tenant: TenantId,
        most: usize,
        key: impl Fn(&Urgency, &JobId) -> Option<K>,
    ) -> Vec<JobId> {
        self.aside.shed(tenant, most, key).into_iter().map(|(_, job)| job).collect()
    }

    /// Whether anything waits for this tenant's turn.
    pub(super) fn has_aside(&self, tenant: TenantId) -> bool {
        self.aside.has(tenant)
    }

    /// Whether a tenant has as many calls here as there would have to be room for another four times over: where nothing that
    /// waits can be taken back, so much is left for others (Choudhury and Hahne, 1998).
    pub(super) fn is_crowding(&self, tenant: Tenant, queued: usize, most: usize) -> bool {
        self.shares.calls(tenant.id) > most.saturating_sub(queued).saturating_mul(4)
    }

    /// What is known of a tenant's calls of a method. Until it has made some of its own they take what others' do, which counts
    /// for the order and refuses nobody.
    pub(super) fn known(&self, tenant: Tenant, method: usize, of_all: Known, stands: bool) -> Known {
        let pair = self.rows.get(tenant.id.index()).and_then(|row| row.pairs.get(method)?.as_ref());
        let own = pair.map_or(Known::default(), |pair| pair.learned.known(stands));
        Known { estimate: own.estimate.or(of_all.estimate), needed: own.needed }
    }

    /// [`Admission::decide`], by what is known of the tenant.
    pub(super) fn decide(
        &mut self,
        now: Time,
        (tenant, method): (Tenant, usize),
        budget: Budget,
        needed: Option<Duration>,
        queued: usize,
    ) -> Verdict {
        match self.pair(tenant, method) {
            Some(pair) => pair.admission.decide(now, budget, needed, queued),
            None => self.plain.decide(now, budget, None, queued),
        }
    }

    /// [`Admission::recheck`], by what is known of the tenant.
    pub(super) fn recheck(
        &mut self,
        now: Time,
        (tenant, method): (Tenant, usize),
        (budget, whole): (Budget, Budget),
        queued: usize,
        stands: bool,
    ) -> Verdict {
        match self.pair(tenant, method) {
            Some(pair) => pair.admission.recheck(now, budget, whole, pair.learned.needed(stands), queued),
            None => self.plain.recheck(now, budget, whole, None, queued),
        }
    }

    /// A call is over that was let in, and taught this if anything. Whether it had begun, or waited elsewhere.
    pub(super) fn ended(
        &mut self,
        tenant: Tenant,
        method: usize,
        lesson: Option<&Lesson>,
        had_begun: bool,
        stands: bool,
    ) {
        self.went(tenant, had_begun);
        let Some(lesson) = lesson.filter(|_| self.has_place(tenant)) else { return };
        if let Some(pair) = self.made(tenant, method) {
            pair.learned.observe(lesson, stands);
        }
    }

    fn pair(&mut self, tenant: Tenant, method: usize) -> Option<&mut Pair> {
        self.rows.get_mut(tenant.id.index())?.pairs.get_mut(method)?.as_deref_mut()
    }

    /// The same, made if it isn't there and there is room.
    fn made(&mut self, tenant: Tenant, method: usize) -> Option<&mut Pair> {
        let is_missing = self.rows.get(tenant.id.index())?.pairs.get(method).is_none_or(Option::is_none);
        if is_missing && self.pairs >= PAIRS {
            self.give_up(tenant);
        }
        let row = self.rows.get_mut(tenant.id.index())?;
        if is_missing {
            // The rest have a row as well; what they teach is for all of them.
            if self.pairs >= PAIRS {
                return None;
            }
            self.pairs += 1;
            if row.pairs.len() <= method {
                row.pairs.resize_with(method + 1, || None);
            }
            row.pairs[method] = Some(Box::new(Pair::new(&self.server)));
        }
        row.pairs[method].as_deref_mut()
    }
}

impl Sharing {
    /// Forgets what was learned of some others that have no calls here now.
    #[cold]
    fn give_up(&mut self, but: Tenant) {
        for _ in 0..LOOKS.min(self.rows.len()) {
            self.hand = (self.hand + 1) % self.rows.len();
            let (id, row) = (TenantId::of_index(self.hand), &mut self.rows[self.hand]);
            if id != but.id && self.shares.calls(id) == 0 {
                self.pairs -= row.pairs.drain(..).flatten().count();
            }
        }
    }
}

impl Pair {
    fn new(server: &ServerConfig) -> Self {
        let learned = Learned::new(server.work_quantile, Margin::new(server.late_share));
        Self { learned, admission: Admission::new(server.admission) }
    }
}

/// The thread's queue, of tasks.
struct Both<'a> {
    jobs: &'a mut Jobs,
    tasks: &'a mut Tasks,
    /// Since when the last one that was taken has waited.
    since: Time,
}

impl Ready<JobId> for Both<'_> {
    fn take(&mut self, now: Time) -> Option<(TenantId, Urgency, JobId)> {
        let (job, since) = self.jobs.next(now)?;
        self.since = since;
        let task = &mut self.tasks[self.jobs.key(job)];
        // Until it is known that it has its turn.
        task.is_aside = true;
        Some((task.tenant.id, task.urgency, job))
    }

    /// What is aside is there until it has had its turn, or was shed.
    fn put_back(&mut self, now: Time, _: Urgency, job: JobId) -> bool {
        self.tasks[self.jobs.key(job)].is_aside = false;
        self.jobs.resume(now, job);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::methods::Outcome;

    const MS: Duration = Duration::from_millis(1);

    fn lesson(outcome: Outcome, service: Duration) -> Lesson {
        Lesson { service: service.into(), work_behind: Span::ZERO, outcome, left: Some(1000 * MS) }
    }

    fn sharing() -> Sharing {
        Sharing::new(&ServerConfig::default(), &ShareConfig::new())
    }

    #[test]
    fn late_expensive_calls_get_nobodys_refused_but_their_own_tenants() {
        let mut sharing = sharing();
        let (poisoner, honest) = (sharing.keyed(1), sharing.keyed(3));
        let mut common = Learned::new(0.1, Margin::new(0.01));
        for nth in 0..8000 {
            // Three in a hundred, and an honest call for each ten of the poisoner's.
            let is_late = nth % 100 >= 97;
            let taught = if is_late { lesson(Outcome::Late, 500 * MS) } else { lesson(Outcome::InTime, MS) };
            sharing.came(poisoner);
            sharing.ended(poisoner, 0, Some(&taught), false, true);
            common.observe(&taught, true);
            if nth % 10 == 0 {
                sharing.came(honest);
                sharing.ended(honest, 0, Some(&lesson(Outcome::InTime, MS)), false, true);
                common.observe(&lesson(Outcome::InTime, MS), true);
            }
        }
        let needed = |of: Tenant| sharing.known(of, 0, Known::default(), true).needed;
        assert!(needed(honest) < Some(2 * MS), "{:?}", needed(honest));
        assert!(needed(poisoner) > Some(10 * MS) && common.needed(true) > Some(10 * MS), "{:?}", common.needed(true));
        let (now, budget) = (Time::from_nanos(1), Budget::expected(5 * MS));
        let mut admission = Admission::new(ServerConfig::default().admission);
        let (mut of_all, mut of_its_own) = (0, 0);
        for _ in 0..100 {
            of_all += u32::from(admission.decide(now, budget, common.needed(true), 0) != Verdict::Admit);
            let needed = sharing.known(honest, 0, Known::default(), true).needed;
            of_its_own += u32::from(sharing.decide(now, (honest, 0), budget, needed, 0) != Verdict::Admit);
        }
        assert!(of_all >= 50 && of_its_own == 0, "{of_all}, {of_its_own}");
    }

    #[test]
    fn what_was_learned_of_a_tenant_goes_with_it_and_is_bounded() {
        let mut sharing = sharing();
        for key in 0..4 * Shares::MOST as u64 {
            let tenant = sharing.keyed(2 * key + 1);
            assert!(sharing.known(tenant, 0, Known::default(), true).needed.is_none(), "{key} was not here before");
            for _ in 0..32 {
                sharing.came(tenant);
                sharing.ended(tenant, 0, Some(&lesson(Outcome::InTime, MS)), false, true);
            }
            assert!(sharing.pairs <= PAIRS && sharing.rows.len() <= Shares::MOST);
        }
        let kept: usize = sharing.rows.iter().map(|row| row.pairs.iter().flatten().count()).sum();
        assert_eq!(kept, sharing.pairs);
        // Where nothing is kept, nothing is refused by estimate, and all else is.
        let (now, most) = (Time::from_nanos(1), ServerConfig::default().admission.max_queue);
        let other = sharing.keyed(1 << 40);
        let decide = |sharing: &mut Sharing, left, queued| sharing.decide(now, (other, 0), left, Some(MS), queued);
        assert_eq!(decide(&mut sharing, Budget::expected(2 * MS), 0), Verdict::Admit);
        assert_ne!(decide(&mut sharing, Budget::expected(Duration::ZERO), 0), Verdict::Admit);
        assert_ne!(decide(&mut sharing, Budget::expected(MS * 2), most), Verdict::Admit);
    }
}
