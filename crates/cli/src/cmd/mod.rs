//! One module for each command. Each computes its figures first, and then prints them as JSON or as pictures.

pub(crate) mod demo;
pub(crate) mod plan;
