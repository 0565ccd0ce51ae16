//! Leave by a file that says who may call what.

use super::bearer::{TokenHash, unknown};
use super::certificate::NamePattern;
use super::names::Names;
use super::{Authorize, AuthorizeRequest, Denied, Grant};
use greenwave_verbs::FileChanges;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Lets those call whom a file names, and reads it again when it changes.
///
/// The file is text. A line says who, and then what they may call, with spaces between; `#` begins a comment:
///
/// ```text
/// # who                              may call
/// spiffe://shop.example/cart         shop.Cart/* shop.Search/Find
/// spiffe://shop.example/batch/*      shop.Export/Run
/// billing.shop.example               *
/// token:ci:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b  greenwave.Meta/*
/// anyone                             shop.Search/Suggest
/// ```
///
/// *Who* is a name in a client's certificate, as for [`CertificateNames`](super::CertificateNames); `token:`, a subject, `:` and
/// the SHA-256 of a token that is sent as `authorization: Bearer <token>`, in hexadecimal (`printf %s "$TOKEN" | sha256sum`); or
/// `anyone`. *What* is a method, all of a service, or `*` for all. `greenwave.Meta` and the services of reflection, which tell of
/// the server itself, and services called `Admin` (`shop.Admin`) are not in `*` and have to be named. Lines add to one another; what
/// no line allows is refused.
///
/// A file that can't be read, is empty, or has a line that isn't so, changes nothing: what was read before holds, and an error is
/// logged, once for each version. A file of many lines is best replaced as a whole (`mv`), so that no half of one is ever read. At most 1 MiB, 10,000 lines and 256 different tokens are read.
#[derive(Debug)]
pub struct AllowList {
    path: PathBuf,
    /// Held for a moment only: by whoever swaps what is in it, and by readers.
    rules: RwLock<Arc<Rules>>,
    changes: Mutex<(FileChanges, Option<AllowListError>)>,
}

/// Why a file can't say who may call what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllowListError {
    /// It can't be read.
    #[error("can't read {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// There is nothing in it, as in a file that is about to be written.
    #[error("{path} is empty; if nobody may call anything, write that in a comment: # nobody")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is too long.
    #[error("{path} is longer than {most}")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// What is allowed.
        most: &'static str,
    },
    /// A line is not as it should be.
    #[error("{path}, line {line}: {wrong}; write WHO METHOD..., such as `spiffe://shop.example/cart shop.Cart/*`")]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        wrong: String,
    },
}

/// What a file says.
#[derive(Debug, Default)]
struct Rules {
    names: Names<Vec<Methods>>,
    tokens: Vec<(TokenHash, Token)>,
    anyone: Vec<Methods>,
}

#[derive(Debug)]
struct Token {
    subject: Arc<str>,
    methods: Vec<Methods>,
}

/// Which methods are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Methods {
    /// All but those that take a right of their own.
    All,
    /// Those of a service; it ends with a slash.
    Service(String),
    One(String),
}

/// What is read of a file, at most.
const BYTES: u64 = 1 << 20;
const LINES: usize = 10_000;
const TOKENS: usize = 256;

impl AllowList {
    /// What the file at `path` says.
    ///
    /// # Errors
    /// [`AllowListError`]: it can't be read, or which line is wrong, and how.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, AllowListError> {
        let path = path.as_ref().to_owned();
        let changes = FileChanges::of([&*path]);
        let rules = RwLock::new(Arc::new(read(&path)?));
        Ok(Self { path, rules, changes: Mutex::new((changes, None)) })
    }

    /// Why the file as it is now doesn't hold, if it doesn't.
    pub fn fault(&self) -> Option<AllowListError> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Authorize for AllowList {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        self.rules().authorize(call)
    }

    /// What it says of them it says in so many words.
    fn covers_meta(&self) -> bool {
        true
    }

    fn refresh(&self) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (changes, fault) = &mut *changes;
        // What could not be read may be readable again without having changed.
        if !changes.look() && fault.is_none() {
            return;
        }
        match read(&self.path) {
            Ok(rules) => {
                *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
                if fault.take().is_some() {
                    tracing::info!(path = %self.path.display(), "the allow list can be read again, and holds");
                }
            }
            Err(error) => {
                if fault.as_ref() != Some(&error) {
                    tracing::error!(%error, "the allow list can't be read again; what was read before holds");
                    *fault = Some(error);
                }
            }
        }
    }
}

impl Rules {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        let (peer, method) = (call.peer(), call.method());
        let allow = |methods: &[Methods]| methods.iter().any(|allowed| allowed.contain(method));
        if allow(&self.anyone) || self.names.of(peer).any(|methods| allow(methods)) {
            return Ok(Grant::to_peer());
        }
        if self.tokens.is_empty() {
            let nobody = || Denied::no_credentials("a client certificate");
            return Err(if peer.has_certificate() { Denied::not_allowed(call) } else { nobody() });
        }
        let hash = match call.bearer() {
            Ok(token) => TokenHash::of(token),
            Err(Denied::NoCredentials { .. }) if peer.has_certificate() => return Err(Denied::not_allowed(call)),
            Err(denied) => return Err(denied),
        };
        let Token { subject, methods } =
            hash.find(self.tokens.iter().map(|(own, token)| (own, token))).ok_or_else(unknown)?;
        if allow(methods) {
            return Ok(Grant::to_subject(Arc::clone(subject)));
        }
        Err(Denied::NotAllowed { who: subject.to_string(), method: method.to_owned() })
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut rules = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(who) = words.next() else { continue };
            if at >= LINES {
                return Err((at + 1, format!("more than {LINES} lines")));
            }
            rules.add(who, words).map_err(|wrong| (at + 1, wrong))?;
        }
        Ok(rules)
    }

    fn add<'a>(&mut self, who: &str, methods: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut methods = methods.map(Methods::parse).collect::<Result<Vec<_>, _>>()?;
        if methods.is_empty() {
            return Err(format!("nothing is said of what `{who}` may call"));
        }
        if who == "anyone" {
            self.anyone.append(&mut methods);
        } else if let Some(token) = who.strip_prefix("token:") {
            let wrong = || "a token is `token:SUBJECT:` and 64 hexadecimal digits, its SHA-256".to_owned();
            let (subject, hash) =
                token.rsplit_once(':').filter(|(subject, _)| !subject.is_empty()).ok_or_else(wrong)?;
            let hash = TokenHash::from_hex(hash).ok_or_else(wrong)?;
            let known = hash.find(self.tokens.iter().enumerate().map(|(at, (own, _))| (own, at)));
            let Some(at) = known else {
                if self.tokens.len() == TOKENS {
                    return Err(format!("more than {TOKENS} tokens"));
                }
                self.tokens.push((hash, Token { subject: subject.into(), methods }));
                return Ok(());
            };
            let token = &mut self.tokens[at].1;
            if *token.subject != *subject {
                return Err(format!("the token of `{subject}` is that of `{}` too", token.subject));
            }
            token.methods.append(&mut methods);
        } else {
            let name: NamePattern = who.parse().map_err(|error: super::NamePatternError| error.to_string())?;
            self.names.entry(name).append(&mut methods);
        }
        Ok(())
    }
}

impl Methods {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::All);
        }
        let wrong = || format!("`{text}` is no method; write package.Service/Method, package.Service/* or *");
        let (service, method) = text.split_once('/').ok_or_else(wrong)?;
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['*', '/']);
        match method {
            "*" if is_plain(service) => Ok(Self::Service(format!("{service}/"))),
            method if is_plain(service) && is_plain(method) => Ok(Self::One(text.to_owned())),
            _ => Err(wrong()),
        }
    }

    fn contain(&self, method: &str) -> bool {
        match self {
            Self::All => !super::rules::is_apart(method),
            Self::Service(prefix) => method.starts_with(&**prefix),
            Self::One(name) => name == method,
        }
    }
}

fn read(path: &Path) -> Result<Rules, AllowListError> {
    use std::io::Read;
    let path_of = || path.to_owned();
    let failed = |error: std::io::Error| AllowListError::Read { path: path_of(), reason: error.to_string() };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > BYTES {
        return Err(AllowListError::TooLong { path: path_of(), most: "1 MiB" });
    }
    if text.is_empty() {
        return Err(AllowListError::Empty { path: path_of() });
    }
    Rules::parse(&text).map_err(|(line, wrong)| AllowListError::Line { path: path_of(), line, wrong })
}

/// Reads a text as a file, and asks for leave by it with this metadata: for a method, and for what takes a right of its own.
///
/// # Panics
/// If it allows what takes a right of its own and doesn't name it.
#[cfg(all(feature = "json", any(test, feature = "fuzzing")))]
pub(crate) fn whoever_asks(text: &str, metadata: &[u8]) {
    use greenwave_proto::Peer;
    let Ok(rules) = Rules::parse(text) else { return };
    let [spiffe, dns] = ["spiffe://shop/cart", "till.shop"].map(str::to_owned);
    for peer in [
        Peer::UNKNOWN,
        Peer::UNKNOWN.with_names(vec![spiffe], Vec::new()),
        Peer::UNKNOWN.with_names(Vec::new(), vec![dns]),
    ] {
        let may = |method| rules.authorize(&AuthorizeRequest::new(&peer, method, metadata)).is_ok();
        assert!(!may("shop.Cart/Add") || text.contains("shop.Cart/") || text.contains('*'));
        assert!(!may("greenwave.Meta/Methods") || text.contains("greenwave.Meta/"));
        assert!(!may("shop.Admin/Stop") || text.contains("shop.Admin/"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Reason;
    use crate::wire::push_meta;
    use greenwave_proto::Peer;

    const RULES: &str = "\
# Who may call what.
spiffe://shop/cart  shop.Cart/* shop.Search/Find
spiffe://shop/*     shop.Search/Suggest  # all of us
till.shop           *
spiffe://shop/cart  shop.Till/Open

token:ci:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b  greenwave.Meta/*
anyone              shop.Door/Knock
";

    fn ask(rules: &str, peer: &Peer, token: &str, method: &str) -> Result<Option<String>, Reason> {
        let mut metadata = Vec::new();
        if !token.is_empty() {
            push_meta(&mut metadata, "authorization", format!("Bearer {token}").as_bytes()).unwrap();
        }
        let grant = Rules::parse(rules).unwrap().authorize(&AuthorizeRequest::new(peer, method, &metadata));
        grant.map(|grant| grant.subject.map(|it| it.to_string())).map_err(|denied| denied.reason())
    }

    #[test]
    fn lines_add_up_and_what_none_allows_is_refused() {
        let cart = Peer::UNKNOWN.with_names(vec!["spiffe://shop/cart".into()], Vec::new());
        let till = Peer::UNKNOWN.with_names(Vec::new(), vec!["till.shop".into()]);
        let (nobody, refused, unknown) = (Peer::UNKNOWN, Err(Reason::PermissionDenied), Err(Reason::Unauthenticated));
        for (peer, method, expected) in [
            (&cart, "shop.Cart/Add", Ok(None)),
            (&cart, "shop.Search/Find", Ok(None)),
            (&cart, "shop.Search/Suggest", Ok(None)),
            (&cart, "shop.Till/Open", Ok(None)),
            (&cart, "shop.Till/Shut", refused.clone()),
            (&cart, "shop.CartEl/Add", refused.clone()),
            (&till, "shop.Till/Shut", Ok(None)),
            (&till, "greenwave.Meta/Counters", refused.clone()),
            (&till, "greenwave.replicated.Admin/Change", refused.clone()),
            (&till, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", refused),
            (&nobody, "shop.Door/Knock", Ok(None)),
            (&nobody, "shop.Till/Shut", unknown),
        ] {
            assert_eq!(ask(RULES, peer, "", method), expected, "{peer} {method}");
        }
    }

    #[test]
    fn a_token_is_of_its_subject_and_opens_what_is_said_of_it() {
        let ask = |token, method| ask(RULES, &Peer::UNKNOWN, token, method);
        assert_eq!(ask("secret", "greenwave.Meta/Counters"), Ok(Some("ci".to_owned())));
        assert_eq!(ask("secret", "shop.Cart/Add"), Err(Reason::PermissionDenied));
        assert_eq!(ask("guess", "greenwave.Meta/Counters"), Err(Reason::Unauthenticated));
        assert_eq!(ask("guess", "shop.Door/Knock"), Ok(None));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let twice = format!("token:a:{hash} *\ntoken:b:{hash} *");
        for (text, line, part) in [
            ("\nspiffe://shop/cart", 2, "nothing is said"),
            ("*.shop *", 1, "no name in a certificate"),
            ("anyone Shop", 1, "no method"),
            ("anyone */Find", 1, "no method"),
            ("anyone shop.Cart/Add*", 1, "no method"),
            ("token:ci:12 *", 1, "64 hexadecimal digits"),
            ("token:2bb8 *", 1, "64 hexadecimal digits"),
            (&twice, 2, "is that of `a` too"),
        ] {
            let (at, wrong) = Rules::parse(text).unwrap_err();
            assert!(at == line && wrong.contains(part), "{text}: {wrong}");
        }
        let many = "anyone a.A/B\n".repeat(LINES + 1);
        assert_eq!(Rules::parse(&many).unwrap_err().0, LINES + 1);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _either = Rules::parse(&text);
        }
    }
}
