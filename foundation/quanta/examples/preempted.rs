//! Ordinary code in coroutines with a quantum: how often each job was preempted, and that it came to the same result.
//!
//! ```console
//! $ cargo quanta run --release -p greenwave-quanta --example preempted
//! ```
//!
//! Built by plain cargo, nothing is preempted: the jobs run to their end.

use greenwave_quanta::{Coroutine, StackPool, StackSize, Ticks, is_instrumented};
use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

type Job = fn() -> u64;

const QUANTUM: Duration = Duration::from_micros(20);

fn primes(below: usize) -> u64 {
    let mut composite = vec![false; below];
    let mut found = 0;
    for number in 2..below {
        if !composite[number] {
            found += 1;
            (number * number..below).step_by(number).for_each(|multiple| composite[multiple] = true);
        }
    }
    found
}

fn hash(rounds: u64) -> u64 {
    (0..rounds).fold(0xcbf2_9ce4_8422_2325, |hash, next| (hash ^ next).wrapping_mul(0x0100_0000_01b3))
}

fn sort(count: u64) -> u64 {
    let mut numbers: Vec<u64> = (0..count).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    numbers.sort_unstable();
    numbers[numbers.len() / 2]
}

fn product(size: usize) -> u64 {
    let (a, b) = (vec![1.5; size * size], vec![2.5; size * size]);
    let mut c = vec![0.0; size * size];
    for row in 0..size {
        for (inner, &left) in a[row * size..][..size].iter().enumerate() {
            let into = c[row * size..][..size].iter_mut();
            into.zip(&b[inner * size..][..size]).for_each(|(sum, right)| *sum += left * right);
        }
    }
    c[size + 1] as u64
}

fn words(count: u64) -> u64 {
    let mut seen = std::collections::BTreeMap::new();
    (0..count).for_each(|word| *seen.entry(format!("{:x}", word % 997)).or_insert(0) += word);
    seen.values().sum()
}

fn fibonacci(of: u64) -> u64 {
    if of < 2 { of } else { fibonacci(of - 1) + fibonacci(of - 2) }
}

fn main() {
    let jobs: [(&str, Job); 6] = [
        ("primes", || primes(black_box(2_000_000))),
        ("hash", || hash(black_box(5_000_000))),
        ("sort", || sort(black_box(200_000))),
        ("product", || product(black_box(200))),
        ("fibonacci", || fibonacci(black_box(27))),
        ("words", || words(black_box(50_000))),
    ];
    println!("instrumented={}", is_instrumented());
    let quantum = Ticks::of(QUANTUM);
    let mut stacks = StackPool::new(StackSize::default(), 1);
    for (name, job) in jobs {
        let result = Rc::new(Cell::new(0));
        let place = Rc::clone(&result);
        let mut coroutine =
            Coroutine::new(stacks.take().expect("there is memory for a stack"), move || place.set(job()));
        let mut preempted = 0;
        while coroutine.resume_for(quantum).is_none() {
            preempted += 1;
        }
        assert_eq!(result.get(), job(), "{name} came to something else");
        println!("{name} preempted={preempted}");
        stacks.put(coroutine.into_stack());
    }
}
