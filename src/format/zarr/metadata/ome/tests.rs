use super::*;
use crate::format::zarr::metadata::attributes::texts;

/// Parses attributes as they are after the conversion to texts.
fn parsed(attributes: Value) -> Result<Vec<Level>, Fault> {
    levels(&texts(&attributes))
}

fn spacings_of(level: &Level) -> Vec<Option<(f64, f64)>> {
    let spacings = level.axes.iter().map(|axis| axis.spacing);
    spacings
        .map(|spacing| spacing.map(|spacing| (spacing.scale, spacing.translation)))
        .collect()
}

fn image(version: &str, axes: Value) -> Value {
    json!({"version": version, "axes": axes, "datasets": [{"path": "0"}]})
}

#[test]
fn axes_of_all_versions() {
    let objects = json!([
        {"name": "c", "type": "channel"},
        {"name": "y", "type": "space", "unit": "micrometer"},
        {"name": "x"},
    ]);
    let names = json!(["c", "y", "x"]);
    for (attributes, expected) in [
        (json!({MULTISCALES: [image("0.1", json!(null))]}), &AXES[..]),
        (json!({MULTISCALES: [image("0.2", json!(null))]}), &AXES[..]),
        (
            json!({MULTISCALES: [{"datasets": [{"path": "0"}]}]}),
            &AXES[..],
        ),
        (
            json!({MULTISCALES: [image("0.3", names)]}),
            &["c", "y", "x"][..],
        ),
        (
            json!({MULTISCALES: [image("0.4", objects.clone())]}),
            &["c", "y", "x"][..],
        ),
        (
            json!({OME: {"version": "0.5", MULTISCALES: [{"axes": objects, "datasets": [{"path": "0"}]}]}}),
            &["c", "y", "x"][..],
        ),
    ] {
        let levels = parsed(attributes).unwrap_or_else(|fault| panic!("{}", fault.found));
        assert_eq!(levels.len(), 1);
        assert_eq!(levels[0].path, "0");
        assert_eq!(levels[0].names, expected);
        assert!(spacings_of(&levels[0]).iter().all(Option::is_none));
    }
    for other in [
        json!({}),
        json!({MULTISCALES: []}),
        json!({OME: "text"}),
        json!({OME: {}}),
    ] {
        assert!(parsed(other).is_ok_and(|levels| levels.is_empty()));
    }
}

#[test]
fn transformations_are_applied_one_after_the_other() {
    let mut image = image(
        "0.4",
        json!([{"name": "c", "type": "channel"}, {"name": "y"}, {"name": "x"}]),
    );
    image["datasets"][0][TRANSFORMATIONS] = json!([
        {"type": "scale", "scale": [3, 2, 0.5]}, {"type": "translation", "translation": [0, 1, 0]}
    ]);
    image[TRANSFORMATIONS] = json!([
        {"type": "scale", "scale": [1, 10, 2]}, {"type": "translation", "translation": [0, 5, 0]}
    ]);
    let levels =
        parsed(json!({MULTISCALES: [image]})).unwrap_or_else(|fault| panic!("{}", fault.found));
    // The last two scales cancel out.
    assert_eq!(spacings_of(&levels[0]), [None, Some((20.0, 15.0)), None]);
}

#[test]
fn rules_of_the_specification() {
    let axes = || json!([{"name": "y"}, {"name": "x"}]);
    let with = |transformations: Value| {
        let mut image = image("0.4", axes());
        image["datasets"][0][TRANSFORMATIONS] = transformations;
        image
    };
    let scale = |scale: Value| with(json!([{"type": "scale", "scale": scale}]));
    for (image, expected) in [
        (
            image("0.6", axes()),
            "version is \"0.6\", expected 0.1, 0.2, 0.3, 0.4",
        ),
        (image("0.4", json!(null)), "axes is absent"),
        (
            image("0.4", json!([{"name": "x"}, {"name": "x"}])),
            "axes is [{\"name\":\"x\"}",
        ),
        (image("0.3", json!(["y", ""])), "axes is [\"y\",\"\"]"),
        (
            image("0.3", json!(["y", "x".repeat(MAX_NAME + 1)])),
            "axes is [\"y\",\"xxx",
        ),
        (
            json!({"axes": axes(), "datasets": vec![json!({"path": "0"}); MAX_LEVELS + 1]}),
            "datasets is a list of 1025 arrays, expected at most 1024",
        ),
        (json!({"axes": axes()}), "datasets is absent"),
        (
            json!({"axes": axes(), "datasets": []}),
            "datasets is [], expected a list of arrays",
        ),
        (
            scale(json!([1])),
            "scale is [1], expected 2 positive numbers",
        ),
        (scale(json!([1, 0])), "scale is [1,0]"),
        (scale(json!([1, -1])), "scale is [1,-1]"),
        (scale(json!([1, "NaN"])), "scale is [1,\"NaN\"]"),
        (
            with(json!([{"type": "scale", "path": "a"}])),
            "scale is absent",
        ),
        (
            with(json!([{"type": "affine"}])),
            "coordinateTransformations is [{\"type\":\"affine\"}]",
        ),
        (
            with(
                json!([{"type": "scale", "scale": [1, 1]}, {"type": "translation", "translation": [1]}]),
            ),
            "translation is [1], expected 2 finite numbers",
        ),
    ] {
        let Err(fault) = parsed(json!({MULTISCALES: [image]})) else {
            panic!("{expected}");
        };
        let message = format!(
            "{} is {}, expected {}",
            fault.field, fault.found, fault.expected
        );
        assert!(message.starts_with(expected), "{message}");
    }
    for attributes in [json!({MULTISCALES: "x"}), json!({OME: {MULTISCALES: "x"}})] {
        let Err(fault) = parsed(attributes) else {
            panic!("a text is no list");
        };
        assert_eq!((fault.field, fault.found.as_str()), (MULTISCALES, "\"x\""));
    }
}

#[cfg(feature = "remote")]
#[test]
fn paths_are_known_without_the_rest_of_the_metadata() {
    let datasets = json!([{"path": "./0"}, {"path": "a//1/"}, {}, {"path": 2}, {"path": "0"}]);
    for image in [
        json!({"version": "0.9", "datasets": datasets}),
        json!({"axes": "none", "datasets": datasets}),
    ] {
        for attributes in [
            json!({MULTISCALES: [image]}),
            json!({OME: {MULTISCALES: [{}, image]}}),
        ] {
            assert_eq!(paths(&texts(&attributes)), ["0", "a/1"]);
        }
    }
    for other in [json!({}), json!({MULTISCALES: [{"datasets": "0"}]})] {
        assert!(paths(&texts(&other)).is_empty());
    }
}
