//! What a scenario may say, and what it is told where it may not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use evenkeel_sim::scenario::{FaultKind, Model, Scenario, Span};

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
fn what_is_said_of_inactive_backends_and_datagrams_must_be_possible() {
    refused("[idle]\nafter = \"1ms\"", "line 2: idle.after = 1ms is not possible: must be from 10ms to");
    refused("[idle]\ncheck_every = \"0s\"", "line 2: idle.check_every = 0ns is not possible");
    refused(
        "[idle]\ncheck_timeout = \"11s\"",
        "line 2: idle.check_timeout = 11s is not possible: must be from 1ms to 10s",
    );
    refused("[idle]\nsilences_max = 0", "line 2: idle.silences_max = 0 is not possible: must be from 1 to 100");
    refused("[idle]\nvisit_every = \"1us\"", "line 2: idle.visit_every = ");
    refused("[clients]\nrare = 2", "line 2: clients.rare = 2 is not possible: must be from 0 to 1");
    refused("[clients]\nrarely = 0", "line 2: clients.rarely = 0 is not possible: must be above 0 and at most 1");
    refused("[network]\ndatagram_loss = 2", "line 2: network.datagram_loss = 2 is not possible");
    refused("[backends]\ndatagrams = 3", "line 2: backends.datagrams: write true or false, not 3");
    refused(
        "[[fault]]\nkind = \"no_datagrams\"\nat = \"1s\"",
        "line 2: fault.0.kind = \"no_datagrams\" is not possible: nobody sends datagrams: set idle.after",
    );
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
    refused("[clients]\ncount = \"many\"", "line 2: clients.count: write a whole number, not the text \"many\"");
    refused("duration = \"soon\"", "line 1: duration: \"soon\" is no time: write a number and a unit, as in \"10ms\"");
    refused("duration = 60", "line 1: duration: 60 has no unit: write a time with its unit, as in \"60s\"");
    refused("[clients]\nload = \n", "line 2: load: ");
    refused("[clients\nload = 1", "line 1");
}

#[test]
fn what_to_write_is_said_in_words_and_not_in_types() {
    refused("clients = 3", "line 1: clients: write a table [clients] with fields count, rate, load, zipf,");
    refused("[backends]\nwarmup = 3", "line 2: backends.warmup: write a table { … } with fields lasts, speed, not 3");
    let cpu = |value: &str| format!("[[method]]\ncpu = {value}");
    refused(
        &cpu("\"25ms\""),
        "line 2: method.0.cpu: write { kind = \"fixed\", mean = \"25ms\" } or another kind, not the text \"25ms\"",
    );
    refused(&cpu("3"), "write { kind = \"fixed\", mean = \"10ms\" } or another kind, not 3");
    refused(&cpu("{ kind = \"fixed\", mean = 1 }"), "1 has no unit: write a time with its unit, as in \"1s\"");
    refused("duration = true", "duration: write a time with its unit, as in \"10ms\", not true");
    refused("settle = 0.5", "settle: 0.5 has no unit");
    refused("[fault]\nkind = \"kill\"", "line 1: fault: write [[fault]] above each, not a table");
    refused("[clients]\nrhythm = [3]", "line 2: clients.rhythm.0: write a table, as in { kind = \"step\"");
    refused("[clients]\ncount = -1", "line 2: clients.count: write a whole number from 0 to 4294967295, not -1");
    refused("policy = 3", "line 1: policy: write a text in quotes, not 3");
    refused("model = 3", "line 1: model: write the name of a kind, in quotes");
    refused("[[check]]\npublished = true", "line 2: check.0.published: write a number, or words in quotes");
    refused(
        "[[fault]]\nkind = \"slow\"\nat = \"1s\"\nspeed = \"x\"",
        "line 4: fault.0.speed: write a number, not the text \"x\"",
    );
    refused_set("", "clients=3", "--set clients=3: write a table [clients] with fields count,");
    refused_set("", "method.0.cpu=25ms", "--set method.0.cpu=25ms: write { kind = \"fixed\", mean = \"25ms\" }");
    refused_set("", "duration=60", "--set duration=60: 60 has no unit");
}

#[test]
fn a_misspelt_field_is_named_where_the_right_one_is_missed() {
    refused(
        "[[fault]]\nkind = \"slow\"\nat = \"1s\"\nsped = 0.3",
        "line 4: fault.0.sped: unknown field of a slow fault: use one of kind, at, lasts, layer, backends, speed; did you mean \"speed\"?",
    );
    refused("[[fault]]\nknd = \"kill\"\nat = \"1s\"", "line 2: fault.0.knd: unknown field of a fault");
    refused(
        "[[method]]\ncpu = { knd = \"fixed\", mean = \"1ms\" }",
        "line 2: method.0.cpu.knd: unknown field: did you mean \"kind\"?",
    );
    refused("[[method]]\ncpu = { kind = \"lognormal\", mean = \"1ms\", sgma = 1 }", "did you mean \"sigma\"?");
}

#[test]
fn what_is_wrong_by_default_says_so_and_words_are_not_doubled() {
    refused("duration = \"9s\"", "which is 9s; settle is not set, and this is its default");
    refused_set("", "duration=9s", "settle is not set, and this is its default");
    let fault = ["fault.0={kind=\"kill\", at=\"2m\"}".to_owned()];
    let set = Scenario::with("", &fault).unwrap_err().to_string();
    assert!(set.contains("fault.0.at = 2m is not possible") && !set.contains("default"), "{set}");
    let both = Scenario::parse("duration = \"9s\"\nsettle = \"9s\"").unwrap_err().to_string();
    assert!(!both.contains("default"), "{both}");
    refused(
        "policy = \"oracle\"\n[[layer]]",
        "line 1: policy = \"oracle\" is not possible where there are layers: it is one queue",
    );
}

/// `--set policy=…` would otherwise run another policy under that name.
#[test]
fn a_variant_of_the_catalog_that_is_called_after_a_policy_sets_it() {
    for (name, text) in evenkeel_sim::catalog::all() {
        let scenario = Scenario::parse(text).unwrap();
        // Where nobody asks there is no policy: there `random` is a way to deal.
        let worlds = scenario.variants.iter().filter(|_| scenario.model == Model::World);
        for variant in worlds {
            let is_policy = Scenario::parse(&format!("policy = {:?}", variant.name)).is_ok();
            let policy = variant.set.get("policy").and_then(|policy| policy.as_str());
            assert!(!is_policy || policy == Some(variant.name.as_str()), "{name}: {}", variant.name);
        }
    }
}

#[test]
fn an_unknown_name_is_told_with_what_was_meant() {
    refused("[clients]\nlaod = 1", "line 2: clients.laod: unknown field: use one of count, rate, load,");
    refused("[clients]\nlaod = 1", "did you mean \"load\"?");
    refused("\npolcy = \"p2c\"", "line 2: polcy: unknown field");
    refused("policy = \"leastloaded\"", "line 1: policy = \"leastloaded\" is not possible: use one of round_robin,");
    refused("policy = \"leastloaded\"", "did you mean \"least_loaded\"?");
    refused("policy = \"quickest\"", "use one of round_robin, least_loaded, p2c, weighted, prequal, level, random,");
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
fn a_fault_that_clients_would_not_notice_is_refused() {
    let with = |policy: &str, rest: &str| format!("policy = \"{policy}\"\n[[fault]]\nat = \"1s\"\n{rest}");
    let change = "kind = \"policy\"\npolicy = \"p2c\"";
    refused(
        &with("peak_ewma", change),
        "line 4: fault.0.kind = \"policy\" is not possible: clients with policy = \"peak_ewma\" keep it: use one of \
         round_robin, least_loaded, p2c, weighted, prequal, level, or leave the fault out",
    );
    assert!(Scenario::parse(&with("round_robin", change)).is_ok());
    let unseen = ["kind = \"partition\"", "kind = \"fail\"", "kind = \"resize\"\nchange = \"+1b\"", change];
    for fault in unseen {
        refused(&with("oracle", fault), "line 4: fault.0.kind = ");
    }
    refused(&with("oracle", unseen[0]), "it does not reach policy = \"oracle\"");
    for fault in ["kill", "hang", "lame_duck", "restart"] {
        assert!(Scenario::parse(&with("oracle", &format!("kind = \"{fault}\""))).is_ok(), "{fault}");
    }
}

/// Two faults, of these kinds and with these further fields.
fn two(one: (&str, &str), other: (&str, &str)) -> String {
    let fault = |(kind, rest): (&str, &str)| {
        let more = match kind {
            "slow" => "speed = 0.5\n",
            "stall" => "times = 3\n",
            _ => "",
        };
        format!("[[fault]]\nkind = \"{kind}\"\n{more}{rest}\n")
    };
    fault(one) + &fault(other)
}

#[test]
fn a_fault_that_would_end_another_one_is_refused_with_both() {
    for kind in ["kill", "hang", "slow", "stall", "fail", "lame_duck", "partition"] {
        let first = (kind, "at = \"10s\"\nlasts = \"5s\"\nbackends = \"0-3\"");
        let words = format!("fault.1: this {kind} and the {kind} of fault.0 overlap on backend 3, where");
        refused(&two(first, (kind, "at = \"12s\"\nlasts = \"1s\"\nbackends = \"3-5\"")), &words);
        refused(&two(first, (kind, "at = \"1s\"\nbackends = \"3\"")), &words);
        refused(&two(first, (kind, "at = \"9s\"\nlasts = \"1s\"\nbackends = \"3\"")), &words);
        for apart in
            ["at = \"12s\"\nbackends = \"4-9\"", "at = \"15s\"\nbackends = \"all\"", "at = \"5s\"\nlasts = \"4s\""]
        {
            let text = two(first, (kind, apart));
            assert!(Scenario::parse(&text).is_ok(), "{text}");
        }
    }
    assert!(Scenario::parse(&two(("kill", "at = \"1s\""), ("hang", "at = \"1s\""))).is_ok());
}

#[test]
fn a_restart_leaves_its_backends_to_nobody_else() {
    let restart = ("restart", "at = \"10s\"\nbackends = \"0-3\"");
    for kind in ["kill", "lame_duck"] {
        let late = (kind, "at = \"50s\"\nlasts = \"1s\"");
        let words = format!("fault.1: this {kind} and the restart of fault.0 overlap on backend 0");
        refused(&two(restart, late), &words);
        refused(&two(late, restart), &format!("this restart and the {kind} of fault.0"));
        for apart in ["at = \"50s\"\nbackends = \"4\"", "at = \"5s\"\nlasts = \"4s\""] {
            assert!(Scenario::parse(&two(restart, (kind, apart))).is_ok(), "{kind} {apart}");
        }
    }
    assert!(Scenario::parse(&two(restart, ("slow", "at = \"20s\""))).is_ok());
    assert!(Scenario::parse(&two(restart, ("restart", "at = \"40s\""))).is_ok());
}

#[test]
fn clusters_need_tasks_in_each_layer_and_the_same_ones_all_the_time() {
    let resize = "[[fault]]\nkind = \"resize\"\nat = \"1s\"\nchange = \"+1b\"\n";
    refused(
        &format!("[clusters]\ncount = 2\n{resize}"),
        "line 6: fault.0.change = \"+1b\" is not possible: cannot be together with clusters",
    );
    let layer = "[clusters]\ncount = 2\n[[layer]]\n[layer.backends]\ncount = 1";
    refused(
        layer,
        "line 5: layer.0.backends.count = 1 is not possible: must be at least clusters.count, which is 2, or",
    );
    refused(
        "[clusters]\ncount = 2\nreach = \"spill\"\n[[layer]]",
        "line 3: clusters.reach = \"spill\" is not possible: cannot be together with layers",
    );
    refused("[clusters]\nfull = 1.5", "line 2: clusters.full = 1.5 is not possible: must be from 0.1 to 1.0");
    refused(
        "[clusters]\ncount = 17\nreach = \"spill\"",
        "line 2: clusters.count = 17 is not possible: must be from 2 to 16",
    );
    refused("[clusters]\nreach = \"spill\"", "clusters.count = 1 is not possible: must be from 2 to 16");
    assert!(Scenario::with(layer, &["clusters.reach=all".to_owned()]).is_ok());
    assert!(Scenario::with(layer, &["layer.0.backends.count=2".to_owned()]).is_ok());
}

#[test]
fn what_is_kept_of_a_run_fits_into_memory() {
    refused(
        "window = \"1us\"",
        "line 1: window = 1us is not possible: 60000000 windows of 100 tasks are too many to keep: use 600us or longer",
    );
    assert!(Scenario::parse("window = \"600us\"\n[[layer]]").is_ok());
    let many = "window = \"100ms\"\n[backends]\ncount = 80000\n[[layer]]\nbackends = { count = 20000 }";
    refused(many, "600 windows of 100000 tasks are too many to keep: use 120ms or longer");
    assert!(Scenario::with(many, &["window=120ms".to_owned()]).is_ok());
    let growing = "window = \"10ms\"\n[[fault]]\nkind = \"resize\"\nat = \"1s\"\nchange = \"+100000b\"";
    refused(growing, "6000 windows of 100100 tasks");
}

#[test]
fn times_that_the_clock_does_not_have_are_refused() {
    refused(
        "[clients]\nrate = 1e-7",
        "line 2: clients.rate = 0.0000001 is not possible: must be from 0.000001 to 1000000000",
    );
    refused(
        "[clients]\nload = 1e-12",
        "line 2: clients.load = 0.000000000001 is not possible: makes 0.00000008 requests per second",
    );
    let method = |rest: &str| format!("[[method]]\n{rest}");
    refused(
        &method("wait = { kind = \"fixed\", mean = \"25h\" }"),
        "line 2: method.0.wait.mean = 1day 1h is not possible: must be above 0 and at most 1day",
    );
    refused(&method("cpu = { kind = \"exponential\", mean = \"2days\" }"), "method.0.cpu.mean = 2days");
    refused(
        "[backends]\nmachine = [{ speed = 1e-9 }]",
        "backends.machine.0.speed = 0.000000001 is not possible: must be from 0.001 to 1000",
    );
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
    refused(&variant("policy = 3"), "line 3: variant.0.set.policy: write a text in quotes, not 3");
    refused(&variant("seeds = 3"), "line 3: variant.0.set.seeds: seeds is the same for all variants: set it outside");
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
fn a_check_of_a_figure_that_no_run_has_is_refused_before_anything_runs() {
    let check = |metric: &str| format!("[[check]]\nid = \"x\"\nmetric = {metric:?}\nat_most = 1\n");
    refused(
        &check("p99ms"),
        "line 3: check.0.metric = \"p99ms\" is not possible: unknown figure: did you mean \"p99_ms\"?",
    );
    refused(&check("latency_of_nobody"), "unknown figure: docs/scenarios.md has all of them below Metrics");
    refused(&check("fault0_share"), "there is no fault 0: they are counted from 0, and there are 0");
    refused(&check("layer0_requests"), "there is no layer 0: they are counted from 1, and there are 0");
    refused(&check("goodput"), "nothing measures it here: it takes [overload]");
    refused(&check("amplification"), "it takes retry.mode or retry.naive");
    refused(&check("connections_least"), "it takes model = \"dealing\"");
    refused(&format!("{}over = \"sered\"", check("failed")), "line 5: check.0.over = \"sered\"");
    refused(&format!("{}minus = \"sered\"", check("failed")), "did you mean \"served\"?");
    let fault = "[[fault]]\nkind = \"kill\"\nat = \"1s\"\n";
    refused(&format!("{}{fault}", check("fault1_share")), "there is no fault 1");
    refused(&format!("{}{fault}", check("fault0_back_s")), "give it lasts");

    // Each variant has its own.
    let variants = "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nset = { \"retry.mode\" = \"on\" }\n";
    Scenario::parse(&format!("{variants}{}", check("b/attempts_2"))).unwrap();
    refused(&format!("{variants}{}", check("a/attempts_2")), "line 8: check.0.metric = \"a/attempts_2\"");

    // What could be is let pass, and so is what an argument takes away.
    for (metric, world) in [
        ("layer1_requests", "[[layer]]\n"),
        ("cluster1_offered_last", "clusters.count = 2\n"),
        ("customer_one_served_share", "customers = { one = 1 }\n"),
        ("sheddable_served_share", "criticality = { CRITICAL = 1, SHEDDABLE = 0 }\n"),
    ] {
        let world = if world.starts_with('[') {
            format!("{}{world}", check(metric))
        } else {
            format!("{world}{}", check(metric))
        };
        Scenario::parse(&world).unwrap();
    }
    let retrying = format!("retry.mode = \"on\"\n{}", check("amplification"));
    Scenario::with(&retrying, &["retry.mode=off".to_owned()]).unwrap();
}

#[test]
fn a_fault_can_hit_a_layer_that_is_there() {
    let fault = |kind: &str, layer: u32| format!("[[fault]]\nkind = {kind:?}\nat = \"1s\"\nlayer = {layer}\n");
    let layer = "[[layer]]\nbackends = { count = 5 }\n";
    refused(
        &fault("fail", 1),
        "line 4: fault.0.layer = 1 is not possible: there are no layers: leave it out, or add [[layer]]",
    );
    refused(&format!("{layer}{}", fault("fail", 2)), "must be from 0, the first service, to 1");
    refused(&format!("{layer}{}", fault("kill", 1)), "fault.0.layer: unknown field of a kill fault");
    refused(&format!("{layer}{}backends = \"5\"", fault("fail", 1)), "numbers from 0 to 4");

    let two = format!("{layer}{}{}", fault("fail", 1), fault("fail", 0));
    assert_eq!(Scenario::parse(&two).unwrap().faults[0].layer, 1);
    refused(&format!("{layer}{}{}", fault("fail", 1), fault("fail", 1)), "overlap on backend 0");
}

#[test]
fn of_rate_and_load_only_one_counts_and_only_one_is_written() {
    let both = "both say how much is asked for, and rate alone would count: leave one of them out";
    refused(
        "[clients]\nrate = 100.0\nload = 0.5",
        &format!("line 3: clients.load: clients.rate and clients.load {both}"),
    );
    refused(
        "[[variant]]\nname = \"a\"\nset = { \"clients.rate\" = 100.0, \"clients.load\" = 0.5 }",
        &format!("line 3: variant.0.set.clients.load: clients.rate and clients.load {both}"),
    );
    refused("[[variant]]\nname = \"a\"\nset = { clients = { rate = 100.0, load = 0.5 } }", both);
    let bad = Scenario::with("", &["clients.rate=9".to_owned(), "clients.load=0.5".to_owned()]).unwrap_err();
    assert!(bad.to_string().starts_with("--set clients.load=0.5: clients.rate and"), "{bad}");

    // Whoever sets one of them means that one.
    let with = |text: &str, set: &str| {
        let clients = Scenario::with(text, &[set.to_owned()]).unwrap().clients;
        (clients.rate, clients.load)
    };
    assert_eq!(with("[clients]\nload = 0.5", "clients.rate=100.0"), (Some(100.0), 0.7));
    assert_eq!(with("[clients]\nrate = 100.0", "clients.load=0.5"), (None, 0.5));
    assert_eq!(with("[clients]\nrate = 100.0", "clients={load=0.5}"), (None, 0.5));
    assert_eq!(with("[clients]\nrate = 100.0", "clients.count=3"), (Some(100.0), 0.7));
    let text = "[clients]\nrate = 100.0\n[[variant]]\nname = \"a\"\nset = { \"clients.load\" = 0.5 }";
    let variants = Scenario::parse(text).unwrap().variants().unwrap();
    assert_eq!((variants[0].1.clients.rate, variants[0].1.clients.load), (None, 0.5));
}

#[test]
fn a_field_of_something_that_is_not_there_asks_for_a_whole_one() {
    refused_set(
        "",
        "fault.0.at=5s",
        "--set fault.0.at=5s: there is no fault.0 in this scenario, and a new one needs kind: write a whole one, as in \
         fault.0={ kind = \"kill\", at = \"5s\" }",
    );
    refused_set("", "fault.0.kind=kill", "there is no fault.0 in this scenario, and a new one needs at");
    refused_set("", "clients.rhythm.0.times=2", "as in clients.rhythm.0={ kind = \"step\"");
    refused(
        "[[variant]]\nname = \"a\"\nset = { \"fault.0.at\" = \"5s\" }",
        "line 3: variant.0.set.fault.0.at: there is no fault.0 in this scenario",
    );
    let whole = ["fault.0={ kind = \"kill\", at = \"5s\" }".to_owned(), "method.0.share=0.5".to_owned()];
    let scenario = Scenario::with("", &whole).unwrap();
    assert_eq!((scenario.faults.len(), scenario.methods.len()), (1, 1));
}

#[test]
fn an_argument_that_cannot_be_is_named() {
    let text = "[clients]\nload = 0.5\n[[fault]]\nkind = \"kill\"\nat = \"1s\"";
    refused_set(text, "clients.load=x", "--set clients.load=x: write a number, not the text \"x\"");
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
    refused(
        "model = \"dealing\"\npolicy = \"p2c\"",
        "line 2: policy: nothing happens in model = \"dealing\": leave it out",
    );
    refused("model = \"dealing\"\n[network]\nloss = 0.1", "line 2: network: nothing happens");
    refused("model = \"dealing\"\n[clients]\nload = 0.1", "line 2: clients: only their count matters");
    refused("model = \"dealing\"\n[backends]\ncores = 1", "line 2: backends: only their count matters");
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
