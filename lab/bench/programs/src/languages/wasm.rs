//! A small WebAssembly program, run by an interpreter of bytecode (crate `wasmi`).

use wasmi::{Engine, Instance, Linker, Module, Store};

use crate::{Job, Scale, checksum};

const SIZE: usize = 1_000_000;

/// Sieves the primes below a number, and hashes the sieve.
const PROGRAM: &str = r#"(module
    (memory 16)
    (func (export "run") (param $size i32) (result i64)
        (local $i i32) (local $j i32) (local $hash i64)
        (memory.fill (i32.const 0) (i32.const 1) (local.get $size))
        (local.set $i (i32.const 2))
        (block $done (loop $next
            (br_if $done (i32.ge_u (local.get $i) (local.get $size)))
            (if (i32.load8_u (local.get $i)) (then
                (local.set $j (i32.add (local.get $i) (local.get $i)))
                (block $struck (loop $strike
                    (br_if $struck (i32.ge_u (local.get $j) (local.get $size)))
                    (i32.store8 (local.get $j) (i32.const 0))
                    (local.set $j (i32.add (local.get $j) (local.get $i)))
                    (br $strike)))))
            (local.set $hash (call $mix (local.get $hash) (local.get $i)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br $next)))
        (local.get $hash))
    (func $mix (param $hash i64) (param $at i32) (result i64)
        (if (result i64) (i32.load8_u (local.get $at))
            (then (i64.add (local.get $hash) (i64.const 1)))
            (else (local.get $hash)))))"#;

pub(crate) fn prepare(scale: Scale) -> Job {
    let engine = Engine::default();
    let module = Module::new(&engine, PROGRAM).expect("the program is fixed and well-formed");
    let size = scale.of(SIZE);
    Box::new(move || checksum([primes(&engine, &module, size as i32) as u64]))
}

fn primes(engine: &Engine, module: &Module, size: i32) -> i64 {
    let mut store = Store::new(engine, ());
    let instance: Instance =
        Linker::new(engine).instantiate_and_start(&mut store, module).expect("the program needs nothing");
    let run = instance.get_typed_func::<i32, i64>(&store, "run").expect("the program exports it");
    run.call(&mut store, size).expect("the program doesn't trap")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_counts_primes() {
        let engine = Engine::default();
        assert_eq!(primes(&engine, &Module::new(&engine, PROGRAM).unwrap(), 1000), 168);
    }
}
