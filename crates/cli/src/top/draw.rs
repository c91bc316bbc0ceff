//! Drawing a model: nothing is read or changed here.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

use super::header::Totals;
use super::keys::{HELP, HINTS};
use super::model::{Model, Prompt, Status, Verb};
use super::palette::Palette;
use super::table::table;
use super::{columns, detail, text};

/// The least terminal.
const WIDTH_LEAST: u16 = 40;
const HEIGHT_LEAST: u16 = 8;
/// Titles of columns and of keys in the page of help.
const NAME_WIDTH: usize = 12;

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, palette: Palette) {
    let area = frame.area();
    if area.width < WIDTH_LEAST || area.height < HEIGHT_LEAST {
        return frame.render_widget(too_small(area), area);
    }
    let width = usize::from(area.width);
    let (footer, style) = footer(model, width, palette);
    let footer = &footer[..footer.len().min(usize::from(area.height - 4))];
    let (above, below) = match (model.has_help, model.group()) {
        (true, _) => (0, 0),
        (false, None) => (2, 0),
        (false, Some(_)) => (2, detail::height(area.height)),
    };
    let [head, body, below, foot] = Layout::vertical([
        Constraint::Length(above),
        Constraint::Fill(1),
        Constraint::Length(below),
        Constraint::Length(footer.len() as u16),
    ])
    .areas(area);
    let totals = Totals::of(model.branches());
    frame.render_widget(Paragraph::new(totals.lines(width, palette).to_vec()), head);
    let text = match model.has_help {
        true => help(width),
        false => table(model, width, body.height.into(), palette),
    };
    frame.render_widget(text, body);
    if below.height > 0 {
        detail::draw(frame, below, model, palette);
    }
    frame.render_widget(Text::styled(footer.join("\n"), style), foot);
}

fn too_small(area: Rect) -> Line<'static> {
    let (width, height) = (area.width, area.height);
    let line = format!("{width}x{height} is too small for {WIDTH_LEAST}x{HEIGHT_LEAST}");
    text::words(&line, width.into()).into()
}

/// What is asked for, or what came of it, or which keys there are.
fn footer(model: &Model, width: usize, palette: Palette) -> (Vec<String>, Style) {
    match (&model.prompt, &model.status) {
        (Some(prompt), _) => (text::wrapped(&question(model, prompt), width), palette.bold()),
        (None, Some(Status::Said(line))) => (text::wrapped(line, width), palette.bold()),
        (None, Some(Status::Failed(line))) => (text::wrapped(line, width), palette.failed()),
        (None, None) if model.has_help => (vec!["any key: back".to_owned()], Style::new()),
        (None, None) => (vec![hints(model, width)], Style::new()),
    }
}

fn question(model: &Model, prompt: &Prompt) -> String {
    let (group, text) = (&prompt.group, &prompt.text);
    let heading = model.branches().iter().map(|branch| &branch.heading);
    let now = |name| {
        let mut heading = heading.filter(|row| row.key.group == *group);
        heading
            .next()
            .map_or_else(|| "gone".to_owned(), |row| columns::named(name).text(row))
    };
    match prompt.verb {
        Verb::Limit => format!("memory.max of {group} (now {}): {text}_", now("MAX")),
        Verb::Reclaim => format!("reclaim from {group} (it has {}): {text}_", now("MEM")),
    }
}

fn hints(model: &Model, width: usize) -> String {
    let order = if model.is_reversed { ", reversed" } else { "" };
    let sorted = format!("sorted by {}{order}", model.sorted_by.name);
    let mut hints = HINTS.map(str::to_owned).to_vec();
    hints.push(sorted);
    text::fitting(&hints, "  ", width)
}

/// The keys, and what the columns are.
fn help(width: usize) -> Text<'static> {
    let line = |name: &str, what: &str| text::words(&format!("{name:<NAME_WIDTH$} {what}"), width);
    let keys = HELP.iter().map(|(name, what)| line(name, what));
    let shown = columns::fitting(width);
    let columns = shown.iter().map(|column| line(column.name, column.help));
    let lines: Vec<Line<'_>> = keys.chain([String::new()]).chain(columns).map(Line::from).collect();
    lines.into()
}

#[cfg(test)]
mod test {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::model::test::model;
    use super::*;

    /// Lines of a terminal of that size.
    fn drawn(model: &Model, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model, Palette::new(false))).unwrap();
        let cells = terminal.backend().buffer().content();
        let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
        let lines = cells.chunks(usize::from(width).max(1)).map(line);
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    fn with_status(status: Status) -> Model {
        let mut model = model();
        model.status = Some(status);
        model
    }

    #[test]
    fn a_screen_of_80_columns() {
        let lines = drawn(&model(), 80, 24);
        let expected = [
            "|resident 75.0M  #pool 20.0M  +other 5.00M  disk 12.5M  ratio 2.50  saved 50.0M",
            "[||||||||||||||||||||||||#######++................................] 100M of 200M",
            "    PID   MEM   MAX   RES  POOL  DISK RATIO FLT/S WAIT% P50us P99us COMMAND",
            "-       64.0M  128M 48.0M 12.8M 8.00M  2.50     -     -     -     - web (2)",
            "      8 61.0M       45.8M 12.2M 7.62M  2.50                         sh",
            "      7 3.00M       2.25M  614K  384K  2.50                         python3",
            "-       32.0M 64.0M 24.0M 6.40M 4.00M  2.50     -     -     -     - db (1)",
            "     20 32.0M       24.0M 6.40M 4.00M  2.50                         redis-server",
            "-       4.00M 8.00M 3.00M  819K  512K  2.50     -     -     -     - idle (0)",
        ];
        assert_eq!(lines[..expected.len()], expected);
        assert!(lines[expected.len()..17].iter().all(String::is_empty));
        let title = "── web: compressor words, zsmalloc, recompress zstd:1 ──";
        assert!(
            lines[17].starts_with(title) && lines[17].ends_with('─'),
            "{}",
            lines[17]
        );
        assert_eq!(lines[18], "no loads  wait - %  lacks 0  saved 32.0M");
        assert!(lines[19].starts_with("FLT/S") && lines[21].starts_with("MEM") && lines[22].starts_with("of 128M"));
        // Half of the limit is full, of two lines.
        assert!(lines[22].ends_with('█') && !lines[21].ends_with('█'), "{lines:#?}");
        assert_eq!(
            lines[23],
            "q quit  h help  l limit  R reclaim  < > sort  r reverse  Space fold"
        );
    }

    #[test]
    fn a_small_screen_has_the_most_important() {
        let lines = drawn(&model(), 40, 10);
        let expected = [
            "|resident 75.0M  #pool 20.0M",
            "[||||||||||###+.............] 100M of 200M",
            "    PID   MEM   MAX FLT/S COMMAND",
            "-       64.0M  128M     - web (2)",
            "      8 61.0M             sh",
            "      7 3.00M             python3 job.py",
            "-       32.0M 64.0M     - db (1)",
            "     20 32.0M             redis-server",
            "-       4.00M 8.00M     - idle (0)",
            "q quit  h help  l limit  R reclaim",
        ];
        assert_eq!(lines[2..], expected[2..]);
        assert_eq!(lines[0], expected[0]);
        assert_eq!((lines[1].len(), lines[1].ends_with("] 100M of 200M")), (40, true));
    }

    #[test]
    fn a_wide_screen_has_all_columns() {
        let lines = drawn(&model(), 200, 50);
        assert!(lines[0].ends_with("saved 50.0M  groups 3  processes 3"));
        let titles: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(titles, columns::ALL.map(|column| column.name));
        assert!(lines[5].ends_with(" python3 job.py"));
        assert!(lines[49].ends_with("Space fold  sorted by MEM"));
        assert!(lines[39].starts_with("── web: "));
    }

    #[test]
    fn a_screen_that_is_too_small_says_so() {
        assert_eq!(drawn(&model(), 39, 24)[0], "39x24 is too small for 40x8");
        assert_eq!(drawn(&model(), 80, 7)[0], "80x7 is too small for 40x8");
        assert_eq!(drawn(&model(), 8, 1), ["8x1 is"]);
    }

    /// Of any size, with anything on it.
    #[test]
    fn nothing_is_too_much_for_any_screen() {
        let long = "memory.max: '5Q' is not a size: write a number of bytes, or one with K, M, G or T (1.5G, 512MiB), \
                    or max, or a percentage as 50%";
        let mut asking = model();
        asking.ask(Verb::Reclaim);
        let mut helping = model();
        helping.has_help = true;
        let models = [
            model(),
            Model::new(),
            with_status(Status::Failed(long.to_owned())),
            asking,
            helping,
        ];
        for model in &models {
            for (width, height) in [(0, 0), (1, 1), (40, 8), (41, 19), (80, 20), (79, 40), (300, 8)] {
                drawn(model, width, height);
            }
        }
        let lines = drawn(&models[2], 80, 24);
        assert!(lines[22].starts_with("memory.max: '5Q' is not a size: write a number"));
        assert!(lines[23].ends_with("or a percentage as 50%"), "{}", lines[23]);
    }

    #[test]
    fn what_is_asked_for_stands_at_the_bottom() {
        let mut model = model();
        model.ask(Verb::Limit);
        model.prompt.as_mut().unwrap().text = "96M".to_owned();
        assert_eq!(drawn(&model, 80, 24)[23], "memory.max of web (now 128M): 96M_");
        model.see(Vec::new(), 1.0);
        assert_eq!(drawn(&model, 80, 24)[23], "memory.max of web (now gone): 96M_");
        let reversed = drawn(&with_status(Status::Said("done".to_owned())), 80, 24);
        assert_eq!(reversed[23], "done");
    }

    #[test]
    fn the_page_of_help_fits() {
        let mut model = model();
        model.has_help = true;
        let lines = drawn(&model, 80, 24);
        let has = |text: &str| lines.iter().any(|line| line.starts_with(text));
        for (name, _) in HELP {
            assert!(has(name), "{name}: {lines:#?}");
        }
        for column in columns::fitting(80) {
            assert!(has(&format!("{:<12} {}", column.name, column.help)), "{}", column.name);
        }
    }

    #[test]
    fn colours_are_left_out_on_request() {
        let styles = |palette| {
            let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
            terminal.draw(|frame| draw(frame, &model(), palette)).unwrap();
            let cells = terminal.backend().buffer().content().to_vec();
            let is_coloured = |cell: &ratatui::buffer::Cell| {
                [cell.fg, cell.bg]
                    .iter()
                    .any(|colour| *colour != ratatui::style::Color::Reset)
            };
            cells.iter().any(is_coloured)
        };
        assert!(styles(Palette::new(true)) && !styles(Palette::new(false)));
    }
}
