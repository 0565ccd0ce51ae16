//! Drivers of the fuzz targets: what has to hold for whatever comes.

use crate::calibration::Calibration;
use crate::recording::Recording;
use std::time::Duration;

/// Whatever text comes as a recording or a calibration is refused, or is written and read the same again, and makes a load or
/// costs.
///
/// # Panics
/// If it isn't so.
pub fn recording(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(recording) = Recording::parse(text) {
        assert_eq!(Recording::parse(&recording.to_text()).as_ref(), Ok(&recording));
        assert!(recording.per_second() >= 0.0);
        if let Ok(between) = recording.since(&recording) {
            panic!("no time lies between a recording and itself: {between:?}");
        }
        if let Ok(load) = recording.load(Duration::from_nanos(100)) {
            assert!(load.mean_ns() >= 1.0);
        }
    }
    if let Ok(calibration) = Calibration::parse(text) {
        assert_eq!(Calibration::parse(&calibration.to_text()).as_ref(), Ok(&calibration));
        let costs = calibration.costs();
        assert!(costs.io <= Duration::from_secs(120));
    }
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod seeds;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_worth_trying_does_no_harm() {
        seeds::replay("recording", recording);
    }

    proptest! {
        /// Good files of which a piece is another one.
        #[test]
        fn whatever_comes_does_no_harm(at in 0..400_usize, len in 0..9_usize, piece in "[-0-9a-z\\[\\], =.\"]{0,9}") {
            let good = "greenwave_recording = 1\nseconds = 2.0\n[server]\nname = 'a'\nthreads = 1\norder = 'fcfs'\nquantum_ns = 0\n\
                probes = false\n[[method]]\nname = 'a.B/C'\ncalls = 3\nservice = [[500, 2], [900, 1]]\nwaiting = [[0, 3]]\n";
            let (from, to) = (at.min(good.len()), (at + len).min(good.len()));
            recording(format!("{}{piece}{}", &good[..from], &good[to..]).as_bytes());
        }
    }
}
