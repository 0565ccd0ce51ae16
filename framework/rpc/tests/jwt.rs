//! Calls that are allowed by tokens that somebody has signed.

#![cfg(feature = "jwt")]

use greenwave_rpc::*;
use greenwave_verbs::Address;
use greenwave_verbs::tls::Pem;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

const OPEN: Method = Method::named("test.Door/Open");
const SECRET: &[u8] = b"a secret of thirty-two bytes, no less";

fn start(jwt: Jwt) -> ServerHandle {
    let router = Router::new().method(OPEN.name().unwrap(), |context, _, reply| {
        reply.extend_from_slice(context.peer().subject().unwrap_or_default().as_bytes());
        Ok(())
    });
    let listen = ["tcp://127.0.0.1:0".parse::<Address>().unwrap()];
    Server::start(ServerConfig::default().listen(listen), router.authorize(jwt)).unwrap()
}

/// What the server says to this token at one of its addresses.
fn ask_at(address: Address, token: &str) -> Result<String, (Code, String)> {
    let channel = Channel::new(address, ChannelConfig::default()).unwrap();
    let context = Context::with_deadline(Duration::from_secs(3600));
    let context = context.with_metadata("authorization", format!("Bearer {token}")).unwrap();
    let reply = channel.call(&context, OPEN, b"").map_err(|status| (status.code, status.message))?;
    Ok(String::from_utf8_lossy(&reply.body).into_owned())
}

/// What the server says to this token, by its own protocol and by gRPC's, which say the same.
fn ask(server: &ServerHandle, token: &str) -> Result<String, (Code, String)> {
    let socket = server.addresses()[0].socket().unwrap();
    let [own, grpc] = [Address::Tcp(socket), Address::Grpc(socket)].map(|address| ask_at(address, token));
    let code = |said: &Result<String, (Code, String)>| said.clone().map_err(|(code, _)| code);
    assert_eq!(code(&own), code(&grpc));
    own
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Claims that hold, with these in place of some; `null`: without it.
fn claims(changes: &[(&'static str, serde_json::Value)]) -> BTreeMap<&'static str, serde_json::Value> {
    let mut claims = BTreeMap::from([
        ("sub", "ada".into()),
        ("iss", "https://login.example".into()),
        ("aud", "doors".into()),
        ("exp", (now() + 3600).into()),
    ]);
    for (name, value) in changes {
        claims.insert(*name, value.clone());
    }
    claims.retain(|_, value| !value.is_null());
    claims
}

fn signed(algorithm: Algorithm, key: &EncodingKey, changes: &[(&'static str, serde_json::Value)]) -> String {
    encode(&Header::new(algorithm), &claims(changes), key).unwrap()
}

#[test]
fn a_token_that_holds_names_the_caller_and_one_that_does_not_is_refused_with_the_reason() {
    let server = start(Jwt::new(JwtKey::Secret(SECRET), "https://login.example", "doors").unwrap());
    let key = EncodingKey::from_secret(SECRET);
    let signed = |changes: &[_]| signed(Algorithm::HS256, &key, changes);
    assert_eq!(ask(&server, &signed(&[])), Ok("ada".to_owned()));
    assert_eq!(ask(&server, &signed(&[("nbf", (now() - 10).into())])), Ok("ada".to_owned()));
    let null = serde_json::Value::Null;
    for (changes, part) in [
        (("exp", (now() - 3600).into()), "has expired"),
        (("exp", null.clone()), "no `exp`"),
        (("exp", "tomorrow".into()), "not"),
        (("nbf", (now() + 3600).into()), "not valid yet"),
        (("nbf", "yesterday".into()), "not sound"),
        (("iss", "https://elsewhere.example".into()), "another issuer"),
        (("iss", null.clone()), "no `iss`"),
        (("aud", "windows".into()), "another audience"),
        (("aud", null.clone()), "no `aud`"),
        (("sub", null), "no `sub`"),
        (("sub", "".into()), "`sub` is empty"),
    ] {
        let (code, text) = ask(&server, &signed(std::slice::from_ref(&changes))).unwrap_err();
        assert!(code == Code::Unauthenticated && text.contains(part), "{changes:?}: {text}");
    }
}

/// What anybody can do who has no key, or another one.
#[test]
fn a_token_that_is_not_signed_with_the_key_is_refused_whatever_it_says_of_itself() {
    let (pair, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let public = pair.public_key_pem();
    let key = JwtKey::P256(Pem::Bytes(public.as_bytes()));
    let server = start(Jwt::new(key, "https://login.example", "doors").unwrap());
    let private = |pair: &KeyPair| EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
    let good = signed(Algorithm::ES256, &private(&pair), &[]);
    assert_eq!(ask(&server, &good), Ok("ada".to_owned()));
    let [_, body, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    // {"alg":"none"}, and {"alg":"none","typ":"JWT"}.
    let none = ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0"];
    let mut forged: Vec<String> =
        none.iter().flat_map(|head| [format!("{head}.{body}."), format!("{head}.{body}.{signature}")]).collect();
    forged.push(signed(Algorithm::ES256, &private(&other), &[]));
    forged.push(signed(Algorithm::HS256, &EncodingKey::from_secret(public.as_bytes()), &[]));
    forged.push(signed(Algorithm::HS256, &EncodingKey::from_secret(SECRET), &[]));
    forged.extend(["a.b.c", "..", ".", "x"].map(str::to_owned));
    forged.push("e".repeat(7000));
    for token in forged {
        assert_eq!(ask(&server, &token).map_err(|(code, _)| code), Err(Code::Unauthenticated), "{token}");
    }
}

#[test]
fn a_key_of_another_kind_or_a_secret_that_is_short_is_refused_at_start() {
    let public = KeyPair::generate().unwrap().public_key_pem();
    let new = |key| Jwt::new(key, "issuer", "audience").map(drop).unwrap_err();
    assert_eq!(new(JwtKey::Secret(b"short")), JwtError::Short { found: 5 });
    for key in [JwtKey::Rsa(Pem::Bytes(public.as_bytes())), JwtKey::Ed25519(Pem::Bytes(b"no PEM"))] {
        assert!(matches!(new(key), JwtError::Key { .. }), "{key:?}");
    }
    assert!(matches!(new(JwtKey::Rsa(Pem::File("/nowhere".as_ref()))), JwtError::Read { .. }));
    assert_eq!(Jwt::new(JwtKey::Secret(SECRET), "", "audience").unwrap_err(), JwtError::Empty("iss"));
}

#[test]
fn a_key_in_a_file_is_read_again_and_a_broken_one_changes_nothing() {
    let (first, second) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let file = std::env::temp_dir().join(format!("greenwave-jwt-{}", std::process::id()));
    std::fs::write(&file, first.public_key_pem()).unwrap();
    let jwt = Jwt::new(JwtKey::P256(Pem::File(&file)), "https://login.example", "doors").unwrap();
    let server = start(jwt);
    let [old, new] = [&first, &second]
        .map(|pair| signed(Algorithm::ES256, &EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap(), &[]));
    assert!(ask(&server, &old).is_ok() && ask(&server, &new).is_err());
    std::fs::write(&file, "no key").unwrap();
    server.refresh();
    assert!(ask(&server, &old).is_ok());
    std::fs::write(&file, second.public_key_pem()).unwrap();
    let begun = std::time::Instant::now();
    while ask_at(server.addresses()[0].clone(), &new).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never read again");
        server.refresh();
    }
    assert!(ask(&server, &old).is_err());
    std::fs::remove_file(file).unwrap();
}
