//! Polygons, indexed for tests of many points.

use geo::algorithm::kernels::{Kernel, Orientation, RobustKernel};
use geo::{Coord, Geometry, LineString, Polygon};

/// The maximum number of entries of all bands together, as a multiple of the number of edges.
const MAX_ENTRIES_PER_EDGE: usize = 8;

/// The edges of polygons, by horizontal bands of equal height.
///
/// ```text
///            ___
/// band 2    /   \__        edges that meet the band
/// band 1   /       \
/// band 0   \_______/
/// ```
///
/// A point is compared only with the edges that have its `y`, and consecutive points with the same `y`
/// share them.
#[derive(Debug)]
pub(crate) struct PointIndex {
    /// The edges, by polygon and ring.
    edges: Vec<Edge>,
    /// The edges that meet band `n` are `entries[offsets[n]..offsets[n + 1]]`, ascending.
    offsets: Vec<usize>,
    entries: Vec<u32>,
    bottom: f64,
    top: f64,
    bands: usize,
    /// The number of bands per unit of `y`.
    density: f64,
}

/// A directed edge of a ring.
#[derive(Debug, Clone, Copy)]
struct Edge {
    start: Coord,
    end: Coord,
    polygon: u32,
    ring: u32,
    is_hole: bool,
}

/// An edge that has the `y` of a point.
#[derive(Debug, Clone, Copy)]
struct Crossing {
    edge: Edge,
    /// The bounds of the `x` at which the edge has this `y`, wide enough for rounding errors.
    left: f64,
    right: f64,
}

/// The position of a point relative to polygons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    Inside,
    Outside,
    OnEdge,
}

/// Finds the positions of points one after another.
pub(crate) struct Positions<'a> {
    index: &'a PointIndex,
    /// The `y` of the previous point.
    y: f64,
    /// The edges that have this `y`.
    crossings: Vec<Crossing>,
    /// The open interval of `x` around the previous point in which no edge has this `y`. Empty if an
    /// edge may pass at the point.
    between: (f64, f64),
    /// The position of all points in `between`.
    position: Position,
}

impl PointIndex {
    /// Indexes the edges of polygons. Returns `None` for other geometries, and for coordinates that are
    /// not finite.
    pub fn new(geometry: &Geometry) -> Option<Self> {
        let mut edges = Vec::new();
        match geometry {
            Geometry::Polygon(polygon) => add(&mut edges, polygon, 0),
            Geometry::MultiPolygon(polygons) => {
                for (number, polygon) in polygons.iter().enumerate() {
                    add(&mut edges, polygon, number as u32);
                }
            }
            _ => return None,
        }
        let (mut bottom, mut top) = (f64::INFINITY, f64::NEG_INFINITY);
        for edge in &edges {
            let coordinates = [edge.start.x, edge.start.y, edge.end.x, edge.end.y];
            if !coordinates.iter().all(|number| number.is_finite()) {
                return None;
            }
            bottom = bottom.min(edge.bottom());
            top = top.max(edge.top());
        }
        let mut index = Self {
            bands: edges.len().max(1),
            edges,
            offsets: Vec::new(),
            entries: Vec::new(),
            bottom,
            top,
            density: 0.0,
        };
        // Long edges meet many bands.
        let most = MAX_ENTRIES_PER_EDGE * index.edges.len();
        loop {
            index.density = index.bands as f64 / (top - bottom);
            let spans = index.edges.iter().map(|edge| index.span(edge));
            let entries: usize = spans.map(|(first, last)| last - first + 1).sum();
            if entries <= most || index.bands == 1 {
                break;
            }
            index.bands = index.bands.div_ceil(2);
        }
        index.list();
        Some(index)
    }

    /// Lists the edges of each band.
    fn list(&mut self) {
        let mut offsets = vec![0; self.bands + 1];
        for edge in &self.edges {
            let (first, last) = self.span(edge);
            offsets[first + 1..=last + 1]
                .iter_mut()
                .for_each(|count| *count += 1);
        }
        for band in 0..self.bands {
            offsets[band + 1] += offsets[band];
        }
        let mut next = offsets.clone();
        let mut entries = vec![0; offsets[self.bands]];
        for (number, edge) in self.edges.iter().enumerate() {
            let (first, last) = self.span(edge);
            for next in &mut next[first..=last] {
                entries[*next] = number as u32;
                *next += 1;
            }
        }
        (self.offsets, self.entries) = (offsets, entries);
    }

    /// Returns the first and the last band of an edge.
    fn span(&self, edge: &Edge) -> (usize, usize) {
        (self.band(edge.bottom()), self.band(edge.top()))
    }

    /// Returns the band of a `y` between `bottom` and `top`. A greater `y` has the same or a greater band.
    fn band(&self, y: f64) -> usize {
        // Casts saturate, and the band of NaN, if all edges are horizontal, is 0.
        (((y - self.bottom) * self.density) as usize).min(self.bands - 1)
    }

    /// Returns a reader of the positions of points.
    pub fn positions(&self) -> Positions<'_> {
        Positions {
            index: self,
            y: f64::NAN,
            crossings: Vec::new(),
            between: (f64::NAN, f64::NAN),
            position: Position::Outside,
        }
    }
}

/// Adds the edges of a polygon.
fn add(edges: &mut Vec<Edge>, polygon: &Polygon, number: u32) {
    let mut add = |ring: &LineString, of_polygon: usize| {
        edges.extend(ring.lines().map(|line| Edge {
            start: line.start,
            end: line.end,
            polygon: number,
            ring: of_polygon as u32,
            is_hole: of_polygon > 0,
        }));
    };
    add(polygon.exterior(), 0);
    for (hole, ring) in polygon.interiors().iter().enumerate() {
        add(ring, hole + 1);
    }
}

impl Positions<'_> {
    /// Returns the position of a point. A point with NaN, which is an empty point, is outside.
    pub fn of(&mut self, x: f64, y: f64) -> Position {
        if x.is_nan() {
            return Position::Outside;
        }
        if y == self.y && self.between.0 < x && x < self.between.1 {
            return self.position;
        }
        if y != self.y {
            self.y = y;
            self.crossings.clear();
            let index = self.index;
            if y >= index.bottom && y <= index.top {
                let band = index.band(y);
                let entries = &index.entries[index.offsets[band]..index.offsets[band + 1]];
                let edges = entries.iter().map(|entry| index.edges[*entry as usize]);
                let edges = edges.filter(|edge| edge.bottom() <= y && y <= edge.top());
                self.crossings.extend(edges.map(|edge| edge.crossing(y)));
            }
        }
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        for crossing in &self.crossings {
            if crossing.right < x {
                low = low.max(crossing.right);
            } else if crossing.left > x {
                high = high.min(crossing.left);
            } else {
                // Neighbours of the point may be on the other side of the edge.
                high = f64::NEG_INFINITY;
            }
        }
        self.between = (low, high);
        self.position = self.compute(x, y);
        self.position
    }

    /// Returns the position of the first of some points with the same `y`, and the number of points from it on
    /// that are known to have the same position. There must be at least one point.
    pub fn of_line(&mut self, x: &[f64], y: f64) -> (Position, usize) {
        let position = self.of(x[0], y);
        if x[0].is_nan() {
            return (position, 1);
        }
        let (low, high) = self.between;
        let others = x[1..].iter().take_while(|x| low < **x && **x < high);
        (position, 1 + others.count())
    }

    /// Returns the position of a point by the winding numbers of the rings around it.
    fn compute(&self, x: f64, y: f64) -> Position {
        let mut position = Position::Outside;
        for polygon in self
            .crossings
            .chunk_by(|one, other| one.edge.polygon == other.edge.polygon)
        {
            let (mut in_exterior, mut in_hole) = (false, false);
            for ring in polygon.chunk_by(|one, other| one.edge.ring == other.edge.ring) {
                let mut winding = 0;
                for crossing in ring {
                    match crossing.winding(Coord { x, y }) {
                        Some(turn) => winding += turn,
                        None => return Position::OnEdge,
                    }
                }
                match ring[0].edge.is_hole {
                    true => in_hole |= winding != 0,
                    false => in_exterior = winding != 0,
                }
            }
            if in_exterior && !in_hole {
                position = Position::Inside;
            }
        }
        position
    }
}

impl Edge {
    fn bottom(&self) -> f64 {
        self.start.y.min(self.end.y)
    }

    fn top(&self) -> f64 {
        self.start.y.max(self.end.y)
    }

    fn left(&self) -> f64 {
        self.start.x.min(self.end.x)
    }

    fn right(&self) -> f64 {
        self.start.x.max(self.end.x)
    }

    /// Returns where the edge has `y`, which must be between its bottom and its top.
    fn crossing(self, y: f64) -> Crossing {
        let (start, end) = (self.start, self.end);
        let (width, height) = (end.x - start.x, end.y - start.y);
        let (mut left, mut right) = (self.left(), self.right());
        if height != 0.0 && width.is_finite() && height.is_finite() {
            let x = start.x + (y - start.y) / height * width;
            // Each operation has a relative error of at most half of EPSILON.
            let error = 8.0 * f64::EPSILON * (start.x.abs() + end.x.abs()) + f64::MIN_POSITIVE;
            (left, right) = (left.max(x - error), right.min(x + error));
        }
        Crossing {
            edge: self,
            left,
            right,
        }
    }
}

impl Crossing {
    /// Returns the contribution of the edge to the winding number of its ring around a point whose `y`
    /// it has: 1 if the edge goes up on the right of the point, -1 if it goes down. `None` if the point is
    /// on the edge.
    fn winding(&self, point: Coord) -> Option<i32> {
        if point.x > self.right {
            return Some(0);
        }
        let Edge { start, end, .. } = self.edge;
        // An edge has its lower end, but not its upper end, so that two edges that meet count once.
        let turn = match (start.y <= point.y, end.y <= point.y) {
            (true, false) => 1,
            (false, true) => -1,
            _ => 0,
        };
        if point.x < self.left {
            return Some(turn);
        }
        let side = RobustKernel::orient2d(start, end, point);
        match (side, turn) {
            // The bounds of the edge contain the point.
            (Orientation::Collinear, _) => None,
            (Orientation::CounterClockwise, 1) | (Orientation::Clockwise, -1) => Some(turn),
            _ => Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use geo::coordinate_position::{CoordPos, CoordinatePosition};

    use super::*;

    /// Returns pseudorandom numbers between -1 and 1.
    fn numbers(mut seed: u64) -> impl FnMut() -> f64 {
        move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        }
    }

    #[test]
    fn positions_of_points_close_to_edges() {
        let mut number = numbers(7);
        for scale in [1.0, 1e-9, 1e9, 1e-100] {
            for _ in 0..20 {
                // A star around a point far from the origin.
                let center = Coord {
                    x: 100.0 * number() * scale,
                    y: 100.0 * number() * scale,
                };
                let corners: Vec<_> = (0..17)
                    .map(|corner| {
                        let angle = f64::from(corner) / 17.0 * std::f64::consts::TAU;
                        let radius = (2.0 + number()) * scale;
                        center
                            + Coord {
                                x: angle.cos(),
                                y: angle.sin(),
                            } * radius
                    })
                    .collect();
                let ring = LineString::from(corners.clone());
                let geometry = Geometry::Polygon(Polygon::new(ring, Vec::new()));
                let index = PointIndex::new(&geometry).unwrap();
                for two in corners.windows(2) {
                    let share = (number() + 1.0) / 2.0;
                    let on = two[0] + (two[1] - two[0]) * share;
                    // Neighbouring numbers on both sides of the edge, and points far away.
                    let mut x = vec![on.x.next_down().next_down(), on.x.next_down(), on.x];
                    x.extend([on.x.next_up(), on.x.next_up().next_up()]);
                    x.extend((0..8).map(|step| center.x + scale * f64::from(step)));
                    x.extend([two[0].x, two[1].x]);
                    for y in [on.y, two[0].y, two[1].y] {
                        let (mut one_by_one, mut by_line) = (index.positions(), index.positions());
                        let mut known = Vec::new();
                        while known.len() < x.len() {
                            let (position, count) = by_line.of_line(&x[known.len()..], y);
                            known.extend(std::iter::repeat_n(position, count));
                        }
                        for (x, known) in x.iter().zip(known) {
                            let expected = geometry.coordinate_position(&Coord { x: *x, y });
                            let expected = match expected {
                                CoordPos::Inside => Position::Inside,
                                CoordPos::Outside => Position::Outside,
                                CoordPos::OnBoundary => Position::OnEdge,
                            };
                            assert_eq!(one_by_one.of(*x, y), expected, "{x} {y} {geometry:?}");
                            assert_eq!(known, expected, "{x} {y} {geometry:?}");
                        }
                    }
                }
            }
        }
    }
}
