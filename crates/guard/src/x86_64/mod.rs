//! What depends on the processor: how its code is read and written, and the numbers of its calls.

pub mod site;
pub mod stub;
pub mod table;
