//! What people see, word for word: every case of `tests/cmd` is a session with its output.
//!
//! `TRYCMD=overwrite cargo test -p evenkeel-cli --test commands` writes what the command says now.

#[test]
fn sessions_read_as_written() {
    trycmd::TestCases::new().env("NO_COLOR", "1").case("tests/cmd/*.trycmd");
}
