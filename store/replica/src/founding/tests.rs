//! Every order of greetings, ends and lost disks that chance finds.

use super::*;
use proptest::prelude::*;

const NUMBER: u64 = 7;

fn node(number: usize) -> NodeId {
    NodeId::new(number as u64 + 1).unwrap()
}

/// Whether a greeting is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}

/// Replicas that found a group: what is durable, and the processes that run.
struct World {
    disks: Vec<Identity>,
    running: Vec<Option<Founding>>,
    founders: BTreeSet<NodeId>,
    /// Greetings that are on their way, to whom: they come in any order, late, twice or not at all.
    under_way: Vec<(usize, Greeting, Answered)>,
    incarnations: u128,
    /// The groups that somebody has voted in, and with which incarnations on the disks of their founders.
    begun: BTreeMap<u128, Roster>,
}

impl World {
    fn new(count: usize) -> Self {
        let founders = (0..count).map(node).collect();
        let (disks, running) = (Vec::new(), Vec::new());
        let mut world =
            Self { disks, running, founders, under_way: Vec::new(), incarnations: 0, begun: BTreeMap::new() };
        for number in 0..count {
            let identity = world.fresh(number);
            world.disks.push(identity);
            world.running.push(None);
        }
        world
    }

    fn fresh(&mut self, number: usize) -> Identity {
        self.incarnations += 1;
        let incarnation = Incarnation::of_bits(self.incarnations).unwrap();
        Identity { number: NUMBER, node: node(number), incarnation, standing: Standing::Apart }
    }

    fn start(&mut self, number: usize) {
        let founding = Founding::new(self.disks[number].clone(), self.founders.clone());
        self.running[number] = Some(founding);
        self.go_on(number);
    }

    fn wipe(&mut self, number: usize) {
        self.running[number] = None;
        self.disks[number] = self.fresh(number);
    }

    fn greet(&mut self, number: usize) {
        let Some(founding) = &self.running[number] else { return };
        let others = (0..self.disks.len()).filter(|other| *other != number);
        self.under_way.extend(others.map(|other| (other, founding.greeting(), Answered::Yes)));
    }

    fn deliver(&mut self, at: usize, keep: bool) {
        let (to, greeting, answered) = if keep { self.under_way[at].clone() } else { self.under_way.remove(at) };
        let from = (greeting.node.number() - 1) as usize;
        if let Some(founding) = &mut self.running[to] {
            founding.hear(greeting);
            // What it answers says what it was before it had heard.
            if answered == Answered::Yes {
                let answer = founding.greeting();
                self.under_way.push((from, answer, Answered::No));
            }
            self.go_on(to);
        }
        self.under_way.truncate(200);
    }

    fn go_on(&mut self, number: usize) {
        while let Some(founding) = &mut self.running[number]
            && let Some(standing) = founding.next()
        {
            self.disks[number] = founding.kept(standing).clone();
            if let Standing::Member { group, founders } = &self.disks[number].standing {
                self.begun.insert(group.bits(), founders.clone());
            }
        }
    }

    /// Who could vote in a group.
    fn voters(&self, group: u128) -> usize {
        self.disks.iter().filter(|disk| disk.group().is_some_and(|own| own.bits() == group)).count()
    }
}

#[derive(Clone, Debug)]
enum Act {
    Start(usize),
    End(usize),
    Wipe(usize),
    Greet(usize),
    Deliver(prop::sample::Index, bool),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (0..5_usize).prop_map(Act::Start),
        1 => (0..5_usize).prop_map(Act::End),
        1 => (0..5_usize).prop_map(Act::Wipe),
        4 => (0..5_usize).prop_map(Act::Greet),
        12 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, keep)| Act::Deliver(at, keep)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever is lost, repeated or late, whoever ends, and whoever loses its disk as long as one founder keeps its own:
    /// once somebody votes in a group there is no other one, ever; and who lost its disk isn't in it.
    #[test]
    fn there_is_one_group_as_long_as_one_founder_keeps_its_disk(
        count in 2..=5_usize,
        acts in prop::collection::vec(any_act(), 0..400),
    ) {
        let mut world = World::new(count);
        (0..count).for_each(|number| world.start(number));
        for act in acts {
            match act {
                Act::Start(number) if number < count && world.running[number].is_none() => world.start(number),
                Act::End(number) if number < count => world.running[number] = None,
                // The first one keeps its own.
                Act::Wipe(number) if (1..count).contains(&number) => world.wipe(number),
                Act::Greet(number) if number < count => world.greet(number),
                Act::Deliver(at, keep) if !world.under_way.is_empty() => {
                    let at = at.index(world.under_way.len());
                    world.deliver(at, keep);
                }
                _ => {}
            }
            prop_assert!(world.begun.len() <= 1, "two groups: {:?}", world.begun);
            for (group, founders) in &world.begun {
                for disk in &world.disks {
                    let own = founders.incarnation(disk.node) == Some(disk.incarnation);
                    prop_assert!(own || disk.group().is_none_or(|it| it.bits() != *group), "{disk:?} has come back");
                }
                prop_assert!(world.disks[0].group().is_some_and(|own| own.bits() == *group)
                    || matches!(&world.disks[0].standing, Standing::Agreed(roster) if roster == founders));
            }
        }
        // Without further losses all who were there from the beginning come to belong to it.
        let whole = (0..count).all(|number| world.disks[number].incarnation.bits() == number as u128 + 1);
        world.under_way.clear();
        for number in 0..count {
            if world.running[number].is_none() {
                world.start(number);
            }
        }
        // Whoever belongs to it tells the others. Of whom it is gone, somebody has to see to it.
        let told = world.disks.iter().any(|disk| disk.group().is_some());
        settle(&mut world);
        if whole || told {
            let group = *world.begun.keys().next().expect("it has begun");
            let founders = world.begun[&group].clone();
            let kept = world.disks.iter().filter(|disk| founders.incarnation(disk.node) == Some(disk.incarnation)).count();
            prop_assert_eq!(world.voters(group), kept);
        }
    }

    #[test]
    fn whatever_is_read_as_a_greeting_is_written_the_same(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        kind in 0..3_u8,
        count in 0..4_u8,
    ) {
        let mut some = bytes.clone();
        if some.len() > 34 {
            (some[32], some[33]) = (kind, count);
        }
        for bytes in [bytes, some] {
            if let Ok(greeting) = Greeting::decode(bytes.clone().into()) {
                let mut again = Vec::new();
                greeting.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}

/// All greetings there are go to everybody, until nothing changes.
fn settle(world: &mut World) {
    for _ in 0..6 {
        (0..world.disks.len()).for_each(|number| world.greet(number));
        while !world.under_way.is_empty() {
            world.deliver(0, false);
        }
    }
}

#[test]
fn a_first_start_waits_for_all_and_says_for_whom() {
    let mut world = World::new(3);
    world.start(0);
    world.start(1);
    settle(&mut world);
    assert!(world.begun.is_empty());
    let obstacle = world.running[0].as_ref().unwrap().obstacle().unwrap();
    assert_eq!(obstacle, Obstacle::Missing(vec![node(2)]));
    assert!(obstacle.to_string().contains("and replica 3 can't be heard; start those too"), "{obstacle}");
    world.start(2);
    settle(&mut world);
    assert_eq!(world.voters(*world.begun.keys().next().unwrap()), 3);
}

#[test]
fn one_alone_founds_its_group_at_once() {
    let mut world = World::new(1);
    world.start(0);
    assert_eq!(world.begun.len(), 1);
}

#[test]
fn who_comes_with_an_empty_disk_is_told_what_to_do() {
    let mut world = World::new(3);
    (0..3).for_each(|number| world.start(number));
    settle(&mut world);
    world.wipe(1);
    world.running[0] = None;
    world.start(1);
    settle(&mut world);
    let wiped = world.running[1].as_ref().unwrap();
    assert_eq!(wiped.identity().standing, Standing::Apart);
    let obstacle = wiped.obstacle().unwrap();
    assert_eq!(obstacle, Obstacle::Wiped { me: node(1), member: node(2) });
    let said = obstacle.to_string();
    assert!(said.contains("replica 2 comes with an empty disk") && said.contains("group remove 2`"), "{said}");
}

#[test]
fn a_majority_that_comes_with_empty_disks_founds_nothing() {
    let mut world = World::new(3);
    (0..3).for_each(|number| world.start(number));
    settle(&mut world);
    let group = *world.begun.keys().next().unwrap();
    world.wipe(0);
    world.wipe(1);
    world.running[2] = None;
    (0..2).for_each(|number| world.start(number));
    settle(&mut world);
    assert_eq!((world.begun.len(), world.voters(group)), (1, 1), "not while the third is away");
    world.start(2);
    settle(&mut world);
    assert_eq!((world.begun.len(), world.voters(group)), (1, 1), "nor when it is back");
}

#[test]
fn a_founder_that_loses_its_disk_on_the_way_is_named() {
    let mut world = World::new(3);
    // Two have agreed, and the third was lost before the group had begun.
    (0..3).for_each(|number| world.start(number));
    (0..3).for_each(|number| world.greet(number));
    for _ in 0..6 {
        world.deliver(0, false);
    }
    assert!(world.disks.iter().any(|disk| matches!(disk.standing, Standing::Agreed(_))) && world.begun.is_empty());
    world.under_way.clear();
    let lost = world.disks.iter().position(|disk| matches!(disk.standing, Standing::Agreed(_))).unwrap();
    let other = (lost + 1) % 3;
    let Standing::Agreed(roster) = world.disks[lost].standing.clone() else { panic!("it has agreed") };
    world.disks[other].standing = Standing::Agreed(roster);
    world.wipe(lost);
    (0..3).for_each(|number| world.start(number));
    settle(&mut world);
    assert!(world.begun.is_empty());
    let obstacle = world.running[other].as_ref().unwrap().obstacle();
    assert_eq!(obstacle, Some(Obstacle::Interrupted(node(lost))));
}

#[test]
fn replicas_that_were_told_of_different_founders_found_nothing() {
    let mut world = World::new(3);
    (0..3).for_each(|number| world.start(number));
    let two: BTreeSet<NodeId> = [node(0), node(1)].into();
    world.running[0] = Some(Founding::new(world.disks[0].clone(), two));
    settle(&mut world);
    assert!(world.begun.is_empty());
    assert_eq!(world.running[1].as_ref().unwrap().obstacle(), Some(Obstacle::Others(node(0))));
}
