//! Tests of charts in the terminal, character by character.

use super::*;

#[test]
fn lines_have_gaps_and_are_sorted() {
    let x = floats([5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 6.0, 7.0]);
    let y = floats([2.5, 2.0, f64::NAN, 1.0, 0.5, 0.0, f64::INFINITY, 3.5]);
    let chart = made(vec![("x", x), ("y", y)]).unwrap();
    assert_eq!(
        ascii(&chart, 32, 11),
        "\
y
  |                           *
  |
2 +               *****
  |      ***
  |  ****
0 +**
  ++---+---+---+--+---+---+---+
   0   1   2   3  4   5   6   7
                 x
1 infinite value is left out
"
    );
    assert_eq!(
        chart.draw((24, 9), Colours::None, Characters::Braille),
        "\
y
  │                   ⠐
2 ┤           ⣀⠤⠔⠂
  │    ⣀⠤
0 ┤⠤⠒⠊⠉
  └┬────┬─────┬────┬───
   0    2     4    6
             x
1 infinite value is left
out
"
    );
}

#[test]
fn terminals_without_braille_draw_blocks() {
    let chart = made(vec![
        ("x", integers(0..9)),
        ("y", integers((0..9).map(|i| i % 4))),
    ])
    .unwrap();
    assert_eq!(
        chart.draw((24, 9), Colours::None, Characters::Blocks),
        "\
y
  │      ▗▞▖       ▄▚
2 ┤     ▞▘ ▚     ▗▀ ▝▖
  │   ▄▀   ▝▖  ▗▞▘   ▚
  │ ▗▞      ▚ ▄▘     ▝▖
0 ┤▞▘       ▝▞        ▚
  └┬────┬────┬───┬────┬
   0    2    4   6    8
             x
"
    );
}

#[test]
fn several_lines_are_told_apart_without_colours() {
    let chart = made(vec![
        ("x", integers(0..4)),
        ("up", integers(0..4)),
        ("down", integers((0..4).rev())),
    ])
    .unwrap();
    assert_eq!(
        chart.draw((24, 9), Colours::None, Characters::Braille),
        "\
* up  o down
  │ooo             ****
2 ┤   ooooo    ****
  │        ****
  │   *****    oooo
0 ┤***             oooo
  └┬─────┬──────┬─────┬
   0     1      2     3
             x
"
    );
    let coloured = chart.draw((24, 9), Colours::Ansi16, Characters::Braille);
    assert!(
        coloured.contains("\x1b[94m─\x1b[0m up") && coloured.contains("\x1b[91m─\x1b[0m down"),
        "{coloured}"
    );
}

#[test]
fn larger_is_further_up_in_heat_maps() {
    let (lat, lon) = (
        integers([10, 10, 0, 0, -10, -10]),
        integers([0, 90, 0, 90, 0, 90]),
    );
    let value = Arc::new(Float64Array::from(vec![
        Some(9.0),
        Some(8.0),
        None,
        Some(4.0),
        Some(1.0),
        Some(0.0),
    ]));
    let chart = made(vec![("lat", lat), ("lon", lon), ("v", value)]).unwrap();
    assert_eq!(
        ascii(&chart, 32, 10),
        "\
lat                            v
    |@@@@@@@@@@@@@@@@@@@@  @@
 10 +@@@@@@@@@@@@@@@@@@@@  ##
    |          ++++++++++  ** 5
  0 +          ++++++++++  ==
-10 +::::::::::..........  --
    |::::::::::..........  .. 0
    +-----+--------+-----
          0       90
              lon
"
    );
    let coloured = chart.draw((32, 10), Colours::TrueColour, Characters::Blocks);
    // The highest value has the lightest colour.
    assert!(coloured.contains("\x1b[38;2;253;231;37m█"), "{coloured:?}");
}

#[test]
fn bars_begin_at_zero() {
    let chart = made(vec![
        ("name", texts(&["b", "a", "c"])),
        ("n", integers([3, -1, 2])),
    ])
    .unwrap();
    assert_eq!(
        ascii(&chart, 32, 12),
        "\
name
 b|       ################## 3
 a| ###### -1
 c|       ############ 2
  +-+-----+-----+----+-----+-
   -1     0     1    2     3
                n
"
    );
    let chart = made(vec![
        ("name", texts(&["b", "a", "c"])),
        ("n", floats([3.0, 1.25, f64::NAN])),
    ])
    .unwrap();
    assert_eq!(
        chart.draw((32, 12), Colours::None, Characters::Blocks),
        "\
name
 b│███████████████████████▏ 3
 a│█████████▋ 1.25
 c│NULL
  └┬──────┬───────┬──────┬─
   0      1       2      3
               n
"
    );
}

#[test]
fn one_note_counts_the_bars_that_are_drawn() {
    let names: Vec<String> = (0..48).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let chart = made(vec![("name", texts(&names)), ("n", integers(0..48))]).unwrap();
    for (height, drawn) in [(12, 7), (30, 25), (100, 40)] {
        let drawing = ascii(&chart, 60, height);
        let bars = drawing.lines().filter(|line| line.contains('|'));
        assert_eq!(bars.count(), drawn, "{drawing}");
        let note = format!("the first {drawn} of 48 values of name are drawn");
        assert_eq!(drawing.lines().last(), Some(note.as_str()), "{drawing}");
        assert!(!drawing.contains("more"), "{drawing}");
    }
    let short = made(vec![("name", texts(&names[..5])), ("n", integers(0..5))]).unwrap();
    assert!(!ascii(&short, 60, 20).contains("drawn"));
}

#[test]
fn histograms_count() {
    let values = integers([1, 2, 2, 3, 3, 3, 4, 4, 5]);
    let chart = made(vec![("n", values)]).unwrap();
    let Content::Histogram(histogram) = &chart.content else {
        panic!("{chart:?}");
    };
    assert_eq!(histogram.edges, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]);
    assert_eq!(histogram.counts, [1, 2, 3, 2, 1]);
    assert_eq!(
        chart.draw((32, 10), Colours::None, Characters::Blocks),
        "\
rows
  │           ▆▆▆▆▆▆
  │           ██████
2 ┤      ▇▇▇▇▇██████▇▇▇▇▇
  │      ████████████████
  │▇▇▇▇▇▇████████████████▇▇▇▇▇▇
0 ┤████████████████████████████
  └───┬────┬─────┬────┬────┬───
      1    2     3    4    5
                 n
"
    );
}
