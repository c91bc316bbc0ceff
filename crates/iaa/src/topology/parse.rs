//! Values of sysfs attributes, and what is wrong with those that are none.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// An attribute whose value breaks a rule: the object is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The device, work queue or core.
    pub object: String,
    /// The attribute.
    pub attribute: &'static str,
    /// Its value.
    pub value: String,
    /// The rule.
    pub rule: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            object,
            attribute,
            value,
            rule,
        } = self;
        write!(f, "{object}: {attribute} is \"{value}\": {rule}")
    }
}

/// A set of opcodes: bit n of the set is opcode n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opcodes([u64; 4]);

impl Opcodes {
    /// The set in `text`, as `op_cap` and `op_config` have it. It has hexadecimal words of 32 bits,
    /// separated by commas; the last one has opcodes 0 to 31.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut set = Self::default();
        for (i, word) in text.trim().rsplit(',').enumerate() {
            let is_word = (1..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_word || i == 8 {
                return None;
            }
            let bits = u32::from_str_radix(word, 16).ok()?;
            set.0[i / 2] |= u64::from(bits) << (i % 2 * 32);
        }
        Some(set)
    }

    /// Whether `opcode` is in it.
    #[must_use]
    pub const fn contains(&self, opcode: crate::descriptor::Opcode) -> bool {
        self.0[(opcode.0 / 64) as usize] >> (opcode.0 % 64) & 1 == 1
    }

    /// Those that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|i| self.0[i] & other.0[i]))
    }
}

impl FromIterator<crate::descriptor::Opcode> for Opcodes {
    fn from_iter<I: IntoIterator<Item = crate::descriptor::Opcode>>(opcodes: I) -> Self {
        let mut set = Self::default();
        for opcode in opcodes {
            set.0[usize::from(opcode.0 / 64)] |= 1 << (opcode.0 % 64);
        }
        set
    }
}

/// Cores that a kernel can have: a number beyond is a mistake, which must not take all memory.
pub(super) const CORES_MAX: u32 = 8192;

/// A number, decimal or hexadecimal with `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The members of a list like `0-3,8,10-11`. None: it is no such list.
pub(super) fn list(text: &str) -> Option<Vec<u32>> {
    let mut members = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= CORES_MAX {
            return None;
        }
        members.extend(first..=last);
    }
    Some(members)
}

/// The numbers in a name such as `wq1.0`: after `prefix`, separated by a point.
pub(super) fn numbers<const N: usize>(name: &str, prefix: &str) -> Option<[u32; N]> {
    let mut parts = name.strip_prefix(prefix)?.split('.');
    let mut numbers = [0; N];
    for number in &mut numbers {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Reader of the attributes of one object.
pub(super) struct Attributes<'a, S: ?Sized> {
    pub sysfs: &'a S,
    pub directory: String,
    pub object: String,
}

impl<S: super::Sysfs + ?Sized> Attributes<'_, S> {
    /// The text of an attribute without white space around it; empty if it does not exist.
    pub fn text(&self, attribute: &str) -> String {
        let path = alloc::format!("{}/{attribute}", self.directory);
        self.sysfs
            .read(&path)
            .map_or_else(String::new, |text| text.trim().to_string())
    }

    /// The refusal of an attribute's value.
    pub fn refuse(&self, attribute: &'static str, value: &str, rule: &'static str) -> Refusal {
        Refusal {
            object: self.object.clone(),
            attribute,
            value: value.into(),
            rule,
        }
    }

    /// The value of an attribute as `parse` reads it.
    pub fn value<T>(
        &self,
        attribute: &'static str,
        rule: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Refusal> {
        let text = self.text(attribute);
        parse(&text).ok_or_else(|| self.refuse(attribute, &text, rule))
    }

    /// An attribute that must have one value.
    pub fn must_be(&self, attribute: &'static str, value: &str, rule: &'static str) -> Result<(), Refusal> {
        self.value(attribute, rule, |text| (text == value).then_some(()))
    }

    /// A number; `default` if older kernels lack the attribute.
    pub fn number_or(&self, attribute: &'static str, default: u64) -> Result<u64, Refusal> {
        self.value(attribute, "must be a number", |text| match text {
            "" => Some(default),
            text => number(text),
        })
    }

    /// A number below 2^32; `default` if older kernels lack the attribute.
    pub fn small_number_or(&self, attribute: &'static str, default: u32) -> Result<u32, Refusal> {
        self.value(attribute, "must be a number below 2^32", |text| match text {
            "" => Some(default),
            text => number(text).and_then(|number| number.try_into().ok()),
        })
    }
}
