package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError says that the command line is invalid.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Usagef makes the error of an invalid command line.
func Usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// hintError is an error with a hint about its solution.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// WithHint adds a hint about the solution to an error.
func WithHint(err error, format string, args ...any) error {
	return &hintError{err, fmt.Sprintf(format, args...)}
}

// Hint returns the hint that an error carries; "" if it carries none.
func Hint(err error) string {
	var hinted *hintError
	if errors.As(err, &hinted) {
		return hinted.hint
	}
	return ""
}

// Fail prints cmd's error with its hint, and returns the exit code. hintFor supplies hints for errors without one.
func Fail(w io.Writer, asJSON bool, cmd *cobra.Command, err error, hintFor func(error) string) (exit int) {
	hint := Hint(err)
	if hint == "" {
		hint = hintFor(err)
	}
	exit = ExitFailed
	var usage *usageError
	if errors.As(err, &usage) {
		exit = ExitUsage
		if hint == "" {
			hint = ToHelp(cmd)
		}
	}
	if asJSON {
		_ = Line(w, struct { // two strings cannot fail to marshal
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
		}{err.Error(), hint})
		return exit
	}
	fmt.Fprintf(w, "godwit: %v\n", err)
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
	return exit
}

// ToHelp returns the hint for an error about which only the command is known.
func ToHelp(cmd *cobra.Command) string { return cmd.CommandPath() + " --help shows how it is used" }

// Exactly is the argument rule of commands that take arguments with these names.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return WithHint(Usagef("%s is missing its %s", cmd.CommandPath(), names[len(args)]), "usage: %s", cmd.UseLine())
		case len(args) > len(names):
			return WithHint(Usagef("%s takes no argument %q", cmd.CommandPath(), args[len(names)]), "usage: %s; put what has spaces into quotes", cmd.UseLine())
		}
		return nil
	}
}

// Group is the argument rule of commands that only group others.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := Usagef("%s has no command %q", cmd.CommandPath(), args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return WithHint(err, "did you mean %s %s?", cmd.CommandPath(), near[0])
	}
	return WithHint(err, "%s --help lists them", cmd.CommandPath())
}

// badFlag returns the error of a wrong flag. If the flag does not exist, the hint names a similar one.
func badFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return WithHint(Usagef("%w", err), "%s --help explains the flags", cmd.CommandPath())
	}
	typed := unknown.GetSpecifiedName()
	var known []string
	note := func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	}
	cmd.Flags().VisitAll(note)
	cmd.InheritedFlags().VisitAll(note)
	if near := Nearest(typed, known); near != "" && len(typed) > 1 {
		return WithHint(Usagef("%w", err), "did you mean --%s? %s --help lists them", near, cmd.CommandPath())
	}
	return WithHint(Usagef("%w", err), "%s --help lists its flags", cmd.CommandPath())
}

// Nearest returns the known word most similar to the typed one; "" if none is similar.
func Nearest(typed string, known []string) string {
	if typed == "" {
		return ""
	}
	list := &cobra.Command{SuggestionsMinimumDistance: 2} // words are compared in the way that cobra compares commands
	for _, word := range known {
		list.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
	}
	near := list.SuggestionsFor(typed)
	for _, word := range near {
		if word[0] == typed[0] {
			return word
		}
	}
	if len(near) == 0 {
		return ""
	}
	return near[0]
}
