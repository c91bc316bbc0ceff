//! The driver of `uzswap-iaa` on this model. Both were written from the data sheet, by different
//! readers; here they meet.

mod adapters;
mod changes;
mod codecs;
mod contract;
mod discovery;
mod engine;
mod faults;
mod golden;
mod late;
mod pages;
mod threads;
mod world;
