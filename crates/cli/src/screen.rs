//! The terminal's event loop: draws the state of a run at most four times a second, and interprets keys.
//!
//! The terminal is restored however the program ends: at the end of the loop, on a panic of any thread (by a hook), and on the
//! signals that a verb handles.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_report::watch::{Key, State, View};
use hairpin_sys::thread;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

use crate::exit::Failure;
use crate::terminal::{can_be_drawn_on, colour};

/// Least time between two frames, and longest delay before an event shows.
const FRAME: Duration = Duration::from_millis(250);
/// Longest wait for an event that is there already; with a wait of zero the library does not look.
const LOOK: Duration = Duration::from_millis(1);
/// The drawing thread ends within this time, unless its terminal is blocked.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A state that one thread changes and another one draws.
pub type Shared<V = State> = Arc<Mutex<V>>;

/// Locks the state, even if a thread panicked while holding it.
pub fn lock<V>(state: &Shared<V>) -> MutexGuard<'_, V> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails without a terminal for output and keys, before anything starts; `or` names the alternative that needs none.
pub fn check(flag: &str, or: &str) -> Result<(), Failure> {
    if !io::stdout().is_terminal() || keys().is_err() {
        return Err(Failure::usage(format_args!(
            "{flag} draws on a terminal, but this is not one: run it in a terminal, or {or}"
        )));
    }
    if !can_be_drawn_on(&io::stdout()) {
        return Err(Failure::usage(format_args!("{flag} draws on a terminal, and TERM is unset or dumb: set it, or {or}")));
    }
    Ok(())
}

/// The meaning of a key.
enum Meaning {
    Key(Key),
    Quit,
    /// Ctrl-C: like quit, and may be repeated.
    Interrupt,
}

fn meaning(key: KeyEvent) -> Option<Meaning> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Meaning::Interrupt);
    }
    Some(Meaning::Key(match key.code {
        KeyCode::Char('q') => return Some(Meaning::Quit),
        KeyCode::Char('p' | ' ') => Key::Pause,
        KeyCode::Char(digit @ '1'..='5') => Key::Figure(digit as usize - '1' as usize),
        KeyCode::Tab => Key::NextFigure,
        KeyCode::Char('s') => Key::Scale,
        KeyCode::Char('?' | 'h') => Key::Help,
        KeyCode::Left => Key::RowBefore,
        KeyCode::Right => Key::RowAfter,
        _ => return None,
    }))
}

/// Waits at most `limit` for a key. Fails if the terminal was closed, which the library that reads keys does not tell.
fn wait(keys: &OwnedFd, limit: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    let mut fds = [PollFd::new(keys, PollFlags::IN)];
    match poll(&mut fds, Some(&limit)) {
        // The terminal was resized.
        Err(rustix::io::Errno::INTR) => return Ok(()),
        other => other?,
    };
    if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::other("it was hung up"));
    }
    Ok(())
}

/// The source of keys: standard input, or the terminal itself if stdin is something else.
fn keys() -> io::Result<OwnedFd> {
    if io::stdin().is_terminal() { io::stdin().as_fd().try_clone_to_owned() } else { Ok(File::open("/dev/tty")?.into()) }
}

/// Lets a read of the terminal in raw mode return what there is. Otherwise the library that reads keys waits for the rest of a
/// sequence that has none, such as that of Alt+[, and the picture stands still.
fn read_at_once() -> io::Result<()> {
    let keys = keys()?;
    let mut modes = tcgetattr(&keys)?;
    modes.special_codes[SpecialCodeIndex::VMIN] = 0;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    Ok(tcsetattr(&keys, OptionalActions::Now, &modes)?)
}

/// Draws until `over` returns true or the user wants to leave; then `leave` decides, and true ends the loop.
fn turn<V: View>(
    terminal: &mut DefaultTerminal,
    state: &Shared<V>,
    over: &mut dyn FnMut() -> bool,
    leave: &mut dyn FnMut(bool) -> bool,
) -> io::Result<()> {
    let (colour, keys) = (colour(), keys()?);
    let (mut drawn, mut at) = (None, None::<Instant>);
    while !over() {
        let waits = at.map_or(Duration::ZERO, |at| FRAME.saturating_sub(at.elapsed()));
        // The lock is not held during output to the terminal, which may be slow.
        let changed =
            Some(lock(state)).filter(|state| waits.is_zero() && drawn != Some(state.version())).map(|state| state.clone());
        if let Some(state) = changed {
            terminal.draw(|frame| state.draw(frame, colour))?;
            (drawn, at) = (Some(state.version()), Some(Instant::now()));
        }
        wait(&keys, if waits.is_zero() { FRAME } else { waits })?;
        while event::poll(LOOK)? {
            match event::read()? {
                Event::Key(key) => match meaning(key) {
                    Some(Meaning::Key(key)) => lock(state).key(key),
                    Some(Meaning::Quit) if leave(false) => return Ok(()),
                    Some(Meaning::Interrupt) if leave(true) => return Ok(()),
                    _ => {}
                },
                Event::Resize(..) => drawn = None,
                _ => {}
            }
        }
    }
    Ok(())
}

/// The terminal while it is drawn on. Its own drop handler panics if both the terminal and stderr are gone.
struct Held(ManuallyDrop<DefaultTerminal>);

impl Drop for Held {
    fn drop(&mut self) {
        // A terminal that is gone has no cursor to show.
        let _ = self.0.show_cursor();
    }
}

fn open() -> Result<Held, Failure> {
    let terminal = ratatui::try_init().map(|terminal| Held(ManuallyDrop::new(terminal)));
    terminal.and_then(|terminal| read_at_once().map(|()| terminal)).map_err(|error| {
        close();
        Failure::failed(format_args!("cannot draw on this terminal: {error}"))
    })
}

/// Restores the terminal. Ignores errors: a terminal that is gone needs nothing.
fn close() {
    let _ = ratatui::try_restore();
}

/// Shows a state until the user leaves or a signal comes.
pub fn look(state: &Shared, signalled: &mut dyn FnMut() -> bool) -> Result<(), Failure> {
    let mut terminal = open()?;
    let looked = turn(&mut terminal.0, state, signalled, &mut |_| true);
    close();
    looked.map_err(|error| Failure::failed(format_args!("the terminal failed: {error}")))
}

/// The live view of a run in this process. Dropping it restores the terminal.
pub struct Screen<V: View = State> {
    state: Shared<V>,
    over: Arc<AtomicBool>,
    /// Disconnected when the thread has ended.
    thread: Option<Receiver<()>>,
}

impl<V: View> Screen<V> {
    /// Draws nothing before [`start`](Screen::start).
    pub fn new(state: V) -> Screen<V> {
        Screen { state: Arc::new(Mutex::new(state)), over: Arc::default(), thread: None }
    }

    /// Changes the state.
    pub fn change(&self, change: impl FnOnce(&mut V)) {
        change(&mut lock(&self.state));
    }

    /// Takes over the terminal, and draws from a thread that avoids the CPUs in `measured` if others are allowed. When the user
    /// leaves, it sends SIGINT to this process, as Ctrl-C does.
    pub fn start(&mut self, measured: Vec<u32>) -> Result<(), Failure> {
        if self.thread.is_some() {
            return Ok(());
        }
        let mut terminal = open()?;
        let (state, over) = (Arc::clone(&self.state), Arc::clone(&self.over));
        let (ends, ended) = channel::<()>();
        let draws = move || {
            let _ends = ends;
            if !matches!(thread::keep_off(&measured), Ok(true)) {
                lock(&state).note("no CPU is left for this view but the measured ones");
            }
            let ending = Arc::clone(&state);
            let mut told = false;
            let mut leave = |again: bool| {
                lock(&ending).ending();
                if !std::mem::replace(&mut told, true) || again {
                    // As a terminal outside raw mode does; a process can always signal itself.
                    let _ = kill_process(getpid(), Signal::INT);
                }
                false
            };
            // On an error the terminal is gone; the run goes on without it.
            let _ = turn(&mut terminal.0, &state, &mut || over.load(Ordering::Relaxed), &mut leave);
        };
        let started = std::thread::Builder::new().name("view".into()).spawn(draws);
        match started {
            Ok(_) => self.thread = Some(ended),
            Err(error) => {
                close();
                return Err(Failure::failed(format_args!("cannot start a thread for the view: {error}")));
            }
        }
        Ok(())
    }
}

impl<V: View> Drop for Screen<V> {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.over.store(true, Ordering::Relaxed);
        // If the thread panicked it has printed the panic; if its terminal is blocked it ends with the process.
        let _ = thread.recv_timeout(END_WITHIN);
        close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let key = |code, modifiers| meaning(KeyEvent::new(code, modifiers));
        let none = KeyModifiers::NONE;
        for (code, wanted) in [
            (KeyCode::Char('1'), Key::Figure(0)),
            (KeyCode::Char('5'), Key::Figure(4)),
            (KeyCode::Char(' '), Key::Pause),
            (KeyCode::Char('s'), Key::Scale),
            (KeyCode::Tab, Key::NextFigure),
            (KeyCode::Char('?'), Key::Help),
        ] {
            assert!(matches!(key(code, none), Some(Meaning::Key(found)) if found == wanted), "{code:?}");
        }
        assert!(matches!(key(KeyCode::Char('q'), none), Some(Meaning::Quit)));
        assert!(matches!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Meaning::Interrupt)));
        assert!(key(KeyCode::Char('q'), KeyModifiers::CONTROL).is_none() && key(KeyCode::Char('6'), none).is_none());
    }
}
