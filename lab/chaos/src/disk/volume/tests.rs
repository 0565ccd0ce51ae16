use super::*;

fn name(name: &str) -> &OsStr {
    OsStr::new(name)
}

/// A volume with a durable file that has these bytes.
fn with_file(bytes: &[u8]) -> (Volume, u64) {
    let mut volume = Volume::new();
    let file = volume.make(ROOT, name("file"), false).unwrap().node;
    volume.write(file, 0, bytes).unwrap();
    volume.sync(file).unwrap();
    volume.sync(ROOT).unwrap();
    (volume, file)
}

fn read(volume: &Volume, file: u64) -> Vec<u8> {
    volume.read(file, 0, 1 << 20).unwrap()
}

#[test]
fn what_was_synced_outlives_a_power_cut_and_the_rest_does_not() {
    let (mut volume, file) = with_file(&[1; 10_000]);
    volume.write(file, 5_000, &[2; 10_000]).unwrap();
    assert_eq!(volume.about(file).unwrap().length, 15_000);
    volume.cut(Kept::Nothing);
    assert_eq!(read(&volume, file), [1; 10_000]);
    volume.write(file, 5_000, &[2; 10_000]).unwrap();
    volume.sync(file).unwrap();
    volume.cut(Kept::Nothing);
    assert_eq!(read(&volume, file), [vec![1; 5_000], vec![2; 10_000]].concat());
}

#[test]
fn what_was_cut_off_and_not_synced_is_back_after_a_power_cut() {
    let (mut volume, file) = with_file(&[1; 10_000]);
    volume.truncate(file, 100).unwrap();
    assert_eq!(read(&volume, file), [1; 100]);
    volume.reserve(file, 300, true).unwrap();
    assert_eq!(read(&volume, file), [vec![1; 100], vec![0; 200]].concat());
    volume.cut(Kept::Nothing);
    assert_eq!(read(&volume, file), [1; 10_000]);
    volume.truncate(file, 100).unwrap();
    volume.sync(file).unwrap();
    volume.cut(Kept::Nothing);
    assert_eq!(read(&volume, file), [1; 100]);
}

#[test]
fn a_torn_write_keeps_some_of_its_sectors_and_nothing_else() {
    let (mut some, mut all_kept) = (BTreeSet::new(), 0);
    for seed in 0..200 {
        let (mut volume, file) = with_file(&[1; 20 * BLOCK]);
        volume.write(file, 0, &[2; 10 * BLOCK]).unwrap();
        volume.cut(Kept::Some(seed));
        let bytes = read(&volume, file);
        assert_eq!(bytes[10 * BLOCK..], [1; 10 * BLOCK]);
        for sector in bytes[..10 * BLOCK].chunks(SECTOR) {
            assert!(sector == [1; SECTOR] || sector == [2; SECTOR]);
        }
        let kept = bytes.iter().filter(|byte| **byte == 2).count();
        all_kept += usize::from(kept == 10 * BLOCK);
        some.insert(kept);
        let again = read(&volume, file);
        volume.cut(Kept::Some(seed + 1));
        assert_eq!(read(&volume, file), again, "what is left is durable");
    }
    assert!(some.len() > 20 && all_kept < 10, "{some:?}");
}

#[test]
fn a_name_is_durable_once_its_folder_was_synced() {
    let (mut volume, file) = with_file(b"x");
    let new = volume.make(ROOT, name("new"), false).unwrap().node;
    volume.write(new, 0, b"y").unwrap();
    volume.sync(new).unwrap();
    volume.cut(Kept::Nothing);
    assert_eq!(volume.look_up(ROOT, name("new")), Err(Refusal::NotFound));
    volume.rename((ROOT, name("file")), (ROOT, name("other"))).unwrap();
    assert_eq!(volume.look_up(ROOT, name("other")).unwrap().node, file);
    volume.cut(Kept::Nothing);
    assert_eq!(volume.look_up(ROOT, name("file")).unwrap().node, file);
    volume.rename((ROOT, name("file")), (ROOT, name("other"))).unwrap();
    volume.sync(ROOT).unwrap();
    volume.cut(Kept::Nothing);
    assert_eq!(volume.look_up(ROOT, name("file")), Err(Refusal::NotFound));
    assert_eq!(volume.look_up(ROOT, name("other")).unwrap().node, file);
}

#[test]
fn a_rename_is_done_or_not_done() {
    for seed in 0..50 {
        let (mut volume, _) = with_file(b"x");
        volume.rename((ROOT, name("file")), (ROOT, name("other"))).unwrap();
        volume.cut(Kept::Some(seed));
        assert_eq!(volume.list(ROOT).unwrap().len(), 1);
    }
}

#[test]
fn what_is_open_is_there_after_it_was_removed() {
    let (mut volume, file) = with_file(b"x");
    volume.remove(ROOT, name("file"), false).unwrap();
    volume.sync(ROOT).unwrap();
    assert_eq!(read(&volume, file), b"x");
    volume.forget(file, 1);
    volume.sync(ROOT).unwrap();
    assert!(volume.about(file).is_err());
}

#[test]
fn a_full_disk_has_room_for_what_was_reserved() {
    let (mut volume, file) = with_file(&[1; 100]);
    volume.reserve(file, 1_000, false).unwrap();
    volume.ills.full = true;
    volume.write(file, 0, &[2; 1_000]).unwrap();
    assert_eq!(volume.write(file, 1_000, &[2]), Err(Refusal::Full));
    assert_eq!(volume.reserve(file, 2_000, true), Err(Refusal::Full));
    assert_eq!(volume.make(ROOT, name("new"), false), Err(Refusal::Full));
    volume.ills.full = false;
    volume.write(file, 1_000, &[2]).unwrap();
}

#[test]
fn a_sync_that_fails_makes_nothing_durable_nor_does_the_next_one() {
    let (mut volume, file) = with_file(&[1; 2 * BLOCK]);
    volume.write(file, 0, &[2; 2 * BLOCK]).unwrap();
    volume.ills.sync_fails = true;
    assert_eq!(volume.sync(file), Err(Refusal::Io));
    volume.ills.sync_fails = false;
    volume.write(file, BLOCK as u64, &[3; BLOCK]).unwrap();
    volume.sync(file).unwrap();
    assert_eq!(read(&volume, file), [[2; BLOCK], [3; BLOCK]].concat());
    volume.cut(Kept::Some(1));
    assert_eq!(read(&volume, file), [[1; BLOCK], [3; BLOCK]].concat());
}
