//! The group file: what the launcher and every agent of a run share.
//!
//! | file        | what is in it                                                                  |
//! |-------------|--------------------------------------------------------------------------------|
//! | `layout`    | where everything is: parts of the file, its version, what of it is locked      |
//! | `key`       | words that a group has once, by role: limits, tunables, tests, ...             |
//! | `field`     | words of each process: what it is charged, and what it tells the others        |
//! | `group`     | the file as an object: words by name, and what follows of them                 |
//! | `relatives` | what relatives share is charged once                                           |
//! | `wanted`    | what one process has another bring                                             |
//! | `inner`     | groups inside this one                                                         |
//! | `fail_kind` | failures that tests can ask for                                                |
//! | `defaults`  | what holds where nobody asks for something else                                |
//! | `env`       | how processes find the file                                                    |
//! | `accel`     | another file: counters of accelerators, and a model of them                    |
//! | `record`    | another file: what agents say of a program that is recorded                    |
//! | `remote`    | another file: which segments of a swap file are elsewhere                      |
//!
//! Who is told what: the launcher writes limits and tunables, agents read them and write what they
//! are charged. No lock is shared, so nobody waits for anybody here.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod accel;
pub mod defaults;
mod env;
mod fail_kind;
mod field;
mod group;
mod inner;
mod key;
mod layout;
mod look;
pub mod record;
mod relatives;
pub mod remote;
pub mod size;
mod wanted;

pub use env::{
    ENV_ALLOW_UNMANAGED, ENV_GIVEN_GROUP, ENV_GROUP, ENV_RECORD, GROUP_SUFFIX, KEEPER_SUFFIX, LIBRARY_SUFFIX,
    keeper_path, mover_path, notes_path,
};
pub use fail_kind::FailKind;
pub use field::Field;
pub use group::Group;
pub use inner::Launcher;
pub use key::{Key, Limit, Notice, Setting, Statistic, Test, Tunable};
pub use layout::{HEADER_WORDS, LAUNCHER, MEMBERSHIP, PROCESSES, WORDS};
pub use look::{Look, Moment};
pub use wanted::Wanted;
