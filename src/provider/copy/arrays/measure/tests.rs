//! Tests of the encoding of values, and of fill values.

use std::sync::Arc;

use arrow::array::{
    BooleanArray, Float32Array, Int16Array, Int64Array, StringArray, TimestampSecondArray,
    UInt8Array,
};

use super::*;

fn measure(column: &ArrayRef, attributes: &[(&str, &str)], given: Option<&str>) -> Measure {
    let mut metadata = DatasetMetadata::default();
    for (key, value) in attributes {
        metadata.attrs.insert(key.to_string(), value.to_string());
    }
    let mut measure =
        Measure::try_new("v", column.data_type(), metadata, given, &Limits::NONE).unwrap();
    measure.values(column).unwrap();
    measure
}

#[test]
fn fill_values_lie_outside_the_data() {
    let shorts: ArrayRef = Arc::new(Int16Array::from(vec![Some(-5), None, Some(7)]));
    let mut one = measure(&shorts, &[], None);
    assert_eq!(one.fill(true).unwrap(), i16::MIN.to_le_bytes());
    assert_eq!(one.metadata.attrs["_FillValue"], "-32768");
    let mut one = measure(&shorts, &[("missing_value", "-999")], None);
    assert_eq!(one.fill(true).unwrap(), (-999i16).to_le_bytes());
    assert!(!one.metadata.attrs.contains_key("_FillValue"));
    let mut one = measure(&shorts, &[("missing_value", "-999")], Some("8"));
    assert_eq!(one.fill(true).unwrap(), 8i16.to_le_bytes());
    assert!(!one.metadata.attrs.contains_key("missing_value"));
    let bytes: ArrayRef = Arc::new(UInt8Array::from(vec![0, 254]));
    assert_eq!(measure(&bytes, &[], None).fill(true).unwrap(), [255]);
    // Values between the min and the max are free, too.
    let ends: ArrayRef = Arc::new(UInt8Array::from(vec![0, 254, 255]));
    assert_eq!(measure(&ends, &[], None).fill(true).unwrap(), [253]);
    let ends: ArrayRef = Arc::new(Int16Array::from(vec![i16::MIN, i16::MAX]));
    let fill = measure(&ends, &[], None).fill(true).unwrap();
    assert_eq!(fill, (i16::MIN + 1).to_le_bytes());
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![1.0]));
    let fill = measure(&floats, &[], None).fill(true).unwrap();
    assert!(f32::from_le_bytes(fill.try_into().unwrap()).is_nan());
}

#[test]
fn a_fill_value_that_occurs_in_the_data_is_replaced() {
    let shorts: ArrayRef = Arc::new(Int16Array::from(vec![-1, 7, 9]));
    let mut one = measure(&shorts, &[("_FillValue", "7")], None);
    assert_eq!(one.fill(true).unwrap(), i16::MIN.to_le_bytes());
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![-1.0, 0.0, 1.0]));
    let mut one = measure(&floats, &[("missing_value", "0")], None);
    let fill = one.fill(true).unwrap();
    assert!(f32::from_le_bytes(fill.try_into().unwrap()).is_nan());
    assert!(one.metadata.attrs.is_empty());
    let error = measure(&floats, &[], Some("0")).fill(true).unwrap_err();
    let expected = "v has the value 0, which is its fill value";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn what_cannot_mean_missing_is_refused() {
    let all: ArrayRef = Arc::new(UInt8Array::from_iter_values(0..=255));
    let error = measure(&all, &[], None).fill(true).unwrap_err();
    let expected = "all values of u8 occur in it, so no fill value is free; cast it";
    assert!(error.to_string().contains(expected), "{error}");
    let ends: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]));
    let error = measure(&ends, &[], None).fill(true).unwrap_err();
    assert!(error.to_string().contains("OPTIONS (fill_value"), "{error}");
    assert_eq!(measure(&all, &[], None).fill(false).unwrap(), [0]);
    let error = measure(&all, &[], Some("255")).fill(true).unwrap_err();
    assert!(error.to_string().contains("has the value 255"), "{error}");
    let none = DatasetMetadata::default();
    let error = Measure::try_new("v", &DataType::UInt8, none, Some("-1"), &Limits::NONE);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no value of v, a dataset of u8"), "{error}");
}

#[test]
fn times_that_overflow_are_refused() {
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(1 << 50), None]));
    let mut one = Measure::try_new(
        "v",
        times.data_type(),
        DatasetMetadata::default(),
        None,
        &Limits::NONE,
    )
    .unwrap();
    let error = one.values(&times).err().unwrap().to_string();
    assert!(error.contains("has a value that Timestamp"), "{error}");
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(1), None]));
    assert_eq!(
        one.values(&times).unwrap().bytes[..8],
        1_000_000i64.to_le_bytes()
    );
    assert_eq!(one.nulls, 1);
}

#[test]
fn truths_and_texts_are_numbers() {
    let truths: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
    let mut one = Measure::try_new(
        "v",
        truths.data_type(),
        DatasetMetadata::default(),
        None,
        &Limits::NONE,
    )
    .unwrap();
    assert_eq!(one.values(&truths).unwrap().bytes, [1, 0]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        Some("b"),
        None,
        Some("a"),
        Some("b"),
    ]));
    let mut one = Measure::try_new(
        "v",
        texts.data_type(),
        DatasetMetadata::default(),
        None,
        &Limits::NONE,
    )
    .unwrap();
    let codes = one.values(&texts).unwrap().bytes;
    let codes: Vec<_> = codes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|code| i64::from_le_bytes(*code))
        .collect();
    assert_eq!(codes, [0, -1, 1, 0]);
    one.fill(true).unwrap();
    let categories = Categories::parse(&one.metadata.attrs[Categories::ATTRIBUTE]).unwrap();
    assert_eq!(categories.text(1), Some("a"));
    assert_eq!(categories.missing(), Some(-1));
}
