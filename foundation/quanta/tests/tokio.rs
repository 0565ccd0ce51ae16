//! A pool's tasks are awaited on a real runtime of somebody else's, in place of `spawn_blocking`.

use greenwave_quanta::pool::JobError;
use greenwave_quanta::{Pool, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn pool() -> Arc<Pool> {
    Arc::new(Pool::builder().workers(1).build().expect("the machine has a thread to give"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_wait_for_many_jobs() {
    let pool = pool();
    let asks = (0..200_u64).map(|number| {
        let pool = Arc::clone(&pool);
        tokio::spawn(async move { pool.spawn(None, move || (0..=number).sum::<u64>()).await })
    });
    for (number, asked) in asks.collect::<Vec<_>>().into_iter().enumerate() {
        let number = number as u64;
        assert_eq!(asked.await.expect("the task ends"), Ok(number * (number + 1) / 2));
    }
}

#[tokio::test]
async fn a_runtime_of_one_thread_goes_on_while_a_job_computes() {
    let (pool, told) = (pool(), Arc::new(AtomicBool::new(false)));
    let waits = Arc::clone(&told);
    let job = pool.spawn(None, move || {
        while !waits.load(Ordering::Acquire) {
            yield_now();
        }
    });
    // Nobody but this thread ends the job, so the runtime isn't held up by it.
    told.store(true, Ordering::Release);
    assert_eq!(job.await, Ok(()));
}

#[tokio::test]
async fn a_task_that_is_given_up_leaves_its_job_running() {
    let pool = pool();
    let (lets_go, waits) = std::sync::mpsc::channel::<()>();
    let ran = Arc::new(AtomicBool::new(false));
    let inside = Arc::clone(&ran);
    let job = pool.spawn(None, move || {
        let _ = waits.recv();
        inside.store(true, Ordering::Release);
    });
    let given_up = tokio::time::timeout(Duration::from_millis(1), job).await;
    assert!(given_up.is_err());
    drop(lets_go);
    assert_eq!(pool.spawn(None, || ()).await, Ok(()), "the next one's turn comes after it");
    assert!(ran.load(Ordering::Acquire));
}

#[tokio::test]
async fn a_panic_and_a_deadline_are_errors() {
    let pool = pool();
    let failing = pool.spawn(None, || panic!("no")).await;
    assert_eq!(failing, Err::<(), _>(JobError::Panicked { message: "no".into() }));
    assert!(matches!(pool.spawn(Duration::ZERO, || ()).await, Err(JobError::Expired { .. })));
}
