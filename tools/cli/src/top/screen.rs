//! The terminal: taken over, drawn on, listened to, and given back however this ends.

use std::io::{self, IsTerminal, Stdout, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::Print;
use crossterm::terminal::{
    self, Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What whoever sits there wants, or the clock.
pub(super) enum Wish {
    End,
    Sort,
    /// By so many lines, upwards if it's negative.
    Scroll(isize),
    /// The terminal has another size.
    Redraw,
    /// Time to look again.
    Look,
}

/// The terminal, while it is ours. It is given back when this is dropped, and before a panic is told.
pub(super) struct Screen {
    out: Stdout,
    ended: Arc<AtomicBool>,
}

/// How soon a signal is noticed.
const NOTICED: Duration = Duration::from_millis(200);

/// What a page key scrolls.
const PAGE: isize = 20;

/// Whether there is somebody to look at it, and to press keys.
pub(super) fn is_terminal() -> bool {
    stdout().is_terminal() && stdin().is_terminal()
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn enter() -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, ended.clone())?;
        }
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let mut screen = Self { out: stdout(), ended };
        terminal::enable_raw_mode()?;
        execute!(screen.out, EnterAlternateScreen, DisableLineWrap, Hide)?;
        Ok(screen)
    }

    /// Columns and rows. Some terminals don't say.
    pub(super) fn size(&self) -> (usize, usize) {
        let (columns, rows) = terminal::size().ok().filter(|size| size.0 > 0 && size.1 > 0).unwrap_or((80, 24));
        (columns.into(), rows.into())
    }

    /// Draws these lines, which fit.
    pub(super) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        for (row, line) in lines.iter().enumerate() {
            let row = row.try_into().unwrap_or(u16::MAX);
            queue!(self.out, MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
        }
        queue!(self.out, Clear(ClearType::FromCursorDown))?;
        self.out.flush()
    }

    /// Waits for a wish until it's time to look again.
    pub(super) fn wish(&self, next: Instant) -> io::Result<Wish> {
        loop {
            if self.ended.load(Ordering::Acquire) {
                return Ok(Wish::End);
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Wish::Look);
            }
            if event::poll(left.min(NOTICED))?
                && let Some(wish) = meant(&event::read()?)
            {
                return Ok(wish);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// May be done twice.
fn give_back() {
    let _it_may_be_gone = execute!(stdout(), Show, EnableLineWrap, LeaveAlternateScreen);
    let _it_may_be_gone = terminal::disable_raw_mode();
}

/// What a key or another event means, if it means anything.
fn meant(event: &Event) -> Option<Wish> {
    let key = match event {
        Event::Resize(..) => return Some(Wish::Redraw),
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Wish::End,
        KeyCode::Char('q') | KeyCode::Esc => Wish::End,
        KeyCode::Char('s') => Wish::Sort,
        KeyCode::Up => Wish::Scroll(-1),
        KeyCode::Down => Wish::Scroll(1),
        KeyCode::PageUp => Wish::Scroll(-PAGE),
        KeyCode::PageDown => Wish::Scroll(PAGE),
        KeyCode::Home => Wish::Scroll(isize::MIN),
        _ => return None,
    })
}
