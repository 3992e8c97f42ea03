// SPDX-License-Identifier: Apache-2.0
//
// prompt.c: the keys of the prompt: pasting, Ctrl-C, and a window that changes its size.
//
//   Enter      ends the entry; when more input is already waiting it is a paste, and starts a line
//   ESC[200~   a paste, as terminals mark it when asked to: all up to ESC[201~ is text
//   Alt-Enter  starts a line
//   Ctrl-C     drops the entry; it stays on the screen, marked ^C, above a fresh prompt
//
// While a line is edited, Ctrl-C is a key and no signal: a signal makes the terminal throw away the
// keys behind it, and leaves libedit in the middle of the screen.  libedit leaves the screen in
// order when a line ends with its own command, so Enter and Ctrl-C push the key that does that.

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/base.h"
#include "cli/prompt.h"

#define END_ENTRY "\036"  // Ctrl-^: bound to libedit's own end of a line
#define PASTE_END "\033[201~"
#define PASTE_WAIT_MS 10  // a paste comes faster, a person never
#define INTERRUPT_KEY 3   // Ctrl-C as a byte

static struct prompt *prompt_of(EditLine *edit) {
  struct prompt *p;
  el_get(edit, EL_CLIENTDATA, &p);
  return p;
}

static char *prompt_text(EditLine *edit) { return (char *)prompt_of(edit)->text; }

// ---- the window

static volatile sig_atomic_t screen_changed;  // a handler reaches only a static
static void on_screen_change(int number) {
  (void)number;
  screen_changed = 1;
}

// The row in which the cursor stands, counted from the prompt's, when text wraps at `width`.
static int cursor_row(const struct prompt *p, const LineInfo *line, int width) {
  int row = 0, column = (int)strlen(p->text);
  mbstate_t state = {0};
  for (const char *at = line->buffer; at < line->cursor;) {
    wchar_t c;
    size_t used = mbrtowc(&c, at, (size_t)(line->cursor - at), &state);
    if (used == 0 || used > (size_t)(line->cursor - at)) break;  // not text: good enough so far
    int cells = c == '\t' ? 8 - column % 8 : wcwidth(c);
    if (c == '\n' || column + cells > width) row++, column = 0;
    if (c != '\n' && cells > 0) column += cells;
    at += used;
  }
  return row + (column >= width);
}

// The terminal has wrapped what it shows anew, or another program has used it: the entry is wiped
// from the prompt's row down and drawn again.
static void draw_again(struct prompt *p) {
  struct winsize size = {0};
  screen_changed = 0;
  int width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
  int up = cursor_row(p, el_line(p->edit), width);
  if (up) printf("\033[%dA", up);
  printf("\r\033[J");
  fflush(stdout);
  el_set(p->edit, EL_PREP_TERM, 0);  // a shell has set the terminal to its own liking
  el_set(p->edit, EL_PREP_TERM, 1);
  el_resize(p->edit);
  el_set(p->edit, EL_REFRESH);
}

// libedit gives up a line when a signal comes; this goes on.
static int read_key(EditLine *edit, wchar_t *key) {
  struct prompt *p = prompt_of(edit);
  mbstate_t state = {0};
  for (;;) {
    char byte;
    if (screen_changed) draw_again(p);
    ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return (int)got;
    size_t used = mbrtowc(key, &byte, 1, &state);
    if (used == (size_t)-1) memset(&state, 0, sizeof state);  // no character: left out
    if (used < (size_t)-2) return 1;
  }
}

// ---- the keys

static bool more_waits(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  return poll(&input, 1, PASTE_WAIT_MS) > 0;
}

static unsigned char start_line(EditLine *edit, wint_t key) {
  (void)key;
  return el_insertstr(edit, "\n") == 0 ? CC_REFRESH : CC_ERROR;
}

static unsigned char enter(EditLine *edit, wint_t key) {
  if (more_waits()) return start_line(edit, key);
  el_push(edit, END_ENTRY);
  return CC_NORM;
}

static unsigned char drop(EditLine *edit, wint_t key) {
  (void)key;
  const LineInfo *line = el_line(edit);
  prompt_of(edit)->dropped = true;
  el_cursor(edit, (int)(line->lastchar - line->cursor));
  el_insertstr(edit, "^C");
  el_push(edit, END_ENTRY);
  return CC_REFRESH;
}

// Reads to the end of a marked paste; false when there is none.
static bool read_paste(struct buffer *text) {
  static const size_t mark = sizeof PASTE_END - 1;
  for (;;) {
    char byte;
    ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || byte == INTERRUPT_KEY) return false;
    buffer_add_char(text, byte);
    if (text->length < mark || memcmp(text->data + text->length - mark, PASTE_END, mark) != 0)
      continue;
    text->length -= mark;
    return true;
  }
}

// Ends of lines become '\n', a last one is no more than the end of the paste; other control
// characters would do something when shown, so they are left out.
static void clean_paste(struct buffer *text) {
  size_t kept = 0;
  for (size_t i = 0; i < text->length; i++) {
    unsigned char c = (unsigned char)text->data[i];
    if (c == '\r') c = '\n';
    if ((c >= ' ' && c != 0x7f) || c == '\n' || c == '\t') text->data[kept++] = (char)c;
  }
  text->length = kept - (kept && text->data[kept - 1] == '\n');
  if (text->data) text->data[text->length] = 0;
}

static unsigned char paste(EditLine *edit, wint_t key) {
  (void)key;
  struct buffer text = {0};
  bool good = read_paste(&text);
  if (good) clean_paste(&text);
  good = good && text.length && el_insertstr(edit, text.data) == 0;
  buffer_clear(&text);
  return good ? CC_REFRESH : CC_ERROR;
}

// The program stops with the terminal as it found it; SIGCONT has the entry drawn again.
static unsigned char suspend(EditLine *edit, wint_t key) {
  (void)key;
  el_set(edit, EL_PREP_TERM, 0);
  raise(SIGTSTP);
  return CC_NORM;
}

static const struct {
  const wchar_t *name, *help;
  unsigned char (*run)(EditLine *edit, wint_t key);
  const wchar_t *keys[2];
} commands[] = {
    {L"motley-enter", L"end the entry, or go on with a paste", enter, {L"^M", L"^J"}},
    {L"motley-line", L"start a line", start_line, {L"\\e^M", L"\\e^J"}},
    {L"motley-paste", L"take a paste as text", paste, {L"\\e[200~"}},
    {L"motley-drop", L"drop the entry", drop, {L"^C"}},
    {L"motley-suspend", L"stop until the shell goes on", suspend, {L"^Z"}},
};

void prompt_install(struct prompt *p, EditLine *edit) {
  p->edit = edit;
  el_set(edit, EL_CLIENTDATA, p);
  el_set(edit, EL_PROMPT, prompt_text);
  el_set(edit, EL_EDITOR, "emacs");
  el_set(edit, EL_SIGNAL, 0);
  el_set(edit, EL_GETCFN, read_key);
  el_set(edit, EL_SETTY, "-d", "-isig", NULL);  // Ctrl-C is a key
  el_set(edit, EL_BIND, "^^", "ed-newline", NULL);
  // The wide calls: the other ones lose memory.
  for (size_t i = 0; i < COUNT_OF(commands); i++) {
    el_wset(edit, EL_ADDFN, commands[i].name, commands[i].help, commands[i].run);
    for (size_t k = 0; k < 2 && commands[i].keys[k]; k++)
      el_wset(edit, EL_BIND, commands[i].keys[k], commands[i].name, NULL);
  }
}

// ---- reading

static void ask_for_marked_pastes(const struct prompt *p, bool on) {
  const char *terminal = "";
  el_get(p->edit, EL_TERMINAL, &terminal);
  if (!terminal || strcmp(terminal, "dumb") == 0) return;
  printf("\033[?2004%c", on ? 'h' : 'l');
  fflush(stdout);
}

const char *prompt_read(struct prompt *p, int *length) {
  struct sigaction action = {.sa_handler = on_screen_change};  // no SA_RESTART: the read returns
  struct sigaction before[2];
  p->dropped = false;
  ask_for_marked_pastes(p, true);
  el_resize(p->edit);
  screen_changed = 0;
  sigaction(SIGWINCH, &action, &before[0]);
  sigaction(SIGCONT, &action, &before[1]);
  el_set(p->edit, EL_PREP_TERM, 1);  // before the prompt is seen: keys may follow at once
  const char *text = el_gets(p->edit, length);
  sigaction(SIGWINCH, &before[0], NULL);
  sigaction(SIGCONT, &before[1], NULL);
  ask_for_marked_pastes(p, false);
  return text && *length > 0 ? text : NULL;
}
