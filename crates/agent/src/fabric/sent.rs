//! What the kernel knows of connections on which this machine sent (`TCP_INFO`).

use super::stall_watch::share;
use std::net::TcpStream;
use std::ops::AddAssign;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Of one connection, or of several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SendStats {
    /// Packets that were sent again.
    pub(super) resent: u64,
    /// Microseconds for which it should have sent.
    span: u64,
    /// Of these, how long nothing was on its way or waited to be: this machine did not keep up.
    idle: u64,
    /// Of these, how long the other machine took no more.
    full: u64,
}

impl AddAssign for SendStats {
    fn add_assign(&mut self, other: SendStats) {
        self.resent += other.resent;
        self.span = self.span.saturating_add(other.span);
        self.idle = self.idle.saturating_add(other.idle);
        self.full = self.full.saturating_add(other.full);
    }
}

impl SendStats {
    /// On a connection that has sent for so long and still does.
    pub(super) fn of(s: &TcpStream, span: Duration) -> SendStats {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let (info, words) = info(s);
        SendStats::read(&info[..words], span)
    }

    /// Words of `struct tcp_info`, which only grows at its end: `tcpi_total_retrans` is the 26th,
    /// `tcpi_busy_time` the 43rd and the next, `tcpi_rwnd_limited` those after. An old kernel that
    /// does not say them excuses nobody.
    fn read(info: &[u32], span: u64) -> SendStats {
        let resent = info.get(25).map_or(0, |w| u64::from(*w));
        let long = |at: usize| match info.get(at..at + 2) {
            Some(&[a, b]) => {
                let (a, b) = (a.to_ne_bytes(), b.to_ne_bytes());
                Some(u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]))
            }
            _ => None,
        };
        let idle = long(42).map_or(0, |busy| span.saturating_sub(busy));
        SendStats { resent, span, idle, full: long(44).unwrap_or(0).min(span) }
    }

    /// Of a thousand parts of the time, how many this machine had nothing to send, and how many
    /// the other took no more.
    pub(super) fn shares(self) -> [u16; 2] {
        let of = Duration::from_micros(self.span);
        [share(self.idle, of), share(self.full, of)]
    }
}

/// Words that are of interest.
const WORDS: usize = 46;

fn info(s: &TcpStream) -> ([u32; WORDS], usize) {
    let mut info = [0u32; WORDS];
    let mut size = libc::socklen_t::try_from(size_of_val(&info)).unwrap_or(0);
    #[expect(unsafe_code, reason = "what the kernel knows of a connection has no safe interface")]
    // SAFETY: the buffer is as long as is said, and any bytes are valid words.
    let result = unsafe {
        libc::getsockopt(
            s.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    let words = if result == 0 { size as usize / size_of::<u32>() } else { 0 };
    (info, words.min(WORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_nothing_to_send_is_distinguished_from_who_takes_no_more() {
        let mut words = [0u32; WORDS];
        (words[25], words[42], words[44]) = (7, 750_000, 100_000);
        if cfg!(target_endian = "big") {
            words.swap(42, 43);
            words.swap(44, 45);
        }
        let mut all = SendStats::read(&words, 1_000_000);
        assert_eq!((all.resent, all.shares()), (7, [250, 100]));
        // A second connection that was never short of anything.
        words[42] = words[42].max(words[43]) * 2;
        words[43] = 0;
        if cfg!(target_endian = "big") {
            words.swap(42, 43);
        }
        all += SendStats::read(&words, 1_000_000);
        assert_eq!((all.resent, all.shares()), (14, [125, 100]));
        // An old kernel.
        assert_eq!(SendStats::read(&words[..26], 1_000_000).shares(), [0, 0]);
        assert_eq!(SendStats::read(&[], 0).shares(), [0, 0]);
    }
}
