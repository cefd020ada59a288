//! What a scenario may say, and what it is told where it may not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use evenkeel_sim::scenario::{FaultKind, Scenario, Span};

#[track_caller]
fn refused(text: &str, words: &str) {
    let bad = Scenario::parse(text).unwrap_err().to_string();
    assert!(bad.contains(words), "{text}\n-> {bad}\nand not {words}");
}

#[track_caller]
fn refused_set(text: &str, set: &str, words: &str) {
    let bad = Scenario::with(text, &[set.to_owned()]).unwrap_err().to_string();
    assert!(bad.contains(words), "{set}\n-> {bad}\nand not {words}");
}

#[test]
fn an_empty_scenario_is_the_default_world() {
    assert_eq!(Scenario::parse("").unwrap(), Scenario::default());
}

#[test]
fn a_wrong_number_is_told_with_line_field_value_and_range() {
    refused(
        "\n# who asks\n[clients]\nload = -1\n",
        "line 4: clients.load = -1 is not possible: must be above 0 and at most 100",
    );
    refused("[clients]\ncount = 0", "line 2: clients.count = 0 is not possible: must be from 1 to 131072");
    refused("[clients]\nzipf = nan", "line 2: clients.zipf = NaN is not possible");
    refused("[clients]\nrate = inf", "line 2: clients.rate = inf is not possible");
    refused("[clients]\nforeign = 1.5", "must be from 0 to 1");
    refused("[[method]]\n[[method]]\nshare = -1", "line 3: method.1.share = -1");
    refused("[[method]]\ncpu = { kind = \"fixed\", mean = \"0s\" }", "line 2: method.0.cpu.mean = 0s");
    refused(
        "clients.rhythm = [\n{ kind = \"diurnal\", period = \"1s\", swing = 2 }]",
        "line 2: clients.rhythm.0.swing = 2",
    );
    refused("[[layer]]\n[layer.backends]\ncores = 0", "line 3: layer.0.backends.cores = 0");
    refused("[client]\nactive_max = 0", "line 2: client.active_max = 0 is not possible: must be from 1 to 1000000");
    refused("[criticality]\nCRITICAL = 0", "line 1: criticality: all shares are 0");
}

#[test]
fn times_must_fit_into_the_run() {
    refused(
        "duration = \"10s\"\nsettle = \"10s\"",
        "line 2: settle = 10s is not possible: must be shorter than duration",
    );
    refused("duration = \"5s\"", "settle = 10s is not possible: must be shorter than duration, which is 5s");
    refused("duration = \"20s\"\nwindow = \"21s\"", "line 2: window = 21s");
    refused("duration = \"0s\"", "line 1: duration = 0s");
    refused(
        "[[fault]]\nkind = \"kill\"\nat = \"2m\"",
        "line 3: fault.0.at = 2m is not possible: must be before the end",
    );
    refused("[[fault]]\nkind = \"kill\"\nat = \"50s\"\nlasts = \"11s\"", "line 4: fault.0.lasts = 11s");
}

#[test]
fn a_wrong_type_is_told_with_line_and_field() {
    refused(
        "[clients]\ncount = \"many\"",
        "line 2: clients.count: invalid type: string \"many\", expected a whole number",
    );
    refused("duration = \"soon\"", "line 1: duration: \"soon\" is no time: write a number and a unit, as in \"10ms\"");
    refused("duration = 10", "line 1: duration: invalid type: integer `10`");
    refused("[clients]\nload = \n", "line 2: load: ");
    refused("[clients\nload = 1", "line 1");
}

#[test]
fn an_unknown_name_is_told_with_what_was_meant() {
    refused("[clients]\nlaod = 1", "line 2: clients.laod: unknown field: use one of count, rate, load,");
    refused("[clients]\nlaod = 1", "did you mean \"load\"?");
    refused("\npolcy = \"p2c\"", "line 2: polcy: unknown field");
    refused("policy = \"leastloaded\"", "line 1: policy = \"leastloaded\" is not possible: use one of round_robin,");
    refused("policy = \"leastloaded\"", "did you mean \"least_loaded\"?");
    refused("policy = \"prequal\"", "use one of round_robin, least_loaded, p2c, random,");
    refused("admission = \"envy\"", "did you mean \"envoy\"?");
    refused("[subset]\nalgorithm = \"evn\"", "line 2: subset.algorithm = \"evn\" is not possible: use one of random");
    refused(
        "model = \"word\"",
        "line 1: model: unknown kind \"word\": use one of world, dealing; did you mean \"world\"?",
    );
    refused("[criticality]\nCRITICAL = 1\nIMPORTANT = 1", "line 3: criticality.IMPORTANT");
    refused("[[method]]\ncpu = { kind = \"fixed\", mean = \"1ms\", sigma = 1 }", "method.0.cpu.sigma: unknown field");
    refused(
        "[[method]]\ncpu = { kind = \"lognormal\", mean = \"1ms\" }",
        "line 2: method.0.cpu: missing field `sigma`",
    );
}

#[test]
fn a_fault_has_only_the_fields_of_its_kind() {
    refused(
        "[[fault]]\nkind = \"slow\"\nat = \"1s\"\nsped = 0.5\nspeed = 0.5",
        "line 4: fault.0.sped: unknown field of a slow fault",
    );
    refused("[[fault]]\nkind = \"slow\"\nat = \"1s\"\nsped = 0.5\nspeed = 0.5", "did you mean \"speed\"?");
    refused(
        "[[fault]]\nkind = \"kill\"\nat = \"1s\"\nspeed = 0.5",
        "line 4: fault.0.speed: unknown field of a kill fault",
    );
    refused(
        "[[fault]]\nkind = \"resize\"\nat = \"1s\"\nchange = \"+1b\"\nbackends = \"0\"",
        "line 5: fault.0.backends",
    );
    refused("[[fault]]\nkind = \"slow\"\nat = \"1s\"", "line 1: fault.0: missing field `speed`");
    refused("[[fault]]\nkind = \"kil\"\nat = \"1s\"", "unknown kind \"kil\"");
}

#[test]
fn a_fault_must_be_possible() {
    let fault = |rest: &str| format!("[[fault]]\nat = \"1s\"\n{rest}");
    refused(&fault("kind = \"kill\"\nbackends = \"99-100\""), "line 4: fault.0.backends = \"99-100\" is not possible");
    refused(&fault("kind = \"slow\"\nspeed = 0"), "line 4: fault.0.speed = 0");
    refused(&fault("kind = \"fail\"\nshare = 2"), "line 4: fault.0.share = 2");
    refused(
        &fault("kind = \"resize\"\nchange = \"1b\""),
        "line 4: fault.0.change = \"1b\" is not possible: write a sign",
    );
    refused(&fault("kind = \"resize\"\nchange = \"-100%b\""), "1 to 131072 must be left");
    refused(&fault("kind = \"policy\"\npolicy = \"envoy_least_request\""), "line 4: fault.0.policy");
    refused(&fault("kind = \"restart\"\ntogether = 0"), "line 4: fault.0.together = 0");
}

#[test]
fn resizes_add_up_in_order_of_time() {
    let two = "[backends]\ncount = 10\n[[fault]]\nkind = \"resize\"\nat = \"9s\"\nchange = \"-12b\"\n\
               [[fault]]\nkind = \"resize\"\nat = \"1s\"\nchange = \"+5b\"";
    assert!(Scenario::parse(two).is_ok(), "15 are there when 12 go");
    refused(&two.replace("9s", "500ms"), "fault.0.change");
}

#[test]
fn a_check_needs_a_goal_and_a_figure_of_a_variant_that_is_there() {
    refused("[[check]]\nid = \"x\"\nmetric = \"spread\"", "line 1: check.0: a check needs a goal");
    refused("[[check]]\nid = \"x\"\nmetric = \"a/spread\"\nat_most = 1", "line 3: check.0.metric");
    let variant = "[[variant]]\nname = \"a\"\n";
    refused(&format!("{variant}[[check]]\nid = \"x\"\nmetric = \"spread\"\nat_most = 1"), "as in \"a/spread\"");
    refused(&format!("{variant}[[check]]\nid = \"x\"\nmetric = \"b/spread\"\nat_most = 1"), "use one of a");
    refused("[[check]]\nid = \"x\"\nmetric = \"spread\"\nat_least = 2\nat_most = 1", "at_least = 2");
    refused(&format!("{variant}{variant}"), "line 4: variant.1.name = \"a\" is not possible");
    refused(
        &format!("{variant}[[figure]]\nkind = \"spread\"\nvariants = [\"b\"]"),
        "line 5: figure.0.variants = \"b\"",
    );
    refused("[[figure]]\nkind = \"spred\"", "line 2: figure.0.kind: unknown kind \"spred\"");
}

#[test]
fn a_variant_that_cannot_be_is_told_with_its_line() {
    let variant = |set: &str| format!("[[variant]]\nname = \"a\"\nset = {{ {set} }}");
    refused(&variant("\"clients.load\" = -1"), "line 1: variant.0: with it clients.load = -1 is not possible");
    refused(&variant("\"clients.laod\" = 1"), "line 3: variant.0.set.clients.laod: unknown field");
    refused(&variant("\"fault.3.at\" = \"1s\""), "line 3: variant.0.set.fault.3.at: \"3\" is no place");
    refused(&variant("policy = 3"), "line 3: variant.0.set.policy: invalid type");
}

#[test]
fn a_variant_is_the_scenario_with_its_fields_set() {
    let text = "seeds = 4\n[[fault]]\nkind = \"resize\"\nat = \"12s\"\nchange = \"+1b\"\n[[method]]\n\
                cpu = { kind = \"lognormal\", mean = \"1ms\", sigma = 1 }\n[[variant]]\nname = \"same\"\n[[variant]]\nname = \"other\"\n\
                set = { clients.load = 0.9, \"fault.0.change\" = \"-1b\", \"method.0.cpu\" = { kind = \"fixed\", mean = \"2ms\" } }";
    let scenario = Scenario::parse(text).unwrap();

    let variants = scenario.variants().unwrap();

    let [(same, base), (other, set)] = variants.as_slice() else { panic!("{}", variants.len()) };
    assert_eq!((same.as_str(), other.as_str()), ("same", "other"));
    assert_eq!((base.clients.load, set.clients.load, set.clients.count), (0.7, 0.9, 100));
    assert_eq!(set.faults[0].kind, FaultKind::Resize { change: "-1b".to_owned() });
    assert_eq!(set.faults[0].at, Span::from_secs(12));
    assert!(set.variants.is_empty());
}

#[test]
fn a_scenario_without_variants_is_its_only_one() {
    let scenario = Scenario::default();
    assert_eq!(scenario.variants().unwrap(), [(String::new(), scenario)]);
}

#[test]
fn fields_are_set_from_arguments() {
    let text = "[[fault]]\nkind = \"slow\"\nat = \"1s\"\nspeed = 0.5";
    let set = ["clients.load=0.9", "fault.0.at=5s", "policy=p2c", "duration = 20s"].map(str::to_owned);

    let scenario = Scenario::with(text, &set).unwrap();

    assert_eq!((scenario.clients.load, scenario.policy.as_str()), (0.9, "p2c"));
    assert_eq!((scenario.faults[0].at, scenario.duration), (Span::from_secs(5), Span::from_secs(20)));
}

#[test]
fn an_argument_that_cannot_be_is_named() {
    let text = "[clients]\nload = 0.5\n[[fault]]\nkind = \"kill\"\nat = \"1s\"";
    refused_set(text, "clients.load=x", "--set clients.load=x: invalid type: string \"x\", expected a number");
    refused_set(text, "clients.load=-1", "--set clients.load=-1: must be above 0 and at most 100");
    refused_set(text, "clients.laod=1", "--set clients.laod=1: unknown field: use one of");
    refused_set(text, "clients.load", "--set clients.load: write a field, = and a value");
    refused_set(text, "fault.0.speed=1", "--set fault.0.speed=1: unknown field of a kill fault");
    refused_set(text, "fault.2.at=1s", "--set fault.2.at=1s: \"2\" is no place in a list, counted from 0: there is 1");
    refused_set(text, "duration=5s", "settle = 10s is not possible: must be shorter than duration, which is 5s");
    refused_set(text, "policy=p3c", "--set policy=p3c: use one of");
}

#[test]
fn nothing_happens_in_a_dealing() {
    refused("model = \"dealing\"\n[[fault]]\nkind = \"kill\"\nat = \"1s\"", "line 2: fault: nothing happens");
    refused("[clusters]\ncount = 101", "line 2: clusters.count = 101 is not possible: must be from 1 to 100");
}

proptest::proptest! {
    /// Whatever is typed into a scenario, it is read or refused.
    #[test]
    fn an_edited_scenario_never_panics(which in 0..100usize, line in 0..100usize, value in "[-0-9a-z.\"{}\\[\\]= ]{0,12}") {
        let (_, text) = evenkeel_sim::catalog::all()[which % evenkeel_sim::catalog::all().len()];
        let count = text.lines().count();
        let edited: Vec<String> = text.lines().enumerate().map(|(place, old)| match old.split_once('=') {
            Some((key, _)) if place == line % count => format!("{key}= {value}"),
            None if place == line % count => value.clone(),
            _ => old.to_owned(),
        }).collect();
        if let Err(bad) = Scenario::parse(&edited.join("\n")) {
            proptest::prop_assert!(!bad.message.is_empty());
        }
        let _ = Scenario::with(text, &[format!("{}={value}", "clients.load")]);
    }
}
