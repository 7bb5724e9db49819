//! What the library answers when it does not answer, and what that means here.

use crate::device::DeviceError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings as b;

/// An answer of the library.
pub(super) type Answer<T> = Result<T, Code>;

/// A code of the library that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(b::nvmlReturn_t);

impl Code {
    /// The driver is too old to have the function.
    pub(super) const NO_SUCH_FUNCTION: Code =
        Code(b::nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND);
    pub(super) const TOO_SMALL: Code = Code(b::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
    pub(super) const TIMEOUT: Code = Code(b::nvmlReturn_enum_NVML_ERROR_TIMEOUT);
    pub(super) const NOT_SUPPORTED: Code = Code(b::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED);

    pub(super) fn check(code: b::nvmlReturn_t) -> Answer<()> {
        if code == b::nvmlReturn_enum_NVML_SUCCESS { Ok(()) } else { Err(Code(code)) }
    }

    /// The device is gone from the bus.
    pub(super) fn lost(self) -> bool {
        self.0 == b::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST
    }

    /// Asking again will bring the same: this device, driver or user does not have it.
    pub(super) fn never(self) -> bool {
        matches!(
            self.0,
            b::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED
                | b::nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND
                | b::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT
                | b::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH
                | b::nvmlReturn_enum_NVML_ERROR_VGPU_ECC_NOT_SUPPORTED
                | b::nvmlReturn_enum_NVML_ERROR_DEPRECATED
                | b::nvmlReturn_enum_NVML_ERROR_NO_PERMISSION
        )
    }

    /// As everybody else understands it.
    pub(super) fn error(self) -> DeviceError {
        error(&NvmlError::from(self))
    }
}

impl From<Code> for NvmlError {
    fn from(code: Code) -> NvmlError {
        match code.0 {
            b::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST => NvmlError::GpuLost,
            b::nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH => {
                NvmlError::LibRmVersionMismatch
            }
            b::nvmlReturn_enum_NVML_ERROR_NO_PERMISSION => NvmlError::NoPermission,
            b::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED => NvmlError::NotSupported,
            b::nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND => NvmlError::FunctionNotFound,
            b::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT => NvmlError::InvalidArg,
            b::nvmlReturn_enum_NVML_ERROR_IN_USE => NvmlError::InUse,
            b::nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED => NvmlError::ResetRequired,
            b::nvmlReturn_enum_NVML_ERROR_NOT_FOUND => NvmlError::NotFound,
            b::nvmlReturn_enum_NVML_ERROR_TIMEOUT => NvmlError::Timeout,
            b::nvmlReturn_enum_NVML_ERROR_UNKNOWN => NvmlError::Unknown,
            other => NvmlError::UnexpectedVariant(other),
        }
    }
}

/// What an error of the wrapper means.
pub(super) fn error(e: &NvmlError) -> DeviceError {
    match e {
        NvmlError::GpuLost => DeviceError::Lost,
        NvmlError::LibRmVersionMismatch => DeviceError::Mismatch(versions()),
        NvmlError::NoPermission => DeviceError::NotAllowed,
        NvmlError::LibloadingError(_)
        | NvmlError::LibraryNotFound
        | NvmlError::DriverNotLoaded
        | NvmlError::Uninitialized => DeviceError::NoDriver(e.to_string()),
        NvmlError::UnexpectedVariant(code) => {
            DeviceError::Failed(format!("the driver answered with code {code}"))
        }
        _ => DeviceError::Failed(e.to_string()),
    }
}

/// The two versions that do not fit, as far as they can be read without the library.
fn versions() -> String {
    let kernel = std::fs::read_to_string("/sys/module/nvidia/version");
    match kernel {
        Ok(v) => format!(
            "the kernel runs {}, the library was updated; restart the node or reload the module",
            v.trim()
        ),
        Err(_) => "restart the node or reload the kernel module".into(),
    }
}
