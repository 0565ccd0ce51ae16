//! The store as the replicas drive it.

use std::collections::BTreeMap;
use std::fs;

use greenwave_replica::ClientId;

use super::*;

fn put(key: &str, value: &str) -> Change {
    let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    Change::Put(proto::PutRequest { key, value, session: None })
}

fn delete(key: &str) -> Change {
    Change::Delete(proto::DeleteRequest { key: Bytes::copy_from_slice(key.as_bytes()), session: None })
}

fn swap(key: &str, expected: Option<&str>, value: Option<&str>) -> Change {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let (key, expected, value) = (bytes(key), expected.map(bytes), value.map(bytes));
    Change::Swap(proto::CompareAndSwapRequest { key, expected, value, session: None })
}

fn apply(store: &mut Store, index: u64, change: Change) -> Kind {
    let command = proto::Command { change: Some(change) }.encode_to_vec();
    proto::Outcome::decode(&*store.apply(Index(index), &command)).unwrap().kind.unwrap()
}

fn swapped(swapped: bool, found: Option<&str>) -> Kind {
    let found = found.map(|found| Bytes::copy_from_slice(found.as_bytes()));
    Kind::Swap(proto::CompareAndSwapReply { swapped, found })
}

fn rows(store: &Store) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let each = |key: &[u8], value: &[u8]| rows.insert(text(key), text(value)).is_none();
    store.reader().range(b"", None, each).unwrap();
    rows
}

fn map(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn commands_see_those_before_them_whether_committed_or_not() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    for commit_each in [false, true] {
        let mut index = store.applied().0;
        let mut told = |change| {
            index += 1;
            let kind = apply(&mut store, index, change);
            if commit_each {
                store.commit(Index(index), &[]).unwrap();
            }
            kind
        };
        assert_eq!(told(delete("a")), Kind::Delete(proto::DeleteReply { found: false }));
        assert_eq!(told(swap("a", Some("x"), Some("y"))), swapped(false, None));
        assert_eq!(told(swap("a", None, Some("1"))), swapped(true, None));
        assert_eq!(told(swap("a", None, Some("2"))), swapped(false, Some("1")));
        assert_eq!(told(put("a", "3")), Kind::Put(proto::PutReply {}));
        assert_eq!(told(swap("a", Some("3"), None)), swapped(true, None));
        assert_eq!(told(delete("a")), Kind::Delete(proto::DeleteReply { found: false }));
        assert_eq!(told(put("a", "")), Kind::Put(proto::PutReply {}));
        assert_eq!(told(swap("a", Some(""), Some("4"))), swapped(true, None));
        assert_eq!(told(delete("a")), Kind::Delete(proto::DeleteReply { found: true }));
        store.commit(Index(index), &[]).unwrap();
        assert_eq!((rows(&store), store.applied()), (map(&[]), Index(index)));
    }
}

#[test]
fn what_makes_no_sense_is_answered_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    let long = "v".repeat(LONGEST_VALUE + 1);
    let long_key = "k".repeat(LONGEST_KEY + 1);
    let wrong = [
        put("", "x"),
        put(&long_key, "x"),
        put("k", &long),
        delete(""),
        swap("", None, None),
        swap("k", None, Some(&long)),
    ];
    for change in wrong {
        let Kind::Refused(why) = apply(&mut store, 1, change) else { panic!("it was taken") };
        assert!(why.contains("allowed are"), "{why}");
    }
    for command in [&b"nonsense"[..], b"", &[0xff; 40]] {
        let outcome = proto::Outcome::decode(&*store.apply(Index(1), command)).unwrap();
        assert!(matches!(outcome.kind, Some(Kind::Refused(_))), "{outcome:?}");
    }
    store.commit(Index(1), &[]).unwrap();
    assert!(rows(&store).is_empty());
}

#[test]
fn a_range_is_in_order_and_ends_where_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    for key in ["b", "a", "c", "ab", "\u{10ffff}"] {
        apply(&mut store, 1, put(key, key));
    }
    store.commit(Index(1), &[SessionChange::Put(ClientId(5), "no row".into())]).unwrap();
    let keys = |from: &str, to: Option<&str>, most: usize| {
        let mut keys = Vec::new();
        let each = |key: &[u8], _: &[u8]| {
            keys.push(String::from_utf8(key.to_vec()).unwrap());
            keys.len() < most
        };
        store.reader().range(from.as_bytes(), to.map(str::as_bytes), each).unwrap();
        keys
    };
    assert_eq!(keys("", None, 10), ["a", "ab", "b", "c", "\u{10ffff}"]);
    assert_eq!(keys("ab", Some("c"), 10), ["ab", "b"]);
    assert_eq!(keys("", None, 2), ["a", "ab"]);
    assert!(keys("c", Some("a"), 10).is_empty() && keys("b", Some("b"), 10).is_empty());
}

/// A copy of the directory is what a process that is killed leaves behind.
#[test]
fn whenever_the_process_ends_the_store_has_all_up_to_the_entry_that_it_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut store = Store::open(&path).unwrap();
    let mut states = vec![(BTreeMap::new(), Vec::new())];
    for index in 1..=60_u64 {
        apply(&mut store, index, put(&format!("k{}", index % 7), &"v".repeat(index as usize * 50)));
        apply(&mut store, index, delete(&format!("k{}", (index + 3) % 7)));
        let record = Bytes::from(index.to_string());
        store.commit(Index(index), &[SessionChange::Put(ClientId(1), record.clone())]).unwrap();
        states.push((rows(&store), vec![(1, record)]));
        if index == 30 {
            store.view().unwrap();
        }
        if index % 4 != 2 {
            continue;
        }
        let copy = directory.path().join("copy");
        copy_all(&path, &copy);
        let mut copied = Store::open(&copy).unwrap();
        let applied = copied.applied().0;
        assert!(applied <= index && (index < 30 || applied >= 30), "{applied} of {index}");
        let (wanted, sessions) = &states[applied as usize];
        assert_eq!((&rows(&copied), &copied.sessions().unwrap()), (wanted, sessions), "at {applied} of {index}");
        drop(copied);
        fs::remove_dir_all(&copy).unwrap();
    }
    assert!(matches!(Store::open(&path), Err(StoreError::Locked { .. })));
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_snapshot_is_the_state_as_it_was_and_takes_the_place_of_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let [mut from, mut to] = ["from", "to"].map(|name| Store::open(&directory.path().join(name)).unwrap());
    apply(&mut from, 5, put("a", "1"));
    apply(&mut from, 5, put("b", "2"));
    from.commit(Index(5), &[]).unwrap();
    let mut view = from.view().unwrap();
    apply(&mut from, 6, put("a", "later"));
    from.commit(Index(6), &[]).unwrap();
    let mut bytes = Vec::new();
    view.write(&mut bytes).unwrap();
    drop(view);

    apply(&mut to, 2, put("old", "gone"));
    to.commit(Index(2), &[SessionChange::Put(ClientId(9), "gone".into())]).unwrap();
    let before = to.reader();
    let sessions = [(7, Bytes::from("seven")), (3, Bytes::from("three"))];
    let changes = sessions.clone().map(|(client, record)| SessionChange::Put(ClientId(client), record));
    to.restore(Index(5), &changes, &mut &bytes[..]).unwrap();
    assert_eq!(before.get(b"a").unwrap().as_deref(), Some(&b"1"[..]), "a reader sees the new state");
    drop(before);
    for again in [false, true] {
        if again {
            drop(to);
            to = Store::open(&directory.path().join("to")).unwrap();
        }
        assert_eq!((rows(&to), to.applied()), (map(&[("a", "1"), ("b", "2")]), Index(5)));
        assert_eq!(to.sessions().unwrap(), [(3, "three".into()), (7, "seven".into())]);
    }
    apply(&mut to, 6, put("a", "later"));
    to.commit(Index(6), &[]).unwrap();
    assert_eq!(rows(&to), rows(&from));
}

#[test]
fn what_is_no_snapshot_is_refused_and_the_state_stays() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path()).unwrap();
    apply(&mut store, 1, put("a", "1"));
    store.commit(Index(1), &[]).unwrap();
    let row = |key: &[u8]| [&(key.len() as u32).to_le_bytes()[..], key, &0_u32.to_le_bytes()].concat();
    let end = END.to_le_bytes();
    let wrong = [
        vec![],
        row(b"a"),
        [row(b"b"), row(b"a"), end.to_vec()].concat(),
        [row(b"a"), row(b"a"), end.to_vec()].concat(),
        [row(b""), end.to_vec()].concat(),
        [&1_000_000_u32.to_le_bytes()[..], &end].concat(),
    ];
    for bytes in wrong {
        assert!(store.restore(Index(9), &[], &mut &bytes[..]).is_err(), "{bytes:?}");
        assert_eq!((rows(&store), store.applied()), (map(&[("a", "1")]), Index(1)));
    }
    store.view().unwrap();
    drop(store);
    let mut store = Store::open(directory.path()).unwrap();
    assert_eq!((rows(&store), store.applied()), (map(&[("a", "1")]), Index(1)));
    store.restore(Index(9), &[], &mut &[row(b"b"), end.to_vec()].concat()[..]).unwrap();
    assert_eq!(rows(&store), map(&[("b", "")]));
}

/// A loss of power leaves zeros from some place of the journal on. In the middle of an item the engine panics on some, where it has
/// assertions.
#[test]
fn a_journal_that_ends_in_zeros_is_read_up_to_them_or_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("store"), directory.path().join("copy"));
    let mut store = Store::open(&path).unwrap();
    for index in 1..=3 {
        apply(&mut store, index, put("key", "value"));
        store.commit(Index(index), &[]).unwrap();
    }
    drop(store);
    let journal = fs::read(path.join("0.jnl")).unwrap();
    let end = journal.iter().rposition(|byte| *byte != 0).unwrap();
    // The last batch has two items of some thirty bytes each, between thirteen for its start and as many for its end.
    let mut found = BTreeMap::new();
    for zeros_from in (end - 90..=end).step_by(3) {
        copy_all(&path, &copy);
        let mut torn = journal.clone();
        torn[zeros_from..].fill(0);
        fs::write(copy.join("0.jnl"), torn).unwrap();
        let store = Store::open_or_begin(&copy).unwrap();
        let applied = store.applied().0;
        let wanted = if applied == 0 { map(&[]) } else { map(&[("key", "value")]) };
        assert_eq!(rows(&store), wanted, "zeros from {zeros_from} of {end}");
        *found.entry(applied).or_insert(0) += 1;
        drop(store);
        Store::remove(&copy).unwrap();
    }
    assert!(found.keys().all(|applied| [0, 1, 2].contains(applied)) && found.contains_key(&2), "{found:?}");
}

/// The engine would make it anew, and fill it with what the journal has of it: rows from before the journal would be gone, and
/// nobody would notice.
#[test]
fn a_store_that_lost_a_keyspace_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    for lost in ["state", "about"] {
        let mut store = Store::open_or_begin(&path).unwrap();
        apply(&mut store, 1, put("old", "1"));
        store.commit(Index(1), &[]).unwrap();
        let mut snapshot = Vec::new();
        store.view().unwrap().write(&mut snapshot).unwrap();
        store.restore(Index(5), &[], &mut snapshot.as_slice()).unwrap();
        apply(&mut store, 6, put("new", "2"));
        store.commit(Index(6), &[]).unwrap();
        store.view().unwrap();
        let folder = if lost == "state" { store.state.path() } else { store.about.path() }.to_owned();
        drop(store);
        fs::remove_dir_all(folder).unwrap();

        assert!(matches!(Store::open(&path), Err(StoreError::Damaged { .. })), "{lost}");
        for _ in 0..2 {
            let store = Store::open_or_begin(&path).unwrap();
            assert_eq!((store.applied(), rows(&store)), (Index::ZERO, map(&[])), "{lost}");
        }
        Store::remove(&path).unwrap();
    }
}

#[test]
fn a_store_is_removed_with_what_is_left_of_an_earlier_one_and_not_while_it_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = Store::open(&path).unwrap();
    assert!(matches!(Store::remove(&path), Err(StoreError::Locked { .. })));
    drop(store);
    fs::create_dir_all(path.with_extension("removed").join("keyspaces")).unwrap();
    for _ in 0..2 {
        Store::remove(&path).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
