use super::*;
use proptest::prelude::*;

prop_compose! {
    fn any_completion()(
        bytes: [u8; 4], words: [u32; 7], fault_addr: u64, xor: u16,
    ) -> Completion {
        Completion {
            status: Status(bytes[0]),
            error_code: ErrorCode(bytes[1]),
            fault_info: bytes[2],
            bytes_completed: words[0],
            fault_addr,
            invalid_flags: words[1],
            output_size: words[2],
            output_bits: bytes[3],
            xor,
            crc: words[3],
            min: words[4],
            max: words[5],
            sum: words[6],
        }
    }
}

proptest! {
    #[test]
    fn a_record_is_read_back_from_its_bytes(completion in any_completion()) {
        prop_assert_eq!(Completion::from_bytes(&completion.to_bytes()), completion);
    }

    #[test]
    fn only_the_very_success_is_done(completion in any_completion()) {
        let verdict = completion.verdict(Direction::Compress);
        let is_success = completion.status.0 == 1 && completion.error_code.0 == 0;
        prop_assert_eq!(verdict == Verdict::Done, is_success);
        prop_assert_eq!(verdict == Verdict::Busy, completion.status.0 == 0);
    }
}

#[test]
fn each_field_lies_where_the_data_sheet_says() {
    let mut bytes = [0; 64];
    (0..48).for_each(|i| bytes[i] = i as u8 + 1);
    let expected = Completion {
        status: Status(1),
        error_code: ErrorCode(2),
        fault_info: 3,
        bytes_completed: 0x0807_0605,
        fault_addr: 0x100f_0e0d_0c0b_0a09,
        invalid_flags: 0x1413_1211,
        output_size: 0x1c1b_1a19,
        output_bits: 29,
        xor: 0x201f,
        crc: 0x2423_2221,
        min: 0x2827_2625,
        max: 0x2c2b_2a29,
        sum: 0x302f_2e2d,
    };
    assert_eq!(Completion::from_bytes(&bytes), expected);
    assert_eq!(expected.crc64(), 0x302f_2e2d_2c2b_2a29);
    assert_eq!((expected.fault_address(), expected.fault_operand()), (None, 1));
}

/// Verdicts of a record that has only a status and an error code, for both directions.
fn verdicts(status: u8, error_code: u8) -> [Verdict; 2] {
    let completion = Completion {
        status: Status(status),
        error_code: ErrorCode(error_code),
        fault_addr: 0x7000,
        ..Completion::default()
    };
    [Direction::Compress, Direction::Decompress].map(|direction| completion.verdict(direction))
}

#[test]
fn every_status_has_its_verdict() {
    use Verdict::{Busy, Done, Incompressible, Software, Suspect};
    let touch = |write| Verdict::RetryAfterTouch { address: 0x7000, write };
    let of = |status| verdicts(status, 0);
    assert_eq!((of(0x00), of(0x01)), ([Busy; 2], [Done; 2]));
    assert_eq!((of(0x03), of(0x83)), ([touch(false); 2], [touch(true); 2]));
    assert_eq!((of(0x04), of(0x84)), ([touch(false); 2], [touch(true); 2]));
    assert_eq!(of(0x0b), [Incompressible, Software]);
    for status in [
        0x0a, 0x10, 0x11, 0x12, 0x13, 0x16, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x30, 0x31, 0x32, 0x33, 0x34,
        0x35,
    ] {
        assert_eq!(of(status), [Software; 2], "{:?}", Status(status));
    }
    let suspects = (0x20..=0x24).chain(0x28..=0x2e);
    // Codes that the data sheet does not name, and known ones with a bit that no code has.
    for status in suspects.chain([0x02, 0x05, 0x14, 0x25, 0x36, 0x3f, 0x40, 0x41, 0x80, 0x81]) {
        assert_eq!(of(status), [Suspect; 2], "{:?}", Status(status));
    }
}

#[test]
fn an_error_code_counts_whatever_the_status() {
    assert_eq!(verdicts(0x0a, 25), [Verdict::Incompressible, Verdict::Software]);
    assert_eq!(verdicts(0x01, 11), [Verdict::Software; 2]);
    assert_eq!(verdicts(0x00, 11), [Verdict::Busy; 2]);
    for &code in ErrorCode::ALL.iter().filter(|&&code| code != ErrorCode::OUTPUT_TOO_BIG) {
        assert_eq!(verdicts(0x0a, code.0), [Verdict::Software; 2], "{code:?}");
    }
}

#[test]
fn a_masked_fault_address_is_not_touched() {
    let completion = Completion {
        status: Status(0x83),
        fault_info: 0b0101,
        fault_addr: 0x7000,
        ..Completion::default()
    };
    assert_eq!(completion.verdict(Direction::Compress), Verdict::Software);
    assert_eq!(completion.fault_operand(), 2);
}

#[test]
fn codes_have_names_and_unknown_ones_are_kept() {
    assert_eq!((Status::ALL.len(), ErrorCode::ALL.len()), (36, 35));
    assert_eq!(alloc::format!("{:?}", Status(0x24)), "0x24 (watchdog)");
    assert_eq!(Status(0x83).name(), Some("page fault"));
    assert_eq!(alloc::format!("{:?}", Status(0x3e)), "0x3e (unknown)");
    assert_eq!(alloc::format!("{:?}", ErrorCode(33)), "0x21 (unknown)");
    let numbers = (1..=36).filter(|&number| ErrorCode(number).name().is_none());
    assert!(numbers.eq([33]));
}
