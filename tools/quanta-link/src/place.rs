//! Where probes go: a function's control flow in, probes out. Nothing here knows of LLVM.
//!
//! Each thread has a *credit*: how much work may still be done before the clock has to be read. A *probe* takes what the
//! code costs off the credit; where nothing is left, the runtime looks at the clock, and suspends the coroutine or grants
//! as much credit as fits what is left of its quantum. So probes say *how often* the clock is read and the clock says
//! *when* to yield (forced multitasking, TQ, ASPLOS'24); that the clock also says how much a unit of credit is worth is
//! ours. There are four kinds of probes:
//!
//! 1. The *entry*: a function pays as it is entered for the way from its last probe to its return, so that it leaves
//!    nothing unpaid to its caller, and recursion is paid for. *Leaves* don't: who calls them pays. These are functions
//!    with short ways into them and out of them that call nobody who may call them in turn, as far as is known. Of those
//!    that call each other in a cycle one has a probe, its *head*. Who calls somebody unknown on some ways alone, as one does
//!    whose memory has to grow, pays there, and is a leaf to who goes by. What ends with a step of threaded code pays
//!    there, and in its [windows](crate::steps) alone, for all that is between them.
//! 2. A *strip*: a loop that counts towards a limit it knows pays for all its iterations before the first, or for as
//!    many as the credit covers; then its iterations are free. The test against the limit, which is there anyway, ends
//!    each strip. A short loop that may also end otherwise counts as straight code of a few iterations, and does a few
//!    more before it pays: that is cheap where it ends soon, and what it costs then the clock tells.
//! 3. A *gate* at the end of a block pays for the longest way since the last probe. Loops that don't count have one
//!    on every cycle; if they are tight, in a local copy of the credit, which is a register and is given back around
//!    calls, if there is a way round by none.
//! 4. Loops of few iterations, known in advance, are paid for like straight code.
//!
//! A short loop with a gate, or that would need a limit although it may end early, had better stand several times in a row:
//! then it is a longer one, and a gate at its end costs little. `repeats` says so; it is done before all the rest.
//!
//! What was paid at the entry of functions that call themselves is used up by the deepest; so the ways back to heads have
//! gates too.
//!
//! So: every cycle of a function contains a probe or a call; no way without a probe is longer than the bound and a
//! block; each probe is at least what the longest way to it has cost. Threaded code alone is an exception: between two of
//! its windows are some thirty steps, and that it comes to one rests on what [steps](crate::steps) says and not on the
//! graph.

use crate::loops::{Loop, Shape};
use crate::steps::EVERY;

/// A block of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// What it costs to run it once.
    pub(crate) cost: u32,
    /// The blocks that may follow, by their index.
    pub(crate) next: Vec<usize>,
    /// Whether it calls functions that probe for themselves, or may.
    pub(crate) calls: bool,
    /// Whether one of them surely does.
    pub(crate) probes: bool,
    /// Whether it calls somebody of whom nothing is known.
    pub(crate) is_open: bool,
    /// Whether it ends the function otherwise than by a return: a panic, whose cost doesn't matter.
    pub(crate) is_end: bool,
    /// Whether a critical section is open at its end, where nothing can be suspended: no gate there.
    pub(crate) is_held: bool,
    /// Whether it comes back from a call by which the function may have called itself.
    pub(crate) comes_back: bool,
    /// Whether its last instruction is a call, after which the first of those follows that may; the others are the ways
    /// of a panic.
    pub(crate) is_invoke: bool,
    /// Whether it ends with a step of threaded code, and calls nobody else.
    pub(crate) is_step: bool,
}

/// A test that a loop makes in every iteration and that ends it at a limit known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The block that ends with the test.
    pub(crate) block: usize,
    /// The number of iterations, at most, where that is known.
    pub(crate) most: Option<u64>,
    /// Whether the limit can be moved.
    pub(crate) movable: bool,
}

/// Takes so much off the credit at the end of a block, before its last instruction, or a call whose result that returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) block: usize,
    pub(crate) cost: u32,
    /// The loop that keeps the credit in a local copy.
    pub(crate) local: Option<usize>,
}

/// A loop that is paid for in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    /// Which of the shape's loops.
    pub(crate) of: usize,
    /// The block that leads to it, and to nowhere else.
    pub(crate) preheader: usize,
    /// What was done since the last probe before it.
    pub(crate) before: u32,
    /// What an iteration costs.
    pub(crate) cost: u32,
    /// How much may be done at once, of which only a little is paid for, at first and later. `None`: all is paid for.
    pub(crate) at_once: Option<(u32, u32)>,
    /// The loop around it that keeps the credit in a local copy.
    pub(crate) local: Option<usize>,
}

/// What is to be done to a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// What is paid at the entry; `None` for a leaf.
    pub(crate) entry: Option<u32>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) strips: Vec<Strip>,
    /// The loops that keep the credit in a local copy, each with the block that leads to it alone.
    pub(crate) locals: Vec<(usize, usize)>,
    /// The longest way without a probe, in cost; that of a whole leaf.
    pub(crate) longest: u32,
    /// The longest way from a probe to a return.
    pub(crate) tail: u32,
    /// What a leaf leaves to its caller: the longest way to its first probe, and that from its last.
    pub(crate) left: u32,
    /// Whether it calls functions that probe, or is a leaf that does.
    pub(crate) calls: bool,
    /// Blocks at whose start so much is paid, in a leaf that is one as long as it goes by them.
    pub(crate) late: Vec<(usize, u32)>,
    /// Blocks that end with a step of threaded code and pay so much at their start, if that is in a window.
    pub(crate) steps: Vec<(usize, u32)>,
    /// The loops whose iterations had better stand several times in a row, each with how many times, as gates are dear
    /// beside what they do.
    pub(crate) repeats: Vec<(usize, u32)>,
}

impl Placement {
    /// Whether there are probes nowhere but at the entry.
    pub(crate) fn is_free(&self) -> bool {
        self.gates.is_empty() && self.strips.is_empty() && self.late.is_empty() && self.steps.is_empty()
    }
}

/// Who may call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    /// Only functions that see what it costs.
    Known,
    Any,
}

/// A function that leaves at most this to its caller is a leaf if it has no probes, whoever calls it.
const LEAF: u32 = 120;
/// The same, and it may have probes, where its callers know what it costs.
const KNOWN_LEAF: u32 = 300;
/// A loop of known length that costs at most this in all is straight code.
const SMALL: u64 = 160;
/// What a loop that may end early, or call somebody, does at once: at first, for which [`FEW`] are paid, and whenever it
/// goes on.
const AT_ONCE: (u32, u32) = (256, 4096);
/// What may be done between the last probe and the return, in longer functions: such ways back add up.
const TAIL: u32 = 300;
/// How many iterations a loop is paid for that may end early, like straight code.
const FEW: u32 = 4;
/// An iteration that costs more has no strip, whatever the bound: the runtime's numbers are not longer.
const LONG: u32 = u16::MAX as u32;
/// A loop that may end early and whose iterations cost more has gates, as the limit would need a register.
const BUSY: u32 = 24;
/// A loop whose iterations cost more has gates on the credit itself, unless it is one around a `match`: a local copy is
/// fast, but has to be made.
const TIGHT: u32 = 40;
/// A loop with gates is to stand in a row until it costs so much, up to so many times, if that is no more code in all and
/// its iterations cost less.
const REPEATED: u32 = 64;
const REPEATS: u32 = 8;
const REPEATED_CODE: u32 = 256;
const WORTH_REPEATING: u32 = 48;
/// How much of a cycle may go without a probe, if it calls functions that probe.
const BESIDE_A_CALL: u32 = 45;

/// What becomes of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Small {
        iterations: u32,
    },
    Strip,
    /// It has gates.
    Gated,
    /// The same, or has loops that are paid for in advance, and the credit is in a local copy meanwhile.
    Local,
}

impl Plan {
    fn has_gates(self) -> bool {
        matches!(self, Self::Gated | Self::Local)
    }
}

/// Decides for a function; `counted` has an entry for each of the shape's loops.
pub(crate) fn place(
    blocks: &[Block],
    shape: &Shape,
    counted: &[Option<Counted>],
    bound: u32,
    callers: Callers,
) -> Placement {
    let costs = blocks.iter().map(|block| if block.is_end { 0 } else { block.cost }).collect();
    Planner { blocks, shape, counted, bound, callers, costs, plans: Vec::new() }.place()
}

struct Planner<'a> {
    blocks: &'a [Block],
    shape: &'a Shape,
    counted: &'a [Option<Counted>],
    bound: u32,
    callers: Callers,
    /// What each block costs, with the further iterations of a small loop that it heads.
    costs: Vec<u32>,
    plans: Vec<Plan>,
}

impl Planner<'_> {
    fn place(mut self) -> Placement {
        for index in 0..self.shape.loops.len() {
            let plan = self.plan(index);
            if let Plan::Small { iterations } = plan {
                let this = &self.shape.loops[index];
                let once: u32 = this.blocks.iter().map(|block| self.costs[*block]).sum();
                self.costs[this.header] += once * iterations.saturating_sub(1);
            }
            self.plans.push(plan);
        }
        // What is unpaid at the end of an iteration is paid for in the next one; known after a first pass.
        let nothing = vec![0; self.shape.loops.len()];
        let (_, carried) = self.walk(&nothing);
        let mut placement = self.walk(&carried).0;
        placement.repeats = self.repeats(&placement);
        placement
    }

    /// Which loops had better stand several times in a row: short ones with a gate, or with a limit to be set before them.
    fn repeats(&self, placement: &Placement) -> Vec<(usize, u32)> {
        let of = |index: usize| {
            let this = &self.shape.loops[index];
            let is_gated = placement.gates.iter().any(|gate| this.contains(gate.block));
            let has_limit = placement.strips.iter().any(|strip| strip.of == index && strip.at_once.is_some());
            let is_match = || this.latches.iter().any(|latch| self.gate_of(index, *latch) != *latch);
            if !(is_gated || has_limit) || !this.is_innermost || is_match() {
                return None;
            }
            let code: u32 = this.blocks.iter().map(|block| self.costs[*block]).sum();
            let cost = self.iteration(index);
            let count = REPEATED.div_ceil(cost).min(REPEATS).min(REPEATED_CODE / code.max(1));
            (count > 1 && cost <= WORTH_REPEATING).then_some((index, count))
        };
        (0..self.shape.loops.len()).filter_map(of).collect()
    }

    fn plan(&self, index: usize) -> Plan {
        let this = &self.shape.loops[index];
        let inner = || (0..index).filter(|inner| this.contains(self.shape.loops[*inner].header));
        let is_flat = inner().all(|inner| matches!(self.plans[inner], Plan::Small { .. }));
        let calls = this.blocks.iter().any(|block| self.calls(*block));
        let has_preheader = self.preheader(this).is_some();
        if let Some(counted) = self.counted[index].filter(|_| is_flat) {
            let cost = self.iteration(index);
            let small = counted.most.filter(|most| most.saturating_mul(u64::from(cost)) <= SMALL);
            if let Some(most) = small.filter(|_| !calls) {
                return Plan::Small { iterations: most as u32 };
            }
            // A call in every iteration is dearer than a gate.
            let pays = !self.calls_always(this) && (cost <= BUSY || self.at_once(index).is_none());
            if counted.movable && has_preheader && pays && cost <= self.bound.min(LONG) {
                return Plan::Strip;
            }
        }
        let is_often_probed = if is_flat {
            let is_match = || this.latches.iter().any(|latch| self.gate_of(index, *latch) != *latch);
            self.iteration(index) <= TIGHT || is_match()
        } else {
            // One that a loop within would make and give back each time costs nothing more where it is kept all the while.
            let has = |plan: Plan| inner().any(|inner| self.plans[inner] == plan);
            inner().all(|inner| !self.plans[inner].has_gates()) || has(Plan::Local) && !has(Plan::Strip)
        };
        let in_inner = |block: usize| inner().any(|inner| self.shape.loops[inner].contains(block));
        let inner_calls = this.blocks.iter().any(|block| self.calls(*block) && in_inner(*block));
        let pays = if calls { !inner_calls && self.mostly_goes_by_calls(this) } else { is_often_probed };
        let local = has_preheader && self.leads_out_alone(this) && pays;
        if local { Plan::Local } else { Plan::Gated }
    }

    /// Whether a loop has short ways round that meet no call, as one has that skips what doesn't matter, and around the
    /// calls that there are a copy of the credit can be given back and taken again.
    fn mostly_goes_by_calls(&self, this: &Loop) -> bool {
        let until = self.longest_ways(this, |block| !self.calls(block));
        let round = this.latches.iter().filter_map(|latch| until[*latch]).max();
        let comes_back = |block: &usize| match self.blocks[*block].next[..] {
            [next, ref panics @ ..] if self.blocks[*block].is_invoke => {
                let leads = |from: &&usize| self.blocks[**from].next.contains(&next);
                let is_alone = self.shape.sorted.iter().filter(leads).count() == 1;
                this.contains(next)
                    && next != this.header
                    && is_alone
                    && !panics.iter().any(|panic| this.contains(*panic))
            }
            _ => true,
        };
        round.is_some_and(|round| round <= TIGHT) && this.blocks.iter().filter(|one| self.calls(**one)).all(comes_back)
    }

    /// Whether a loop calls in every iteration somebody who may probe.
    fn calls_always(&self, this: &Loop) -> bool {
        let mut calls = this.blocks.iter().filter(|block| self.calls(**block));
        calls.any(|call| this.latches.iter().all(|latch| self.shape.dominates(*call, *latch)))
    }

    fn calls(&self, block: usize) -> bool {
        self.blocks[block].calls && !self.blocks[block].is_end
    }

    /// Whether the blocks that follow the loop are led to by nobody else.
    fn leads_out_alone(&self, this: &Loop) -> bool {
        let follows = |block: &usize| self.exits(this).any(|exit| exit == *block);
        let elsewhere = self.shape.sorted.iter().filter(|block| !this.contains(**block));
        !elsewhere.flat_map(|block| &self.blocks[*block].next).any(follows)
    }

    /// The blocks that follow the loop, but for panics.
    fn exits(&self, this: &Loop) -> impl Iterator<Item = usize> {
        let next = this.blocks.iter().flat_map(|block| &self.blocks[*block].next).copied();
        next.filter(|next| !this.contains(*next) && !self.blocks[*next].is_end)
    }

    /// The longest way through a loop whose inner loops are small.
    fn iteration(&self, index: usize) -> u32 {
        let ways = self.longest_ways(&self.shape.loops[index], |_| true);
        ways.into_iter().flatten().max().unwrap_or(0).max(1)
    }

    /// The longest ways from a loop's header to the end of each of its blocks, through blocks of the loop that may be
    /// passed alone.
    fn longest_ways(&self, this: &Loop, may_pass: impl Fn(usize) -> bool) -> Vec<Option<u32>> {
        let mut until = vec![None; self.blocks.len()];
        until[this.header] = Some(0_u32);
        for &block in self.shape.sorted.iter().filter(|block| this.contains(**block)) {
            until[block] = until[block].filter(|_| may_pass(block)).map(|way| way.saturating_add(self.costs[block]));
            for &next in self.forward(block).filter(|next| this.contains(**next)) {
                until[next] = until[next].max(until[block]);
            }
        }
        until
    }

    fn forward(&self, block: usize) -> impl Iterator<Item = &usize> {
        self.blocks[block].next.iter().filter(move |next| !self.shape.closing.contains(&(block, **next)))
    }

    /// The block that leads to the loop alone, if there is one.
    fn preheader(&self, this: &Loop) -> Option<usize> {
        let leads = |block: &usize| self.blocks[*block].next.contains(&this.header) && !this.contains(*block);
        let mut entering = self.shape.sorted.iter().copied().filter(leads);
        let one = entering.next()?;
        (entering.next().is_none() && self.blocks[one].next.len() == 1).then_some(one)
    }

    /// Puts the probes, where `carried` is what each loop's header begins with beside what comes from outside. Returns
    /// also what the loops' iterations end with.
    fn walk(&self, carried: &[u32]) -> (Placement, Vec<u32>) {
        let count = self.blocks.len();
        let loops = || self.shape.loops.iter().zip(&self.plans).enumerate();
        let mut placement = Placement::default();
        let (mut into, mut since) = (vec![0_u32; count], vec![0_u32; count]);
        let (mut paid, mut strip_before, mut local, mut gated) =
            (vec![false; count], vec![None; count], vec![None; count], vec![false; count]);
        for (index, (this, plan)) in loops() {
            match plan {
                Plan::Small { .. } | Plan::Gated => {}
                Plan::Strip => {
                    this.blocks.iter().for_each(|block| paid[*block] = true);
                    let preheader = self.preheader(this).expect("a loop without one is not planned as a strip");
                    strip_before[preheader] = Some(index);
                }
                // Loops within this one, which come before it, use its copy.
                Plan::Local => {
                    let preheader = self.preheader(this).expect("a loop without one is not planned with a copy");
                    placement.locals.retain(|(inner, _)| !this.contains(self.shape.loops[*inner].header));
                    placement.locals.push((index, preheader));
                    this.blocks.iter().for_each(|block| local[*block] = Some(index));
                }
            }
        }
        for (index, (this, _)) in loops().filter(|(_, (_, plan))| plan.has_gates()) {
            let (probed, called) = self.probed_anyway(this, &strip_before);
            for &latch in &this.latches {
                let is_paid = probed[latch] || called[latch] && carried[index] <= BESIDE_A_CALL;
                gated[self.gate_of(index, latch)] |= !is_paid;
            }
            if this.latches.iter().any(|latch| !gated[*latch]) {
                into[this.header] = carried[index];
            }
        }
        self.shape.irreducible.iter().for_each(|(from, _)| gated[*from] = true);
        let back =
            self.shape.sorted.iter().filter(|block| self.blocks[**block].comes_back && !self.blocks[**block].is_end);
        back.filter(|block| self.costs[**block] > BESIDE_A_CALL).for_each(|block| gated[*block] = true);
        let mut tail = 0;
        // The longest ways to each block from the entry that meet no probe, and from a probe; and what they come to: a
        // way through without a probe, one to a probe, and one from a probe to a return.
        let (mut fresh, mut after) = (vec![None; count], vec![None; count]);
        let (mut through, mut head, mut back) = (0, 0, 0);
        fresh[0] = Some(0_u32);
        self.shape.closing.iter().for_each(|(_, to)| after[*to] = Some(into[*to]));
        let mut in_loop = vec![false; count];
        loops().for_each(|(_, (this, _))| this.blocks.iter().for_each(|block| in_loop[*block] = true));
        for &block in &self.shape.sorted {
            let cost = if paid[block] { 0 } else { self.costs[block] };
            since[block] = into[block].saturating_add(cost);
            let [mut way, mut from] = [&fresh, &after].map(|ways| ways[block].map(|way: u32| way.saturating_add(cost)));
            placement.longest = placement.longest.max(since[block]);
            if let Some(of) = strip_before[block] {
                let (cost, at_once) = (self.iteration(of), self.at_once(of));
                let mut before = 0;
                if at_once.is_some() {
                    since[block] += FEW.min(AT_ONCE.0 / cost).max(1) * cost;
                } else if in_loop[block] || since[block] > TAIL / 2 {
                    before = std::mem::take(&mut since[block]);
                }
                head = head.max(way.take().unwrap_or(0));
                from = Some(since[block]);
                placement.strips.push(Strip { of, preheader: block, before, cost, at_once, local: local[block] });
            }
            // Whoever follows would exceed the bound with what has run so far, so it is counted here.
            let ahead =
                self.forward(block).map(|&next| if paid[next] { 0 } else { self.costs[next] }).max().unwrap_or(0);
            let long = into[block] > 0 && since[block].saturating_add(ahead) > self.bound;
            let returns = self.blocks[block].next.is_empty() && !self.blocks[block].is_end;
            // Where ways meet to return, each pays for itself: one of them may end with a call in tail position.
            let meets = !in_loop[block] && self.blocks[block].next.iter().any(|next| self.returns_at_once(*next));
            let is_late = if returns || meets {
                since[block].saturating_add(ahead) > TAIL.min(self.bound)
            } else {
                long && !self.blocks[block].next.is_empty()
            };
            if !paid[block] && !self.blocks[block].is_held && (gated[block] || is_late) {
                placement.gates.push(Gate { block, cost: since[block].max(1), local: local[block] });
                head = head.max(way.take().unwrap_or(0));
                (since[block], from) = (0, Some(0));
            }
            if returns {
                tail = tail.max(since[block]);
                (through, back) = (through.max(way.unwrap_or(0)), back.max(from.unwrap_or(0)));
            }
            for &next in self.forward(block) {
                into[next] = into[next].max(since[block]);
                (fresh[next], after[next]) = (fresh[next].max(way), after[next].max(from));
            }
        }
        let called = || self.shape.sorted.iter().map(|block| &self.blocks[*block]).filter(|block| !block.is_end);
        let is_open = called().any(|block| block.is_open || block.comes_back);
        let is_plain = placement.gates.is_empty() && placement.strips.is_empty();
        // What a loop does at once is not paid for, but for a little.
        let at_once = placement.strips.iter().filter_map(|strip| strip.at_once).map(|(first, _)| first).max();
        placement.left = match at_once {
            None if is_plain => placement.longest,
            at_once => through.max(head.saturating_add(back).saturating_add(at_once.unwrap_or(0))),
        };
        let limit = match self.callers {
            Callers::Any => LEAF,
            Callers::Known => KNOWN_LEAF,
        };
        let is_short = placement.left <= limit;
        let mut is_leaf = !is_open && is_short && (is_plain || self.callers == Callers::Known);
        placement.calls = called().any(|block| block.calls) || is_leaf && !is_plain;
        if is_open
            && is_plain
            && let Some((late, left)) = self.late(&in_loop).filter(|(_, left)| *left <= limit)
        {
            let cost = placement.longest.max(1);
            let (steps, late): (Vec<_>, Vec<_>) = late.into_iter().partition(|block| self.blocks[*block].is_step);
            placement.late = late.into_iter().map(|block| (block, cost)).collect();
            placement.steps = steps.into_iter().map(|block| (block, cost.saturating_mul(EVERY))).collect();
            (is_leaf, placement.left, tail) = (true, left, placement.longest);
        }
        placement.tail = tail;
        placement.entry = (!is_leaf).then_some(tail.max(1));
        let ends = |this: &Loop| this.latches.iter().map(|latch| since[*latch]).max().unwrap_or(0);
        let carried = loops().map(|(_, (this, plan))| if plan.has_gates() { ends(this) } else { 0 });
        (placement, carried.collect())
    }

    /// Where a function may pay that calls somebody unknown on some of its ways alone: before the first of these calls,
    /// and for all that follows. Also what the other ways cost, and those to there.
    fn late(&self, in_loop: &[bool]) -> Option<(Vec<usize>, u32)> {
        let is_open = |block: usize| self.blocks[block].is_open && !self.blocks[block].is_end;
        let comes_back = |block: &usize| self.blocks[*block].comes_back && !self.blocks[*block].is_end;
        if self.shape.sorted.iter().any(comes_back) || !self.shape.irreducible.is_empty() {
            return None;
        }
        let (mut into, mut late) = (vec![None; self.blocks.len()], Vec::new());
        let (mut left, mut returns) = (0, false);
        into[0] = Some(0_u32);
        for &block in &self.shape.sorted {
            let Some(way) = into[block] else { continue };
            if is_open(block) {
                if in_loop[block] {
                    return None;
                }
                late.push(block);
                left = left.max(way);
                returns |= self.blocks[block].is_step;
                continue;
            }
            let way = way.saturating_add(self.costs[block]);
            if self.blocks[block].next.is_empty() && !self.blocks[block].is_end {
                (returns, left) = (true, left.max(way));
            }
            self.forward(block).for_each(|next| into[*next] = into[*next].max(Some(way)));
        }
        returns.then_some((late, left))
    }

    /// Whether a block does nothing but return.
    fn returns_at_once(&self, block: usize) -> bool {
        let Block { next, cost, is_end, .. } = &self.blocks[block];
        next.is_empty() && !is_end && *cost <= 1
    }

    /// Where a latch's gate goes. Where the latch does hardly anything but bring several ways together, as it does in a
    /// loop around a `match`, the gate goes where they part: LLVM lays such a latch down in front of the header, but not
    /// if a gate divides it, and then each iteration has one more jump.
    fn gate_of(&self, index: usize, latch: usize) -> usize {
        let led_to_by = self.shape.sorted.iter().filter(|from| self.blocks[**from].next.contains(&latch)).count();
        let parting = self.shape.dominator(latch);
        let innermost = self.shape.loops.iter().position(|this| this.contains(parting));
        let is_meeting = self.blocks[latch].cost <= 3 && led_to_by > 2;
        if is_meeting && innermost == Some(index) { parting } else { latch }
    }

    /// To which blocks no way leads from a loop's header that meets neither a strip nor a call; and none but for calls.
    fn probed_anyway(&self, this: &Loop, strip_before: &[Option<usize>]) -> (Vec<bool>, Vec<bool>) {
        let reach = |stops: &dyn Fn(usize) -> bool| {
            let mut without = vec![false; self.blocks.len()];
            let mut open = vec![this.header];
            while let Some(block) = open.pop() {
                if !stops(block) && !std::mem::replace(&mut without[block], true) {
                    open.extend(self.forward(block).copied().filter(|next| this.contains(*next)));
                }
            }
            without.into_iter().map(|without| !without).collect()
        };
        let strip = |block: usize| strip_before[block].is_some_and(|of| self.at_once(of).is_none());
        (reach(&strip), reach(&|block| strip(block) || self.calls(block) && self.blocks[block].probes))
    }

    /// What a loop may do at once, if it may end otherwise than by its test, or call somebody.
    fn at_once(&self, of: usize) -> Option<(u32, u32)> {
        let this = &self.shape.loops[of];
        let test = self.counted[of].map(|counted| counted.block);
        let leaves = |block: &usize| {
            let out = |next: &usize| !this.contains(*next) && !self.blocks[*next].is_end;
            Some(*block) != test && self.blocks[*block].next.iter().any(out)
        };
        let early = this.blocks.iter().any(leaves);
        let calls = this.blocks.iter().any(|block| self.calls(*block));
        (early || calls).then_some(AT_ONCE)
    }
}

#[cfg(test)]
mod tests;
