//! A program that knows nothing of Greenwave is built with probes and runs as ever.

mod project;

use project::Project;

/// Copies, goes on by calls in tail position, and borrows thread-locals around loops that end early and that are far from
/// their end; all other thread-locals, the standard library's among them, are what they were all the while.
const PROGRAM: &str = r#"
use std::cell::Cell;
use std::hint::black_box;

macro_rules! locals {
    ($($name:ident = $value:expr),*) => {
        thread_local! { $(static $name: Cell<u64> = const { Cell::new($value) };)* }
        fn all() -> Vec<u64> { vec![$($name.get()),*] }
    };
}
locals!(A = 1, B = 2, C = 3, D = 4, E = 5, F = 6, G = 7, H = 8, I = 9, J = 10, K = 11, L = 12);

fn seek(numbers: &[u32], one: u32) -> usize {
    numbers.iter().position(|number| *number == one).unwrap_or(numbers.len())
}

fn far(from: u64, to: u64) -> u64 {
    let (mut at, mut steps) = (from, 0);
    while at != to {
        at = at.wrapping_add(1 << 32);
        steps = black_box(steps + 1);
    }
    steps
}

/// Copies, moves and fills of lengths around those of parts, against what is done byte by byte.
fn copies() {
    for length in [0, 1, 512, 513, 8191, 8192, 8193, 16384, 16385, 70_000] {
        let from: Vec<u8> = (0..length + 9000).map(|at| (at * 31 >> 3) as u8).collect();
        let mut to = vec![7; black_box(length)];
        to.copy_from_slice(&from[..black_box(length)]);
        assert!(to.iter().zip(&from).all(|(a, b)| a == b));
        for shift in [1, 5000, 8192, 9000] {
            let (mut up, mut down) = (from.clone(), from.clone());
            up.copy_within(..black_box(length), black_box(shift));
            down.copy_within(black_box(shift).., 0);
            assert!(up[shift..][..length] == from[..length] && up[..shift] == from[..shift], "{length} {shift}");
            assert!(down[..from.len() - shift] == from[shift..], "{length} {shift}");
        }
        to.fill(black_box(9));
        assert!(to.iter().all(|byte| *byte == 9));
    }
}

/// Steps that go on by calls in tail position, each after more than may go without a probe: the stack holds no million of them.
struct Steps(Vec<fn(&Steps, u64, u64) -> u64>);

macro_rules! mixed {
    ($sum:expr; $($again:tt)*) => {{
        let mut sum: u64 = $sum;
        $(sum = (sum ^ (sum >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9 + $again);)*
        sum
    }};
}

fn step(steps: &Steps, left: u64, sum: u64) -> u64 {
    let sum = mixed!(sum; 0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64 66);
    let sum = mixed!(sum; 0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64 66);
    if left == 0 { sum } else { steps.0[left as usize & 1](steps, left - 1, sum) }
}

fn main() {
    copies();
    black_box(step(&black_box(Steps(vec![step, step])), 1 << 20, 1));
    let numbers: Vec<u32> = (0..200_000).collect();
    let expected: Vec<u64> = (1..=12).collect();
    let borrowed = A.with(|a| {
        let found = seek(black_box(&numbers), black_box(199_999));
        let copied = black_box(&numbers).clone();
        a.set(found as u64 + u64::from(copied[7]) + far(black_box(0), black_box(1 << 60)));
        assert_eq!(std::thread::current().name(), Some("main"));
        all()
    });
    assert_eq!(std::thread::current().name(), Some("main"));
    assert_eq!(A.get(), 199_999 + 7 + (1 << 28));
    assert_eq!((&borrowed[1..], &all()[1..]), (&expected[1..], &expected[1..]));
    println!("as ever");
}
"#;

#[test]
fn a_program_without_the_runtime_runs_as_ever() {
    let manifest = "[package]\nname = \"plain\"\nedition = \"2024\"\n[workspace]\n";
    let output = Project::new("without_runtime", &[("Cargo.toml", manifest), ("src/main.rs", PROGRAM)]).run(&[], &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"as ever\n", "{said}");
}
