package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/feeds/source"
)

// Settings of a consumer that is made.
const (
	// ackWait is the time after which NATS delivers messages again whose reader is gone. Readers prolong it as long as they work.
	ackWait = 5 * time.Second
	// mostUnacked is the maximum number of messages that are delivered and not acknowledged, such as those whose mailbox is full.
	mostUnacked = 20_000
)

// position is the note of a source: the consumer, the stream, and how far they are read.
type position struct {
	Stream   string    `json:"stream"`
	Created  time.Time `json:"created"` // when the stream was: a stream that is made anew begins with sequence 1
	Consumer string    `json:"consumer"`
	Made     bool      `json:"made,omitempty"` // by this source
	Floor    uint64    `json:"floor"`          // all messages up to this sequence are stored
}

// readPosition returns what the source has noted; nil: nothing.
func readPosition(t *source.Target) (*position, error) {
	if len(t.Position) == 0 {
		return nil, nil
	}
	p := &position{}
	if err := json.Unmarshal(t.Position, p); err != nil {
		return nil, fmt.Errorf("what the source %s has noted is damaged: %w", t.Name, err)
	}
	return p, nil
}

func (f *feed) note(ctx context.Context, to source.Emitter) error {
	text, err := json.Marshal(f.at)
	if err != nil {
		return err
	}
	return to.Note(ctx, text)
}

// find finds the stream and its consumer, or makes the consumer.
func (f *feed) find(ctx context.Context, to source.Emitter) error {
	stream, info, err := f.lookAt(ctx)
	if err != nil {
		return err
	}
	name := consumer(f.t)
	former := f.at
	same := former != nil && former.Stream == info.Config.Name && former.Consumer == name
	f.at = &position{Stream: info.Config.Name, Created: info.Created, Consumer: name}
	again := same && former.Created.Equal(info.Created)
	if again {
		f.at.Floor = former.Floor
	}
	f.consumer, err = f.consumerOf(ctx, stream)
	switch {
	case err == nil && f.t.Resync && f.consumer.CachedInfo().Config.Description == f.description() && info.Config.Retention == jetstream.LimitsPolicy:
		err = f.anew(ctx, stream)
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
	case same && !f.t.Resync && !again:
		return plainly("the stream %s is another one than before: what the former one had after message %d may be missing; godwit source resync %s reads this one", f.at.Stream, former.Floor, f.t.Name)
	case same && !f.t.Resync:
		return plainly("the consumer %s is gone; godwit source resync %s makes another, which reads on after message %d", name, f.t.Name, f.at.Floor)
	default:
		err = f.make(ctx, stream, again)
	}
	if err != nil {
		return f.c.explain(err, "read the consumer "+name)
	}
	if err := f.fits(ctx, stream); err != nil {
		return err
	}
	f.notice(info)
	if err := f.note(ctx, to); err != nil || !f.t.Resync {
		return err
	}
	return to.Resynced(ctx)
}

// notice says what a person should know of the stream.
func (f *feed) notice(info *jetstream.StreamInfo) {
	cfg := &info.Config
	if cfg.Mirror == nil && len(cfg.Sources) == 0 && cfg.SubjectTransform == nil {
		for _, s := range f.t.Values.List(FieldSubjects) {
			if !slices.ContainsFunc(cfg.Subjects, func(has string) bool { return overlap(has, s) }) {
				f.said = append(f.said, fmt.Sprintf("the stream %s has no subject that matches %s", cfg.Name, s))
			}
		}
	}
	read := f.consumer.CachedInfo().Delivered.Stream
	if gone := info.State.FirstSeq; read > 0 && cfg.Retention == jetstream.LimitsPolicy && gone > read+1 {
		f.said = append(f.said, fmt.Sprintf("the stream has deleted messages %d to %d, by its limits or by hand, before they were read", read+1, gone-1))
	}
}

// overlap reports whether a message may have a subject that matches both.
func overlap(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		switch {
		case as[i] == ">" || bs[i] == ">":
			return true
		case as[i] != bs[i] && as[i] != "*" && bs[i] != "*":
			return false
		}
	}
	return len(as) == len(bs)
}

// lookAt returns the stream.
func (f *feed) lookAt(ctx context.Context) (stream jetstream.Stream, info *jetstream.StreamInfo, err error) {
	name := f.t.Values.Text(FieldStream)
	err = f.c.ask(ctx, func(ctx context.Context) (err error) {
		stream, err = f.c.js.Stream(ctx, name)
		return err
	})
	if err != nil {
		return nil, nil, f.c.explain(err, "read the stream "+name)
	}
	return stream, stream.CachedInfo(), nil
}

func (f *feed) consumerOf(ctx context.Context, stream jetstream.Stream) (c jetstream.Consumer, err error) {
	err = f.c.ask(ctx, func(ctx context.Context) (err error) {
		c, err = stream.Consumer(ctx, f.at.Consumer)
		return err
	})
	return c, err
}

// anew replaces the consumer by one that begins with the first message that the stream has.
func (f *feed) anew(ctx context.Context, stream jetstream.Stream) error {
	if err := f.c.ask(ctx, func(ctx context.Context) error { return stream.DeleteConsumer(ctx, f.at.Consumer) }); err != nil {
		return err
	}
	f.at.Floor = 0
	return f.make(ctx, stream, false)
}

// make makes the consumer. If on is set, it begins behind the messages that are stored.
func (f *feed) make(ctx context.Context, stream jetstream.Stream, on bool) error {
	of := &stream.CachedInfo().Config
	cfg := jetstream.ConsumerConfig{
		Durable: f.at.Consumer, Description: f.description(), AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: mostUnacked,
	}
	if most := of.ConsumerLimits.MaxAckPending; most > 0 {
		cfg.MaxAckPending = min(cfg.MaxAckPending, most)
	}
	filter(&cfg, f.t.Values.List(FieldSubjects))
	switch {
	case of.Retention == jetstream.WorkQueuePolicy: // it deletes what is stored
	case on:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.at.Floor+1
	case f.t.Values.Text(FieldFrom) == fromNew && f.t.Position == nil:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	return f.c.ask(ctx, func(ctx context.Context) (err error) {
		f.consumer, err = stream.CreateConsumer(ctx, cfg)
		return err
	})
}

// description marks the consumers that a source makes.
func (f *feed) description() string { return "Godwit's source " + f.t.Name + " of the app " + f.t.App }

// filter sets the subjects of a consumer.
func filter(cfg *jetstream.ConsumerConfig, subjects []string) {
	cfg.FilterSubject, cfg.FilterSubjects = "", nil
	if len(subjects) == 1 {
		cfg.FilterSubject = subjects[0]
	} else {
		cfg.FilterSubjects = subjects
	}
}

// fits makes a consumer read the subjects of the source, and refuses one that somebody else has made and that cannot be a checkpoint.
func (f *feed) fits(ctx context.Context, stream jetstream.Stream) error {
	cfg := f.consumer.CachedInfo().Config
	f.at.Made = cfg.Description == f.description()
	if wrong := unfit(&cfg); wrong != "" {
		return plainly("the consumer %s %s", f.at.Consumer, wrong)
	}
	has, want := cfg.FilterSubjects, f.t.Values.List(FieldSubjects)
	if cfg.FilterSubject != "" {
		has = []string{cfg.FilterSubject}
	}
	switch {
	case slices.Equal(has, want), !f.at.Made && len(want) == 0:
		return nil
	case !f.at.Made:
		return plainly("the consumer %s, which this source has not made, reads the subjects %q: set the source to these, or to another consumer", f.at.Consumer, has)
	}
	filter(&cfg, want)
	err := f.c.ask(ctx, func(ctx context.Context) (err error) {
		f.consumer, err = stream.UpdateConsumer(ctx, cfg)
		return err
	})
	return f.c.explain(err, "set the subjects of the consumer "+f.at.Consumer)
}

// unfit says why a consumer cannot be a checkpoint.
func unfit(cfg *jetstream.ConsumerConfig) string {
	switch {
	case cfg.AckPolicy != jetstream.AckExplicitPolicy:
		return "does not acknowledge each message (its ack_policy must be explicit): set the source to another one"
	case cfg.MaxDeliver > 0:
		return "gives messages up after some deliveries: set its max_deliver to -1 (tries of the source puts them into quarantine instead)"
	case cfg.HeadersOnly:
		return "delivers headers without messages (headers_only): set the source to another one"
	case len(cfg.PriorityGroups) > 0:
		return "has priority groups: set the source to another one"
	}
	return ""
}
