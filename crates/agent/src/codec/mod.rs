//! What pages are stored with: compressors, dictionaries, devices, and the threads that compress in
//! the background.

pub(crate) mod accel;
pub(crate) mod codecs;
pub(crate) mod dictionary;
pub(crate) mod kcompressd;
