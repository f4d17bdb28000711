//! Named points. A name stands beside its point, where it covers neither a point nor another name.

use maud::html;

use super::scale::{can_show, Scale};
use super::svg::{self, px, Area, Key};
use super::{describe, Axis, Drawing, Frame};

/// Points with names, in one or several series.
#[derive(Debug, Clone)]
pub struct Scatter {
    pub(super) title: String,
    x: Axis,
    y: Axis,
    series: Vec<String>,
    points: Vec<Point>,
}

#[derive(Debug, Clone)]
struct Point {
    series: usize,
    name: String,
    x: f64,
    y: f64,
}

/// A rectangle that is taken.
#[derive(Clone, Copy)]
struct Taken {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Taken {
    fn overlap(&self, other: &Taken) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0.0) * height.max(0.0)
    }
}

impl Scatter {
    /// A plot without points.
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Scatter {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
            points: Vec::new(),
        }
    }

    /// Starts a series; the points that follow belong to it.
    pub fn series(mut self, name: &str) -> Self {
        self.series.push(name.into());
        self
    }

    /// Adds a point.
    pub fn point(mut self, name: &str, x: f64, y: f64) -> Self {
        let series = self.series.len().saturating_sub(1);
        self.points.push(Point {
            series,
            name: name.into(),
            x,
            y,
        });
        self
    }

    pub(super) fn draw(&self, frame: Frame) -> Drawing {
        let width = frame.width();
        let plot_height = if frame.is_narrow() { 300.0 } else { 380.0 };
        let (legend, legend_height) = svg::legend(&self.series, Key::Point, 8.0, width);
        let top = legend_height + 32.0;
        let y_scale = Scale::new(
            &self.y,
            self.points.iter().map(|p| p.y),
            (plot_height / 55.0) as usize,
        );
        let left = svg::axis_left_width(&y_scale);
        let area = Area {
            left,
            right: width - 14.0,
            top,
            bottom: top + plot_height,
        };
        let y_scale = y_scale.on(area.bottom - 8.0, area.top + 8.0);
        let tick_count = ((area.right - area.left) / 60.0) as usize;
        let x_scale = Scale::new(&self.x, self.points.iter().map(|p| p.x), tick_count)
            .on(area.left + 8.0, area.right - 8.0);

        let drawn: Vec<_> = self
            .points
            .iter()
            .filter(|p| can_show(&self.x, p.x) && can_show(&self.y, p.y))
            .collect();
        let places: Vec<_> = drawn
            .iter()
            .map(|p| (x_scale.at(p.x), y_scale.at(p.y)))
            .collect();
        let names: Vec<_> = drawn
            .iter()
            .map(|p| svg::fit(&p.name, (area.right - area.left) * 0.45))
            .collect();
        let labels = place_labels(&places, &names, area);
        let marks = html! {
            (legend)
            (svg::axis_below(&x_scale, area, &self.x.heading()))
            (svg::axis_left(&y_scale, area, &self.y.heading(), width))
            line.base x1=(px(area.left)) x2=(px(area.right)) y1=(px(area.bottom)) y2=(px(area.bottom)) {}
            line.base x1=(px(area.left)) x2=(px(area.left)) y1=(px(area.top)) y2=(px(area.bottom)) {}
            @for (label, (x, y)) in labels.iter().zip(&places) {
                @if let Some(Label { anchor: Some((to_x, to_y)), .. }) = label {
                    line.leader x1=(px(*x)) y1=(px(*y)) x2=(px(*to_x)) y2=(px(*to_y)) {}
                }
            }
            @for (point, (x, y)) in drawn.iter().zip(&places) {
                @let values = format!("{}, {}", self.x.unit.format(point.x), self.y.unit.format(point.y));
                (svg::marker(point.series, *x, *y, &format!("{}: {values}", point.name)))
            }
            @for (label, name) in labels.iter().zip(&names) {
                @if let Some(label) = label {
                    text.over x=(px(label.x)) y=(px(label.y)) { (name) }
                }
            }
        };
        let what = format!(
            "{} points, {} over {}.",
            drawn.len(),
            self.y.heading(),
            self.x.heading()
        );
        let description = describe(what, self.points.len() - drawn.len());
        Drawing {
            height: area.bottom + svg::AXIS_BELOW,
            description,
            marks,
        }
    }
}

/// Where a name stands, and where its leader ends if it needs one.
struct Label {
    x: f64,
    y: f64,
    anchor: Option<(f64, f64)>,
}

/// A place for each name: beside its point if that is free, else further off with a leader, else none (the tooltip
/// still has it). Points in a crowd choose first, they have the least choice.
fn place_labels(places: &[(f64, f64)], names: &[String], area: Area) -> Vec<Option<Label>> {
    const NEIGHBOURHOOD: f64 = 60.0;
    const NAMES_MAX: usize = 150;
    let mut taken: Vec<Taken> = places
        .iter()
        .map(|(x, y)| Taken {
            left: x - 5.0,
            top: y - 5.0,
            right: x + 5.0,
            bottom: y + 5.0,
        })
        .collect();
    let crowd = |(x, y): (f64, f64)| {
        places
            .iter()
            .filter(|(ox, oy)| {
                (ox - x).abs() < NEIGHBOURHOOD && (oy - y).abs() < NEIGHBOURHOOD / 2.0
            })
            .count()
    };
    let mut order: Vec<_> = (0..places.len().min(NAMES_MAX)).collect();
    order.sort_by_key(|at| std::cmp::Reverse(crowd(places[*at])));
    let mut labels: Vec<Option<Label>> = places.iter().map(|_| None).collect();
    for at in order {
        let (x, y) = places[at];
        let width = svg::text_width(&names[at]);
        for (distance, dx, dy) in candidates() {
            let (cx, cy) = (x + dx * distance, y + dy * distance * 0.8);
            let left = if dx > 0.3 {
                cx
            } else if dx < -0.3 {
                cx - width
            } else {
                cx - width / 2.0
            };
            let middle = if dx.abs() < 0.3 { cy + dy * 5.0 } else { cy };
            let place = Taken {
                left,
                top: middle - 8.0,
                right: left + width,
                bottom: middle + 8.0,
            };
            let inside = place.left >= area.left + 2.0
                && place.right <= area.right + 6.0
                && place.top >= area.top - 6.0
                && place.bottom <= area.bottom - 2.0;
            let free = taken
                .iter()
                .enumerate()
                .all(|(other, t)| (other == at && distance < 10.0) || t.overlap(&place) <= 0.0);
            if inside && free {
                taken.push(place);
                let anchor = (distance > 15.0).then_some((cx, cy));
                labels[at] = Some(Label {
                    x: left,
                    y: middle + 4.5,
                    anchor,
                });
                break;
            }
        }
    }
    labels
}

/// Distances and directions in the order in which they read best.
fn candidates() -> impl Iterator<Item = (f64, f64, f64)> {
    const DIRECTIONS: [(f64, f64); 8] = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (0.75, -0.9),
        (0.75, 0.9),
        (-0.75, -0.9),
        (-0.75, 0.9),
    ];
    [9.0, 13.0, 24.0, 38.0, 54.0, 72.0]
        .into_iter()
        .flat_map(|distance| {
            DIRECTIONS
                .into_iter()
                .map(move |(dx, dy)| (distance, dx, dy))
        })
}
