//! The model as a driver sees it: bytes in memory, portals, registers, text.

mod checks;
mod compression;
mod decompression;
mod devices;
mod faults;
mod garbage;
mod golden;
mod headers;
mod rig;
mod virtual_time;
