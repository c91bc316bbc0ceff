//! The swap devices of a forked child: those of its ancestors that its words name, and its own.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Which of the parent's devices a child has to have, and what their numbers become. A generation
/// that hands down all that it inherited would run out of numbers.
#[derive(Debug)]
pub struct Devices {
    /// In the order of their new numbers, which begin with 1: the places of the parent's files, all
    /// that it inherited and then its own.
    files: Vec<u8>,
    /// How many the parent inherited.
    inherited: u8,
}

impl Devices {
    /// Of a parent whose words name these, 0 being its own.
    pub(crate) fn new(named: BTreeSet<u8>, inherited: usize) -> Self {
        let inherited = u8::try_from(inherited).expect("as many as a word tells apart");
        // The parent's own is the youngest.
        let own = named.contains(&0).then_some(inherited);
        let older = named.into_iter().filter(|device| *device > 0).map(|device| device - 1);
        Self {
            files: older.chain(own).collect(),
            inherited,
        }
    }

    /// Whether the file at this place has to be there, of all that the parent inherited and, behind
    /// them, its own.
    pub fn needs(&self, place: usize) -> bool {
        self.files.iter().any(|file| usize::from(*file) == place)
    }

    /// No word has to change.
    pub(crate) fn are_as_before(&self) -> bool {
        self.files.last() != Some(&self.inherited) && (0..).zip(&self.files).all(|(n, file)| n == *file)
    }

    /// What a word of the parent's names `device` as from now on.
    pub(crate) fn name_of(&self, device: u8) -> u8 {
        let file = device.checked_sub(1).unwrap_or(self.inherited);
        let place = self.files.iter().position(|needed| *needed == file);
        place.expect("a device that words name") as u8 + 1
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_no_word_names_is_left_out() {
        let devices = Devices::new(BTreeSet::from([0, 2, 4]), 4);
        let needed: Vec<_> = (0..6).filter(|place| devices.needs(*place)).collect();
        assert_eq!(needed, [1, 3, 4]);
        assert_eq!([2, 4, 0].map(|device| devices.name_of(device)), [1, 2, 3]);
        assert!(!devices.are_as_before());
    }

    #[test]
    fn words_stay_where_no_number_changes() {
        assert!(Devices::new(BTreeSet::new(), 0).are_as_before());
        assert!(Devices::new(BTreeSet::from([1, 2]), 3).are_as_before());
        // The parent's own was 0.
        assert!(!Devices::new(BTreeSet::from([0]), 0).are_as_before());
        assert!(!Devices::new(BTreeSet::from([0, 1]), 1).are_as_before());
        assert!(!Devices::new(BTreeSet::from([2]), 2).are_as_before());
    }
}
