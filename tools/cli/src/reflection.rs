//! What a server of gRPC says of itself by `grpc.reflection.v1.ServerReflection`, and by its forerunner `v1alpha`.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use greenwave::{Channel, Code, Context, Incoming, Method, Outgoing, Status};
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};

use crate::problem::Problem;

const VERSIONS: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// A server may have so many files; beyond that it is asked for no more.
const FILES_MOST: usize = 10_000;

/// `ServerReflectionRequest`, as far as it is asked here.
#[derive(Clone, PartialEq, Message)]
struct Ask {
    #[prost(oneof = "Question", tags = "3, 4, 7")]
    question: Option<Question>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Question {
    #[prost(string, tag = "3")]
    File(String),
    #[prost(string, tag = "4")]
    FileOf(String),
    #[prost(string, tag = "7")]
    Services(String),
}

/// `ServerReflectionResponse`.
#[derive(Clone, PartialEq, Message)]
struct Told {
    #[prost(oneof = "Answer", tags = "4, 6, 7")]
    answer: Option<Answer>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Answer {
    #[prost(message, tag = "4")]
    Files(Files),
    #[prost(message, tag = "6")]
    Services(Services),
    #[prost(message, tag = "7")]
    Failed(Failed),
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Service>,
}

#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Failed {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    text: String,
}

/// Asks a server for its methods, `package.Service/Method`, and what describes their messages.
///
/// # Errors
/// When it has no reflection, or says what makes no sense.
pub(crate) fn ask(channel: &Channel, patience: Duration) -> Result<(Vec<String>, DescriptorPool), Problem> {
    let context = Context::with_deadline(patience);
    let mut failed = None;
    for version in VERSIONS {
        match Asking::begin(channel, &context, version).and_then(|mut asking| asking.all()) {
            Err(status) if status.code == Code::Unimplemented => failed = Some(status),
            Err(status) => return Err(Problem::failure(status).at(channel.address())),
            Ok((services, files)) => return described(channel, &services, files),
        }
    }
    let problem = Problem::failure(failed.map_or_else(String::new, |status| status.to_string()));
    Err(problem.at(channel.address()).remedy("it has no reflection; name the service's .proto with --proto"))
}

fn described(
    channel: &Channel,
    services: &[String],
    files: Vec<FileDescriptorProto>,
) -> Result<(Vec<String>, DescriptorPool), Problem> {
    let broken = |error: prost_reflect::DescriptorError| {
        let what = format!("what the server says of itself can't be read: {error}");
        Problem::failure(what).at(channel.address()).remedy("name the service's .proto with --proto")
    };
    let pool = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: files }).map_err(broken)?;
    let found = services.iter().filter_map(|name| pool.get_service_by_name(name));
    let methods = found.flat_map(|service| {
        let methods = service.methods().map(|method| format!("{}/{}", service.full_name(), method.name()));
        methods.collect::<Vec<_>>()
    });
    let methods = methods.collect();
    Ok((methods, pool))
}

/// A call of the reflection's, which takes one question after the other.
struct Asking<'a> {
    context: &'a Context,
    questions: Outgoing,
    answers: Incoming,
}

impl<'a> Asking<'a> {
    fn begin(channel: &Channel, context: &'a Context, version: &'static str) -> Result<Self, Status> {
        let (questions, answers) = channel.open(context, Method::named(version))?;
        Ok(Self { context, questions, answers })
    }

    fn ask(&mut self, question: Question) -> Result<Answer, Status> {
        let sent = self.questions.send(self.context, Ask { question: Some(question) }.encode_to_vec());
        // A server without reflection says so in its answer, whatever it was sent.
        let told = self.answers.next(self.context)?;
        sent?;
        let none = || Status::new(Code::Internal, "the server ends its account of itself before it is complete");
        let told = Told::decode(&*told.ok_or_else(none)?);
        let told =
            told.map_err(|error| Status::new(Code::Internal, format!("the server's account of itself: {error}")))?;
        match told.answer {
            Some(Answer::Failed(Failed { code, text })) => {
                let code = u8::try_from(code).ok().and_then(Code::from_u8).unwrap_or(Code::Unknown);
                Err(Status::new(code, text))
            }
            Some(answer) => Ok(answer),
            None => Err(none()),
        }
    }

    /// All services, and all files that describe them.
    fn all(&mut self) -> Result<(Vec<String>, Vec<FileDescriptorProto>), Status> {
        let Answer::Services(services) = self.ask(Question::Services("*".to_owned()))? else {
            return Err(Status::new(Code::Internal, "the server was asked for its services and told something else"));
        };
        let names: Vec<String> = services.services.into_iter().map(|service| service.name).collect();
        let mut files: HashMap<String, FileDescriptorProto> = HashMap::new();
        let mut questions: VecDeque<Question> = names.iter().cloned().map(Question::FileOf).collect();
        while let Some(question) = questions.pop_front() {
            if matches!(&question, Question::File(name) if files.contains_key(name)) || files.len() >= FILES_MOST {
                continue;
            }
            let told = match self.ask(question) {
                Ok(Answer::Files(told)) => told,
                // Some list a service that they don't describe.
                Err(status) if status.code == Code::NotFound => continue,
                Err(status) => return Err(status),
                Ok(_) => continue,
            };
            for bytes in told.files {
                let broken = |error| Status::new(Code::Internal, format!("a file of the server's: {error}"));
                let file = FileDescriptorProto::decode(&*bytes).map_err(broken)?;
                questions.extend(file.dependency.iter().cloned().map(Question::File));
                files.insert(file.name().to_owned(), file);
            }
        }
        Ok((names, files.into_values().collect()))
    }
}
