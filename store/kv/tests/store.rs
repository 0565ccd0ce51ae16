//! A store on disk: what is put is got, scans see all of it, and what it was made with is kept apart from what was put.

use std::ops::ControlFlow;
use std::path::Path;

use greenwave_kv::{Kv, KvConfig, KvError, Rows};

const ROWS: Rows = Rows { count: 300, value_bytes: 20 };

fn open(directory: &Path) -> Result<Kv, KvError> {
    Kv::open(&KvConfig { directory: directory.join("kv"), rows: ROWS })
}

#[test]
fn a_new_store_has_its_rows_and_a_scan_sees_each_once() {
    let root = tempfile::tempdir().unwrap();
    let kv = open(root.path()).unwrap();
    for row in [0, 7, 299] {
        assert_eq!(kv.get(&Rows::key(row)).unwrap().unwrap().as_ref(), ROWS.value(row));
    }
    assert!(kv.get(&Rows::key(300)).unwrap().is_none());
    let scanned = kv.scan(b"").unwrap();
    assert_eq!((scanned.rows, scanned.bytes, scanned.ended_early), (300, 300 * 31, false));
    assert_eq!(kv.scan(b"row0000000").unwrap().rows, 10);
}

#[test]
fn what_was_put_is_there_when_the_store_is_opened_again() {
    let root = tempfile::tempdir().unwrap();
    let kv = open(root.path()).unwrap();
    let before = kv.scan(b"").unwrap();
    kv.put(b"row00000007", b"seven").unwrap();
    kv.put(b"name", b"ada").unwrap();
    assert_ne!(kv.scan(b"row").unwrap().digest, before.digest);
    drop(kv);
    let kv = open(root.path()).unwrap();
    assert_eq!(kv.get(b"row00000007").unwrap().unwrap().as_ref(), b"seven");
    assert_eq!(kv.get(b"name").unwrap().unwrap().as_ref(), b"ada");
    assert_eq!(kv.scan(b"").unwrap().rows, 301);
}

#[test]
fn a_scan_ends_where_its_caller_says() {
    let root = tempfile::tempdir().unwrap();
    let kv = open(root.path()).unwrap();
    let half = |read: u64| if read < 150 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let scanned = kv.scan_while(b"", half).unwrap();
    assert_eq!((scanned.rows, scanned.ended_early), (150, true));
}

#[test]
fn a_scan_sees_the_rows_as_they_were_when_it_began() {
    let root = tempfile::tempdir().unwrap();
    let kv = open(root.path()).unwrap();
    let before = kv.scan(b"").unwrap();
    let put = |read: u64| {
        kv.put(&Rows::key(read as u32), b"changed").unwrap();
        ControlFlow::Continue(())
    };
    assert_eq!(kv.scan_while(b"", put).unwrap(), before);
    assert_ne!(kv.scan(b"").unwrap().digest, before.digest);
}

#[test]
fn other_rows_than_it_was_made_with_are_refused_and_nothing_is_lost() {
    let root = tempfile::tempdir().unwrap();
    drop(open(root.path()).unwrap());
    let more = KvConfig { directory: root.path().join("kv"), rows: Rows { count: 301, ..ROWS } };
    let error = Kv::open(&more).err().unwrap();
    assert!(matches!(error, KvError::OtherRows { .. }));
    assert!(error.to_string().ends_with(
        "was made with 300 rows of 20 bytes, not with 301 rows of 20 bytes; ask for those, or name another directory"
    ));
    assert_eq!(open(root.path()).unwrap().scan(b"").unwrap().rows, 300);
}

#[test]
fn a_store_that_is_open_already_is_refused_with_a_remedy() {
    let root = tempfile::tempdir().unwrap();
    let _open = open(root.path()).unwrap();
    let error = open(root.path()).err().unwrap();
    assert!(matches!(error, KvError::Locked { .. }), "{error}");
}

#[test]
fn keys_and_values_that_no_row_can_have_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let kv = open(root.path()).unwrap();
    assert_eq!(kv.get(b"").unwrap_err().to_string(), "a key has 0 bytes; allowed are 1 to 1024");
    assert!(matches!(kv.put(&[0; 1025], b""), Err(KvError::Key { bytes: 1025 })));
    assert!(matches!(kv.put(b"k", &vec![0; Kv::LONGEST_VALUE + 1]), Err(KvError::Value { .. })));
    kv.put(&[0xff; 1024], b"").unwrap();
    assert_eq!(kv.get(&[0xff; 1024]).unwrap().unwrap().len(), 0);
}
