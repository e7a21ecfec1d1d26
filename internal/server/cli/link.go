package cli

import (
	"errors"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/cli/command"
)

// insecureTries is the number of TLS failures of a first connection after which a command gives up. Further tries would not help.
const insecureTries = 2

// link reports when a command's session connects and ends.
type link struct {
	p     *program
	stop  func() // ends the session
	tries int    // number of TLS failures so far, while there has been no connection
	been  bool   // there was one
	err   error  // why there will be none
}

// options returns the options that report the session to the link. Only code that has waited for the session's end may read the link's
// fields.
func (l *link) options() []godwit.ListenOption {
	return []godwit.ListenOption{
		godwit.OnConnect(func(w godwit.Welcome) {
			l.been = true
			l.p.note("connected as %s of app %s", w.Recipient, w.App)
		}),
		godwit.OnDisconnect(l.lost),
	}
}

func (l *link) lost(err error, retry time.Duration) {
	if !l.been && command.HintForTLS(err) != "" {
		if l.tries++; l.tries == insecureTries {
			l.err = err
			l.stop()
			return
		}
	}
	l.p.note("%v; next try in %s", err, retry.Round(time.Millisecond))
}

// failure returns why a session failed, whose output ended with the error printed and Listen with listened; nil: it was interrupted, or it
// has seen enough.
func (l *link) failure(printed, listened error) error {
	var refused *godwit.RefusedError
	switch {
	case printed != nil:
		return printed
	case l.err != nil:
		return l.err
	case errors.As(listened, &refused):
		return listened
	}
	return nil
}
