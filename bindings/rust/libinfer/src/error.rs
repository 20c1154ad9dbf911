use crate::ffi;
use libinfer_sys as sys;
use std::fmt;

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

c_enum! {
    /// What kind of failure an [`Error`] is.
    ErrorKind or Unknown {
        /// An argument is not allowed; the error names it.
        Argument = INFER_ERROR_ARGUMENT,
        /// The call is not allowed in this state.
        State = INFER_ERROR_STATE,
        /// Out of memory, or beyond the engine's limit.
        NoMemory = INFER_ERROR_NO_MEMORY,
        /// A limit was exceeded.
        Limit = INFER_ERROR_LIMIT,
        /// A [`CancelFlag`](crate::CancelFlag) was set.
        Cancelled = INFER_ERROR_CANCELLED,
        /// Not supported.
        Unsupported = INFER_ERROR_UNSUPPORTED,
        /// A buffer is too small.
        Buffer = INFER_ERROR_BUFFER,
        /// An error of the library itself.
        Internal = INFER_ERROR_INTERNAL,
        /// A closure of yours failed, or did not keep its contract.
        Host = INFER_ERROR_HOST,
        /// Input or output failed.
        Io = INFER_ERROR_IO,
        /// There is no such thing.
        NotFound = INFER_ERROR_NOT_FOUND,
        /// A malformed file.
        Format = INFER_ERROR_FORMAT,
        /// A file ends early.
        Truncated = INFER_ERROR_TRUNCATED,
        /// A file changed while it was in use.
        Changed = INFER_ERROR_CHANGED,
        /// It exists already.
        Exists = INFER_ERROR_EXISTS,
        /// A model of unknown architecture.
        Architecture = INFER_ERROR_ARCHITECTURE,
        /// A required key or tensor is missing.
        Missing = INFER_ERROR_MISSING,
        /// A tensor has the wrong shape or type.
        Shape = INFER_ERROR_SHAPE,
        /// A value is out of range.
        Value = INFER_ERROR_VALUE,
        /// An invalid token id.
        Token = INFER_ERROR_TOKEN,
        /// Invalid UTF-8.
        Encoding = INFER_ERROR_ENCODING,
        /// A syntax error in JSON or in a template.
        Syntax = INFER_ERROR_SYNTAX,
        /// A template failed, or raised an exception.
        Template = INFER_ERROR_TEMPLATE,
        /// The context is full.
        ContextFull = INFER_ERROR_CONTEXT_FULL,
        /// The model produced a value that is not finite.
        Nonfinite = INFER_ERROR_NONFINITE,
        /// A thread could not be started.
        Thread = INFER_ERROR_THREAD,
    }
}

/// A failure: what happened, in English, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    code: i32,
    text: Box<str>,
    file: Box<str>,
    name: Box<str>,
    offset: Option<u64>,
}

impl Error {
    /// An error of your own, for instance to be returned from a sampling callback.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        let code = if kind == ErrorKind::Unknown { sys::INFER_ERROR_INTERNAL } else { kind.raw() };
        Error { code, text: text.into().into(), file: "".into(), name: "".into(), offset: None }
    }

    pub(crate) fn from_c(status: i32, err: &sys::infer_error) -> Self {
        let mut text = ffi::array_text(&err.text);
        if text.is_empty() {
            // SAFETY: any number may be asked; the string is static.
            text = unsafe { ffi::static_str(sys::infer_status_message(status)) }.to_owned();
        }
        Error {
            code: status,
            text: text.into(),
            file: ffi::array_text(&err.file).into(),
            name: ffi::array_text(&err.name).into(),
            offset: if err.code == 0 || err.offset == u64::MAX { None } else { Some(err.offset) },
        }
    }

    /// Of a status without further words.
    pub(crate) fn of_status(status: i32) -> Self {
        Error::from_c(status, &sys::infer_error::init())
    }

    /// The same place, in another's words.
    pub(crate) fn with_text_of(self, other: Error) -> Self {
        Error { text: other.text, ..self }
    }

    /// The library's number of it, an `INFER_ERROR_*`.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::from_raw(self.code)
    }

    /// What happened.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The file that it happened in.
    pub fn file(&self) -> Option<&str> {
        Some(&*self.file).filter(|file| !file.is_empty())
    }

    /// The metadata key, tensor, option or argument.
    pub fn name(&self) -> Option<&str> {
        Some(&*self.name).filter(|name| !name.is_empty())
    }

    /// The byte offset in the file or text.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in [self.file(), self.name()].into_iter().flatten() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.text)?;
        match self.offset {
            Some(offset) => write!(f, " (at byte {offset})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} [{:?}]", self.kind())
    }
}

impl std::error::Error for Error {}
