//! Charts as files.

use super::*;
use flate2::read::ZlibDecoder;
use std::io::Read;

#[tokio::test]
async fn pictures_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let chart =
        chart("SELECT lat, lon, avg(value) AS \"</script>\" FROM temperature GROUP BY lat, lon")
            .await;
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
    // The ends of the scale, white and the ink of the text, which needs no font of the machine.
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
    std::fs::write(path("array.svg"), b"TETR and more").unwrap();
    std::fs::write(path("old.svg"), b"<svg/>").unwrap();
    std::fs::create_dir(path("folder.png")).unwrap();
    for (name, expected) in [
        (
            "array.svg",
            "array.svg: is an array file, which is not overwritten",
        ),
        (
            "folder.png",
            "folder.png: is no file, and is not replaced by a picture",
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
    assert_eq!(std::fs::read(path("array.svg")).unwrap(), b"TETR and more");
    // No temporary file is left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

/// Makes the pictures of the README anew: `cargo test --bin tet-sql pictures_of_the_readme -- --ignored`.
#[tokio::test]
#[ignore = "writes into docs/images"]
async fn pictures_of_the_readme() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    for (name, sql) in [
        (
            "plot-lines.png",
            "SELECT * FROM pressure WHERE station IN ('KSEA', 'KPDX', 'RJTT')",
        ),
        (
            "plot-heat-map.png",
            "SELECT lat, lon, avg(value) AS mean FROM temperature GROUP BY lat, lon",
        ),
        ("plot-histogram.png", "SELECT value FROM temperature"),
    ] {
        let path = folder.join(name);
        chart(sql).await.write(&path).unwrap();
        assert!(std::fs::metadata(path).unwrap().len() < 60_000, "{name}");
    }
}

/// Every element ends, within the one that it begins in; and nothing is in it that XML forbids.
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

/// The width, the height and the pixels of a file, by the specification of PNG.
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
