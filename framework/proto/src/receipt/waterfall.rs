//! A receipt as text: one line a stage, its time as a bar on a common scale.

use std::fmt;
use std::time::Duration;

use super::Receipt;

const NAME_COLUMNS: usize = 28;

/// A receipt drawn as text, by its `Display`:
///
/// ```text
/// search                        |▒███▶─────────────────────────██|   9.10ms  queue 0.2ms  service 1.5ms
///   shard [0]                   |    ··▒▒████··                  |   ...
/// ```
///
/// Network is `·` (half before and half after, since one clock can't tell), queue `▒`, service `█`, waiting for the
/// stage's own calls `─`. A receipt says how much of each there was, not when: queue is drawn first, and what is not
/// covered by a call is drawn as service.
#[derive(Clone, Copy, Debug)]
pub struct Waterfall<'a> {
    receipt: &'a Receipt,
    name: &'a str,
    columns: usize,
}

impl Receipt {
    /// Draws the receipt, with bars of this many columns; `name` is that of the callee.
    pub fn waterfall<'a>(&'a self, name: &'a str, columns: usize) -> Waterfall<'a> {
        Waterfall { receipt: self, name, columns: columns.clamp(1, 400) }
    }
}

/// One line of the drawing: when things happened, since the callee received the request.
struct Row {
    depth: usize,
    label: String,
    sent: Duration,
    received: Duration,
    replied: Duration,
    answered: Duration,
    queue: Duration,
    service: Duration,
}

impl fmt::Display for Waterfall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let end = rows.iter().map(|row| row.answered).max().unwrap_or_default();
        for (index, row) in rows.iter().enumerate() {
            let calls = rows[index + 1..].iter().take_while(|below| below.depth > row.depth);
            let calls: Vec<&Row> = calls.filter(|below| below.depth == row.depth + 1).collect();
            let bar: String = (0..self.columns).map(|cell| row.cell(cell, self.columns, end, &calls)).collect();
            let label = format!("{:indent$}{}", "", row.label, indent = 2 * row.depth.min(8));
            writeln!(f, "{label:NAME_COLUMNS$.NAME_COLUMNS$} |{bar}| {row}")?;
        }
        match self.receipt.omitted {
            0 => Ok(()),
            omitted => writeln!(f, "({omitted} more stages were left out)"),
        }
    }
}

impl Waterfall<'_> {
    fn rows(&self) -> Vec<Row> {
        let receipt = self.receipt;
        let mut rows = vec![Row {
            depth: 0,
            label: self.name.to_owned(),
            sent: Duration::ZERO,
            received: Duration::ZERO,
            replied: receipt.total,
            answered: receipt.total,
            queue: receipt.queue,
            service: receipt.service,
        }];
        let mut callers = vec![Duration::ZERO];
        for stage in &receipt.children {
            callers.truncate(usize::from(stage.depth) + 1);
            let sent = callers.last().copied().unwrap_or_default().saturating_add(stage.sent_after);
            let received = sent.saturating_add(stage.network / 2);
            callers.push(received);
            let branch = stage.branch.map(|branch| format!(" [{branch}]")).unwrap_or_default();
            rows.push(Row {
                depth: usize::from(stage.depth) + 1,
                label: format!("{}{branch}", stage.stage),
                sent,
                received,
                replied: received.saturating_add(stage.total),
                answered: sent.saturating_add(stage.round_trip()),
                queue: stage.queue,
                service: stage.service,
            });
        }
        rows
    }
}

impl Row {
    /// What to draw in this column: what went on in the middle of its span of time.
    fn cell(&self, cell: usize, columns: usize, end: Duration, calls: &[&Row]) -> char {
        let width = end.as_secs_f64() / columns as f64;
        let at = Duration::try_from_secs_f64(width * (cell as f64 + 0.5)).unwrap_or(Duration::MAX);
        let starts_here = self.sent.as_secs_f64() >= width * cell as f64 && self.sent <= at;
        if at < self.sent || at >= self.answered {
            // Too short for a column of its own.
            return if starts_here { '▏' } else { ' ' };
        }
        if at < self.received || at >= self.replied {
            '·'
        } else if at < self.received.saturating_add(self.queue) {
            '▒'
        } else if calls.iter().any(|call| call.sent <= at && at < call.answered) {
            '─'
        } else {
            '█'
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let round_trip = self.answered.saturating_sub(self.sent);
        let network = round_trip.saturating_sub(self.replied.saturating_sub(self.received));
        write!(f, "{:>9.2?}  queue {:.1?}, service {:.1?}", round_trip, self.queue, self.service)?;
        if self.depth > 0 { write!(f, ", network {network:.1?}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
