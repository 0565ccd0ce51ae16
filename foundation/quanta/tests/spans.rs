//! Spans that jobs of one thread have entered don't mix, with a real subscriber.

use greenwave_policy::{Order, Urgency};
use greenwave_quanta::scheduler::Event;
use greenwave_quanta::{Quantum, StackSize, Worker, yield_now};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Subscriber, info, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Each event's text with the names of the spans that it happened in.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Heard {
    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let spans =
            context.event_scope(event).map(|scope| scope.from_root().map(|span| span.name()).collect::<Vec<_>>());
        self.0.lock().unwrap().push(format!("{}: {}", spans.unwrap_or_default().join(">"), text.0));
    }
}

#[test]
fn a_job_that_gives_way_takes_its_spans_along() {
    let heard = Heard::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(heard.clone())).unwrap();
    let mut worker = Worker::new(Order::ProcessorSharing, Quantum::NONE, StackSize::default(), 2);
    let jobs: [fn(); 2] = [
        || {
            let _outer = info_span!("a").entered();
            yield_now();
            let _inner = info_span!("b").entered();
            yield_now();
            info!("first");
        },
        || {
            yield_now();
            let _own = info_span!("c").entered();
            info!("second");
            yield_now();
            info!("third");
        },
    ];
    for job in jobs {
        worker.add(worker.now(), Urgency::default(), job);
    }
    while worker.unfinished() > 0 {
        if let Event::Suspended(job) = worker.run_one(worker.now()) {
            info!("between");
            worker.resume(worker.now(), job);
        }
    }
    let mut heard = heard.0.lock().unwrap().clone();
    heard.retain(|said| said != ": between");
    assert_eq!(heard, ["c: second", "a>b: first", "c: third"]);
}
