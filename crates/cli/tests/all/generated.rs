//! The committed code and descriptor are what `proto/demo.proto` gives, so that nobody who builds needs a compiler of it.
//!
//! `EVENKEEL_REGENERATE=1 cargo test -p evenkeel-cli --test all generated` writes them anew.

use std::fs;
use std::path::Path;

#[test]
fn committed_code_is_what_the_proto_file_gives() {
    let fresh = tempfile::tempdir().expect("a temporary folder");
    let descriptors = protox::compile(["demo.proto"], ["proto"]).expect("the proto file compiles");
    let code = tonic_prost_build::configure().bytes(".").out_dir(fresh.path()).compile_fds(descriptors);
    code.expect("code is generated");
    // Without the comments, which the code has: reflection shows none.
    let mut compiler = protox::Compiler::new(["proto"]).expect("the folder is there");
    compiler.open_file("demo.proto").expect("the proto file compiles");
    fs::write(fresh.path().join("demo.bin"), compiler.encode_file_descriptor_set()).expect("it is written");

    let committed = Path::new("src/generated");
    for name in ["evenkeel.demo.v1.rs", "demo.bin"] {
        let (fresh, committed) = (fresh.path().join(name), committed.join(name));
        if std::env::var_os("EVENKEEL_REGENERATE").is_some() {
            fs::copy(&fresh, &committed).expect("the file is written");
        }
        let same = fs::read(&fresh).expect("it was generated") == fs::read(&committed).unwrap_or_default();
        assert!(same, "{} is old: see the head of tests/all/generated.rs", committed.display());
    }
}
