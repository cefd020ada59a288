//! A million decisions between two lines on stderr: run it under a system call tracer to see that nothing stands
//! between them (`./test syscalls` does).

use std::io::Write;
use std::sync::Arc;

use evenkeel_core::server::{Entry, GateLocal};
use evenkeel_core::{
    BackendList, BackendSpec, Client, ClientConfig, LoadReport, Local, Outcome, Picker, PolicyName, Readiness,
    RequestMeta, Rng, Server, ServerConfig, Time,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = Rng::from_seed(1);
    let pickers: Vec<Arc<Picker>> =
        PolicyName::ALL.into_iter().map(|policy| picker(policy, &mut rng)).collect::<Result<_, _>>()?;
    let mut server = Server::new(Time::ZERO, ServerConfig::default())?;
    server.handle_ready(Time::ZERO);

    // One write each, so that the trace shows each line as one call.
    std::io::stderr().write_all(b"decide-loop: begin\n")?;
    let answered = decide(&pickers, &server, &mut rng);
    std::io::stderr().write_all(b"decide-loop: end\n")?;
    println!("{answered} requests served");
    Ok(())
}

fn picker(policy: PolicyName, rng: &mut Rng) -> Result<Arc<Picker>, Box<dyn std::error::Error>> {
    let mut client = Client::new(Time::ZERO, ClientConfig { policy, ..ClientConfig::default() }, rng)?;
    let specs = (0..100).map(|number| BackendSpec::named(&format!("backend-{number}")));
    client.handle_backends(Time::ZERO, BackendList::new(specs)?)?;
    while let Some(action) = client.poll_action() {
        client.handle_connected(Time::ZERO, action.backend(), Readiness::Ready);
    }
    Ok(client.poll_picker().ok_or("connections make a picker")?)
}

fn decide(pickers: &[Arc<Picker>], server: &Server, rng: &mut Rng) -> u64 {
    let (mut gate_local, meta) = (GateLocal::default(), RequestMeta::default());
    let mut locals = [(); PolicyName::ALL.len()].map(|()| Local::default());
    let report = LoadReport { utilization: Some(0.4), ..LoadReport::default() };
    let mut answered = 0;
    for step in 0..1_000_000u64 {
        let now = Time::from_nanos(step * 1_000);
        let turn = step as usize % pickers.len();
        let (picker, local) = (&pickers[turn], &mut locals[turn]);
        let Ok(ticket) = picker.begin(local, now, &meta, rng) else { continue };
        if let Ok(Entry::Start(admission)) = server.gate().admit(&mut gate_local, now, &meta, rng) {
            server.gate().finish(now, admission, Outcome::Served, None);
        }
        let outcome = if step % 100 == 0 { Outcome::Failed } else { Outcome::Served };
        picker.finish(now, ticket, outcome, Some(&report));
        answered += 1;
    }
    answered
}
