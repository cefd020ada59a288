//! to write
