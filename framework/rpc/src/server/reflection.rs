//! gRPC's server reflection (`grpc.reflection.v1`, and `v1alpha`, which is the same), so that tools find out by themselves what
//! can be called and how.
//!
//! It tells what the router's [descriptors](Router::descriptors) say. Services whose methods have none are listed, and no more
//! is known of them. An answer to a file is that file and all that it needs, each once in a stream.

use super::protobuf::{Value, fields, put_bytes, put_number, text_of};
use crate::context::Context;
use crate::service::Router;
use crate::status::{Code, Status};
use crate::stream::{Incoming, Outgoing};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// The full names of the method.
const METHODS: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Adds the methods, unless there are some of these names.
pub(super) fn with_reflection(router: Router) -> Router {
    let services: BTreeSet<String> = router
        .names()
        .chain(METHODS)
        .filter_map(|name| name.split_once('/'))
        .map(|(service, _)| service.to_owned())
        .collect();
    let sets = router.descriptor_sets().to_vec();
    let index = Arc::new((services, sets, OnceLock::new()));
    METHODS.into_iter().fold(router, |router, method| {
        if router.names().any(|name| name == method) {
            return router;
        }
        let index = Arc::clone(&index);
        router.streaming(method, move |context, incoming, outgoing| {
            let (services, sets, files) = &*index;
            let files = files.get_or_init(|| Files::of(sets));
            serve(context, services, files, incoming, outgoing)
        })
    })
}

fn serve(
    context: &Context,
    services: &BTreeSet<String>,
    files: &Files<'_>,
    mut incoming: Incoming,
    mut outgoing: Outgoing,
) -> Result<(), Status> {
    let mut told = HashSet::new();
    while let Some(request) = incoming.next(context)? {
        let wrong = || Status::new(Code::InvalidArgument, "not a ServerReflectionRequest");
        let mut reply = Vec::new();
        put_bytes(&mut reply, 1, text_of(&request, 1).ok_or_else(wrong)?.as_bytes());
        put_bytes(&mut reply, 2, &request);
        let Some(asked) = fields(&request).flatten().filter(|(field, _)| (3..=7).contains(field)).last() else {
            return Err(wrong());
        };
        match answer(asked, services, files, &mut told) {
            Some((field, answer)) => put_bytes(&mut reply, field, &answer),
            None => {
                let mut error = Vec::new();
                put_number(&mut error, 1, Code::NotFound as u64);
                put_bytes(
                    &mut error,
                    2,
                    b"not described here: add its descriptors to the router, or ask for another name",
                );
                put_bytes(&mut reply, 7, &error);
            }
        }
        outgoing.send(context, reply)?;
    }
    Ok(())
}

/// The field of an answer, and the answer.
fn answer(
    (field, value): (u64, Value<'_>),
    services: &BTreeSet<String>,
    files: &Files<'_>,
    told: &mut HashSet<usize>,
) -> Option<(u64, Vec<u8>)> {
    let Value::Bytes(value) = value else { return None };
    let text = std::str::from_utf8(value).ok();
    let mut answer = Vec::new();
    match field {
        3 => files.tell(*files.by_name.get(text?)?, told, &mut answer),
        4 => files.tell(*files.by_symbol.get(text?)?, told, &mut answer),
        5 => {
            let number = fields(value).flatten().find_map(|(field, value)| match value {
                Value::Number(number) if field == 2 => Some(number),
                _ => None,
            });
            let file = files.extensions.get(text_of(value, 1)?)?.get(&number?)?;
            files.tell(*file, told, &mut answer);
        }
        6 => {
            put_bytes(&mut answer, 1, value);
            let numbers = files.extensions.get(text?);
            if numbers.is_none() && !files.by_symbol.contains_key(text?) {
                return None;
            }
            numbers.into_iter().flatten().for_each(|(number, _)| put_number(&mut answer, 2, *number));
            return Some((5, answer));
        }
        _ => {
            for service in services {
                let mut one = Vec::new();
                put_bytes(&mut one, 1, service.as_bytes());
                put_bytes(&mut answer, 1, &one);
            }
            return Some((6, answer));
        }
    }
    Some((4, answer))
}

/// The files that descriptors describe.
#[derive(Default)]
struct Files<'a> {
    /// Each as an encoded `FileDescriptorProto`, with the names of those that it needs.
    all: Vec<(&'a [u8], Vec<&'a str>)>,
    by_name: HashMap<&'a str, usize>,
    by_symbol: HashMap<String, usize>,
    /// By what they extend, and their numbers.
    extensions: HashMap<String, BTreeMap<u64, usize>>,
}

/// Parts of messages, by their fields' numbers (descriptor.proto).
mod field {
    pub(super) const FILE: u64 = 1;
    pub(super) const NAME: u64 = 1;
    pub(super) const PACKAGE: u64 = 2;
    pub(super) const DEPENDENCY: u64 = 3;
    pub(super) const MESSAGE: u64 = 4;
    pub(super) const ENUM: u64 = 5;
    pub(super) const SERVICE: u64 = 6;
    pub(super) const EXTENSION: u64 = 7;
    pub(super) const METHOD: u64 = 2;
    pub(super) const NESTED_MESSAGE: u64 = 3;
    pub(super) const NESTED_ENUM: u64 = 4;
    pub(super) const MESSAGE_FIELD: u64 = 2;
    pub(super) const ONEOF: u64 = 8;
    pub(super) const NESTED_EXTENSION: u64 = 6;
    pub(super) const ENUM_VALUE: u64 = 2;
    pub(super) const EXTENDEE: u64 = 2;
    pub(super) const NUMBER: u64 = 3;
}

/// Messages within messages that are looked into; nobody writes more.
const DEPTH_MOST: usize = 32;

impl<'a> Files<'a> {
    fn of(sets: &[&'a [u8]]) -> Self {
        let mut files = Self::default();
        for (_, file) in sets.iter().flat_map(|set| parts(set, field::FILE)) {
            files.add(file);
        }
        files
    }

    fn add(&mut self, file: &'a [u8]) {
        let Some(name) = text_of(file, field::NAME).filter(|name| !self.by_name.contains_key(name)) else { return };
        let index = self.all.len();
        let needs = parts(file, field::DEPENDENCY).filter_map(|(_, name)| std::str::from_utf8(name).ok()).collect();
        self.all.push((file, needs));
        self.by_name.insert(name, index);
        let package = text_of(file, field::PACKAGE).unwrap_or_default();
        for (number, part) in parts_of_any(file) {
            match number {
                field::MESSAGE => self.add_message(index, package, part, 0),
                field::ENUM => self.add_enum(index, package, part),
                field::EXTENSION => self.add_extension(index, package, part),
                field::SERVICE => {
                    let service = self.add_symbol(index, package, part);
                    for (_, method) in parts(part, field::METHOD) {
                        self.add_symbol(index, &service, method);
                    }
                }
                _ => {}
            }
        }
    }

    fn add_message(&mut self, index: usize, scope: &str, message: &'a [u8], depth: usize) {
        let name = self.add_symbol(index, scope, message);
        for (number, part) in parts_of_any(message) {
            match number {
                field::MESSAGE_FIELD | field::ONEOF => _ = self.add_symbol(index, &name, part),
                field::NESTED_MESSAGE if depth < DEPTH_MOST => self.add_message(index, &name, part, depth + 1),
                field::NESTED_ENUM => self.add_enum(index, &name, part),
                field::NESTED_EXTENSION => self.add_extension(index, &name, part),
                _ => {}
            }
        }
    }

    /// An enum's values stand beside it, as in C++.
    fn add_enum(&mut self, index: usize, scope: &str, part: &'a [u8]) {
        self.add_symbol(index, scope, part);
        for (_, value) in parts(part, field::ENUM_VALUE) {
            self.add_symbol(index, scope, value);
        }
    }

    fn add_extension(&mut self, index: usize, scope: &str, extension: &'a [u8]) {
        self.add_symbol(index, scope, extension);
        let number = fields(extension).flatten().find_map(|(field, value)| match value {
            Value::Number(number) if field == field::NUMBER => Some(number),
            _ => None,
        });
        if let Some((number, extendee)) = number.zip(text_of(extension, field::EXTENDEE)) {
            let extendee = extendee.trim_start_matches('.').to_owned();
            self.extensions.entry(extendee).or_default().insert(number, index);
        }
    }

    /// Adds what has its name in field 1, and says its full name.
    fn add_symbol(&mut self, index: usize, scope: &str, part: &[u8]) -> String {
        let name = text_of(part, field::NAME).unwrap_or_default();
        let full_name = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
        self.by_symbol.entry(full_name.clone()).or_insert(index);
        full_name
    }

    /// Adds a file to an answer, and those that it needs, unless they were told before.
    fn tell(&self, file: usize, told: &mut HashSet<usize>, answer: &mut Vec<u8>) {
        let mut seen = HashSet::from([file]);
        let mut left = vec![file];
        while let Some(next) = left.pop() {
            let (bytes, needs) = &self.all[next];
            // The one that is asked for is always there.
            if told.insert(next) || next == file {
                put_bytes(answer, 1, bytes);
            }
            left.extend(needs.iter().filter_map(|name| self.by_name.get(name)).filter(|need| seen.insert(**need)));
        }
    }
}

/// The parts of a message that are texts or messages themselves.
fn parts_of_any(message: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    fields(message).flatten().filter_map(|(field, value)| match value {
        Value::Bytes(bytes) => Some((field, bytes)),
        _ => None,
    })
}

/// Those of one field.
fn parts(message: &[u8], number: u64) -> impl Iterator<Item = (u64, &[u8])> {
    parts_of_any(message).filter(move |(field, _)| *field == number)
}

/// Asks for what the descriptors say, as whoever calls the method does.
///
/// # Panics
/// If an answer has more than the descriptors and the question.
#[cfg(all(feature = "json", any(test, feature = "fuzzing")))]
pub(super) fn whatever_is_asked(descriptors: &[u8], question: &[u8]) {
    let files = Files::of(&[descriptors]);
    let services = BTreeSet::from(["a.A".to_owned()]);
    let mut told = HashSet::new();
    for asked in fields(question).flatten().filter(|(field, _)| (3..=7).contains(field)) {
        let most = 100 + descriptors.len() * 12 + question.len();
        assert!(answer(asked, &services, &files, &mut told).is_none_or(|(_, answer)| answer.len() <= most));
    }
}
