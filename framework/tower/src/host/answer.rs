//! What a service answers, as a call's answer: metadata, messages, status.

use super::{BoxError, failed, request};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Buf;
use greenwave_rpc::{Code, Context, Outgoing, Status};
use http::header::{HeaderMap, HeaderName};
use http::{Response, StatusCode};
use http_body::Body;
use std::future::poll_fn;
use std::pin::pin;

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";

/// Values of names that end in `-bin`: services pad them or don't.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Those of gRPC's own names whose values are the service's: they are passed on as they are.
const PASSED_ON: [&str; 2] = ["grpc-status-details-bin", "grpc-retry-pushback-ms"];

/// Where an answer's messages go.
pub(super) enum Sink<'a> {
    Stream(Outgoing),
    /// The answer of a method that has one.
    One {
        reply: &'a mut Vec<u8>,
        is_there: bool,
    },
}

impl Sink<'_> {
    async fn send(&mut self, message: Vec<u8>) -> Result<(), Status> {
        match self {
            Self::Stream(outgoing) => outgoing.send_async(message).await,
            Self::One { is_there: true, .. } => Err(internal("it answers more than one message")),
            Self::One { reply, is_there } => {
                **reply = message;
                *is_there = true;
                Ok(())
            }
        }
    }
}

/// Passes an answer on to the caller, as it comes. The status that it ends with.
pub(super) async fn pass_on<B>(context: &Context, response: Response<B>, sink: &mut Sink<'_>) -> Result<(), Status>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let (head, body) = response.into_parts();
    if head.headers.contains_key(STATUS) {
        // There is nothing but headers, and they are what is said at the end.
        return end(context, &head.headers);
    }
    if head.status != StatusCode::OK {
        return Err(Status::new(code_of(head.status), format!("the service answered HTTP status {}", head.status)));
    }
    say(&head.headers, |name, value| context.lead(name, value))?;
    if let Sink::Stream(outgoing) = sink {
        outgoing.begin(context);
    }
    let (mut body, mut framed) = (pin!(body), Framed::default());
    while let Some(frame) = poll_fn(|task| body.as_mut().poll_frame(task)).await {
        match frame.map_err(failed)?.into_data() {
            Ok(mut data) => {
                while let Some(message) = framed.next(&mut data)? {
                    sink.send(message).await?;
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    framed.finish()?;
                    end(context, &trailers)?;
                    return match sink {
                        Sink::One { is_there: false, .. } => Err(internal("it answers no message, and no failure")),
                        _ => Ok(()),
                    };
                }
            }
        }
    }
    Err(Status::new(Code::Unknown, "the service's answer ended without a status"))
}

fn internal(what: &str) -> Status {
    Status::new(Code::Internal, format!("the service's answer can't be passed on: {what}"))
}

/// What a service says at the end: how it went, and the metadata that go with that.
fn end(context: &Context, trailers: &HeaderMap) -> Result<(), Status> {
    say(trailers, |name, value| context.trail(name, value))?;
    let text = |name| trailers.get(name).map(http::HeaderValue::as_bytes);
    let number = text(STATUS).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    match number.and_then(Code::from_u8) {
        Some(Code::Ok) => Ok(()),
        code => Err(Status::new(code.unwrap_or(Code::Unknown), decoded(text(MESSAGE).unwrap_or_default()))),
    }
}

/// Says what isn't gRPC's own.
fn say<E: ToString>(headers: &HeaderMap, mut say: impl FnMut(&str, &[u8]) -> Result<(), E>) -> Result<(), Status> {
    let is_said = |name: &HeaderName| !request::is_reserved(name) || PASSED_ON.contains(&name.as_str());
    for (name, value) in headers.iter().filter(|(name, _)| is_said(name)) {
        let name = name.as_str();
        let mut say =
            |value: &[u8]| say(name, value).map_err(|error| internal(&format!("{name}: {}", error.to_string())));
        if !name.ends_with("-bin") {
            say(value.as_bytes())?;
            continue;
        }
        for one in value.as_bytes().split(|byte| *byte == b',') {
            say(&BASE64.decode(one.trim_ascii()).map_err(|_| internal(&format!("{name} is not base64")))?)?;
        }
    }
    Ok(())
}

/// A text without gRPC's percent-encoding. What is wrong in it stays as it is.
fn decoded(text: &[u8]) -> String {
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, behind)) = rest.split_first() {
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        match (*first == b'%').then(|| digit(0).zip(digit(1))).flatten() {
            Some((high, low)) => {
                decoded.push((high << 4 | low) as u8);
                rest = &behind[2..];
            }
            None => {
                decoded.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// gRPC's code for what is no gRPC ("HTTP to gRPC Status Code Mapping").
fn code_of(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// Messages within a body, however it is cut.
#[derive(Default)]
struct Framed {
    prefix: [u8; 5],
    /// How many bytes of the prefix are there.
    begun: usize,
    body: Vec<u8>,
}

impl Framed {
    /// The next message that is complete. Takes all that there is if there is none.
    fn next(&mut self, data: &mut impl Buf) -> Result<Option<Vec<u8>>, Status> {
        while self.begun < self.prefix.len() {
            if !data.has_remaining() {
                return Ok(None);
            }
            self.prefix[self.begun] = data.get_u8();
            self.begun += 1;
        }
        let [compressed, len @ ..] = self.prefix;
        if compressed != 0 {
            return Err(internal("it is compressed, and nobody has asked for that"));
        }
        let len = u32::from_be_bytes(len) as usize;
        while self.body.len() < len {
            if !data.has_remaining() {
                return Ok(None);
            }
            if self.body.is_empty() {
                // The service has it in memory already.
                self.body.reserve_exact(len);
            }
            let chunk = data.chunk();
            let taken = chunk.len().min(len - self.body.len());
            self.body.extend_from_slice(&chunk[..taken]);
            data.advance(taken);
        }
        self.begun = 0;
        Ok(Some(std::mem::take(&mut self.body)))
    }

    /// Nothing more comes.
    fn finish(&self) -> Result<(), Status> {
        if self.begun == 0 { Ok(()) } else { Err(internal("it ends in the middle of a message")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in_however_the_body_is_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8),
            cut in 1_usize..30,
        ) {
            let body: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
            let (mut reader, mut found) = (Framed::default(), Vec::new());
            for mut piece in body.chunks(cut) {
                while let Some(message) = reader.next(&mut piece).unwrap() {
                    found.push(message);
                }
                prop_assert!(piece.is_empty());
            }
            prop_assert_eq!(found, messages);
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn no_text_makes_decoding_panic_and_plain_text_stays(bytes: Vec<u8>, plain in "[a-z ü]{0,9}") {
            let _ = decoded(&bytes);
            prop_assert_eq!(decoded(plain.as_bytes()), plain);
        }
    }

    #[test]
    fn what_is_no_message_is_said_to_be_none() {
        let mut reader = Framed::default();
        assert!(reader.next(&mut &[0, 0, 0][..]).unwrap().is_none() && reader.finish().is_err());
        assert_eq!(Framed::default().next(&mut &[1, 0, 0, 0, 0][..]).unwrap_err().code, Code::Internal);
    }

    #[test]
    fn a_message_is_decoded_as_grpc_encodes_it() {
        assert_eq!(decoded(b"100 %25 %C2%B5%0A~"), "100 % \u{b5}\n~");
        assert_eq!(decoded(b"50% %zz %4"), "50% %zz %4");
    }
}
