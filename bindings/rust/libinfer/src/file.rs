use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::{self, Handle};
use crate::hook::Hooks;
use crate::source::{OpenOptions, Source};
use libinfer_sys as sys;
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::Arc;

c_enum! {
    /// How the numbers of a tensor are stored; the names are GGUF's and those of other formats.
    #[allow(non_camel_case_types, missing_docs)]
    TensorType or Unknown {
        F32 = INFER_TYPE_F32,
        F16 = INFER_TYPE_F16,
        Q4_0 = INFER_TYPE_Q4_0,
        Q4_1 = INFER_TYPE_Q4_1,
        Q5_0 = INFER_TYPE_Q5_0,
        Q5_1 = INFER_TYPE_Q5_1,
        Q8_0 = INFER_TYPE_Q8_0,
        Q8_1 = INFER_TYPE_Q8_1,
        Q2_K = INFER_TYPE_Q2_K,
        Q3_K = INFER_TYPE_Q3_K,
        Q4_K = INFER_TYPE_Q4_K,
        Q5_K = INFER_TYPE_Q5_K,
        Q6_K = INFER_TYPE_Q6_K,
        Q8_K = INFER_TYPE_Q8_K,
        Iq2Xxs = INFER_TYPE_IQ2_XXS,
        Iq2Xs = INFER_TYPE_IQ2_XS,
        Iq3Xxs = INFER_TYPE_IQ3_XXS,
        Iq1S = INFER_TYPE_IQ1_S,
        Iq4Nl = INFER_TYPE_IQ4_NL,
        Iq3S = INFER_TYPE_IQ3_S,
        Iq2S = INFER_TYPE_IQ2_S,
        Iq4Xs = INFER_TYPE_IQ4_XS,
        I8 = INFER_TYPE_I8,
        I16 = INFER_TYPE_I16,
        I32 = INFER_TYPE_I32,
        I64 = INFER_TYPE_I64,
        F64 = INFER_TYPE_F64,
        Iq1M = INFER_TYPE_IQ1_M,
        Bf16 = INFER_TYPE_BF16,
        Tq1_0 = INFER_TYPE_TQ1_0,
        Tq2_0 = INFER_TYPE_TQ2_0,
        Mxfp4 = INFER_TYPE_MXFP4,
        Nvfp4 = INFER_TYPE_NVFP4,
        Q1_0 = INFER_TYPE_Q1_0,
        Q2_0 = INFER_TYPE_Q2_0,
        F8E4m3 = INFER_TYPE_F8_E4M3,
        F8E5m2 = INFER_TYPE_F8_E5M2,
        Bool = INFER_TYPE_BOOL,
        U8 = INFER_TYPE_U8,
        U16 = INFER_TYPE_U16,
        U32 = INFER_TYPE_U32,
        U64 = INFER_TYPE_U64,
    }
}

impl TensorType {
    /// "Q4_K" and so on; "" when the library does not know it.
    pub fn name(self) -> &'static str {
        // SAFETY: any number may be asked; the string is static or NULL.
        unsafe { ffi::static_str(sys::infer_type_name(self.raw())) }
    }
}

/// A weights file as data: a directory of tensors and metadata, of whatever architecture.
///
/// Unless it was opened with [`Map::Read`](crate::Map::Read), the bytes that it gives lie in the mapped file: that must not be changed or shortened meanwhile.
#[derive(Clone)]
pub struct File {
    handle: Handle<sys::infer_file>,
    _hooks: Option<Arc<Hooks>>,
}

impl File {
    /// Opens GGUF, safetensors or PyTorch, recognised by its content. The engine (or None) lends its allocator and log.
    pub fn open<'a>(engine: Option<&Engine>, source: impl Into<Source<'a>>, options: &OpenOptions) -> Result<Self> {
        let raw = options.raw();
        let e = engine.map_or(null_mut(), Engine::raw);
        let handle = source.into().with(|source| {
            // SAFETY: all pointers live through the call.
            ffi::make(|out, err| unsafe { sys::infer_file_open(e, source, &raw, out, err) })
        })?;
        Ok(File { handle, _hooks: engine.and_then(Engine::hooks) })
    }

    /// # Safety
    /// p is a file of an engine with these hooks.
    pub(crate) unsafe fn share(p: *mut sys::infer_file, hooks: Option<Arc<Hooks>>) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(File { handle: unsafe { Handle::share(p) }?, _hooks: hooks })
    }

    fn raw(&self) -> *mut sys::infer_file {
        self.handle.get()
    }

    /// Number of tensors.
    pub fn tensor_count(&self) -> u64 {
        // SAFETY: the handle is live.
        unsafe { sys::infer_file_tensor_count(self.raw()) }
    }

    /// Tensor number `index`, in file order.
    pub fn tensor(&self, index: u64) -> Result<Tensor<'_>> {
        let mut raw = sys::infer_tensor_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_file_tensor(self.raw(), index, &mut raw, err) })?;
        // SAFETY: name and data live as long as the file, which is borrowed.
        let (name, data) = unsafe { (ffi::slice(raw.name.cast(), raw.name_len), ffi::slice(raw.data.cast(), raw.data_len)) };
        Ok(Tensor {
            file: self,
            index,
            name,
            data,
            tensor_type: TensorType::from_raw(raw.type_),
            shape: raw.shape,
            dims: raw.dims as usize,
            part: raw.part,
            offset: raw.offset,
        })
    }

    /// The tensor of this name.
    pub fn find_tensor(&self, name: &str) -> Result<Tensor<'_>> {
        let mut index = 0;
        let (text, len) = ffi::parts(name.as_bytes());
        // SAFETY: the handle is live, len bytes lie at text.
        ffi::call(|err| unsafe { sys::infer_file_find_tensor(self.raw(), text, len, &mut index, err) })?;
        self.tensor(index)
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> + '_ {
        (0..self.tensor_count()).filter_map(move |index| self.tensor(index).ok())
    }

    /// Number of metadata entries.
    pub fn meta_count(&self) -> u64 {
        // SAFETY: the handle is live.
        unsafe { sys::infer_file_meta_count(self.raw()) }
    }

    /// Metadata entry number `index`, in file order: key and value.
    pub fn meta(&self, index: u64) -> Result<(&[u8], Value<'_>)> {
        let mut raw = sys::infer_value::init();
        let (mut key, mut len) = (null(), 0);
        // SAFETY: the handle is live, the rest is ours.
        ffi::call(|err| unsafe { sys::infer_file_meta(self.raw(), index, &mut key, &mut len, &mut raw, err) })?;
        // SAFETY: the key lives as long as the file, which is borrowed.
        Ok((unsafe { ffi::slice(key.cast(), len) }, Value::of(self, raw)))
    }

    /// The value of a metadata key.
    pub fn find_meta(&self, key: &str) -> Result<Value<'_>> {
        let mut raw = sys::infer_value::init();
        let (text, len) = ffi::parts(key.as_bytes());
        // SAFETY: the handle is live, len bytes lie at text.
        ffi::call(|err| unsafe { sys::infer_file_find_meta(self.raw(), text, len, &mut raw, err) })?;
        Ok(Value::of(self, raw))
    }

    /// All metadata, in file order.
    pub fn metadata(&self) -> impl Iterator<Item = (&[u8], Value<'_>)> + '_ {
        (0..self.meta_count()).filter_map(move |index| self.meta(index).ok())
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({} tensors, {} keys)", self.tensor_count(), self.meta_count())
    }
}

/// A tensor of a [`File`].
#[derive(Clone)]
pub struct Tensor<'a> {
    file: &'a File,
    index: u64,
    name: &'a [u8],
    data: &'a [u8],
    tensor_type: TensorType,
    shape: [u64; 4],
    dims: usize,
    part: u32,
    offset: u64,
}

impl<'a> Tensor<'a> {
    /// Its name's bytes.
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    /// Its name; "" if that is no UTF-8.
    pub fn name(&self) -> &'a str {
        std::str::from_utf8(self.name).unwrap_or("")
    }

    /// How its numbers are stored.
    pub fn tensor_type(&self) -> TensorType {
        self.tensor_type
    }

    /// Elements in each of 1 to 4 dimensions; the first varies fastest (the length of a row).
    pub fn shape(&self) -> &[u64] {
        &self.shape[..self.dims.clamp(1, 4)]
    }

    /// Elements in all.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The packed bytes.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Which part of a split file it lies in, from 0, and at which byte.
    pub fn place(&self) -> (u32, u64) {
        (self.part, self.offset)
    }

    /// Decodes elements from `first` on into `out`, exactly as the format defines. Both must be multiples of the type's block.
    pub fn read_f32(&self, first: u64, out: &mut [f32]) -> Result<()> {
        let count = out.len() as u64;
        // SAFETY: the file is live; out has count floats.
        ffi::call(|err| unsafe { sys::infer_file_tensor_f32(self.file.raw(), self.index, first, count, out.as_mut_ptr(), err) })
    }

    /// All elements.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let count = usize::try_from(self.elements()).map_err(|_| Error::new(ErrorKind::Limit, "the tensor is too large"))?;
        let mut out = vec![0.0; count];
        self.read_f32(0, &mut out)?;
        Ok(out)
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {:?} {:?})", String::from_utf8_lossy(self.name), self.tensor_type, self.shape())
    }
}

/// A metadata value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value<'a> {
    /// u8, u16, u32 or u64.
    Uint(u64),
    /// i8, i16, i32 or i64.
    Int(i64),
    /// f32 or f64.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string's bytes, not checked to be UTF-8.
    String(&'a [u8]),
    /// A list of values.
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    fn of(file: &'a File, raw: sys::infer_value) -> Self {
        match raw.kind {
            sys::INFER_VALUE_UINT => Value::Uint(raw.u),
            sys::INFER_VALUE_INT => Value::Int(raw.i),
            sys::INFER_VALUE_FLOAT => Value::Float(raw.f),
            sys::INFER_VALUE_BOOL => Value::Bool(raw.u != 0),
            sys::INFER_VALUE_ARRAY => Value::Array(Array { file, raw }),
            // SAFETY: a string's bytes live as long as the file, which is borrowed.
            _ => Value::String(unsafe { ffi::slice(raw.data.cast(), raw.count) }),
        }
    }

    /// The text of a string in UTF-8.
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Value::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The number, if it is a whole one that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::Uint(value) => Some(value),
            Value::Int(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    /// The number, of any kind.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::Uint(value) => Some(value as f64),
            Value::Int(value) => Some(value as f64),
            Value::Float(value) => Some(value),
            _ => None,
        }
    }

    /// The array.
    pub fn as_array(&self) -> Option<&Array<'a>> {
        match self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// A list of metadata values.
#[derive(Clone)]
pub struct Array<'a> {
    file: &'a File,
    raw: sys::infer_value,
}

// SAFETY: what raw points to is the file's, which any thread may use.
unsafe impl Send for Array<'_> {}
// SAFETY: as above.
unsafe impl Sync for Array<'_> {}

impl<'a> Array<'a> {
    /// Number of items.
    pub fn len(&self) -> u64 {
        self.raw.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw.count == 0
    }

    /// Item number `index`. Reading strings and nested arrays in order is quick.
    pub fn get(&self, index: u64) -> Result<Value<'a>> {
        let mut raw = sys::infer_value::init();
        // SAFETY: the file is live; self.raw came from it.
        ffi::call(|err| unsafe { sys::infer_file_value_item(self.file.raw(), &self.raw, index, &mut raw, err) })?;
        Ok(Value::of(self.file, raw))
    }

    /// All items in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(move |index| self.get(index).ok())
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} items)", self.len())
    }
}
