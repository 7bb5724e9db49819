//! What the driver reports by itself.

use super::code::{Answer, Code};
use super::raw::{Api, Handle, ask, invoke};
use crate::device::{DeviceError, DriverEvent};
use nvml_wrapper_sys::bindings as b;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The last XID of a device, shared with whoever samples it. [`NO_EVENTS`] while no event can
/// come.
pub(super) type LastXid = Arc<AtomicU32>;

/// No event of this device can come, so nothing is known about its XIDs.
pub(super) const NO_EVENTS: u32 = u32::MAX;

/// A device as events name it.
#[derive(Clone)]
pub(super) struct WatchedDevice {
    pub(super) handle: Handle,
    pub(super) index: u32,
    pub(super) last: LastXid,
}

/// A set of devices whose events are waited for together.
pub(super) struct Events {
    api: Arc<Api>,
    set: b::nvmlEventSet_t,
    watched: Vec<WatchedDevice>,
}

// SAFETY: the set is memory of the library's that only the library looks into, it has one owner,
// and the library may be called from any thread.
#[expect(unsafe_code, reason = "the library's own memory, owned by one holder")]
unsafe impl Send for Events {}

impl Events {
    /// Watches those of the devices that can be watched.
    pub(super) fn new(api: &Arc<Api>, devices: &[WatchedDevice]) -> Answer<Events> {
        let set = ask!(api, nvmlEventSetCreate(), std::ptr::null_mut())?;
        let mut events = Events { api: Arc::clone(api), set, watched: Vec::new() };
        let mut trouble = Code::NOT_SUPPORTED;
        for d in devices {
            let xids = u64::from(b::nvmlEventTypeXidCriticalError);
            let registered: Answer<()> =
                invoke!(api, nvmlDeviceRegisterEvents(d.handle.0, xids, set));
            match registered {
                Ok(()) => {
                    let known =
                        d.last.compare_exchange(NO_EVENTS, 0, Ordering::Relaxed, Ordering::Relaxed);
                    if known.is_ok() {
                        tracing::debug!(gpu = d.index, "events of a GPU are watched");
                    }
                    events.watched.push(d.clone());
                }
                Err(code) => trouble = code,
            }
        }
        if events.watched.is_empty() { Err(trouble) } else { Ok(events) }
    }

    /// Waits for one event, at most so long.
    pub(super) fn wait(&mut self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        let mut event = b::nvmlEventData_t {
            device: std::ptr::null_mut(),
            eventType: 0,
            eventData: 0,
            gpuInstanceId: 0,
            computeInstanceId: 0,
        };
        let most = u32::try_from(most.as_millis()).unwrap_or(u32::MAX);
        let waited: Answer<()> =
            invoke!(self.api, nvmlEventSetWait_v2(self.set, &raw mut event, most));
        match waited {
            Ok(()) => {
                let from = self.watched.iter().find(|w| w.handle == Handle(event.device));
                // An XID that does not fit its type cannot be one.
                let xid = u32::try_from(event.eventData).unwrap_or(0);
                if let Some(w) = from {
                    w.last.store(xid, Ordering::Relaxed);
                }
                Ok(Some(DriverEvent { gpu: from.map(|w| w.index), xid }))
            }
            Err(Code::TIMEOUT) => Ok(None),
            Err(code) if code.lost() => self.without_the_lost(),
            Err(code) => Err(code.error()),
        }
    }

    /// One lost GPU makes the whole set fail: goes on with the others.
    fn without_the_lost(&mut self) -> Result<Option<DriverEvent>, DeviceError> {
        let answers = |w: &&WatchedDevice| !self.api.temperature(w.handle).is_err_and(Code::lost);
        let left: Vec<WatchedDevice> = self.watched.iter().filter(answers).cloned().collect();
        if left.len() == self.watched.len() || left.is_empty() {
            return Err(DeviceError::Lost);
        }
        *self = Events::new(&self.api, &left).map_err(Code::error)?;
        Ok(None)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let freed: Answer<()> = invoke!(self.api, nvmlEventSetFree(self.set));
        if let Err(code) = freed {
            tracing::debug!(?code, "the driver keeps a set of events");
        }
    }
}
