//! Classes of requests as people write them: `tight=50ms:0.2`.

use greenwave_bench::classes::Class;

const ALLOWED: &str = "a name, a time and a share, such as tight=50ms:0.2";

/// Reads a class. The share is relative to those of the other classes, and 1 if it is left out.
pub(super) fn parse(text: &str) -> Result<Class, String> {
    let refuse = |what: &str| format!("{what}; write {ALLOWED}");
    let (name, rest) = text.split_once('=').ok_or_else(|| refuse("there is no `=`"))?;
    let (deadline, share) = rest.split_once(':').unwrap_or((rest, "1"));
    if name.is_empty() {
        return Err(refuse("there is no name"));
    }
    let deadline = humantime::parse_duration(deadline).map_err(|error| refuse(&format!("`{deadline}`: {error}")))?;
    let share: f64 = share.parse().map_err(|_| refuse(&format!("`{share}` is no share")))?;
    if share.is_finite() && share > 0.0 {
        Ok(Class::new(name, share, deadline))
    } else {
        Err(refuse("the share is not above 0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_class_is_a_name_a_time_and_a_share() {
        assert_eq!(parse("tight=50ms:0.2"), Ok(Class::new("tight", 0.2, Duration::from_millis(50))));
        assert_eq!(parse("all=1s"), Ok(Class::new("all", 1.0, Duration::from_secs(1))));
    }

    #[test]
    fn what_is_no_class_is_refused_with_an_example() {
        for text in ["", "tight", "=50ms:1", "tight=50", "tight=50ms:", "tight=50ms:0", "tight=50ms:-1", "t=1ms:NaN"] {
            assert!(parse(text).unwrap_err().contains("tight=50ms:0.2"), "{text}");
        }
    }
}
