//! The code of a service: what [`ServiceCode`] appends to the messages that prost made.
//!
//! It is thin on purpose. What can be written once is in Greenwave; here is only what depends on names and types, with
//! every path in full, so that no name in a `.proto` can get in its way.

use std::collections::HashMap;

use heck::ToSnakeCase;
use prost_build::{Comments, Method, Service, ServiceGenerator};
use protox::prost_reflect::prost_types::method_options::IdempotencyLevel;

use crate::builder::descriptors_file;

/// What is to be made, and where it finds what it is made of.
#[derive(Clone)]
pub(crate) struct Emit {
    pub(crate) greenwave: String,
    pub(crate) prost: String,
    pub(crate) server: bool,
    pub(crate) client: bool,
    /// Whether fields of requests are parts of the memory that these were received into.
    pub(crate) in_place: bool,
}

impl Default for Emit {
    fn default() -> Self {
        Self {
            greenwave: "::greenwave".to_owned(),
            prost: "::prost".to_owned(),
            server: true,
            client: true,
            in_place: false,
        }
    }
}

impl Emit {
    /// The names that a service takes in its package's module.
    pub(crate) fn names_of(&self, service: &str) -> impl Iterator<Item = String> {
        let server = self.server.then(|| [service.to_owned(), format!("{service}Server")]);
        let client = self.client.then(|| format!("{service}Client"));
        server.into_iter().flatten().chain(client)
    }
}

/// `package.Service`, or the service alone where there is no package.
pub(crate) fn full_service_name(package: &str, service: &str) -> String {
    if package.is_empty() { service.to_owned() } else { format!("{package}.{service}") }
}

/// Makes the code of services.
pub(crate) struct ServiceCode {
    emit: Emit,
    /// By package, whether its services have methods that stream, and others.
    kinds: HashMap<String, (bool, bool)>,
}

impl ServiceCode {
    pub(crate) fn new(emit: Emit) -> Self {
        Self { emit, kinds: HashMap::new() }
    }
}

impl ServiceGenerator for ServiceCode {
    fn generate(&mut self, service: Service, code: &mut String) {
        let streams = service.methods.iter().filter(|method| streams(method)).count();
        let kinds = self.kinds.entry(service.package.clone()).or_default();
        *kinds = (kinds.0 || streams > 0, kinds.1 || streams < service.methods.len());
        let service = Named { emit: &self.emit, service: &service };
        service.methods(code);
        if self.emit.server {
            service.implemented(code);
            service.server(code);
        }
        if self.emit.client {
            service.client(code);
        }
    }

    fn finalize_package(&mut self, package: &str, code: &mut String) {
        let Emit { greenwave, prost, server, client, .. } = &self.emit;
        let (streams, calls) = self.kinds.get(package).copied().unwrap_or_default();
        let file = descriptors_file(package);
        code.push_str(&format!(
            r#"
/// The files that this was made of, as an encoded `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("{file}");
"#
        ));
        if !server && !client {
            return;
        }
        code.push_str(
            r#"
/// How the services above turn messages into bytes and back.
mod greenwave_codec {"#,
        );
        if streams {
            code.push_str(&format!(
                r#"
    /// Decodes a message of a stream.
    pub(super) fn message<M: {prost}::Message + ::core::default::Default>(
        message: ::std::vec::Vec<u8>,
    ) -> ::core::result::Result<M, {greenwave}::Status> {{
        M::decode({prost}::bytes::Bytes::from(message)).map_err(|error| {{
            {greenwave}::Status::refused({greenwave}::Reason::Decode, error.to_string())
        }})
    }}

    /// Encodes a message of a stream.
    pub(super) fn bytes<M: {prost}::Message>(
        message: M,
    ) -> ::core::result::Result<::std::vec::Vec<u8>, {greenwave}::Status> {{
        let bytes = message.encode_to_vec();
        ::core::mem::drop(message);
        ::core::result::Result::Ok(bytes)
    }}
"#
            ));
        }
        if *server && calls {
            let request = if self.emit.in_place { format!("{prost}::bytes::Bytes") } else { "&[u8]".to_owned() };
            code.push_str(&format!(
                r#"
    /// Decodes a request, has it answered, and encodes the reply.
    pub(super) fn serve<Q: {prost}::Message + ::core::default::Default, A: {prost}::Message>(
        request: {request},
        reply: &mut ::std::vec::Vec<u8>,
        answer: impl ::core::ops::FnOnce(Q) -> ::core::result::Result<A, {greenwave}::Status>,
    ) -> ::core::result::Result<(), {greenwave}::Status> {{
        let request = Q::decode(request).map_err(|error| {{
            {greenwave}::Status::refused({greenwave}::Reason::Decode, error.to_string())
        }})?;
        answer(request)?
            .encode(reply)
            .map_err(|error| {greenwave}::Status::new({greenwave}::Code::Internal, error.to_string()))
    }}
"#
            ));
        }
        if *client && calls {
            code.push_str(&format!(
                r#"
    /// Decodes a reply. One that is not of its type is the server's fault, not the caller's.
    pub(super) fn decode<A: {prost}::Message + ::core::default::Default>(
        reply: &[u8],
    ) -> ::core::result::Result<A, {greenwave}::Status> {{
        A::decode(reply).map_err(|error| {{
            let status = {greenwave}::Status::refused({greenwave}::Reason::Decode, error.to_string());
            {greenwave}::Status {{ code: {greenwave}::Code::Internal, ..status }}
        }})
    }}
"#
            ));
        }
        code.push_str("}\n");
    }
}

/// A service and what its code refers to.
struct Named<'a> {
    emit: &'a Emit,
    service: &'a Service,
}

impl Named<'_> {
    fn full_name(&self) -> String {
        full_service_name(&self.service.package, &self.service.proto_name)
    }

    /// The module of the methods' names.
    fn methods_module(&self) -> String {
        format!("{}_methods", self.service.name.to_snake_case())
    }

    fn methods(&self, code: &mut String) {
        let Emit { greenwave, .. } = self.emit;
        let (module, service) = (self.methods_module(), self.full_name());
        code.push_str(&format!(
            r#"
/// The methods of `{service}`: their full names, and the numbers by which calls name them.
pub mod {module} {{"#
        ));
        for method in &self.service.methods {
            let (constant, proto_name, repeatable) = (constant(method), &method.proto_name, is_repeatable(method));
            code.push_str(&format!(
                r#"
    /// The full name of `{proto_name}`.
    pub const {constant}: &str = "{service}/{proto_name}";
    /// The number of `{proto_name}`.
    pub const {constant}_ID: {greenwave}::MethodId = {greenwave}::MethodId::of({constant});
    /// Whether `{proto_name}` may run twice for one call: what its `idempotency_level` says.
    pub const {constant}_REPEATABLE: bool = {repeatable};
"#
            ));
        }
        code.push_str("}\n");
    }

    fn implemented(&self, code: &mut String) {
        let Emit { greenwave, .. } = self.emit;
        let Service { name, comments, methods, .. } = self.service;
        code.push('\n');
        push_docs(code, 0, comments, &format!("The service `{}`.", self.full_name()));
        code.push_str(&format!("pub trait {name}: ::core::marker::Send + ::core::marker::Sync + 'static {{\n"));
        for method in methods {
            let Method { name, comments, input_type, output_type, client_streaming, server_streaming, .. } = method;
            push_docs(code, 1, comments, &format!("Answers `{}`.", method.proto_name));
            let request = if *client_streaming {
                format!("requests: {greenwave}::Incoming<{input_type}>")
            } else {
                format!("request: {input_type}")
            };
            let (replies, output) = if *server_streaming {
                (format!("\n        replies: {greenwave}::Outgoing<{output_type}>,"), "()")
            } else {
                (String::new(), &output_type[..])
            };
            code.push_str(&format!(
                r#"    fn {name}(
        &self,
        ctx: &{greenwave}::Context,
        {request},{replies}
    ) -> ::core::result::Result<{output}, {greenwave}::Status>;
"#
            ));
        }
        code.push_str("}\n");
    }

    fn server(&self, code: &mut String) {
        let Emit { greenwave, .. } = self.emit;
        let Service { name, methods, .. } = self.service;
        let module = self.methods_module();
        let add = if self.emit.in_place { "method_bytes" } else { "method" };
        code.push_str(&format!(
            r#"
/// Serves a [`{name}`].
pub struct {name}Server<S: ?::core::marker::Sized>(::std::sync::Arc<S>);

impl<S: {name} + ?::core::marker::Sized> {name}Server<S> {{
    /// A server of this implementation.
    pub fn new(service: ::std::sync::Arc<S>) -> Self {{
        Self(service)
    }}

    /// Its methods, for a server to start with; merge routers to serve several services.
    pub fn into_router(self) -> {greenwave}::Router {{
        {greenwave}::Router::new()
            .descriptors(FILE_DESCRIPTOR_SET)"#
        ));
        for method in methods {
            if streams(method) {
                self.streaming(method, code);
                continue;
            }
            let (constant, method) = (constant(method), &method.name);
            code.push_str(&format!(
                r#"
            .{add}({module}::{constant}, {{
                let service = ::std::sync::Arc::clone(&self.0);
                move |ctx, request, reply| {{
                    greenwave_codec::serve(request, reply, |request| <S as {name}>::{method}(&service, ctx, request))
                }}
            }})"#
            ));
        }
        code.push_str(&format!(
            r#"
    }}
}}

impl<S: {name} + ?::core::marker::Sized> ::core::convert::From<{name}Server<S>> for {greenwave}::Router {{
    fn from(server: {name}Server<S>) -> Self {{
        server.into_router()
    }}
}}

impl<S: ?::core::marker::Sized> ::core::fmt::Debug for {name}Server<S> {{
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{
        f.write_str("{name}Server")
    }}
}}
"#
        ));
    }

    fn client(&self, code: &mut String) {
        let Emit { greenwave, .. } = self.emit;
        let Service { name, methods, .. } = self.service;
        let full_name = self.full_name();
        code.push_str(&format!(
            r#"
/// Calls a server of `{full_name}`. Cheap to clone; clones share the channel.
#[derive(Clone, Debug)]
pub struct {name}Client {{
    channel: {greenwave}::Channel,
}}

impl {name}Client {{
    /// A client that calls over this channel.
    pub const fn new(channel: {greenwave}::Channel) -> Self {{
        Self {{ channel }}
    }}

    /// The channel that it calls over.
    pub const fn channel(&self) -> &{greenwave}::Channel {{
        &self.channel
    }}
"#
        ));
        for method in methods {
            if streams(method) { self.opens(method, code) } else { self.calls(method, code) }
        }
        code.push_str("}\n");
    }

    /// How a method that streams is served.
    fn streaming(&self, method: &Method, code: &mut String) {
        let (module, service, constant) = (self.methods_module(), &self.service.name, constant(method));
        let Method { name, client_streaming, server_streaming, .. } = method;
        let incoming = "incoming.decoded(greenwave_codec::message)";
        let request = if *client_streaming { incoming.to_owned() } else { format!("{incoming}.only(ctx)?") };
        let serve = if *server_streaming {
            format!("<S as {service}>::{name}(&service, ctx, {request}, outgoing.encoded(greenwave_codec::bytes))")
        } else {
            format!(
                "outgoing.encoded(greenwave_codec::bytes).send(ctx, <S as {service}>::{name}(&service, ctx, {request})?)"
            )
        };
        code.push_str(&format!(
            r#"
            .streaming({module}::{constant}, {{
                let service = ::std::sync::Arc::clone(&self.0);
                move |ctx, incoming, outgoing| {{
                    {serve}
                }}
            }})"#
        ));
    }

    /// How a method that streams is called.
    fn opens(&self, method: &Method, code: &mut String) {
        let Emit { greenwave, prost, .. } = self.emit;
        let Method { name, comments, input_type, output_type, proto_name, client_streaming, server_streaming, .. } =
            method;
        let (module, constant) = (self.methods_module(), constant(method));
        code.push('\n');
        push_docs(code, 1, comments, &format!("Calls `{proto_name}`."));
        let answer = if *server_streaming {
            "The replies come one by one, and their end tells whether all went well."
        } else {
            "The reply comes when the requests have ended: [`only`](::greenwave::Incoming::only) waits for it."
        };
        let answer = answer.replace("::greenwave", greenwave);
        let (argument, output, begin, end) = if *client_streaming {
            let output = format!("({greenwave}::Outgoing<{input_type}>, {greenwave}::Incoming<{output_type}>)");
            let end = "::core::result::Result::Ok((requests, incoming.decoded(greenwave_codec::message)))";
            let begin = "\n        let requests = outgoing.encoded(greenwave_codec::bytes);".to_owned();
            (String::new(), output, begin, end)
        } else {
            let send = format!("outgoing.send(ctx, {prost}::Message::encode_to_vec(request))?;");
            let begin = format!("\n        {send}\n        outgoing.end();");
            let end = "::core::result::Result::Ok(incoming.decoded(greenwave_codec::message))";
            (format!("\n        request: &{input_type},"), format!("{greenwave}::Incoming<{output_type}>"), begin, end)
        };
        let mutable = if *client_streaming { "" } else { "mut " };
        code.push_str(&format!(
            r#"    ///
    /// {answer}
    ///
    /// # Errors
    /// If the call can't be begun. How it fails is told where its replies are taken.
    pub fn {name}(
        &self,
        ctx: &{greenwave}::Context,{argument}
    ) -> ::core::result::Result<{output}, {greenwave}::Status> {{
        let method = const {{ {greenwave}::Method::named({module}::{constant}) }};
        let ({mutable}outgoing, incoming) = self.channel.open(ctx, method)?;{begin}
        {end}
    }}
"#
        ));
    }

    /// The two ways to call a method: to wait for the reply, and to be given a future of it.
    fn calls(&self, method: &Method, code: &mut String) {
        let Emit { greenwave, prost, .. } = self.emit;
        let Method { name, comments, input_type, output_type, proto_name, .. } = method;
        let (module, constant, plain) = (self.methods_module(), constant(method), name.trim_start_matches("r#"));
        let (call, call_async) = match is_repeatable(method) {
            true => ("call_repeatable", "call_repeatable_async"),
            false => ("call_detailed", "call_async"),
        };
        code.push('\n');
        push_docs(code, 1, comments, &format!("Calls `{proto_name}`."));
        code.push_str(&format!(
            r#"    ///
    /// Waits for the reply: in a handler, the handler is suspended and not its thread.
    ///
    /// # Errors
    /// Anything but a reply in time, with the receipt of where the time went if the server sent one.
    pub fn {name}(
        &self,
        ctx: &{greenwave}::Context,
        request: &{input_type},
    ) -> ::core::result::Result<{greenwave}::Typed<{output_type}>, {greenwave}::Failure> {{
        let request = {prost}::Message::encode_to_vec(request);
        let method = const {{ {greenwave}::Method::named({module}::{constant}) }};
        self.channel.{call}(ctx, method, request)?.decode(greenwave_codec::decode)
    }}

    /// Like [`{plain}`](Self::{plain}), with the reply as a future. Dropping that takes the call back.
    pub fn {plain}_async(
        &self,
        ctx: &{greenwave}::Context,
        request: &{input_type},
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<{greenwave}::Typed<{output_type}>, {greenwave}::Failure>,
    > + ::core::marker::Send
    + use<> {{
        let request = {prost}::Message::encode_to_vec(request);
        let method = const {{ {greenwave}::Method::named({module}::{constant}) }};
        let reply = self.channel.{call_async}(ctx, method, &request);
        async move {{ reply.await?.decode(greenwave_codec::decode) }}
    }}
"#
        ));
    }
}

/// Whether a method's request, its answer or both are streams.
fn streams(method: &Method) -> bool {
    method.client_streaming || method.server_streaming
}

/// Whether the `.proto` says that a method has no side effects, or the same ones however often it runs.
fn is_repeatable(method: &Method) -> bool {
    matches!(method.options.idempotency_level(), IdempotencyLevel::NoSideEffects | IdempotencyLevel::Idempotent)
}

/// The constant of a method's name.
fn constant(method: &Method) -> String {
    method.name.trim_start_matches("r#").to_uppercase()
}

/// The comments in the `.proto` as documentation; where there are none, `otherwise`.
fn push_docs(code: &mut String, indent: u8, comments: &Comments, otherwise: &str) {
    if comments.leading.is_empty() && comments.trailing.is_empty() {
        let spaces = "    ".repeat(indent.into());
        code.push_str(&format!("{spaces}/// {otherwise}\n"));
        return;
    }
    // Detached comments are about the file, not about what happens to follow them.
    let attached = Comments { leading_detached: Vec::new(), ..comments.clone() };
    attached.append_with_indent(indent, code);
}
