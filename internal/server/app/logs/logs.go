// Package logs makes the server's logger.
package logs

import (
	"io"
	"log/slog"
	"strings"
	"unicode"

	"github.com/mattn/go-isatty"

	"godwit.dev/godwit/internal/server/config"
)

// New makes the server's logger from its settings.
func New(c *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the settings allow only valid levels
	opts := &slog.HandlerOptions{Level: level}
	f, isFile := w.(interface{ Fd() uintptr })
	if c.LogFormat == "text" || c.LogFormat == "auto" && isFile && isatty.IsTerminal(f.Fd()) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	opts.ReplaceAttr = inWords
	return slog.New(slog.NewJSONHandler(w, opts))
}

// steers reports whether a character moves a terminal's cursor or changes the direction of a line, although JSON leaves it unescaped.
func steers(r rune) bool { return r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) }

func visible(r rune) rune {
	if steers(r) {
		return unicode.ReplacementChar
	}
	return r
}

// inWords writes durations and sizes in JSON as the text format does ("10s"), not as a count of nanoseconds. It also replaces characters
// that steer a terminal, which JSON leaves unescaped.
func inWords(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
		return a
	case slog.KindString:
		if text := a.Value.String(); strings.ContainsFunc(text, steers) {
			a.Value = slog.StringValue(strings.Map(visible, text))
		}
		return a
	case slog.KindAny:
	default:
		return a
	}
	switch v := a.Value.Any().(type) {
	case error:
		a.Value = slog.StringValue(strings.Map(visible, v.Error()))
	case config.Duration:
		a.Value = slog.StringValue(v.String())
	case config.Size:
		a.Value = slog.StringValue(v.String())
	case config.Rate:
		a.Value = slog.StringValue(v.String())
	}
	return a
}
