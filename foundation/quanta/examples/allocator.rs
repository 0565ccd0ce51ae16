//! An allocator in Rust, with a cache in a thread-local and a lock for which it waits, among jobs of one worker that are
//! preempted every microsecond: nothing is given to two of them.
//!
//! ```console
//! $ cargo quanta run --release -p greenwave-quanta --example allocator
//! ```

use dlmalloc::GlobalDlmalloc;
use greenwave_quanta::{Pool, is_instrumented};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The size of what is cached.
const SIZE: usize = 64;
/// The most that a cache has.
const MOST: usize = 16;

/// Blocks of one size, each with the next one's address in it.
struct Cache {
    first: *mut *mut u8,
    count: usize,
}

thread_local! {
    static CACHE: RefCell<Cache> = const { RefCell::new(Cache { first: ptr::null_mut(), count: 0 }) };
}

/// How many blocks of that size are anybody's.
static LENT: Mutex<usize> = Mutex::new(0);

struct Caching;

#[global_allocator]
static ALLOCATOR: Caching = Caching;

fn is_cached(layout: Layout) -> bool {
    layout.size() == SIZE && layout.align() <= align_of::<*mut u8>()
}

// SAFETY: what isn't cached is the inner allocator's; a block that is cached is taken out before it is given to anybody, by
// the one who borrows the cache.
unsafe impl GlobalAlloc for Caching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_cached(layout) {
            *LENT.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            let cached = CACHE.with_borrow_mut(|cache| {
                let first = cache.first;
                if !first.is_null() {
                    // SAFETY: it is in the cache, so the next one's address is in it.
                    (cache.first, cache.count) = (unsafe { *first }.cast(), cache.count - 1);
                }
                first
            });
            if !cached.is_null() {
                return cached.cast();
            }
        }
        // SAFETY: as the caller promises.
        unsafe { GlobalDlmalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_cached(layout) {
            *LENT.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            let is_kept = CACHE.with_borrow_mut(|cache| {
                if cache.count == MOST {
                    return false;
                }
                let block = block.cast::<*mut u8>();
                // SAFETY: nobody has it any more, and it has room for an address.
                unsafe { *block = cache.first.cast() };
                (cache.first, cache.count) = (block, cache.count + 1);
                true
            });
            if is_kept {
                return;
            }
        }
        // SAFETY: as the caller promises.
        unsafe { GlobalDlmalloc.dealloc(block, layout) }
    }
}

/// Builds and empties maps and lists of blocks, each filled with its owner's mark, and looks at the marks again.
fn job(number: u64) -> u64 {
    let mut blocks: Vec<Box<[u64; SIZE / 8]>> = Vec::new();
    let mut words = BTreeMap::new();
    for step in 0..40 {
        blocks.push(Box::new([number << 8 | step; SIZE / 8]));
        words.insert(step * 7 % 40, format!("{number}:{step}"));
        if step % 3 == 2 {
            let at = (number + step) as usize % blocks.len();
            let block = blocks.swap_remove(at);
            assert!(block.iter().all(|word| word >> 8 == number && *word == block[0]));
        }
    }
    assert!(blocks.iter().flat_map(|block| block.iter()).all(|word| word >> 8 == number));
    words.into_values().map(|word| word.split(':').map(|part| part.parse::<u64>().unwrap_or(0)).sum::<u64>()).sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("instrumented={}", is_instrumented());
    let pool = Pool::builder().workers(1).quantum(Duration::from_micros(1)).capacity(10_000).build()?;
    let beside = std::thread::spawn(|| (0..2000).map(|number| job(black_box(number))).sum::<u64>());
    let jobs: Vec<_> = (0..4000).map(|number| pool.spawn(None, move || job(number))).collect();
    for (number, task) in jobs.into_iter().enumerate() {
        assert_eq!(task.wait()?, 40 * number as u64 + 39 * 40 / 2);
    }
    assert_eq!(beside.join().ok(), Some(40 * (1999 * 2000 / 2) + 2000 * (39 * 40 / 2)));
    println!("allocator ok");
    Ok(())
}
