//! A script with loops, functions and arrays, run by an interpreter that walks its tree (crate `rhai`).

use rhai::{AST, Engine, Scope};

use crate::{Job, Scale, checksum};

const SIZE: usize = 28_000;

const SCRIPT: &str = r#"
    fn collatz(n) {
        let steps = 0;
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    }

    fn fib(n) {
        if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
    }

    let sieve = [];
    sieve.pad(size, true);
    let primes = 0;
    for i in 2..size {
        if sieve[i] {
            primes += 1;
            let j = i * i;
            while j < size {
                sieve[j] = false;
                j += i;
            }
        }
    }
    let longest = 0;
    for n in 1..size / 20 {
        let steps = collatz(n);
        if steps > longest { longest = steps; }
    }
    let names = #{ a: 1, b: 2, c: 3 };
    let text = "";
    for n in 0..size / 10 {
        names.a += n % 7;
        switch n % 5 {
            0 => text += "x",
            1 => names.b += names.a,
            _ => names.c = names.b - names.a,
        }
    }
    primes * 1_000_000_000 + longest * 1_000_000 + text.len() * 1000 + names.c % 1000 + fib(depth)
"#;

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut engine = Engine::new();
    // As in a build without debug assertions, where functions may call themselves more than eight deep.
    engine.set_max_call_levels(64);
    let script = engine.compile(SCRIPT).expect("the script is fixed and well-formed");
    let size = scale.of(SIZE);
    // Its time goes with the golden ratio's power.
    let depth = (size as f64).ln() / 1.618_f64.ln();
    Box::new(move || checksum([run(&engine, &script, size as i64, depth as i64) as u64]))
}

fn run(engine: &Engine, script: &AST, size: i64, depth: i64) -> i64 {
    let mut scope = Scope::new();
    scope.push("size", size).push("depth", depth);
    engine.eval_ast_with_scope(&mut scope, script).expect("the script runs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_counts_primes_and_steps() {
        let mut engine = Engine::new();
        // As in a build without debug assertions, where functions may call themselves more than eight deep.
        engine.set_max_call_levels(64);
        let found = run(&engine, &engine.compile(SCRIPT).unwrap(), 600, 10);
        // 109 primes, and 111 steps from 27; 12 letters in 60 rounds.
        assert_eq!((found / 1_000_000_000, found / 1_000_000 % 1000), (109, 111));
    }
}
