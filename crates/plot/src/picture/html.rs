//! Writes a scene as a self-contained HTML page that shows the values under the pointer.

use super::scene::{Hover, Scene};
use super::svg;
use serde_json::{Value, json};

const STYLE: &str = "\
body { margin: 1rem; background: #ffffff; }
#chart { position: relative; max-width: 100%; }
#chart svg { display: block; max-width: 100%; height: auto; }
#guide { position: absolute; pointer-events: none; background: #00000055; }
#tip { position: absolute; pointer-events: none; padding: .3em .5em; border-radius: 3px; white-space: pre;
  background: #222222e6; color: #ffffff; font: 12px DejaVu Sans, Verdana, Geneva, sans-serif; z-index: 1; }";

const SCRIPT: &str = r#"
const chart = document.getElementById("chart");
const guide = document.getElementById("guide");
const tip = document.getElementById("tip");
const data = JSON.parse(document.getElementById("data").textContent);
const [left, top_, width, height] = data.plot;

function hide() { guide.hidden = tip.hidden = true; }

// Returns the entry of a sorted list whose value is nearest.
function nearest(places, value) {
  let low = 0, high = places.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (places[middle][0] <= value) low = middle; else high = middle;
  }
  return value - places[low][0] < places[high][0] - value ? places[low] : places[high];
}

// Returns the cell that contains a value. Edges may ascend or descend.
function cell(edges, value) {
  for (let i = 0; i + 1 < edges.length; i++) {
    if ((value - edges[i]) * (value - edges[i + 1]) <= 0) return i;
  }
  return -1;
}

function mark(x, y, w, h, scale) {
  guide.style.left = x * scale + "px";
  guide.style.top = y * scale + "px";
  guide.style.width = w * scale + "px";
  guide.style.height = h * scale + "px";
  guide.hidden = false;
}

function move(event) {
  const box = chart.querySelector("svg").getBoundingClientRect();
  const scale = box.width / data.width;
  const x = (event.clientX - box.left) / scale, y = (event.clientY - box.top) / scale;
  if (x < left || x > left + width || y < top_ || y > top_ + height) return hide();
  let text = "";
  if (data.across) {
    const place = nearest(data.across, x);
    mark(place[0] - .5, top_, 1, height, scale);
    text = place[1];
  } else if (data.down) {
    const place = nearest(data.down, y);
    mark(left, place[0] - .5, width, 1, scale);
    text = place[1];
  } else {
    const cells = data.cells;
    const i = cell(cells.xEdges, x), j = cell(cells.yEdges, y);
    if (i < 0 || j < 0) return hide();
    const value = cells.values[j * cells.xTexts.length + i];
    guide.hidden = true;
    text = cells.names[0] + ": " + cells.xTexts[i] + "\n" + cells.names[1] + ": " + cells.yTexts[j] + "\n" +
      cells.names[2] + ": " + (value === null ? "none" : value + cells.unit);
  }
  tip.textContent = text;
  tip.hidden = false;
  const right = x * scale + 14 + tip.offsetWidth > box.width;
  tip.style.left = Math.max(0, x * scale + (right ? -14 - tip.offsetWidth : 14)) + "px";
  tip.style.top = Math.max(0, Math.min(y * scale + 14, box.height - tip.offsetHeight)) + "px";
}

hide();
chart.addEventListener("pointermove", move);
chart.addEventListener("pointerdown", move);
chart.addEventListener("pointerleave", hide);
"#;

/// Returns the page.
pub fn text(scene: &Scene) -> Result<String, String> {
    let data = serde_json::to_string(&data(scene)).map_err(|error| error.to_string())?;
    // `<` is escaped so that no text can end the script element.
    let data = data.replace('<', "\\u003c");
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}\n</style>\n\
         </head>\n<body>\n<div id=\"chart\" style=\"width: {width}px\">\n{svg}<div id=\"guide\" hidden></div>\n\
         <div id=\"tip\" hidden></div>\n</div>\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        title = svg::escaped(&scene.description),
        width = scene.width,
        svg = svg::text(scene),
    ))
}

fn data(scene: &Scene) -> Value {
    let tenths = |length: f64| (length * 10.0).round() / 10.0;
    let places = |places: &[(f64, String)]| -> Value {
        places
            .iter()
            .map(|(place, text)| json!([tenths(*place), text]))
            .collect()
    };
    let (name, hover) = match &scene.hover {
        Hover::Across(along) => ("across", places(along)),
        Hover::Down(along) => ("down", places(along)),
        Hover::Cells {
            x_edges,
            x_texts,
            y_edges,
            y_texts,
            values,
            names,
            unit,
        } => {
            let short = |value: &Option<f64>| -> Value {
                let value = value.and_then(|value| format!("{value:.5e}").parse::<f64>().ok());
                value.map_or(Value::Null, Value::from)
            };
            let edges = |edges: &[f64]| -> Value {
                edges.iter().map(|edge| json!(tenths(*edge))).collect()
            };
            let values: Value = values.iter().map(short).collect();
            let cells = json!({
                "xEdges": edges(x_edges), "xTexts": x_texts, "yEdges": edges(y_edges), "yTexts": y_texts,
                "values": values, "names": names, "unit": unit,
            });
            ("cells", cells)
        }
    };
    let mut data = json!({ "plot": scene.plot, "width": scene.width });
    data[name] = hover;
    data
}
