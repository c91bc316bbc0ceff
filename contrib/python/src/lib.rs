//! What `uzswap` for Python is made of: regions, by the array interface.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use uzswap_region::{Error, Pinned, Settings, Size};

fn raised(error: Error) -> PyErr {
    match error {
        Error::Value(line) => PyValueError::new_err(line),
        Error::System { errno, .. } => PyOSError::new_err((errno, error.to_string())),
    }
}

/// Memory that pages itself. Whoever has it, by a view as well, keeps it.
#[pyclass(frozen, module = "uzswap")]
struct Region(uzswap_region::Region);

#[pymethods]
impl Region {
    #[new]
    fn new(py: Python<'_>, nbytes: usize) -> PyResult<Self> {
        py.detach(|| uzswap_region::Region::new(nbytes)).map(Self).map_err(raised)
    }

    /// The array interface of NumPy, version 3: bytes that may be written to.
    #[getter(__array_interface__)]
    fn array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("data", (self.0.as_ptr() as usize, false))?;
        interface.set_item("shape", (self.0.len(),))?;
        interface.set_item("typestr", "|u1")?;
        Ok(interface)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Bring bytes `start` to `end`, and keep them where they are until `unpin`.
    fn pin(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<Pin> {
        let pinned = py.detach(|| self.0.pin(start..end)).map_err(raised)?;
        Ok(Pin(Some(pinned)))
    }
}

/// A part of a region that stays where it is.
#[pyclass(module = "uzswap")]
struct Pin(Option<Pinned>);

#[pymethods]
impl Pin {
    fn unpin(&mut self) {
        self.0 = None;
    }
}

#[pyfunction]
fn limit(py: Python<'_>, bytes: u64) -> PyResult<()> {
    py.detach(|| uzswap_region::limit(bytes)).map_err(raised)
}

#[pyfunction]
fn start(
    py: Python<'_>,
    limit: u64,
    swap: Option<PathBuf>,
    swap_max: Option<u64>,
    compressor: Option<String>,
) -> PyResult<()> {
    let mut settings = Settings::default().limit(limit);
    if let Some(path) = swap {
        settings = settings.swap(path);
    }
    if let Some(bytes) = swap_max {
        settings = settings.swap_max(bytes);
    }
    if let Some(name) = compressor {
        settings = settings.compressor(name);
    }
    py.detach(|| settings.start()).map_err(raised)
}

#[pyfunction]
fn stats() -> Vec<(&'static str, u64)> {
    uzswap_region::stats().iter().collect()
}

/// Bytes of a size as people write it.
#[pyfunction]
fn size(text: &str) -> PyResult<u64> {
    text.parse().map(|Size(bytes)| bytes).map_err(PyValueError::new_err)
}

#[pymodule]
fn _uzswap(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Region>()?;
    module.add_class::<Pin>()?;
    module.add_function(wrap_pyfunction!(limit, module)?)?;
    module.add_function(wrap_pyfunction!(start, module)?)?;
    module.add_function(wrap_pyfunction!(stats, module)?)?;
    module.add_function(wrap_pyfunction!(size, module)?)
}
