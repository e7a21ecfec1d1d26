package dispatch

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/sending/push"
)

// changeTries is the most attempts of a recall or a correction that fails for a passing reason.
const changeTries = 4

// change withdraws or corrects a message that was sent, in one attempt.
type change func(ctx context.Context, sender push.Sender, ch push.Channel, sent push.Sent) error

// Recall withdraws one message when its turn comes (most providers count calls), and tries again after a passing failure. As for a Job, an
// attempt under way continues after the end of ctx until hard ends. failed is why the message could not be withdrawn; err only says that
// ctx has ended first.
func (d *Dispatcher) Recall(ctx, hard context.Context, sender push.Sender, ch push.Channel, sent push.Sent) (failed, err error) {
	return d.change(ctx, hard, sender, ch, sent, recall)
}

// Correct changes the content of one message, with the same limits as Recall.
func (d *Dispatcher) Correct(ctx, hard context.Context, sender push.Sender, ch push.Channel, sent push.Sent) (failed, err error) {
	return d.change(ctx, hard, sender, ch, sent, correct)
}

func (d *Dispatcher) change(ctx, hard context.Context, sender push.Sender, ch push.Channel, sent push.Sent, by change) (failed, err error) {
	var limits push.Pace
	if p, ok := sender.(push.Pacer); ok {
		limits = p.Pace(sent.Request.Address)
	}
	endpoint, _ := audience.ParseID(sent.Request.Endpoint)
	spread := fnv.New32a()
	_, _ = io.WriteString(spread, sent.Request.ID)
	for try := 1; ; try++ {
		s := d.scope(sent.Request.App, ch, limits, d.now())
		if !s.reach(ctx) {
			return nil, context.Cause(ctx)
		}
		t := s.depart(hard, endpoint, 1)
		failed := attemptChange(hard, sender, ch, sent, by)
		after, passing := s.passing(failed, t, d.now())
		if !passing || try == changeTries {
			return failed, nil
		}
		if !pause.For(ctx, max(after, backoff(try, int64(spread.Sum32())))) {
			return nil, context.Cause(ctx)
		}
	}
}

// attemptChange makes one attempt, within the time limit of the channel's policy.
func attemptChange(ctx context.Context, sender push.Sender, ch push.Channel, sent push.Sent, by change) error {
	p := policyOf(ch)
	if p == nil {
		return &push.PermanentError{Reason: fmt.Sprintf("channel %s is not one that is sent over", ch)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("no answer in %s", p.Timeout))
	defer cancel()
	return by(ctx, sender, ch, sent)
}

func correct(ctx context.Context, sender push.Sender, ch push.Channel, sent push.Sent) error {
	c, ok := sender.(push.Corrector)
	if !ok {
		return &push.PermanentError{Reason: fmt.Sprintf("channel %s cannot correct messages", ch)}
	}
	return c.Correct(ctx, sent)
}

func recall(ctx context.Context, sender push.Sender, ch push.Channel, sent push.Sent) error {
	r, ok := sender.(push.Recaller)
	if !ok {
		return &push.PermanentError{Reason: fmt.Sprintf("channel %s cannot take messages back", ch)}
	}
	errs := r.Recall(ctx, []push.Sent{sent})
	if len(errs) != 1 {
		return &push.UnknownError{Reason: "the channel said nothing of it"}
	}
	return errs[0]
}

// passing reports whether a failed change is worth another attempt, and after how long.
func (s scope) passing(err error, t try, now time.Time) (after time.Duration, yes bool) {
	var retry *push.RetryError
	var unknown *push.UnknownError
	var config *push.ConfigError
	switch {
	case errors.As(err, &retry):
		s.objected(retry, t, now)
		return retry.After, true
	case errors.As(err, &unknown):
		return 0, true
	}
	if !errors.As(err, &config) {
		s.Succeeded(t.Try, now)
	}
	return 0, false
}
