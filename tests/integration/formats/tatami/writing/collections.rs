//! Manifests of collections.

use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{Collection, CollectionChange, MANIFEST_NAME, Member, TatamiFile};

use super::super::data::path;

fn members() -> Vec<Member> {
    let names = (0..4).map(|part| format!("part-{part}.tatami"));
    let members = names.map(|name| {
        let file = TatamiFile::open(path("collection").join(&name), Access::Mmap).unwrap();
        Member::of_file(name, &file)
    });
    members.collect()
}

#[test]
fn members_are_described_as_by_the_reference() {
    let members = members();
    let collection = Collection::open(path("collection/tatami.manifest")).unwrap();
    assert_eq!(collection.members().len(), 3);
    for expected in collection.members() {
        let member = members
            .iter()
            .find(|member| member.path == expected.path)
            .unwrap();
        let found = Member {
            tier: expected.tier,
            ..member.clone()
        };
        assert_eq!(&found, expected);
    }
}

#[test]
fn changes_are_appended_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join(MANIFEST_NAME);
    let members = members();
    let read = || Collection::open(&manifest).unwrap().members().to_vec();
    let add = |member: &Member| CollectionChange::Add(member.clone());
    Collection::append(&manifest, &[]).unwrap();
    assert_eq!(read(), []);
    Collection::append(&manifest, &members.iter().map(add).collect::<Vec<_>>()).unwrap();
    assert_eq!(read(), members);
    let changes = [
        CollectionChange::Remove(members[1].uuid),
        CollectionChange::SetTier(members[2].uuid, 7),
    ];
    Collection::append(&manifest, &changes).unwrap();
    let moved = Member {
        tier: 7,
        crawls: vec!["CC-MAIN".to_string()],
        sort_key: None,
        ..members[2].clone()
    };
    assert_eq!(read()[1].tier, 7);
    // A record that was cut off does not hide those after it.
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes.extend_from_slice(&[1, 200, 1]);
    std::fs::write(&manifest, bytes).unwrap();
    Collection::append(&manifest, &[add(&moved)]).unwrap();
    assert_eq!(
        read(),
        [members[0].clone(), moved.clone(), members[3].clone()]
    );
    for path in ["../x.tatami", "/x.tatami", ""] {
        let member = Member {
            path: path.into(),
            ..moved.clone()
        };
        let error = Collection::append(&manifest, &[add(&member)]).unwrap_err();
        assert!(
            error.to_string().contains("inside the directory"),
            "{error}"
        );
    }
    std::fs::write(&manifest, b"TMANx").unwrap();
    assert!(Collection::append(&manifest, &[]).is_err());
    assert_eq!(std::fs::read(&manifest).unwrap(), b"TMANx");
}

#[test]
fn the_manifest_of_the_reference_is_written_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join(MANIFEST_NAME);
    let expected = std::fs::read(path("collection/tatami.manifest")).unwrap();
    let members = members();
    let added: Vec<_> = members.iter().cloned().map(CollectionChange::Add).collect();
    let live = Collection::open(path("collection/tatami.manifest")).unwrap();
    let tier = live
        .members()
        .iter()
        .find(|member| member.tier > 0)
        .unwrap();
    let removed = members
        .iter()
        .find(|member| live.members().iter().all(|other| other.uuid != member.uuid));
    let removed = CollectionChange::Remove(removed.unwrap().uuid);
    let moved = CollectionChange::SetTier(tier.uuid, tier.tier);
    let mut orders = [vec![removed.clone(), moved.clone()], vec![moved, removed]].into_iter();
    let is_same = orders.any(|order| {
        let _ = std::fs::remove_file(&manifest);
        let changes: Vec<_> = added.iter().cloned().chain(order).collect();
        Collection::append(&manifest, &changes).unwrap();
        std::fs::read(&manifest).unwrap() == expected
    });
    assert!(is_same);
}
