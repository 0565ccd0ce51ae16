//! Who is served when, and who isn't.

use super::*;
use crate::AdmissionConfig;
use std::sync::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A server whose methods take the seconds that they are named after, on the test's clock; `Hold` ends when it is let.
struct Lab {
    hand: Hand,
    admission: AdmissionLayer,
    channel: Channel,
    let_go: Arc<Semaphore>,
    served: Arc<Mutex<Vec<String>>>,
}

impl Lab {
    /// With one permit.
    async fn new(settings: Settings) -> Self {
        let hand = Hand::new();
        let (let_go, served) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let admission = hand.admission(settings.permits(1));
        let deadlines = hand.deadlines();
        let (gate, log) = (Arc::clone(&let_go), Arc::clone(&served));
        let clock = hand.clone();
        let handlers = move |method: &str| {
            let (hand, gate, log, method) = (clock.clone(), Arc::clone(&gate), Arc::clone(&log), method.to_owned());
            move |_: Request<Bytes>| {
                let (hand, gate, log, method) = (hand.clone(), Arc::clone(&gate), Arc::clone(&log), method.clone());
                async move {
                    match method.parse::<u32>() {
                        Ok(seconds) => hand.pass(seconds * SECOND),
                        Err(_) => gate.acquire().await.expect("it is never closed").forget(),
                    }
                    log.lock().expect("nobody panicked").push(method);
                    reply(String::new())
                }
            }
        };
        let channel = serve(deadlines, admission.clone(), handlers).await;
        Self { hand, admission, channel, let_go, served }
    }

    async fn call(&self, method: &str, message: Request<Bytes>) -> Result<String, Code> {
        text(call(self.channel.clone(), method, message).await)
    }

    /// Calls in a task of its own, and comes back when the call waits or is served.
    async fn begin(&self, method: &'static str, message: Request<Bytes>) -> JoinHandle<Result<String, Code>> {
        let before = self.admission.counters().arrived;
        let channel = self.channel.clone();
        let task = tokio::spawn(async move { text(call(channel, method, message).await) });
        until(|| self.admission.counters().arrived > before).await;
        task
    }

    /// Calls a method until it is known how long it takes.
    async fn teach(&self, method: &str) {
        for _ in 0..16 {
            assert_eq!(self.call(method, message("")).await, Ok(String::new()));
        }
        self.served.lock().expect("nobody panicked").clear();
    }

    fn served(&self) -> Vec<String> {
        self.served.lock().expect("nobody panicked").clone()
    }
}

#[tokio::test]
async fn short_goes_before_long_while_there_is_one_permit() {
    let lab = Lab::new(Settings::default()).await;
    lab.teach("50").await;
    lab.teach("1").await;
    let hold = lab.begin("Hold", message("")).await;
    let long = lab.begin("50", message("")).await;
    let short = lab.begin("1", message("")).await;
    assert_eq!((lab.admission.counters().waiting, lab.served()), (2, vec![]));
    lab.let_go.add_permits(1);
    for task in [hold, long, short] {
        assert_eq!(task.await.expect("it ends"), Ok(String::new()));
    }
    assert_eq!(lab.served(), ["Hold", "1", "50"]);
}

/// What was learned counts for the cap on refusals, however long it took.
fn one_window() -> Settings {
    Settings::default().admission(AdmissionConfig::default().window(Duration::from_secs(86_400)))
}

#[tokio::test]
async fn what_cannot_be_in_time_is_refused_at_once() {
    let lab = Lab::new(one_window()).await;
    lab.teach("50").await;
    assert_eq!(lab.call("50", within(20 * SECOND, "")).await, Err(Code::DeadlineExceeded));
    assert_eq!((lab.served().len(), lab.admission.counters().refused.infeasible), (0, 1));
    assert_eq!(lab.call("50", within(120 * SECOND, "")).await, Ok(String::new()));
}

#[tokio::test]
async fn by_report_only_it_is_counted_and_served() {
    let lab = Lab::new(one_window().report_only(true)).await;
    lab.teach("50").await;
    assert_eq!(lab.call("50", within(20 * SECOND, "")).await, Ok(String::new()));
    let counters = lab.admission.counters();
    assert_eq!((counters.report_only.infeasible, counters.refused.all(), counters.late), (1, 0, 1));
}

#[tokio::test]
async fn time_in_the_queue_counts() {
    let lab = Lab::new(Settings::default()).await;
    let hold = lab.begin("Hold", message("")).await;
    let late = lab.begin("1", within(20 * SECOND, "")).await;
    lab.hand.pass(20 * SECOND);
    lab.let_go.add_permits(1);
    assert_eq!(hold.await.expect("it ends"), Ok(String::new()));
    assert_eq!(late.await.expect("it ends"), Err(Code::DeadlineExceeded));
    assert_eq!((lab.served(), lab.admission.counters().refused.expired), (vec!["Hold".to_owned()], 1));
}

#[tokio::test]
async fn who_comes_to_a_full_queue_is_turned_away() {
    let lab = Lab::new(Settings::default().admission(AdmissionConfig::default().max_queue(2))).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(lab.begin("Hold", message("")).await);
    }
    assert_eq!(lab.call("Hold", message("")).await, Err(Code::ResourceExhausted));
    lab.let_go.add_permits(3);
    for task in tasks {
        assert_eq!(task.await.expect("it ends"), Ok(String::new()));
    }
    let counters = lab.admission.counters();
    assert_eq!((counters.refused.full, counters.in_time, counters.running, counters.waiting), (1, 3, 0, 0));
}

#[tokio::test]
async fn who_is_dropped_gives_up_its_place_or_its_permit() {
    let lab = Lab::new(Settings::default()).await;
    let hold = lab.begin("Hold", message("")).await;
    let waits = lab.begin("1", message("")).await;
    let next = lab.begin("2", message("")).await;
    assert_eq!((lab.admission.counters().running, lab.admission.counters().waiting), (1, 2));
    waits.abort();
    until(|| lab.admission.counters().waiting == 1).await;
    hold.abort();
    assert_eq!(next.await.expect("it ends"), Ok(String::new()));
    let counters = lab.admission.counters();
    assert_eq!((counters.left, counters.abandoned, counters.in_time), (1, 1, 1));
    assert_eq!(lab.served(), ["2"]);
}

/// By tonic's timers and the machine's clock.
#[tokio::test]
async fn a_handler_whose_time_is_up_gives_its_permit_back() {
    let admission = AdmissionLayer::new(Settings::default().permits(1)).expect("it is sound");
    let handlers = |method: &str| {
        let answers = method == "Answers";
        move |_: Request<Bytes>| async move { if answers { reply(String::new()) } else { std::future::pending().await } }
    };
    let channel = serve(DeadlineLayer::new(), admission.clone(), handlers).await;
    let late = call(channel.clone(), "Never", within(Duration::from_millis(20), "")).await;
    let code = late.expect_err("it never answers").code();
    assert!(matches!(code, Code::Cancelled | Code::DeadlineExceeded), "{code:?}");
    assert_eq!(text(call(channel, "Answers", message("")).await), Ok(String::new()));
    // On a machine that stands still for so long the first one may not even have arrived.
    let counters = admission.counters();
    assert_eq!((counters.running, counters.waiting, counters.in_time), (0, 0, 1));
    assert_eq!(counters.arrived, 1 + counters.abandoned + counters.left + counters.refused.all());
}
