//! Handlers that compute on a pool.

use super::*;
use crate::{Context, Pool, PoolError, on_pool};

#[tokio::test]
async fn a_job_has_its_requests_deadline() {
    let pool = Pool::builder().workers(1).build().expect("it is sound");
    let in_time = Context::with_deadline(600 * SECOND).scope(on_pool(&pool, || 7)).await;
    assert_eq!(in_time, Ok(7));
    let late = Context::with_deadline(Duration::ZERO).scope(on_pool(&pool, || 7)).await;
    assert_eq!(late.map_err(|error| error.grpc_code()), Err(4));
    assert_eq!(on_pool(&pool, || 7).await, Ok(7), "outside of a request there is none");
}

#[tokio::test]
async fn a_full_pool_says_so_at_once() {
    let pool = Pool::builder().workers(1).capacity(1).build().expect("it is sound");
    let (go, waits) = std::sync::mpsc::channel::<()>();
    let first = pool.spawn(None, move || waits.recv());
    let second = on_pool(&pool, || 7).await;
    assert_eq!(second, Err(PoolError::Full));
    go.send(()).expect("it waits");
    assert_eq!(first.await, Ok(Ok(())));
}
