//! A port: its queues, and what is on its cable.

use super::codel::Codel;
use super::network::PortRule;
use std::collections::VecDeque;

/// What is on its way. Sizes are in bytes, and instants in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) flow: u32,
    /// The number of a segment, or with an acknowledgement of the next one that is expected.
    pub(super) number: u32,
    /// When the segment was sent, or that which is acknowledged.
    pub(super) sent: u64,
    pub(super) bytes: u16,
    pub(super) hop: u8,
    pub(super) band: u8,
    pub(super) is_ack: bool,
    /// When it came to the port that it is at.
    pub(super) entered: u64,
}

#[derive(Debug)]
pub(super) struct Port {
    bands: Vec<VecDeque<Packet>>,
    /// How many bytes wait in each band, and how many may.
    waiting: Vec<u64>,
    most: u64,
    /// Nanoseconds of a byte, in 65536ths.
    per_byte: u64,
    delay: u64,
    sending: Option<Packet>,
    /// The most bytes that are sent as one, how many of these are begun, and in which band.
    merged: u64,
    begun: u64,
    band: usize,
    /// What is on the cable, the first to arrive first.
    cable: VecDeque<(u64, Packet)>,
    pub(super) loss: f64,
    codel: Option<Codel>,
    /// The flows of what it dropped.
    dropped: Vec<u32>,
}

impl Port {
    pub(super) fn new(rule: &PortRule) -> Self {
        Self {
            bands: (0..rule.bands).map(|_| VecDeque::new()).collect(),
            waiting: vec![0; rule.bands],
            most: rule.queue,
            per_byte: (8_000_000_000_u64 << 16) / rule.rate,
            delay: rule.delay.as_nanos() as u64,
            sending: None,
            merged: rule.merged,
            begun: 0,
            band: 0,
            cable: VecDeque::new(),
            loss: rule.loss,
            codel: rule.codel.map(Codel::new),
            dropped: Vec::new(),
        }
    }

    /// Takes in a packet; whether there was room. When it will be sent if the port was idle.
    #[inline]
    pub(super) fn enter(&mut self, now: u64, packet: Packet) -> (bool, Option<u64>) {
        if self.sending.is_none() {
            self.sending = Some(packet);
            (self.begun, self.band) = (u64::from(packet.bytes), self.band_of(packet));
            return (true, Some(now + self.takes(packet)));
        }
        let band = self.band_of(packet);
        if self.waiting[band] + u64::from(packet.bytes) > self.most {
            return (false, None);
        }
        self.waiting[band] += u64::from(packet.bytes);
        self.bands[band].push_back(Packet { entered: now, ..packet });
        (true, None)
    }

    /// The flows of what was dropped since it was asked, one after the other.
    #[inline]
    pub(super) fn dropped(&mut self) -> Option<u32> {
        self.dropped.pop()
    }

    /// The flow of what is being sent.
    pub(super) fn sends(&self) -> Option<u32> {
        self.sending.map(|packet| packet.flow)
    }

    /// What was sent is on the cable, unless it is lost there. When the next is sent, if there is one; and when what is first
    /// on the cable arrives, if it wasn't there before.
    #[inline]
    pub(super) fn sent(&mut self, now: u64, is_lost: bool) -> (Option<u64>, Option<u64>) {
        let mut arrives = None;
        let flow = self.sends();
        if let Some(packet) = self.sending.take().filter(|_| !is_lost) {
            if self.cable.is_empty() {
                arrives = Some(now + self.delay);
            }
            self.cable.push_back((now + self.delay, packet));
        }
        while let Some(packet) = self.next_of(flow) {
            self.waiting[self.band] -= u64::from(packet.bytes);
            let behind = self.waiting[self.band];
            if self.codel.as_mut().is_some_and(|codel| codel.drops(now, now - packet.entered, behind)) {
                self.dropped.push(packet.flow);
                continue;
            }
            self.sending = Some(packet);
            return (Some(now + self.takes(packet)), arrives);
        }
        (None, arrives)
    }

    /// What arrives at the cable's other end, and when the next does.
    #[inline]
    pub(super) fn arrives(&mut self) -> (Option<Packet>, Option<u64>) {
        let first = self.cable.pop_front().map(|(_, packet)| packet);
        (first, self.cable.front().map(|(at, _)| *at))
    }

    /// What is sent next: the rest of what was merged with a packet of `flow`, else what is first.
    #[inline]
    fn next_of(&mut self, flow: Option<u32>) -> Option<Packet> {
        if self.merged > 0
            && let Some(first) = self.bands[self.band].front()
            && flow == Some(first.flow)
            && self.begun + u64::from(first.bytes) <= self.merged
        {
            self.begun += u64::from(first.bytes);
            return self.bands[self.band].pop_front();
        }
        let band = self.bands.iter().position(|band| !band.is_empty())?;
        let next = self.bands[band].pop_front();
        (self.begun, self.band) = (next.map_or(0, |next| next.bytes.into()), band);
        next
    }

    #[inline]
    fn band_of(&self, packet: Packet) -> usize {
        usize::from(packet.band).min(self.bands.len() - 1)
    }

    #[inline]
    fn takes(&self, packet: Packet) -> u64 {
        (u64::from(packet.bytes) * self.per_byte) >> 16
    }
}
