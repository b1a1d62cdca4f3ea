//! The values of one array of Python.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::{self, Debug, Formatter};
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{Field, FieldRef};
use datafusion::common::Result;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tet_sql::grid::Window;

use crate::errors::{carried, exception};
use crate::grid::element::Element;

/// An array of Python, by name.
#[pyclass(frozen, skip_from_py_object, module = "tet_sql._tet_sql")]
#[derive(Clone)]
pub struct Variable {
    name: String,
    attributes: HashMap<String, String>,
    shape: Vec<u64>,
    element: Element,
    values: Values,
}

/// The location of the cells.
#[derive(Clone)]
pub enum Values {
    /// All cells in memory, in row-major order.
    Memory(Buffer),
    /// A function of Python that reads a box of cells: it takes the first index and the end along
    /// each axis, and returns a NumPy array in row-major order.
    Read(Arc<Py<PyAny>>),
}

/// The object that owns the memory of a buffer. Only its reference count is used, which is not left
/// in a broken state by a panic.
type Owner = AssertUnwindSafe<Py<PyAny>>;

#[pymethods]
impl Variable {
    /// A NumPy array in row-major order, whose memory is not copied. With `texts`, its elements are
    /// indices of them.
    #[new]
    #[pyo3(signature = (name, attributes, array, texts = None))]
    fn new(
        name: String,
        attributes: HashMap<String, String>,
        array: &Bound<'_, PyAny>,
        texts: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let array = Borrowed::of(array)?;
        let element = match texts {
            Some(texts) => Element::Text(Arc::new(StringArray::from(texts))),
            None => array.element()?,
        };
        Ok(Self {
            name,
            attributes,
            shape: array.shape.clone(),
            values: Values::Memory(array.buffer(element.size())?),
            element,
        })
    }

    /// An array that is read box by box.
    #[staticmethod]
    fn lazy(
        name: String,
        attributes: HashMap<String, String>,
        shape: Vec<u64>,
        type_name: &str,
        read: Py<PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            name,
            attributes,
            shape,
            element: Element::of(type_name).ok_or_else(|| unsupported(type_name))?,
            values: Values::Read(Arc::new(read)),
        })
    }
}

impl Variable {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn attributes(&self) -> &HashMap<String, String> {
        &self.attributes
    }

    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    pub fn element(&self) -> &Element {
        &self.element
    }

    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The column of the values.
    pub fn field(&self) -> FieldRef {
        let field = Field::new(&self.name, self.element.data_type(), true);
        Arc::new(field.with_metadata(self.attributes.clone()))
    }

    /// Returns all values of an array in memory; `None` for one that is read box by box.
    pub fn all(&self) -> Option<Result<ArrayRef>> {
        match &self.values {
            Values::Memory(buffer) => Some(self.element.array(buffer.clone(), false)),
            Values::Read(_) => None,
        }
    }

    /// Calls Python to read the cells of a window.
    ///
    /// # Errors
    /// Returns the exception that Python raises, or an error if the result is not the box that was
    /// asked for.
    pub fn call(&self, read: &Py<PyAny>, window: &Window) -> Result<Buffer> {
        let called = Python::attach(|py| {
            let ranges = window.ranges().iter();
            let (starts, ends): (Vec<u64>, Vec<u64>) =
                ranges.map(|range| (range.start, range.end)).unzip();
            let array = Borrowed::of(&read.bind(py).call1((starts, ends))?)?;
            if !array.shape.iter().copied().eq(window.shape()) {
                let expected: Vec<u64> = window.shape().collect();
                return Err(PyValueError::new_err(format!(
                    "variable {}: reading a box of shape {expected:?} returned an array of shape {:?}",
                    self.name, array.shape
                )));
            }
            if array.element()?.data_type() != self.element.data_type() {
                return Err(PyTypeError::new_err(format!(
                    "variable {}: reading a box returned an array of type {}, expected {}",
                    self.name,
                    array.type_name,
                    self.element.data_type()
                )));
            }
            array.buffer(self.element.size())
        });
        called.map_err(carried)
    }
}

impl Debug for Variable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Variable");
        text.field("name", &self.name).field("shape", &self.shape);
        text.finish_non_exhaustive()
    }
}

/// The memory of a NumPy array.
struct Borrowed<'py> {
    array: Bound<'py, PyAny>,
    type_name: String,
    shape: Vec<u64>,
    address: usize,
}

impl<'py> Borrowed<'py> {
    /// Reads the `__array_interface__` of an array. The buffer protocol is not part of the stable
    /// ABI of Python 3.10.
    fn of(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        let interface = array.getattr("__array_interface__")?;
        let strides = interface.call_method1("get", ("strides",))?;
        if !strides.is_none() {
            return Err(PyValueError::new_err(
                "the cells of the array are not in row-major order: pass numpy.ascontiguousarray(array)",
            ));
        }
        let (address, _): (usize, bool) = interface.get_item("data")?.extract()?;
        Ok(Self {
            type_name: interface.get_item("typestr")?.extract()?,
            shape: interface.get_item("shape")?.extract()?,
            address,
            array: array.clone(),
        })
    }

    fn element(&self) -> PyResult<Element> {
        Element::of(&self.type_name).ok_or_else(|| unsupported(&self.type_name))
    }

    /// Returns the memory of the array, which stays alive as long as the buffer.
    fn buffer(self, size: usize) -> PyResult<Buffer> {
        let cells = self
            .shape
            .iter()
            .try_fold(1u64, |cells, extent| cells.checked_mul(*extent));
        let bytes = cells.and_then(|cells| usize::try_from(cells).ok()?.checked_mul(size));
        let Some(bytes) = bytes else {
            return Err(PyValueError::new_err(format!(
                "an array of shape {:?} does not fit in memory",
                self.shape
            )));
        };
        if bytes == 0 {
            return Ok(Buffer::default());
        }
        if !self.address.is_multiple_of(size) {
            return Err(PyValueError::new_err(
                "the cells of the array are not aligned: pass a copy of the array",
            ));
        }
        let Some(start) = NonNull::new(self.address as *mut c_void) else {
            return Err(PyValueError::new_err("the array has no memory"));
        };
        let owner: Arc<Owner> = Arc::new(AssertUnwindSafe(self.array.unbind()));
        // SAFETY: NumPy guarantees that `bytes` bytes at this address belong to the array, and does
        // not resize arrays that are referenced.
        Ok(unsafe { Buffer::from_custom_allocation(start.cast(), bytes, owner) })
    }
}

/// The error for a NumPy type that has no column type.
fn unsupported(type_name: &str) -> PyErr {
    exception(&datafusion::error::DataFusionError::NotImplemented(
        format!(
            "arrays of type {type_name}: expected booleans, numbers of up to 64 bits, texts, or times from seconds to \
         nanoseconds"
        ),
    ))
}
