//! How long a connection lasts that nobody speaks over, or that is old, and how often its peer may ask about it.

use super::{GrpcCallee, Over};
use greenwave_http2::Reason;
use greenwave_policy::Time;
use std::time::Duration;

/// How often without a call the peer may ask, unless it is allowed to.
const IDLE_PINGS: Duration = Duration::from_hours(2);

/// How many times the peer may ask too soon.
const TOO_SOON_MOST: u32 = 2;

/// How long the peer may take to say that it has heard that it is to go.
const LEAVING: Duration = Duration::from_secs(5);

/// What is asked.
const QUESTION: [u8; 8] = *b"are you?";

/// What is known of the peer's life signs.
#[derive(Debug)]
pub(super) struct Keeping {
    born: Time,
    /// When it was last heard of.
    pub(super) heard: Time,
    /// When it was asked, if it said nothing since.
    pub(super) asked: Option<Time>,
    /// Since when it has no call; of no meaning while it has.
    pub(super) idle: Time,
    /// When it asked last.
    ping: Option<Time>,
    too_soon: u32,
    /// Until when the peer may take to say that it has heard that it is to go.
    pub(super) told: Option<Time>,
    /// Something of an answer was handed in or went out since.
    pub(super) answered: bool,
    /// A call was over since it was last sent from.
    pub(super) ended: bool,
}

impl Keeping {
    pub(super) fn new(now: Time) -> Self {
        Self {
            born: now,
            heard: now,
            asked: None,
            idle: now,
            ping: None,
            told: None,
            too_soon: 0,
            answered: false,
            ended: false,
        }
    }
}

/// Later by so long; [`Time::MAX`] if that is without a bound.
fn after(time: Time, span: Duration) -> Time {
    if span == Duration::MAX { Time::MAX } else { time + span }
}

impl GrpcCallee {
    fn is_idle(&self) -> bool {
        self.open + self.receiving == 0
    }

    /// When the connection is to be looked after, at the latest.
    pub(super) fn next_look(&self) -> Time {
        let (settings, keeping) = (&self.settings, &self.keeping);
        let alive = match keeping.asked {
            Some(asked) => after(asked, settings.keepalive.1),
            None => after(keeping.heard, settings.keepalive.0),
        };
        let idle = after(keeping.idle, settings.idle_most);
        let old = after(keeping.born, settings.age_most);
        let gone = if old == Time::MAX { old } else { after(old, settings.age_grace) };
        let leaves = match keeping.told {
            Some(told) => gone.min(told),
            None if self.is_leaving => gone,
            None => idle.min(old),
        };
        alive.min(leaves)
    }

    /// Looks after the connection: the peer is asked, or told to go. Why it is to be closed, if it is.
    pub(super) fn look_after(&mut self, now: Time) -> Option<Over> {
        let (after_time, timeout) = self.settings.keepalive;
        if let Some(asked) = self.keeping.asked {
            if after(asked, timeout) <= now {
                return Some(Over::Silent(timeout));
            }
        } else if after(self.keeping.heard, after_time) <= now {
            self.http.ping(QUESTION);
            self.keeping.asked = Some(now);
        }
        let old = after(self.keeping.born, self.settings.age_most);
        if old <= now && after(old, self.settings.age_grace) <= now {
            return Some(Over::Old(self.settings.age_most));
        }
        if !self.is_idle() {
            self.keeping.idle = now;
        }
        if !self.is_leaving && (old <= now || after(self.keeping.idle, self.settings.idle_most) <= now) {
            self.go_away();
            self.keeping.told = Some(now + LEAVING);
        } else if self.keeping.told.is_some_and(|told| told <= now) {
            // Who has not said by now that it heard of it has had its time.
            self.keeping.told = None;
            self.http.wait_no_longer();
            self.look_whether_over();
        }
        self.timers.look = self.next_look();
        None
    }

    /// The peer asked whether this side is there.
    pub(super) fn note_ping(&mut self, now: Time) {
        let idle = if self.settings.pings_idle { Duration::ZERO } else { IDLE_PINGS };
        let keeping = &mut self.keeping;
        let before = keeping.ping.replace(now);
        if self.settings.ping_least.is_zero() || std::mem::take(&mut keeping.answered) {
            keeping.too_soon = 0;
            return;
        }
        let least =
            if self.open + self.receiving == 0 { self.settings.ping_least.max(idle) } else { self.settings.ping_least };
        if before.is_none_or(|before| before + least <= now) {
            return;
        }
        keeping.too_soon += 1;
        if keeping.too_soon > TOO_SOON_MOST {
            self.http.abort(Reason::ENHANCE_YOUR_CALM, b"too_many_pings");
            self.end(Over::Broken("too many PINGs".to_owned()));
        }
    }
}
