//! Jobs of one worker that are preempted inside of their spans: every event is heard in the spans of its own job.
//!
//! ```console
//! $ cargo quanta run --release -p greenwave-quanta --example spans
//! ```

use greenwave_quanta::{Pool, is_instrumented};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Subscriber, info, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

static RIGHT: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// The number of a job, which its spans and its events have as a field.
#[derive(Clone, Copy, Default, PartialEq)]
struct Number(u64);

impl Visit for Number {
    fn record_u64(&mut self, _field: &Field, value: u64) {
        self.0 = value;
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn std::fmt::Debug) {}
}

/// Compares each event's number with those of the two spans that it should be in.
struct Compares;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Compares {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut number = Number::default();
        attributes.record(&mut number);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(number);
        }
    }

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let mut number = Number::default();
        event.record(&mut number);
        let spans: Vec<_> = context
            .event_scope(event)
            .map(|scope| scope.map(|span| span.extensions().get::<Number>().copied().unwrap_or_default()).collect())
            .unwrap_or_default();
        let is_right = spans.len() == 2 && spans.iter().all(|span| *span == number);
        if is_right { &RIGHT } else { &WRONG }.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Compares))?;
    let pool = Pool::builder().workers(1).quantum(Duration::from_micros(2)).build()?;
    let tasks: Vec<_> = (1..=100_u64)
        .map(|number| {
            pool.spawn(None, move || {
                let _outer = info_span!("outer", number).entered();
                for _ in 0..20 {
                    let _inner = info_span!("inner", number).entered();
                    (0..5000_u64).for_each(|step| _ = black_box(step));
                    info!(number);
                }
            })
        })
        .collect();
    for task in tasks {
        task.wait()?;
    }
    let (right, wrong) = (RIGHT.load(Ordering::Relaxed), WRONG.load(Ordering::Relaxed));
    println!("instrumented={} right={right} wrong={wrong}", is_instrumented());
    Ok(())
}
