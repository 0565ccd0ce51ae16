//! Whatever a replica is sent, it is refused, or messages that are written the same again; and a core that is given them
//! doesn't panic.

#![no_main]

use greenwave_policy::Time;
use greenwave_replica::core::{Core, CoreConfig, Input, Output, Recovered};
use greenwave_replica::founding::Greeting;
use greenwave_replica::runtime::frame;
use greenwave_replica::{Membership, NodeId, Peer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = frame::read_piece(bytes.to_vec().into());
    if let Ok(greeting) = Greeting::decode(bytes.to_vec().into()) {
        let mut again = Vec::new();
        greeting.encode(&mut again);
        assert_eq!(again, bytes);
    }
    let Ok((header, messages)) = frame::read(bytes.to_vec().into()) else { return };
    let mut again = Vec::new();
    frame::begin(&header, &mut again);
    messages.iter().for_each(|message| frame::push(message, &mut again));
    assert_eq!(again, bytes);

    let node = |number| NodeId::new(number).expect("not zero");
    let mut config = CoreConfig::new(node(1));
    let peers = (1..=3).map(|number| Peer::new(node(number), "tcp://127.0.0.1:1"));
    config.bootstrap = Some(Membership::of_voters(peers).expect("three voters"));
    let mut core = Core::new(config, Recovered::default(), Time::ZERO).expect("a new group");
    for message in messages {
        core.handle(Time::ZERO, Input::Message { from: header.from, message });
        while let Some(output) = core.poll() {
            if let Output::Persist(write) = output {
                core.handle(Time::ZERO, Input::Persisted { number: write.number });
            }
        }
    }
});
