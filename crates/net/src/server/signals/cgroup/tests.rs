//! Over trees as systems show them: see `tests/fixtures/cgroup`.

use super::*;

fn fixture(name: &str) -> Cgroups {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cgroup").join(name);
    let membership = std::fs::read_to_string(tree.join("membership")).unwrap();
    Cgroups::find(&membership, &tree.join("sys"))
}

fn processors_of(cgroups: &Cgroups) -> Vec<f64> {
    cgroups.quotas().held.iter().map(|quota| quota.processors).collect()
}

fn bytes_of(cgroups: &Cgroups) -> Vec<u64> {
    cgroups.memory_limits().held.iter().map(|limit| limit.bytes).collect()
}

#[test]
fn limits_of_parents_bind_too() {
    let cgroups = fixture("v2_nested");

    assert_eq!(processors_of(&cgroups), [1.5, 8.0]);
    assert_eq!(bytes_of(&cgroups), [768 << 20, 8 << 30]);
    let quotas = cgroups.quotas();
    assert_eq!(quotas.left_out, [""; 0]);
    assert_eq!(quotas.held[0].throttled(), Ok(Duration::from_millis(2500)), "where the quota is");
    let in_use = cgroups.memory_limits().held[0].in_use();
    assert_eq!(in_use, Ok((640 - 128) << 20), "without what is cached and not used");
}

#[test]
fn what_is_unlimited_is_no_limit_and_no_error() {
    for name in ["v2_unlimited", "v1_unlimited"] {
        let cgroups = fixture(name);

        assert!(cgroups.knows_cpu() && cgroups.memory.is_some(), "{name}");
        assert_eq!(cgroups.quotas(), Limits { held: vec![], left_out: vec![] }, "{name}");
        assert_eq!(cgroups.memory_limits(), Limits { held: vec![], left_out: vec![] }, "{name}");
    }
}

#[test]
fn a_container_of_version_1_finds_its_own_at_the_mount() {
    let cgroups = fixture("v1");

    assert_eq!(processors_of(&cgroups), [0.5]);
    assert_eq!(cgroups.quotas().held[0].throttled(), Ok(Duration::from_millis(1500)));
    assert_eq!(bytes_of(&cgroups), [256 << 20]);
    assert_eq!(cgroups.memory_limits().held[0].in_use(), Ok(128 << 20));
}

#[test]
fn each_controller_is_read_where_it_is() {
    let cgroups = fixture("hybrid");

    assert_eq!(processors_of(&cgroups), [2.5]);
    assert_eq!(cgroups.quotas().held[0].throttled(), Ok(Duration::from_millis(40)));
    assert_eq!(bytes_of(&cgroups), [1 << 30]);
    assert_eq!(cgroups.memory_limits().held[0].in_use(), Ok(256 << 20));
}

#[test]
fn nonsense_is_left_out_with_a_reason_and_what_is_sound_holds() {
    let cgroups = fixture("broken_v2");

    assert_eq!(processors_of(&cgroups), [2.0]);
    assert_eq!(cgroups.quotas().left_out.len(), 3, "{:?}", cgroups.quotas().left_out);
    assert_eq!(bytes_of(&cgroups), [1 << 20]);
    assert_eq!(cgroups.memory_limits().left_out.len(), 5, "{:?}", cgroups.memory_limits().left_out);
    assert!(cgroups.quotas().held[0].throttled().unwrap_err().contains("missing"));
    assert!(cgroups.memory_limits().held[0].in_use().unwrap_err().contains("missing"));
}

#[test]
fn zeros_of_version_1_are_left_out() {
    let cgroups = fixture("broken_v1");

    assert_eq!((processors_of(&cgroups), bytes_of(&cgroups)), (vec![], vec![]));
    let [quota] = &cgroups.quotas().left_out[..] else { panic!("one") };
    assert!(quota.contains(r#"says "0" of "0""#), "{quota}");
    let [limit] = &cgroups.memory_limits().left_out[..] else { panic!("one") };
    assert!(limit.contains(r#"says "0""#), "{limit}");
}

#[test]
fn without_cgroups_nothing_is_known() {
    for (membership, root) in [("", "nowhere"), ("0::/", "tests"), (":::\n\0", "")] {
        let cgroups = Cgroups::find(membership, Path::new(root));

        assert!(!cgroups.knows_cpu() && cgroups.memory.is_none());
        assert_eq!(cgroups.quotas().held, []);
        assert_eq!(cgroups.memory_limits().held, []);
    }
}

#[test]
fn numbers_at_the_edge_are_no_quotas() {
    let file = Path::new("cpu.max");
    for (quota, period) in
        [("inf", "1"), ("NaN", "1"), ("1", "inf"), ("1e308", "1e-308"), ("1", "100000"), ("1e9", "1")]
    {
        assert!(processors(file, quota, period).is_err(), "{quota} of {period}");
    }
    assert_eq!(processors(file, "100000\n", "100000"), Ok(Some(1.0)));
}
