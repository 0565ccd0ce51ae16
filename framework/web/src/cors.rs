//! Which pages browsers let call (the Fetch standard, CORS protocol).

use crate::response::Response;
use crate::settings::Origins;

/// What a page may read: all headers, as what methods add to their answers is nobody's to list.
const EXPOSED: &str = "*";

/// How long browsers may go by what they were told, in seconds: two hours, the most that one of them takes.
const MAX_AGE: &str = "7200";

/// Bytes of the list of headers that a page wants to send. It is told back.
const HEADERS_MOST: usize = 2048;

/// What the page is told of who may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    /// The origin that may read the answer; `*`: all.
    allowed: Option<String>,
    /// Whether the answer would be another one for another origin.
    varies: bool,
}

impl Cors {
    /// For a page of this origin.
    pub(crate) fn of(origins: &Origins, origin: Option<&[u8]>) -> Self {
        match origins {
            Origins::Any => Self { allowed: origin.map(|_| "*".to_owned()), varies: false },
            Origins::These(these) => {
                let allowed = these.iter().find(|it| origin == Some(it.as_bytes())).cloned();
                Self { allowed, varies: !these.is_empty() }
            }
        }
    }

    /// Adds it to an answer.
    pub(crate) fn mark(&self, mut response: Response) -> Response {
        if self.varies {
            response = response.with("vary", "origin");
        }
        match &self.allowed {
            Some(allowed) => response
                .with("access-control-allow-origin", allowed.as_str())
                .with("access-control-expose-headers", EXPOSED),
            None => response,
        }
    }

    /// Answers the question that a browser asks before it lets a page send these headers.
    pub(crate) fn preflight(&self, headers: &[u8]) -> Response {
        let response = Response::empty(204).with("allow", crate::ALLOW);
        let Some(allowed) = &self.allowed else {
            return if self.varies { response.with("vary", "origin") } else { response };
        };
        let is_list = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_, ".contains(byte);
        let response = response
            .with("vary", "origin, access-control-request-method, access-control-request-headers")
            .with("access-control-allow-origin", allowed.as_str())
            .with("access-control-allow-methods", "GET, POST")
            .with("access-control-max-age", MAX_AGE);
        match std::str::from_utf8(headers) {
            Ok(list) if (1..=HEADERS_MOST).contains(&list.len()) && headers.iter().all(is_list) => {
                response.with("access-control-allow-headers", list)
            }
            _ => response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebSettings;

    fn told(settings: &WebSettings, origin: &str) -> Option<String> {
        let response = Cors::of(&settings.origins, Some(origin.as_bytes())).preflight(b"content-type");
        let mut headers = response.headers.into_iter();
        headers.find(|(name, _)| *name == "access-control-allow-origin").map(|(_, value)| value)
    }

    #[test]
    fn pages_of_the_named_origins_may_call_and_no_others() {
        let (none, any) = (WebSettings::new(), WebSettings::new().origins(["https://a", "*"]));
        let two = WebSettings::new().origins(["https://a", "https://b"]);
        assert!([&none, &any, &two].iter().all(|settings| settings.validate().is_ok()));
        for wrong in ["a", "https://", "https://a/", "https://a b", "https://a\r\nset-cookie: b", ""] {
            assert!(WebSettings::new().origins([wrong]).validate().is_err(), "{wrong:?}");
        }
        assert_eq!(told(&none, "https://a"), None);
        assert_eq!(told(&any, "https://a").as_deref(), Some("*"));
        assert_eq!(told(&two, "https://b").as_deref(), Some("https://b"));
        assert_eq!(told(&two, "https://c"), None);
        let list = |headers: &[u8]| {
            let told = Cors::of(&two.origins, Some(b"https://a")).preflight(headers).headers;
            told.into_iter().find(|(name, _)| *name == "access-control-allow-headers").map(|(_, value)| value)
        };
        assert_eq!(list(b"content-type, x-user").as_deref(), Some("content-type, x-user"));
        assert_eq!(list(b"a\r\nset-cookie: b"), None);
        assert_eq!(list(&[b'a'; HEADERS_MOST + 1]), None);
        let answer = Cors::of(&two.origins, None).mark(Response::empty(200));
        assert_eq!(answer.headers, [("vary".into(), "origin".to_owned())]);
    }
}
