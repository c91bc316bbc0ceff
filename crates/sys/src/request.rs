//! What the program asks of a userfaultfd of its own, and memory that it gives to devices and to
//! virtual machines.

use crate::PAGE_SIZE;
use crate::thread::page_align;
use crate::uffd::{REGISTER, UNREGISTER};

/// `_IOW(0xae, 0x46, struct kvm_userspace_memory_region)` and its successor, which begins alike.
const KVM_SET_USER_MEMORY_REGION: u32 = 0x4020_ae46;
const KVM_SET_USER_MEMORY_REGION2: u32 = 0x40a0_ae49;
/// `_IO(';', 100 + 13)`, `_IO(';', 0x85)`
const VFIO_IOMMU_MAP_DMA: u32 = 0x3b71;
const IOMMU_IOAS_MAP: u32 = 0x3b85;
/// Of NVIDIA's open kernel modules: `_IOWR('F', 39, nv_ioctl_nvos02_parameters_with_fd)`, and the
/// class of memory that is the program's (NV01_MEMORY_SYSTEM_OS_DESCRIPTOR).
const NV_ESC_RM_ALLOC_MEMORY: u32 = 0xc038_4627;
const OF_THE_PROGRAM: usize = 0x71;
/// The lower half of the address space.
const ADDRESSES: usize = 1 << 47;
/// Words of an argument that are looked at, at most.
pub const WORDS: usize = 5;

/// What a system call ioctl(2) of the program would change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// A userfaultfd gets this range, from its first byte to its end.
    Register(usize, usize),
    /// A userfaultfd gives it up.
    Unregister(usize, usize),
    /// A virtual machine gets it as its memory, and reaches it through the kernel.
    Guest(usize, usize),
    /// A driver pins it for a device. Drivers that hold the lock of the mappings meanwhile wait for
    /// no fault, and nothing tells of a pin to who copies pages.
    Pin(usize, usize),
}

impl Request {
    /// Words of the argument that say what `request` asks for; 0: it is none of these.
    pub fn words(request: u32) -> usize {
        match request {
            NV_ESC_RM_ALLOC_MEMORY => WORDS,
            KVM_SET_USER_MEMORY_REGION | KVM_SET_USER_MEMORY_REGION2 | VFIO_IOMMU_MAP_DMA | IOMMU_IOAS_MAP => 4,
            _ if request == REGISTER as u32 || request == UNREGISTER as u32 => 2,
            _ => 0,
        }
    }

    /// The first words of an argument.
    ///
    /// # Safety
    /// `argument` is what the program passes to ioctl(2) with `request`.
    pub unsafe fn read(request: u32, argument: usize) -> Option<[usize; WORDS]> {
        let mut words = [0; WORDS];
        let place = core::ptr::with_exposed_provenance::<usize>(argument);
        for (n, word) in words.iter_mut().take(Self::words(request)).enumerate() {
            // SAFETY: the argument has these words, which the kernel would read.
            *word = unsafe { (!place.is_null()).then(|| place.add(n).read_unaligned()) }?;
            if n == 0 && !Self::is_whole(request, *word) {
                return None;
            }
        }
        Some(words)
    }

    /// Whether an argument that begins with this word is as long as it has to be: a reset of VFIO's
    /// has the number of a mapping.
    fn is_whole(request: u32, first: usize) -> bool {
        request != VFIO_IOMMU_MAP_DMA || first as u32 >= 32
    }

    /// What `request` asks for, of which these are the first words of the argument. `None`: nothing
    /// that the kernel would do, or of no interest.
    pub fn decode(request: u32, words: [usize; WORDS]) -> Option<Self> {
        let [a, b, c, d, e] = words;
        let (start, len) = match request {
            KVM_SET_USER_MEMORY_REGION | KVM_SET_USER_MEMORY_REGION2 => (d, c),
            VFIO_IOMMU_MAP_DMA if Self::is_whole(request, a) => (b, d),
            IOMMU_IOAS_MAP => (c, d),
            NV_ESC_RM_ALLOC_MEMORY if b >> 32 == OF_THE_PROGRAM => (d, e.checked_add(1)?),
            _ if Self::words(request) == 2 => (a, b),
            _ => return None,
        };
        let end = start.checked_add(len).filter(|end| *end <= ADDRESSES - PAGE_SIZE)?;
        let is_aligned = start.is_multiple_of(PAGE_SIZE) && end.is_multiple_of(PAGE_SIZE);
        let request = match request {
            KVM_SET_USER_MEMORY_REGION | KVM_SET_USER_MEMORY_REGION2 => Self::Guest(start, end),
            _ if request == REGISTER as u32 => Self::Register(start, end),
            _ if request == UNREGISTER as u32 => Self::Unregister(start, end),
            // Drivers take parts of pages, too.
            _ => Self::Pin(start & !(PAGE_SIZE - 1), page_align(end)),
        };
        let is_pin = matches!(request, Self::Pin(..));
        (start != 0 && start < end && (is_aligned || is_pin)).then_some(request)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ranges_are_found_in_their_words() {
        let kvm = Request::decode(KVM_SET_USER_MEMORY_REGION, [1, 0, 0x2000, 0x10_0000, 7]);
        assert_eq!(kvm, Some(Request::Guest(0x10_0000, 0x10_2000)));
        // It takes one back.
        assert_eq!(
            Request::decode(KVM_SET_USER_MEMORY_REGION2, [1, 0, 0, 0x10_0000, 7]),
            None
        );
        let register = Request::decode(REGISTER as u32, [0x3000, 0x1000, 7, 7, 7]);
        assert_eq!(register, Some(Request::Register(0x3000, 0x4000)));
        let unregister = Request::decode(UNREGISTER as u32, [0x3000, 0x1000, 0, 0, 0]);
        assert_eq!(unregister, Some(Request::Unregister(0x3000, 0x4000)));
        assert_eq!(Request::decode(REGISTER as u32, [0x3001, 0x1000, 0, 0, 0]), None);
        assert_eq!(
            Request::decode(REGISTER as u32, [usize::MAX - 4095, 0x1000, 0, 0, 0]),
            None
        );
        assert_eq!(Request::decode(0x5401, [0x3000, 0x1000, 0, 0, 0]), None);
    }

    /// The words of NVIDIA's were seen on an H200, driver 580, for cudaHostRegister of 64 MiB at
    /// 0x7fa8fbb29010.
    #[test]
    fn pins_are_found() {
        let nvidia = [
            0x5c00_0002_c1d0_001c,
            0x71_5c00_0096,
            0x4000_1010,
            0x7fa8_fbb2_9000,
            0x0400_0fff,
        ];
        let found = Request::decode(NV_ESC_RM_ALLOC_MEMORY, nvidia);
        assert_eq!(found, Some(Request::Pin(0x7fa8_fbb2_9000, 0x7fa8_ffb2_a000)));
        // Memory of another class.
        let other = [nvidia[0], 0x3e_5c00_0096, 0, nvidia[3], nvidia[4]];
        assert_eq!(Request::decode(NV_ESC_RM_ALLOC_MEMORY, other), None);
        let vfio = Request::decode(VFIO_IOMMU_MAP_DMA, [0x3_0000_0020, 0x20_0000, 0, 0x4000, 0]);
        assert_eq!(vfio, Some(Request::Pin(0x20_0000, 0x20_4000)));
        // A reset, of one group.
        assert_eq!(Request::decode(VFIO_IOMMU_MAP_DMA, [16, 0x20_0000, 0, 0x4000, 0]), None);
        let parts = Request::decode(IOMMU_IOAS_MAP, [0x28, 1, 0x20_0800, 0x1000, 0]);
        assert_eq!(parts, Some(Request::Pin(0x20_0000, 0x20_2000)));
        let iommufd = Request::decode(IOMMU_IOAS_MAP, [0x28, 1, 0x20_0000, 0x4000, 0]);
        assert_eq!(iommufd, Some(Request::Pin(0x20_0000, 0x20_4000)));
    }
}
