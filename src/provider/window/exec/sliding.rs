//! Aggregates over frames that slide along the order axis.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;

use crate::provider::window::exec::planes::PlaneRing;
use crate::provider::window::exec::states::SeriesState;

/// The state of an aggregate over a frame, as two parts that are combined for each output plane:
///
/// ```text
/// planes        2   3   4   5 | 6   7   8
/// frame             [-----------------)
/// front             3-5 4-5 5              one state per possible start of the frame
/// back                          6-7        grows with the end of the frame
/// ```
///
/// Once the frame starts behind the front, the states of the front are computed anew from the planes
/// of the frame. Each plane is added at most twice.
pub(in crate::provider::window) struct Sliding<S> {
    /// The plane of the array's expressions that is aggregated.
    plane: usize,
    lanes: usize,
    /// The frame of each plane along the order axis, in walking order.
    frames: Arc<[Range<u32>]>,
    /// States that start at a plane, by descending starts.
    front: Vec<(u32, S)>,
    /// The state of the planes after those of the front.
    back: S,
    /// The end of the planes that were added.
    end: u32,
    /// States to use again.
    spare: Vec<S>,
}

impl<S: SeriesState> Sliding<S> {
    /// Creates the aggregate of a plane expression over these frames, whose bounds never descend.
    pub fn new(plane: usize, lanes: usize, frames: Arc<[Range<u32>]>) -> Self {
        Self {
            plane,
            lanes,
            frames,
            front: Vec::new(),
            back: S::new(lanes),
            end: 0,
            spare: Vec::new(),
        }
    }

    /// Moves on to the frame of a plane. Returns the two states that make up its aggregate; `None` if
    /// the frame is empty.
    pub fn at(&mut self, index: usize, planes: &PlaneRing) -> Result<Option<(&S, &S)>> {
        let frame = self.frames[index].clone();
        if frame.is_empty() {
            return Ok(None);
        }
        while self
            .front
            .last()
            .is_some_and(|(start, _)| *start < frame.start)
        {
            self.spare.extend(self.front.pop().map(|(_, state)| state));
        }
        if self.front.is_empty() {
            self.fill_front(index, planes)?;
        } else {
            for number in self.end..frame.end {
                self.back.add(planes.plane(number as usize, self.plane))?;
            }
        }
        self.end = frame.end;
        Ok(self.front.last().map(|(_, state)| (state, &self.back)))
    }

    /// Adds a plane of the frame, if all frames are the same. The planes must be added in order.
    pub fn add_to_total(&mut self, number: usize, planes: &PlaneRing) -> Result<()> {
        let frame = self.frames[0].clone();
        if !frame.contains(&(number as u32)) {
            return Ok(());
        }
        if self.front.is_empty() {
            self.front.push((frame.start, S::new(self.lanes)));
            self.end = frame.end;
        }
        match self.front.last_mut() {
            Some((_, total)) => total.add(planes.plane(number, self.plane)),
            None => Ok(()),
        }
    }

    fn fill_front(&mut self, index: usize, planes: &PlaneRing) -> Result<()> {
        let frame = self.frames[index].clone();
        self.back.clear();
        // A single state is enough if the frame starts here until it starts behind all of its planes.
        let later = self.frames[index..]
            .iter()
            .filter(|frame| !frame.is_empty());
        let mut starts = later.map(|later| later.start);
        let next = starts.find(|start| *start > frame.start);
        let is_single = next.is_none_or(|next| next >= frame.end);
        for number in frame.clone().rev() {
            let plane = planes.plane(number as usize, self.plane);
            match self.front.last_mut() {
                Some((start, state)) if is_single => {
                    state.add(plane)?;
                    *start = number;
                }
                last => {
                    let mut state = self.spare.pop().unwrap_or_else(|| S::new(self.lanes));
                    match last {
                        Some((_, longer)) => state.copy_from(longer),
                        None => state.clear(),
                    }
                    state.add(plane)?;
                    self.front.push((number, state));
                }
            }
        }
        Ok(())
    }
}
