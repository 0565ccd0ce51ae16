//! What can be said of services only in `.proto`, or would clash in Rust. Found here, it is told with file and line;
//! found by rustc, it would be an error in code that nobody wrote.

use std::collections::HashMap;

use heck::{ToSnakeCase, ToUpperCamelCase};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};

use crate::service::{Emit, full_service_name};
use crate::{BuildError, Location};

/// Numbers of fields in `FileDescriptorProto` and below, which make up the paths of source positions.
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const SERVICES: i32 = 6;
const METHODS: i32 = 2;

/// Checks all files.
pub(crate) fn check(files: &FileDescriptorSet, emit: &Emit) -> Result<(), BuildError> {
    // Names in Rust by package, with what they stand for: messages and enums first, since their names are given.
    let mut names = HashMap::new();
    for file in &files.file {
        let messages = file.message_type.iter().map(DescriptorProto::name);
        let enums = file.enum_type.iter().map(EnumDescriptorProto::name);
        let places = (0..).map(|index| [MESSAGES, index]).zip(messages);
        for (path, name) in places.chain((0..).map(|index| [ENUMS, index]).zip(enums)) {
            let name_in_rust = name.to_upper_camel_case();
            claim(&mut names, file.package(), name_in_rust, format!("`{name}`"), || place(file, &path))?;
        }
    }
    for file in &files.file {
        for (index, service) in (0..).zip(&file.service) {
            let full_name = full_service_name(file.package(), service.name());
            for name in emit.names_of(&service.name().to_upper_camel_case()) {
                let what = format!("service {full_name}");
                claim(&mut names, file.package(), name, what, || place(file, &[SERVICES, index]))?;
            }
            check_methods(file, index, emit)?;
        }
    }
    Ok(())
}

fn check_methods(file: &FileDescriptorProto, index: i32, emit: &Emit) -> Result<(), BuildError> {
    let service = &file.service[index as usize];
    let full_name = full_service_name(file.package(), service.name());
    let mut names = HashMap::new();
    if emit.client {
        for name in ["new", "channel"] {
            names.insert((full_name.clone(), name.to_owned()), "a method of every client".to_owned());
        }
    }
    for (number, method) in (0..).zip(&service.method) {
        let what = format!("method {full_name}/{}", method.name());
        let at = || place(file, &[SERVICES, index, METHODS, number]);
        let name = method.name().to_snake_case();
        if emit.client && !method.client_streaming() && !method.server_streaming() {
            claim(&mut names, &full_name, format!("{name}_async"), what.clone(), at)?;
        }
        claim(&mut names, &full_name, name, what, at)?;
    }
    Ok(())
}

/// Takes a name within a scope, unless it is taken.
fn claim(
    names: &mut HashMap<(String, String), String>,
    scope: &str,
    name: String,
    what: String,
    at: impl FnOnce() -> Location,
) -> Result<(), BuildError> {
    match names.insert((scope.to_owned(), name.clone()), what.clone()) {
        None => Ok(()),
        Some(taken_by) => Err(BuildError::NameTaken { at: at(), what, name, taken_by }),
    }
}

/// Where the declaration with this path stands.
fn place(file: &FileDescriptorProto, path: &[i32]) -> Location {
    let places = file.source_code_info.iter().flat_map(|info| &info.location);
    let span = places.filter(|place| place.path == path).find_map(|place| match place.span[..] {
        [line, column, ..] => Some((line as u32 + 1, column as u32 + 1)),
        _ => None,
    });
    let (line, column) = span.unwrap_or_default();
    Location { file: file.name().to_owned(), line, column }
}
