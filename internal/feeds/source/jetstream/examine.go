package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/feeds/source"
)

var _ source.Examiner = Kind{}

// Examine implements source.Examiner.
func (Kind) Examine(ctx context.Context, t source.Target) (list []source.Check) {
	bad := func(hint, detail string, args ...any) []source.Check {
		return append(list, source.Check{Detail: fmt.Sprintf(detail, args...), Hint: hint})
	}
	good := func(hint, detail string, args ...any) {
		list = append(list, source.Check{OK: true, Detail: fmt.Sprintf(detail, args...), Hint: hint})
	}
	c, err := connect(ctx, &t)
	if err != nil {
		return bad("look at the URL, the credentials and the network", "cannot connect: %s", err)
	}
	defer c.close()
	f := &feed{t: &t, c: c, at: &position{Consumer: consumer(&t)}}
	stream, info, err := f.lookAt(ctx)
	if err != nil {
		return bad("look at the name of the stream, the domain and the rights of the user", "%s", err)
	}
	good(limits(&info.Config), "the stream %s has %d messages", info.Config.Name, info.State.Msgs)
	f.consumer, err = f.consumerOf(ctx, stream)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return bad("a server makes it when it reads the source for the first time; if it did before, godwit source resync "+t.Name+" makes another", "the consumer %s does not exist", f.at.Consumer)
	case err != nil:
		return bad("", "%s", c.explain(err, "read the consumer "+f.at.Consumer))
	}
	of := f.consumer.CachedInfo()
	switch wrong := unfit(&of.Config); {
	case wrong != "":
		return bad("", "the consumer %s %s", f.at.Consumer, wrong)
	case of.Paused:
		return bad("nats consumer resume", "the consumer %s is paused in NATS for %s", f.at.Consumer, of.PauseRemaining.Round(time.Second))
	case of.NumWaiting == 0 && of.NumPending > 0:
		return bad("start the server, or resume the source; remove the source if nobody needs it", "the consumer %s has %d messages that nobody asks for", f.at.Consumer, of.NumPending)
	}
	good("", "the consumer %s has %d messages to deliver, and %d that are not acknowledged", f.at.Consumer, of.NumPending, of.NumAckPending)
	f.notice(info)
	for _, said := range f.said {
		list = bad("", "%s", said)
	}
	return list
}

// limits says what a stream does with messages that are not read.
func limits(cfg *jetstream.StreamConfig) string {
	hint := ""
	if cfg.Storage == jetstream.MemoryStorage {
		hint = "it is kept in memory: a restart of NATS loses what was not read"
	}
	if cfg.MaxAge > 0 || cfg.MaxMsgs > 0 || cfg.MaxBytes > 0 || cfg.MaxMsgsPerSubject > 0 {
		hint = fmt.Sprintf("it deletes messages, read or not, by its limits (max_age %s, max_msgs %d, max_bytes %d, max_msgs_per_subject %d)", cfg.MaxAge, cfg.MaxMsgs, cfg.MaxBytes, cfg.MaxMsgsPerSubject)
	}
	return hint
}
