//! W3C Trace Context: two headers of the request that came in, which those that go out for it carry.
//!
//! They are passed on as they are, which the recommendation allows to who takes no part in the trace. A program that has
//! spans of its own writes its own headers, and these are left alone.

use http::header::{HeaderMap, HeaderName, HeaderValue};

const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// The trace that a request belongs to, if it belongs to one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    parent: Option<HeaderValue>,
    state: Vec<HeaderValue>,
}

impl Trace {
    /// That of a request. A state without a parent, or with more than one, says nothing.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(PARENT).iter();
        let (parent, None) = (parents.next()?, parents.next()) else { return None };
        let state = headers.get_all(STATE).iter().cloned().collect();
        Some(Self { parent: Some(parent.clone()), state })
    }

    pub(crate) fn parent(&self) -> Option<&HeaderValue> {
        self.parent.as_ref()
    }

    /// Writes it into a request that is in no trace yet.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let Some(parent) = self.parent.clone().filter(|_| !headers.contains_key(PARENT)) else { return };
        headers.insert(PARENT, parent);
        headers.remove(STATE);
        for state in &self.state {
            headers.append(STATE, state.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(entries: &[(HeaderName, &'static str)]) -> HeaderMap {
        entries.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn both_headers_go_along_and_all_parts_of_the_state() {
        let incoming = headers(&[(PARENT, "00-4bf9-00f0-01"), (STATE, "a=1"), (STATE, "b=2")]);
        let mut outgoing = HeaderMap::new();
        Trace::of(&incoming).expect("it has a parent").write(&mut outgoing);
        assert_eq!(outgoing, incoming);
    }

    #[test]
    fn a_span_of_ones_own_is_left_alone() {
        let own = headers(&[(PARENT, "00-4bf9-00f1-01")]);
        let mut outgoing = own.clone();
        Trace::of(&headers(&[(PARENT, "00-4bf9-00f0-01"), (STATE, "a=1")])).expect("a parent").write(&mut outgoing);
        assert_eq!(outgoing, own);
    }

    #[test]
    fn a_state_without_one_parent_is_dropped() {
        assert!(Trace::of(&headers(&[(STATE, "a=1")])).is_none());
        assert!(Trace::of(&headers(&[(PARENT, "00-1"), (PARENT, "00-2")])).is_none());
    }
}
