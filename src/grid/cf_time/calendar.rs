//! The calendars of the CF conventions (section 4.4.1), and the numbers of their days.

use chrono::{Datelike, NaiveDate};

/// The last Julian day of the mixed calendar.
const LAST_JULIAN: (i32, u32, u32) = (1582, 10, 4);
/// The first Gregorian day, which follows [`LAST_JULIAN`].
const FIRST_GREGORIAN: (i32, u32, u32) = (1582, 10, 15);
/// Days from year 0 to 1970-01-01, both counted as [`julian_days`] does.
const JULIAN_1970: i64 = 719_470;
/// Days of four years of the Julian calendar.
const JULIAN_CYCLE: i64 = 4 * 365 + 1;
/// The lengths of the months of a year without 29 February.
const MONTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The calendar of a time coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calendar {
    /// Julian up to 1582-10-04, Gregorian from the next day, which is 1582-10-15.
    Mixed,
    /// Gregorian for all dates (CF's `proleptic_gregorian`).
    Gregorian,
    /// Every fourth year is a leap year.
    Julian,
    /// No year is a leap year (`noleap`, `365_day`).
    NoLeap,
    /// Every year is a leap year (`all_leap`, `366_day`).
    AllLeap,
    /// Every month has 30 days.
    Day360,
}

/// A date of a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    pub year: i64,
    pub month: u32,
    pub day: u32,
}

impl Calendar {
    /// Returns the days from 1970-01-01 to a date. The error says what is expected.
    ///
    /// 1970-01-01 is a date of the Gregorian calendar, except for calendars whose years all have the
    /// same length: they count from their own 1970-01-01.
    pub fn days(self, year: i32, month: u32, day: u32) -> Result<i32, &'static str> {
        const EXISTING: &str = "a reference date that exists";
        let date = (year, month, day);
        match self {
            // The CF conventions leave open whether there is a year 0 between -1 and 1.
            Self::Mixed if year < 1 => Err(
                "a reference date in year 1 or later, since the standard calendar has no year 0 and no \
                 negative years",
            ),
            Self::Julian if year < 1 => Err(
                "a reference date in year 1 or later, since the julian calendar has no year 0 and no \
                 negative years",
            ),
            Self::Mixed if date > LAST_JULIAN && date < FIRST_GREGORIAN => Err(
                "a reference date that exists (in the standard calendar 1582-10-15 follows 1582-10-04)",
            ),
            Self::Mixed if date <= LAST_JULIAN => julian_days(year, month, day).ok_or(EXISTING),
            Self::Julian => julian_days(year, month, day).ok_or(EXISTING),
            Self::Mixed | Self::Gregorian => NaiveDate::from_ymd_opt(year, month, day)
                .map(|date| date.num_days_from_ce() - 719_163)
                .ok_or(EXISTING),
            Self::NoLeap | Self::AllLeap | Self::Day360 => {
                let length = self.month_length(month).ok_or(EXISTING)?;
                if !(1..=length).contains(&day) {
                    return Err(EXISTING);
                }
                let before: u32 = (1..month)
                    .filter_map(|month| self.month_length(month))
                    .sum();
                let day_of_year = i32::try_from(before + day - 1).map_err(|_| EXISTING)?;
                Ok((year - 1970) * self.year_length() + day_of_year)
            }
        }
    }

    /// Returns the date that is `days` days after 1970-01-01. Call it only for `Julian`, `NoLeap`,
    /// `AllLeap` and `Day360`: for the other calendars it returns Julian dates.
    pub fn date(self, days: i64) -> Date {
        if !matches!(self, Self::NoLeap | Self::AllLeap | Self::Day360) {
            return julian_date(days);
        }
        let length = i64::from(self.year_length());
        let year = 1970 + days.div_euclid(length);
        // Below 366.
        let mut day = days.rem_euclid(length) as u32;
        let mut month = 1;
        while let Some(length) = self.month_length(month)
            && day >= length
        {
            day -= length;
            month += 1;
        }
        Date {
            year,
            month,
            day: day + 1,
        }
    }

    /// Returns `true` if times of the calendar are decoded to timestamps, `false` if they are decoded to
    /// text.
    pub fn has_timestamps(self) -> bool {
        matches!(self, Self::Mixed | Self::Gregorian | Self::NoLeap)
    }

    /// Returns the days of a year in a calendar whose years all have the same length.
    fn year_length(self) -> i32 {
        match self {
            Self::Day360 => 360,
            Self::AllLeap => 366,
            _ => 365,
        }
    }

    /// Returns the days of a month in a calendar whose years all have the same length. `None` if the
    /// month is not in 1 to 12.
    fn month_length(self, month: u32) -> Option<u32> {
        let index = usize::try_from(month).ok()?.checked_sub(1)?;
        let length = *MONTHS.get(index)?;
        Some(match self {
            Self::Day360 => 30,
            Self::AllLeap if month == 2 => 29,
            _ => length,
        })
    }
}

/// Returns the days from 1970-01-01 (Gregorian) to a date of the Julian calendar, in year 1 or
/// later.
fn julian_days(year: i32, month: u32, day: u32) -> Option<i32> {
    let length = match month {
        2 => 28 + u32::from(year % 4 == 0),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Count years from March, so that the leap day comes last. The lengths of the months then
    // repeat every five months, which have 153 days.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    // 1970-01-01 (Gregorian) is 1969-12-19 in the Julian calendar.
    Some(year * 365 + year / 4 + day_of_year as i32 - JULIAN_1970 as i32)
}

/// Returns the Julian date of a day counted from 1970-01-01 (Gregorian).
fn julian_date(days: i64) -> Date {
    let days = days + JULIAN_1970;
    let cycle = days.div_euclid(JULIAN_CYCLE);
    let rest = days.rem_euclid(JULIAN_CYCLE);
    // The last of the four years, which begin in March, ends with 29 February.
    let year = (rest / 365).min(3);
    // Below 366.
    let day_of_year = (rest - year * 365) as u32;
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = 4 * cycle + year;
    let (year, month) = match month < 10 {
        true => (year, month + 3),
        false => (year + 1, month - 9),
    };
    Date { year, month, day }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(year: i64, month: u32, day: u32) -> Date {
        Date { year, month, day }
    }

    /// Counts through the days of nine years, with the lengths of months spelled out.
    #[test]
    fn days_count_up_through_every_date() {
        use Calendar::{AllLeap, Day360, Julian, NoLeap};
        for calendar in [NoLeap, AllLeap, Day360, Julian] {
            let mut days = i64::from(calendar.days(1896, 1, 1).unwrap());
            for year in 1896..1905 {
                for (index, length) in MONTHS.iter().enumerate() {
                    let month = index as u32 + 1;
                    let is_leap = calendar == AllLeap || (calendar == Julian && year % 4 == 0);
                    let length = match (calendar, month) {
                        (Day360, _) => 30,
                        (_, 2) if is_leap => 29,
                        _ => *length,
                    };
                    for day in 1..=length {
                        assert_eq!(calendar.days(year, month, day), Ok(days as i32));
                        let expected = date(year.into(), month, day);
                        assert_eq!(calendar.date(days), expected, "{calendar:?}");
                        days += 1;
                    }
                    assert!(calendar.days(year, month, length + 1).is_err());
                    assert!(calendar.days(year, month, 0).is_err());
                }
            }
            assert!(calendar.days(2000, 13, 1).is_err());
            assert!(calendar.days(2000, 0, 1).is_err());
        }
    }

    #[test]
    fn epochs() {
        assert_eq!(Calendar::Day360.days(1970, 1, 1), Ok(0));
        assert_eq!(Calendar::NoLeap.days(-4, 12, 31), Ok(-1973 * 365 - 1));
        assert_eq!(Calendar::NoLeap.date(-1), date(1969, 12, 31));
        assert_eq!(Calendar::Day360.date(-1), date(1969, 12, 30));
        // The Julian calendar was 13 days behind in 1970. 1582-10-04 was followed by 1582-10-15 of
        // the Gregorian calendar, which is 141427 days before 1970.
        assert_eq!(Calendar::Julian.date(0), date(1969, 12, 19));
        assert_eq!(Calendar::Julian.date(-141_428), date(1582, 10, 4));
        assert_eq!(Calendar::Julian.days(1582, 10, 5), Ok(-141_427));
        assert!(Calendar::Julian.days(0, 12, 31).is_err());
    }
}
