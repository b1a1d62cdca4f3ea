//! Round times for the ticks of an axis, in the time zone of the column.

use super::ticks::{Round, multiples};
use arrow::array::timezone::Tz;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone, Timelike};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
/// Round steps below a day, in seconds.
const PARTS_OF_DAYS: [f64; 17] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
];
/// The maximum number of ticks of an axis.
const MOST: usize = 64;

/// The fields that a time has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A date.
    Date,
    /// A date and a time of day.
    Timestamp,
    /// A time of day.
    Time,
}

/// Converts seconds since 1970, or since midnight, to local time.
#[derive(Debug, Clone)]
pub struct Clock {
    form: Form,
    /// The time zone and its name. `None` stands for UTC or an unknown zone.
    zone: Option<(Tz, String)>,
}

impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form && self.zone_name() == other.zone_name()
    }
}

/// The distance between ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// Less than a day, in seconds.
    Seconds(f64),
    /// Days, counted from the first of each month.
    Days(u32),
    /// Months, counted from January.
    Months(u32),
    /// Years, counted from year 0.
    Years(f64),
}

/// The ticks of an axis of times.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeTicks {
    /// The time of each tick in seconds, with its label.
    pub ticks: Vec<(f64, String)>,
    /// The day and time zone of all ticks, which their labels leave out.
    pub context: Option<String>,
}

impl Clock {
    /// Creates a clock for a time zone. Without one, times are shown in UTC.
    pub fn new(form: Form, zone: Option<(Tz, String)>) -> Self {
        Self { form, zone }
    }

    fn zone_name(&self) -> Option<&str> {
        self.zone.as_ref().map(|(_, name)| name.as_str())
    }

    /// Returns the margin in seconds around an axis that shows a single time.
    pub fn single_time_margin(&self) -> f64 {
        match self.form {
            Form::Date => DAY,
            Form::Timestamp | Form::Time => HOUR,
        }
    }

    /// Formats a time in full.
    pub fn text(&self, seconds: f64) -> String {
        let Some(local) = self.local(seconds) else {
            return format!("{seconds} s");
        };
        let fraction = |pattern: &str| {
            let text = local.format(&format!("{pattern}%.6f")).to_string();
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        match self.form {
            Form::Date => local.format("%Y-%m-%d").to_string(),
            Form::Timestamp => fraction("%Y-%m-%dT%H:%M:%S"),
            Form::Time => fraction("%H:%M:%S"),
        }
    }

    /// Returns ticks at round times about `apart` seconds or more apart, or `None` if the calendar
    /// does not include these times.
    pub fn ticks(&self, low: f64, high: f64, apart: f64) -> Option<TimeTicks> {
        let (first, last) = (self.local(low)?, self.local(high)?);
        let step = self.step(apart);
        let locals = match step {
            Step::Seconds(step) => multiples(seconds(first), seconds(last), step),
            Step::Days(step) => days(first.date(), last.date(), step),
            Step::Months(step) => months(first.date(), last.date(), step),
            Step::Years(step) => years(first.date(), last.date(), step),
        };
        let ticks = locals.into_iter().filter_map(|local| {
            let time = self.seconds(local)?;
            let slack = (high - low) * 1e-9;
            (low - slack..=high + slack)
                .contains(&time)
                .then(|| (time, self.label(local, step)))
        });
        let mut ticks: Vec<(f64, String)> = ticks.collect();
        // When clocks are set back, an hour occurs twice: keep ticks strictly increasing.
        ticks.dedup_by(|after, before| after.0 <= before.0);
        let is_of_one_day = matches!(step, Step::Seconds(_)) && first.date() == last.date();
        let day = (is_of_one_day && self.form == Form::Timestamp)
            .then(|| first.format("%Y-%m-%d").to_string());
        let context: Vec<&str> = day.as_deref().into_iter().chain(self.zone_name()).collect();
        Some(TimeTicks {
            ticks,
            context: (!context.is_empty()).then(|| context.join(", ")),
        })
    }

    /// Returns the smallest round step of at least `min` seconds.
    fn step(&self, min: f64) -> Step {
        let fits = |step: f64| step >= min * (1.0 - 1e-9);
        if self.form != Form::Date {
            if min < 1.0 {
                return Step::Seconds(Round::Decimal.up(min.max(1e-6)));
            }
            if let Some(step) = PARTS_OF_DAYS.into_iter().find(|step| fits(*step)) {
                return Step::Seconds(step);
            }
        }
        if let Some(days) = [1, 2, 5, 10, 15]
            .into_iter()
            .find(|days| fits(f64::from(*days) * DAY))
        {
            return Step::Days(days);
        }
        let month = 30.0 * DAY;
        if let Some(months) = [1, 2, 3, 6]
            .into_iter()
            .find(|months| fits(f64::from(*months) * month))
        {
            return Step::Months(months);
        }
        Step::Years(Round::Integer.up((min / (365.0 * DAY)).max(1.0)))
    }

    fn label(&self, local: f64, step: Step) -> String {
        let Some(local) = date_time(local) else {
            return String::new();
        };
        let pattern = match step {
            Step::Years(_) => "%Y",
            Step::Months(_) => "%Y-%m",
            Step::Days(_) => "%Y-%m-%d",
            Step::Seconds(_) if self.form == Form::Timestamp && local.time() == NaiveTime::MIN => {
                "%Y-%m-%d"
            }
            Step::Seconds(step) if step >= MINUTE => "%H:%M",
            Step::Seconds(step) if step >= 1.0 => "%H:%M:%S",
            Step::Seconds(step) => {
                let digits = (-step.log10().floor()).clamp(1.0, 6.0) as usize;
                let whole = local.format("%H:%M:%S.%6f").to_string();
                return whole[..whole.len() - (6 - digits)].to_owned();
            }
        };
        local.format(pattern).to_string()
    }

    fn local(&self, seconds: f64) -> Option<NaiveDateTime> {
        let utc = date_time(seconds)?;
        Some(match &self.zone {
            Some((zone, _)) => utc.checked_add_offset(zone.offset_from_utc_datetime(&utc).fix())?,
            None => utc,
        })
    }

    /// Returns the seconds of a local time, or `None` if a clock change skips that time.
    fn seconds(&self, local: f64) -> Option<f64> {
        let Some((zone, _)) = &self.zone else {
            return Some(local);
        };
        let time = zone.from_local_datetime(&date_time(local)?).earliest()?;
        Some(seconds(time.naive_utc()))
    }
}

fn date_time(time: f64) -> Option<NaiveDateTime> {
    // An `f64` of a present-day time is accurate to microseconds, not nanoseconds.
    let rounded = (time * 1e6).round() / 1e6;
    let whole = rounded.floor();
    if whole.abs() > i64::MAX as f64 / 2.0 {
        return None;
    }
    let nanoseconds = ((rounded - whole) * 1e9).round().min(999_999_999.0);
    // The subtraction leaves a rounding error below a microsecond.
    let nanoseconds = (nanoseconds / 1e3).round() * 1e3;
    let time = DateTime::from_timestamp(whole as i64, (nanoseconds as u32).min(999_999_999));
    time.map(|time| time.naive_utc())
}

fn seconds(time: NaiveDateTime) -> f64 {
    let time = time.and_utc();
    time.timestamp() as f64 + f64::from(time.nanosecond()) * 1e-9
}

fn midnight(date: NaiveDate) -> f64 {
    seconds(date.and_time(NaiveTime::MIN))
}

/// Returns the first of each month and every `step` days after it, except days closer than half a
/// step to the next first.
fn days(first: NaiveDate, last: NaiveDate, step: u32) -> Vec<f64> {
    let all = first.iter_days().take_while(|date| *date <= last);
    let fits = |date: &NaiveDate| {
        let left = i64::from(days_of_month(*date)) - i64::from(date.day0());
        date.day0().is_multiple_of(step) && (date.day0() == 0 || 2 * left > i64::from(step))
    };
    all.filter(fits).map(midnight).take(MOST).collect()
}

fn days_of_month(date: NaiveDate) -> u8 {
    date.num_days_in_month()
}

fn months(first: NaiveDate, last: NaiveDate, step: u32) -> Vec<f64> {
    let number = |date: NaiveDate| i64::from(date.year()) * 12 + i64::from(date.month0());
    let all = (number(first)..=number(last)).filter(|month| month % i64::from(step) == 0);
    let date = |month: i64| {
        let year = i32::try_from(month.div_euclid(12)).ok()?;
        NaiveDate::from_ymd_opt(year, month.rem_euclid(12) as u32 + 1, 1)
    };
    all.filter_map(date).map(midnight).take(MOST).collect()
}

fn years(first: NaiveDate, last: NaiveDate, step: f64) -> Vec<f64> {
    let all = multiples(f64::from(first.year()), f64::from(last.year()), step);
    let date = |year: f64| NaiveDate::from_ymd_opt(year as i32, 1, 1);
    all.into_iter().filter_map(date).map(midnight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> f64 {
        seconds(text.parse().unwrap())
    }

    fn labels(clock: &Clock, low: &str, high: &str, count: usize) -> (Vec<String>, Option<String>) {
        let apart = (at(high) - at(low)) / count as f64;
        let found = clock.ticks(at(low), at(high), apart).unwrap();
        let labels = found.ticks.into_iter().map(|(_, label)| label);
        (labels.collect(), found.context)
    }

    #[test]
    fn times_are_round_at_every_scale() {
        let clock = Clock::new(Form::Timestamp, None);
        let expected: [(&str, &str, &[&str], Option<&str>); 9] = [
            (
                "2024-01-01T12:00:00.10",
                "2024-01-01T12:00:00.50",
                &[
                    "12:00:00.1",
                    "12:00:00.2",
                    "12:00:00.3",
                    "12:00:00.4",
                    "12:00:00.5",
                ],
                Some("2024-01-01"),
            ),
            (
                "2024-01-01T12:00:03",
                "2024-01-01T12:00:22",
                &["12:00:05", "12:00:10", "12:00:15", "12:00:20"],
                Some("2024-01-01"),
            ),
            (
                "2024-01-01T00:00:00",
                "2024-01-01T23:00:00",
                &["2024-01-01", "06:00", "12:00", "18:00"],
                Some("2024-01-01"),
            ),
            (
                "2024-01-01T00:00:00",
                "2024-01-02T23:00:00",
                &["2024-01-01", "12:00", "2024-01-02", "12:00"],
                None,
            ),
            (
                "2024-02-27T00:00:00",
                "2024-03-02T00:00:00",
                &[
                    "2024-02-27",
                    "2024-02-28",
                    "2024-02-29",
                    "2024-03-01",
                    "2024-03-02",
                ],
                None,
            ),
            (
                "2024-01-01T00:00:00",
                "2024-02-03T00:00:00",
                &["2024-01-01", "2024-01-11", "2024-01-21", "2024-02-01"],
                None,
            ),
            (
                "2023-12-15T00:00:00",
                "2024-04-20T00:00:00",
                &["2024-01", "2024-02", "2024-03", "2024-04"],
                None,
            ),
            (
                "2022-07-15T00:00:00",
                "2024-04-20T00:00:00",
                &["2023-01", "2023-07", "2024-01"],
                None,
            ),
            (
                "1940-01-01T00:00:00",
                "2024-04-20T00:00:00",
                &["1940", "1960", "1980", "2000", "2020"],
                None,
            ),
        ];
        for (low, high, ticks, context) in expected {
            let ticks = ticks.iter().map(|tick| (*tick).to_owned()).collect();
            let context = context.map(str::to_owned);
            assert_eq!(labels(&clock, low, high, 5), (ticks, context), "{low}");
        }
    }

    #[test]
    fn ticks_are_round_in_the_time_zone() {
        let zone = "Europe/Berlin".to_owned();
        let clock = Clock::new(Form::Timestamp, Some((zone.parse().unwrap(), zone)));
        // Clocks go forward from 02:00 to 03:00 on this night.
        let (low, high) = ("2024-03-30T23:00:00", "2024-03-31T04:00:00");
        let found = clock.ticks(at(low), at(high), 3000.0).unwrap();
        let times = found
            .ticks
            .iter()
            .map(|(time, label)| (*time, label.as_str()));
        let expected = [
            (at("2024-03-30T23:00:00"), "2024-03-31"),
            (at("2024-03-31T00:00:00"), "01:00"),
            (at("2024-03-31T01:00:00"), "03:00"),
            (at("2024-03-31T02:00:00"), "04:00"),
            (at("2024-03-31T03:00:00"), "05:00"),
            (at("2024-03-31T04:00:00"), "06:00"),
        ];
        assert_eq!(times.collect::<Vec<_>>(), expected);
        assert_eq!(found.context.as_deref(), Some("2024-03-31, Europe/Berlin"));
        assert_eq!(
            clock.text(at("2024-07-01T00:00:00.5")),
            "2024-07-01T02:00:00.5"
        );
    }

    #[test]
    fn dates_and_times_of_the_day() {
        let dates = Clock::new(Form::Date, None);
        let (found, _) = labels(&dates, "2024-01-01T00:00:00", "2024-01-02T00:00:00", 8);
        assert_eq!(found, ["2024-01-01", "2024-01-02"]);
        assert_eq!(dates.text(at("2024-01-02T00:00:00")), "2024-01-02");
        let times = Clock::new(Form::Time, None);
        let found = times.ticks(0.0, 6.0 * HOUR, 2.0 * HOUR).unwrap();
        let found: Vec<&str> = found
            .ticks
            .iter()
            .map(|(_, label)| label.as_str())
            .collect();
        assert_eq!(found, ["00:00", "02:00", "04:00", "06:00"]);
        assert_eq!(times.text(3661.25), "01:01:01.25");
    }

    #[test]
    fn times_beyond_the_calendar_have_no_ticks() {
        let clock = Clock::new(Form::Timestamp, None);
        assert_eq!(clock.ticks(0.0, 1e18, 2e17), None);
        assert_eq!(clock.ticks(0.0, 1e300, 2e299), None);
        // This is the last second of the calendar in UTC; in Berlin it is past the end.
        let zone = "Europe/Berlin".to_owned();
        let zoned = Clock::new(Form::Timestamp, Some((zone.parse().unwrap(), zone)));
        assert_eq!(zoned.text(8_210_266_876_799.0), "8210266876799 s");
        assert_eq!(zoned.ticks(0.0, 8_210_266_876_799.0, 1e12), None);
        // Most of the calendar's range.
        assert!(!clock.ticks(-8e12, 8e12, 4e12).unwrap().ticks.is_empty());
    }
}
