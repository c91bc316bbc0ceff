//! Names that are almost right.

/// More letters has no name that anybody mistook.
const LETTERS_MAX: usize = 64;

/// That of these names which a wrong one is most like, if at most half of it differs.
pub(super) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.len() > LETTERS_MAX {
        return None;
    }
    let of = |name| (distance(wrong, name), name);
    let (differs, name) = names.map(of).min_by_key(|(differs, _)| *differs)?;
    (differs * 2 <= wrong.len().max(name.len())).then_some(name)
}

/// Letters to put in, leave out or replace until one is the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    // From the first letters of one to each beginning of the other.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in other.iter().enumerate() {
            let replaced = before + usize::from(letter != *other);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_distance_is_in_letters() {
        for (one, other, letters) in [
            ("", "", 0),
            ("", "abc", 3),
            ("memmax", "memory-max", 4),
            ("spni", "spin", 2),
            ("swap-max", "swap_max", 1),
        ] {
            assert_eq!((distance(one, other), distance(other, one)), (letters, letters));
        }
    }

    #[test]
    fn only_what_is_near_is_the_nearest() {
        let nearest = |wrong: &str| nearest(wrong, ["memory-max", "swap-max", "folio-max", "log"].into_iter());
        for (wrong, name) in [
            ("memmax", "memory-max"),
            ("swapmax", "swap-max"),
            ("folio_size", "folio-max"),
            ("lag", "log"),
        ] {
            assert_eq!(nearest(wrong), Some(name), "{wrong}");
        }
        for wrong in ["", "foo", "xyzzy", "max", &"memory-max".repeat(9)] {
            assert_eq!(nearest(wrong), None, "{wrong}");
        }
    }
}
