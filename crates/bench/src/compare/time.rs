//! When and of what this is a run.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Now, as in 2026-11-21T20:05:00Z.
pub(crate) fn utc_now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(now.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date of the Gregorian calendar (the days' arithmetic counts years from
/// March on, so that a leap day is a year's last).
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86400, seconds % 86400);
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The commit of the folder that this is run in, if it is one of git's.
pub(crate) fn commit() -> String {
    let described = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let text = described.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok()
        .filter(|text| !text.is_empty())
        .unwrap_or("unknown".to_owned())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn dates_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_305_599), "2026-11-21T23:59:59Z");
    }
}
