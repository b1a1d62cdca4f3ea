//! Tests of charts as files.

use super::*;
use arrow::datatypes::{DataType, Field, Schema};
use flate2::read::ZlibDecoder;
use std::io::Read;

#[test]
fn pictures_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let grid = || (0..19).flat_map(|lat| (0..36).map(move |lon| (10 * lat - 90, 10 * lon)));
    let columns: [ArrayRef; 3] = [
        integers(grid().map(|(lat, _)| lat)),
        integers(grid().map(|(_, lon)| lon)),
        floats(grid().map(|(lat, lon)| f64::from(lat as i32) + f64::from(lon as i32) / 90.0)),
    ];
    let unit = [("units".to_owned(), "degC".to_owned())];
    let schema = Schema::new(vec![
        Field::new("lat", DataType::Int64, false),
        Field::new("lon", DataType::Int64, false),
        Field::new("</script>", DataType::Float64, true).with_metadata(unit.into()),
    ]);
    let batch = RecordBatch::try_new(Arc::new(schema), columns.into()).unwrap();
    let chart = Chart::of(None, &batch.schema(), &[batch]).unwrap();
    chart.write(&path("a.svg")).unwrap();
    let svg = std::fs::read_to_string(path("a.svg")).unwrap();
    assert_well_formed(&svg);
    for text in [
        ">lon<",
        ">lat<",
        ">&lt;/script&gt; [degC]<",
        ">330<",
        ">-60<",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    chart.write(&path("a.PNG")).unwrap();
    let (width, height, pixels) = png(&std::fs::read(path("a.PNG")).unwrap());
    assert_eq!((width, height), (1600, 960));
    let colours: std::collections::HashSet<&[u8]> = pixels.chunks(3).collect();
    // Both ends of the colour scale, white, and the text colour, drawn with the built-in font.
    for colour in [
        [0x44, 1, 0x54],
        [0xfd, 0xe7, 0x25],
        [255, 255, 255],
        [0x22, 0x22, 0x22],
    ] {
        assert!(colours.contains(colour.as_slice()), "{colour:?}");
    }
    chart.write(&path("a.html")).unwrap();
    let html = std::fs::read_to_string(path("a.html")).unwrap();
    assert_eq!(
        (
            html.matches("<script").count(),
            html.matches("</script>").count()
        ),
        (2, 2)
    );
    assert_eq!(
        html.matches("http").count(),
        1,
        "only the name of the namespace"
    );
    let data = html
        .split("id=\"data\">")
        .nth(1)
        .unwrap()
        .split("</script>")
        .next()
        .unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["cells"]["values"].as_array().unwrap().len(), 19 * 36);
    assert_eq!(data["cells"]["yTexts"][0], "-90");
}

#[test]
fn other_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let chart = made(vec![("n", integers(0..3))]).unwrap();
    std::fs::write(path("old.svg"), b"<svg/>").unwrap();
    std::fs::create_dir(path("folder.png")).unwrap();
    for (name, expected) in [
        (
            "folder.png",
            "folder.png: is not a regular file, so a picture cannot replace it",
        ),
        ("a.gif", "a.gif: pictures end in .svg, .png or .html"),
        ("svg", "svg: pictures end in .svg, .png or .html"),
        ("nowhere/a.svg", "nowhere/a.svg: "),
    ] {
        let error = chart.write(&path(name)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    chart.write(&path("old.svg")).unwrap();
    assert!(
        std::fs::read_to_string(path("old.svg"))
            .unwrap()
            .contains("<title>histogram of n</title>")
    );
    // No temporary file is left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// Asserts that every element is closed within its parent, and that the text has no characters that
/// XML forbids.
pub fn assert_well_formed(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
    let mut open = Vec::new();
    for part in text.split('<').skip(1) {
        let (tag, content) = part.split_once('>').unwrap();
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        let entities = ["amp;", "lt;", "gt;", "quot;"];
        assert!(
            content
                .split('&')
                .skip(1)
                .all(|rest| entities.iter().any(|entity| rest.starts_with(entity)))
        );
        assert!(!content.contains('>'), "{content}");
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Decodes a PNG file into width, height and pixels, following the PNG specification.
fn png(file: &[u8]) -> (u32, u32, Vec<u8>) {
    let (signature, mut rest) = file.split_at(8);
    assert_eq!(signature, b"\x89PNG\r\n\x1a\n");
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        chunks.push((&rest[4..8], &rest[8..8 + length]));
        let mut crc = flate2::Crc::new();
        crc.update(&rest[4..8 + length]);
        assert_eq!(rest[8 + length..12 + length], crc.sum().to_be_bytes());
        rest = &rest[12 + length..];
    }
    let kinds: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.0).collect();
    assert_eq!(kinds, [b"IHDR", b"IDAT", b"IEND"]);
    let header = chunks[0].1;
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
    assert_eq!(header[8..], [8, 2, 0, 0, 0]);
    let (width, height) = (number(0), number(4));
    let mut lines = Vec::new();
    ZlibDecoder::new(chunks[1].1)
        .read_to_end(&mut lines)
        .unwrap();
    let row = width as usize * 3;
    assert_eq!(lines.len(), height as usize * (row + 1));
    let mut pixels: Vec<u8> = Vec::new();
    for line in lines.chunks(row + 1) {
        let above = pixels.len().checked_sub(row);
        for (column, value) in line[1..].iter().enumerate() {
            let above = above
                .filter(|_| line[0] == 2)
                .map_or(0, |above| pixels[above + column]);
            pixels.push(value.wrapping_add(above));
        }
    }
    (width, height, pixels)
}
