//! Writes a scene as PNG.

use super::font::Font;
use super::scene::{Anchor, Mark, Scene};
use crate::palette::Rgb;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use std::io::Write;
use tiny_skia::{
    FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Rect,
    Stroke, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

/// The pixels of the file per pixel of the scene, for high-density screens.
const SCALE: f32 = 2.0;

/// Returns a PNG file with twice the width and height of the scene.
pub fn bytes(scene: &Scene) -> Result<Vec<u8>, String> {
    let (width, height) = (scene.width as f32 * SCALE, scene.height as f32 * SCALE);
    let mut canvas = Pixmap::new(width as u32, height as u32).ok_or("the picture has no size")?;
    canvas.fill(tiny_skia::Color::WHITE);
    let font = Font::new()?;
    for mark in &scene.marks {
        draw(&mut canvas, mark, &font);
    }
    let pixels: Vec<u8> = canvas
        .pixels()
        .iter()
        .flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()])
        .collect();
    Ok(file(canvas.width(), canvas.height(), 3, &pixels))
}

/// Returns a PNG file with one pixel for each cell of an image.
pub fn image(columns: usize, pixels: &[Option<Rgb>]) -> Vec<u8> {
    let rows = pixels.len() / columns.max(1);
    let pixels = pixels.iter().flat_map(|pixel| match pixel {
        Some([red, green, blue]) => [*red, *green, *blue, 255],
        None => [0; 4],
    });
    file(columns as u32, rows as u32, 4, &pixels.collect::<Vec<u8>>())
}

fn draw(canvas: &mut Pixmap, mark: &Mark, font: &Font) {
    let transform = Transform::from_scale(SCALE, SCALE);
    match mark {
        Mark::Box {
            left,
            top,
            width,
            height,
            colour,
        } => {
            let size = (width.max(0.01) as f32, height.max(0.01) as f32);
            if let Some(rect) = Rect::from_xywh(*left as f32, *top as f32, size.0, size.1) {
                canvas.fill_rect(rect, &paint(*colour), transform, None);
            }
        }
        Mark::Line {
            points,
            colour,
            width,
            dash,
        } => {
            let stroke = Stroke {
                width: *width as f32,
                line_cap: LineCap::Butt,
                line_join: LineJoin::Round,
                dash: dash.and_then(|dash| StrokeDash::new(vec![dash as f32; 2], 0.0)),
                ..Stroke::default()
            };
            if let Some(path) = through(points) {
                canvas.stroke_path(&path, &paint(*colour), &stroke, transform, None);
            }
        }
        Mark::Dot { at, radius, colour } => {
            if let Some(path) = PathBuilder::from_circle(at.0 as f32, at.1 as f32, *radius as f32) {
                canvas.fill_path(&path, &paint(*colour), FillRule::Winding, transform, None);
            }
        }
        Mark::Text {
            at,
            text,
            size,
            anchor,
            is_upright,
            colour,
        } => {
            let width = font.width(text, *size);
            let before = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => width / 2.0,
                Anchor::End => width,
            };
            let mut outlines = Outlines::default();
            font.draw(text, *size, &mut outlines, |outlines, x, scale| {
                outlines.x = (x - before) as f32;
                outlines.scale = scale as f32;
            });
            let place = Transform::from_translate(at.0 as f32, at.1 as f32).post_concat(transform);
            let place = if *is_upright {
                place.pre_concat(Transform::from_rotate(-90.0))
            } else {
                place
            };
            if let Some(path) = outlines.path.finish() {
                canvas.fill_path(&path, &paint(*colour), FillRule::Winding, place, None);
            }
        }
        Mark::Image {
            left,
            top,
            width,
            height,
            columns,
            pixels,
        } => copy(canvas, [*left, *top, *width, *height], *columns, pixels),
    }
}

fn paint(colour: Rgb) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(colour[0], colour[1], colour[2], 255);
    paint.anti_alias = true;
    paint
}

fn through(points: &[(f64, f64)]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (number, (x, y)) in points.iter().enumerate() {
        if number == 0 {
            path.move_to(*x as f32, *y as f32);
        } else {
            path.line_to(*x as f32, *y as f32);
        }
    }
    path.finish()
}

/// Draws an image without interpolation: each pixel takes the colour of the cell at its centre.
fn copy(canvas: &mut Pixmap, place: [f64; 4], columns: usize, pixels: &[Option<Rgb>]) {
    let scale = f64::from(SCALE);
    let [left, top, width, height] = place.map(|length| length * scale);
    let rows = pixels.len() / columns.max(1);
    let canvas_width = canvas.width() as usize;
    for (number, pixel) in canvas.pixels_mut().iter_mut().enumerate() {
        let x = ((number % canvas_width) as f64 + 0.5 - left) / width;
        let y = ((number / canvas_width) as f64 + 0.5 - top) / height;
        if !(0.0..1.0).contains(&x) || !(0.0..1.0).contains(&y) {
            continue;
        }
        let (column, row) = ((x * columns as f64) as usize, (y * rows as f64) as usize);
        if let Some(Some([red, green, blue])) = pixels.get(row * columns + column)
            && let Some(colour) = PremultipliedColorU8::from_rgba(*red, *green, *blue, 255)
        {
            *pixel = colour;
        }
    }
}

/// Collects letter outlines as a path. Font units point up and pixels down, so y is negated.
#[derive(Default)]
struct Outlines {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl Outlines {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Outlines {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

/// Encodes pixels with 3 or 4 channels of 8 bits (PNG specification, third edition, sections 5 and
/// 11).
fn file(width: u32, height: u32, channels: usize, pixels: &[u8]) -> Vec<u8> {
    let row = width as usize * channels;
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let colour_type = if channels == 4 { 6 } else { 2 };
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, colour_type, 0, 0, 0]);
    add(&mut bytes, b"IHDR", &header);
    // Areas of one colour compress best unfiltered (0) or as differences from the row above (2).
    let packed = [0, 2].map(|filter| packed(pixels, row, filter));
    let min = packed.iter().min_by_key(|data| data.len());
    add(&mut bytes, b"IDAT", min.map_or(&[], Vec::as_slice));
    add(&mut bytes, b"IEND", &[]);
    bytes
}

fn packed(pixels: &[u8], row: usize, filter: u8) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let mut above = vec![0; row];
    for line in pixels.chunks_exact(row.max(1)) {
        let filtered: Vec<u8> = match filter {
            0 => line.to_vec(),
            _ => line
                .iter()
                .zip(&above)
                .map(|(value, above)| value.wrapping_sub(*above))
                .collect(),
        };
        // Writing to memory does not fail.
        let _ = encoder
            .write_all(&[filter])
            .and_then(|()| encoder.write_all(&filtered));
        above.copy_from_slice(line);
    }
    encoder.finish().unwrap_or_default()
}

fn add(bytes: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(kind);
    bytes.extend(data);
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    bytes.extend(crc.sum().to_be_bytes());
}
