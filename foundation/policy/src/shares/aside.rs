//! What waits of tenants that are over their shares.

use super::{Mark, Shares, TenantId};
use crate::ready_queue::{ReadyQueue, Urgency};
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The queue that a server has by itself, of which some is put aside.
pub trait Ready<T> {
    /// Takes out what goes first: whose it is, and what it goes by.
    fn take(&mut self, now: Time) -> Option<(TenantId, Urgency, T)>;

    /// Puts something back; false if it is of no use any more.
    fn put_back(&mut self, now: Time, urgency: Urgency, work: T) -> bool;
}

/// What waits of those that are over their shares, for a turn when nobody else is ready.
///
/// ```
/// use greenwave_policy::{Aside, Order, Ready, ReadyQueue, Shares, TenantId, Time, Urgency};
/// use std::time::Duration;
///
/// struct Queue(ReadyQueue<(TenantId, &'static str)>);
///
/// impl Ready<(TenantId, &'static str)> for Queue {
///     fn take(&mut self, now: Time) -> Option<(TenantId, Urgency, (TenantId, &'static str))> {
///         self.0.pop(now).map(|(urgency, work)| (work.0, urgency, work))
///     }
///     fn put_back(&mut self, now: Time, urgency: Urgency, work: (TenantId, &'static str)) -> bool {
///         self.0.put_back(now, urgency, work);
///         true
///     }
/// }
///
/// let now = Time::from_nanos(1);
/// let (mut shares, mut aside) = (Shares::new(&[]), Aside::new(ReadyQueue::new(Order::Fcfs)));
/// let mut queue = Queue(ReadyQueue::new(Order::Fcfs));
/// let (hog, other) = (shares.tenant(1), shares.tenant(2));
/// for (tenant, name) in [(hog, "first"), (hog, "second"), (other, "third")] {
///     shares.came(tenant);
///     queue.0.push(now, Urgency::default(), (tenant, name));
/// }
/// shares.charge(hog, Duration::from_secs(1));
/// let mut served = Vec::new();
/// while let Some((_, (_, name))) = aside.next(now, &mut shares, &mut queue) {
///     served.push(name);
/// }
/// assert_eq!(served, ["third", "first", "second"]);
/// ```
///
/// 1. `waiting` is the sum of what is in `queues`.
/// 2. A tenant whose queue is not empty is in `over`, once, or something of it is in the server's queue. The mark that stands
///    there is at most its own, which grows if the tenant comes to be under its share by others' going, and is served.
#[derive(Clone, Debug)]
pub struct Aside<T> {
    /// By tenants; of those that have nothing here, some have a queue without anything in it.
    queues: Vec<Queue<T>>,
    /// Those that wait for a turn.
    over: BinaryHeap<Reverse<(Mark, u32)>>,
    waiting: usize,
    /// An empty queue in the server's order.
    plain: ReadyQueue<T>,
}

#[derive(Clone, Debug)]
struct Queue<T> {
    work: ReadyQueue<T>,
    is_over: bool,
    /// The most that it has held, of which it keeps the memory.
    most: usize,
}

/// Who has held more gives its memory back when nothing is left.
const KEPT: usize = 64;

impl<T> Aside<T> {
    /// Nothing is aside. What is will be in the order of this queue, which is empty.
    #[must_use]
    pub const fn new(plain: ReadyQueue<T>) -> Self {
        Self { queues: Vec::new(), over: BinaryHeap::new(), waiting: 0, plain }
    }

    /// How much is aside.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.waiting
    }

    /// Whether nothing is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether something of this tenant's is.
    #[must_use]
    pub fn has(&self, tenant: TenantId) -> bool {
        self.queues.get(tenant.index()).is_some_and(|queue| !queue.work.is_empty())
    }

    /// Takes out up to `most` of what a tenant has aside: what `key` is greatest for, of what it is `Some` for. Linear in that.
    pub fn shed<K: Ord>(
        &mut self,
        tenant: TenantId,
        most: usize,
        key: impl Fn(&Urgency, &T) -> Option<K>,
    ) -> Vec<(Urgency, T)> {
        let Some(queue) = self.queues.get_mut(tenant.index()) else { return Vec::new() };
        let shed = queue.work.shed_by(most, key);
        self.waiting -= shed.len();
        shed
    }
}

impl<T: Clone> Aside<T> {
    /// Takes out whose turn it is: what goes first of all tenants under their shares, or, if there is none, of those that are
    /// over theirs by the least.
    pub fn next(&mut self, now: Time, shares: &mut Shares, ready: &mut impl Ready<T>) -> Option<(Urgency, T)> {
        loop {
            match ready.take(now) {
                Some((tenant, urgency, work)) if shares.is_over(tenant) => {
                    self.put(now, shares, tenant, urgency, work);
                }
                Some((tenant, urgency, work)) => {
                    if self.waiting > 0 {
                        self.bring(now, tenant, ready);
                    }
                    return Some((urgency, work));
                }
                None if self.over.is_empty() => return None,
                None => self.turn(now, shares, ready),
            }
        }
    }

    #[cold]
    fn put(&mut self, now: Time, shares: &Shares, tenant: TenantId, urgency: Urgency, work: T) {
        let index = tenant.index();
        if index >= self.queues.len() {
            let plain = || Queue { work: self.plain.clone(), is_over: false, most: 0 };
            self.queues.resize_with(index + 1, plain);
        }
        let queue = &mut self.queues[index];
        queue.work.push(now, urgency, work);
        queue.most = queue.most.max(queue.work.len());
        self.waiting += 1;
        if !std::mem::replace(&mut queue.is_over, true) {
            self.over.push(Reverse((shares.mark(tenant), tenant.0)));
        }
    }

    /// Nobody under its share is ready: those that are over the least have a turn.
    #[cold]
    fn turn(&mut self, now: Time, shares: &mut Shares, ready: &mut impl Ready<T>) {
        let mut has_risen = false;
        while let Some(Reverse((mark, index))) = self.over.pop() {
            let (tenant, now_at) = (TenantId(index), shares.mark(TenantId(index)));
            if now_at > mark {
                self.over.push(Reverse((now_at, index)));
                continue;
            }
            // The first is over the least; who is ahead of it by less than a round has a turn as well.
            if !std::mem::replace(&mut has_risen, true) {
                shares.rise(mark);
            }
            self.queues[tenant.index()].is_over = false;
            self.bring(now, tenant, ready);
            if self.over.peek().is_none_or(|Reverse((mark, _))| shares.is_beyond(*mark)) {
                return;
            }
        }
    }

    /// Brings back the first that is aside of a tenant.
    fn bring(&mut self, now: Time, tenant: TenantId, ready: &mut impl Ready<T>) {
        let Some(queue) = self.queues.get_mut(tenant.index()) else { return };
        while let Some((urgency, work)) = queue.work.pop(now) {
            self.waiting -= 1;
            if ready.put_back(now, urgency, work) {
                break;
            }
        }
        if queue.most > KEPT && queue.work.is_empty() {
            (queue.work, queue.most) = (self.plain.clone(), 0);
        }
    }
}
