// Package sendertest is the suite that every sender passes: whether a provider answers or not, each send ends in time with the right kind
// of error, and no error shows a secret.
package sendertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// Situation is a provider's handling of a message.
type Situation string

// Situations. The suite skips the situations that a provider under test does not support.
const (
	Accepts     Situation = "accepts"
	Gone        Situation = "says the address is gone"
	TooMany     Situation = "asks to come back in 7 seconds"
	Overloaded  Situation = "is overloaded and does not say for how long"
	Fails       Situation = "fails with 500"
	Refuses     Situation = "refuses the message"
	Denies      Situation = "denies the credentials"
	Redirects   Situation = "redirects elsewhere"
	Babbles     Situation = "answers with a page of HTML and 502"
	Hangs       Situation = "takes the request and never answers"
	Breaks      Situation = "takes the request and breaks the connection"
	Unreachable Situation = "is not there"
)

var situations = []Situation{Accepts, Gone, TooMany, Overloaded, Fails, Refuses, Denies, Redirects, Babbles, Hangs, Breaks, Unreachable}

// Outcome is the kind of result of a send.
type Outcome string

// Outcomes.
const (
	Accepted  Outcome = "accepted"
	Retry     Outcome = "retry"
	RetryAll  Outcome = "retry, with all of the scope waiting"
	RetryWho  Outcome = "retry, and nobody knows whether all of the scope has to wait"
	IsGone    Outcome = "gone"
	Permanent Outcome = "permanent"
	Config    Outcome = "config"
	Objects   Outcome = "refused, and nobody knows whether all of the scope are"
	Unknown   Outcome = "unknown"
)

// OutcomeOf returns the kind of an error from Send.
func OutcomeOf(err error) Outcome {
	var retry *push.RetryError
	var gone *push.GoneError
	var permanent *push.PermanentError
	var config *push.ConfigError
	var unknown *push.UnknownError
	var objection *push.ObjectionError
	switch {
	case err == nil:
		return Accepted
	case errors.As(err, &objection):
		return Objects
	case errors.As(err, &retry) && retry.Credential:
		return RetryAll
	case errors.As(err, &retry) && retry.Scope != "":
		return RetryWho
	case errors.As(err, &retry):
		return Retry
	case errors.As(err, &gone):
		return IsGone
	case errors.As(err, &permanent):
		return Permanent
	case errors.As(err, &config):
		return Config
	case errors.As(err, &unknown):
		return Unknown
	}
	return Outcome(fmt.Sprintf("an error of no known kind: %v", err))
}

// Bed is a sender and its provider under test.
type Bed struct {
	Sender push.Sender
	// Put puts the provider into a situation; false: the provider does not support it.
	Put func(Situation) bool
	// Request returns a request that the provider would accept, with the given ID.
	Request func(id string) push.Request
	// Took counts the messages that the provider accepted.
	Took func() int
	// Secrets lists the texts that no error may contain.
	Secrets []string
	// Scope is the pace scope of Request's address.
	Scope string
}

// Suite holds the differences between senders.
type Suite struct {
	// New makes a fresh sender and provider for one test.
	New func(t *testing.T) *Bed
	// Outcomes replace the expected outcomes of situations.
	Outcomes map[Situation]Outcome
}

var expected = map[Situation]Outcome{
	Accepts: Accepted, Gone: IsGone, TooMany: RetryAll, Overloaded: RetryAll, Fails: Retry, Refuses: Permanent, Denies: Config,
	Redirects: RetryWho, Babbles: Retry, Hangs: Unknown, Breaks: Unknown, Unreachable: RetryAll,
}

// patience limits each wait in the suite.
const patience = 2 * time.Minute

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	for _, situation := range situations {
		t.Run("provider "+string(situation), func(t *testing.T) { s.outcome(t, situation) })
	}
	t.Run("cancelled before", s.cancelledBefore)
	t.Run("cancelled while waiting", s.cancelledWhileWaiting)
	t.Run("expired", s.expired)
	t.Run("bad address", s.badAddress)
	t.Run("many at once", s.manyAtOnce)
}

func (s *Suite) outcome(t *testing.T, situation Situation) {
	bed := s.New(t)
	if !bed.Put(situation) {
		t.Skip("this provider never does")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if situation == Hangs {
		over := &timed{Context: ctx, over: make(chan struct{})}
		go func() { bed.wait(); close(over.over) }()
		ctx = over
	}
	_, err := bed.Sender.Send(ctx, bed.Request("one"))
	want, changed := s.Outcomes[situation]
	if !changed {
		want = expected[situation]
	}
	if got := OutcomeOf(err); got != want {
		t.Fatalf("ended as %s (%v), want %s", got, err, want)
	}
	bed.hides(t, err)
	var retry *push.RetryError
	if errors.As(err, &retry) {
		if situation == TooMany && retry.After != 7*time.Second {
			t.Errorf("again after %s, want the 7 s that the provider asked for", retry.After)
		}
		if (retry.Credential || retry.Scope != "") && retry.Scope != bed.Scope {
			t.Errorf("scope %q has to wait, want %q", retry.Scope, bed.Scope)
		}
	}
	var config *push.ConfigError
	if errors.As(err, &config) && config.Scope != bed.Scope {
		t.Errorf("scope %q has to stop, want %q", config.Scope, bed.Scope)
	}
	var objection *push.ObjectionError
	if errors.As(err, &objection) && objection.Scope != bed.Scope {
		t.Errorf("scope %q is in doubt, want %q", objection.Scope, bed.Scope)
	}
	if pacer, ok := bed.Sender.(push.Pacer); ok {
		if got := pacer.Pace(bed.Request("two").Address).Scope; got != bed.Scope {
			t.Errorf("paced in scope %q, want %q", got, bed.Scope)
		}
	}
	if took := bed.Took(); want == Accepted && took != 1 || want != Accepted && want != Unknown && took != 0 {
		t.Errorf("the provider took %d messages when the outcome was %s", took, want)
	}
}

// timed is a context whose deadline passes when over is closed.
type timed struct {
	context.Context
	over chan struct{}
}

func (c *timed) Done() <-chan struct{} { return c.over }

func (c *timed) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// wait waits until the provider has received a message.
func (b *Bed) wait() {
	for deadline := time.Now().Add(patience); b.Took() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// hides fails if an error shows a secret.
func (b *Bed) hides(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		for _, secret := range b.Secrets {
			if strings.Contains(text, secret) {
				t.Errorf("the error shows a secret: %s", text)
			}
		}
	}
}

func (s *Suite) cancelledBefore(t *testing.T) {
	bed := s.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := bed.Sender.Send(ctx, bed.Request("one"))
	if got := OutcomeOf(err); got != Retry {
		t.Errorf("ended as %s (%v), want %s: nothing was sent, and that is nobody's fault", got, err, Retry)
	}
	if took := bed.Took(); took != 0 {
		t.Errorf("the provider took %d messages", took)
	}
	bed.hides(t, err)
}

func (s *Suite) cancelledWhileWaiting(t *testing.T) {
	bed := s.New(t)
	if !bed.Put(Hangs) {
		t.Skip("this provider never hangs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := bed.Sender.Send(ctx, bed.Request("one"))
		done <- err
	}()
	bed.wait()
	cancel()
	select {
	case err := <-done:
		if got := OutcomeOf(err); got != Unknown {
			t.Errorf("ended as %s (%v), want %s", got, err, Unknown)
		}
		bed.hides(t, err)
	case <-time.After(patience):
		t.Fatal("Send did not return after its context had ended")
	}
}

func (s *Suite) expired(t *testing.T) {
	bed := s.New(t)
	r := bed.Request("one")
	r.ExpiresAt = time.Now().Add(-time.Minute)
	_, err := bed.Sender.Send(t.Context(), r)
	if got := OutcomeOf(err); got != Permanent {
		t.Errorf("ended as %s (%v), want %s", got, err, Permanent)
	}
	if took := bed.Took(); took != 0 {
		t.Errorf("the provider took %d messages", took)
	}
}

func (s *Suite) badAddress(t *testing.T) {
	bed := s.New(t)
	for _, address := range []string{"", "null", "[]", `"x"`, "{}", `{"endpoint":7}`, `{"url":"ftp://x"}`, `{"chat_id":{}}`, "{"} {
		r := bed.Request("one")
		r.Address, r.Recipient = []byte(address), ""
		_, err := bed.Sender.Send(t.Context(), r)
		if got := OutcomeOf(err); got != Permanent {
			t.Errorf("address %s ended as %s (%v), want %s", address, got, err, Permanent)
		}
		if pacer, ok := bed.Sender.(push.Pacer); ok {
			pacer.Pace([]byte(address)) // must not panic
		}
		bed.hides(t, err)
	}
	if took := bed.Took(); took != 0 {
		t.Errorf("the provider took %d messages", took)
	}
}

func (s *Suite) manyAtOnce(t *testing.T) {
	const senders, each = 8, 10
	bed := s.New(t)
	bed.Put(Accepts)
	var wg sync.WaitGroup
	for n := range senders {
		wg.Go(func() {
			for i := range each {
				if _, err := bed.Sender.Send(t.Context(), bed.Request(fmt.Sprintf("many-%d-%d", n, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if took := bed.Took(); took != senders*each {
		t.Errorf("the provider took %d messages of %d", took, senders*each)
	}
}

// KeyForms returns the forms in which people paste a key file: after a byte-order mark, with line breaks written as \n, and as the base64
// of its DER alone.
func KeyForms(pem string) []string {
	lines := strings.Split(strings.TrimSpace(pem), "\n")
	return []string{"\ufeff" + pem, strings.ReplaceAll(pem, "\n", `\n`), strings.Join(lines[1:len(lines)-1], "")}
}
