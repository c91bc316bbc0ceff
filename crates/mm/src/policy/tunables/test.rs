use alloc::vec::Vec;

use super::*;

#[test]
fn what_breaks_a_rule_is_refused_and_changes_nothing() {
    let mut tunables = Tunables::DEFAULT;
    tunables.set("balance.read_cost", 3.0).expect("a loss of three");
    assert_eq!(tunables.balance.read_cost, 3);
    tunables.set("neighbours.load_gain", 0.25).expect("a quarter");
    for (name, value, refused) in [
        ("balance.reed_cost", 3.0, Refused::Unknown),
        ("neighbours.probes", 3.0, Refused::Fixed),
        ("balance.read_cost", 2.5, Refused::Range),
        ("balance.read_cost", f64::NAN, Refused::Range),
        ("balance.chances", 0.0, Refused::Range),
        ("balance.chances", -1.0, Refused::Range),
        ("victims.active_share", 1e30, Refused::Range),
    ] {
        assert_eq!(tunables.set(name, value), Err(refused), "{name}={value}");
    }
    assert!(matches!(tunables.set("balance.round", 4096.0), Err(Refused::Rule(_))));
    assert_eq!(tunables.balance.read_cost, 3);
    assert_eq!(tunables.balance.round, 32);
}

#[test]
fn each_has_a_name_of_its_own_and_can_be_set_to_what_it_is() {
    let mut tunables = Tunables::DEFAULT;
    let mut names: Vec<_> = Tunables::DEFAULT.iter().map(|one| one.name).collect();
    for one in Tunables::DEFAULT.iter().filter(|one| !one.is_fixed) {
        tunables.set(one.name, one.value).expect(one.name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Tunables::DEFAULT.iter().count());
}
