package godwit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/config"
)

// outcome is the result of a call, without what differs from call to call.
type outcome struct {
	Result any
	Err    *godwit.Error
	Text   string
}

func outcomeOf(result any, err error) outcome {
	o := outcome{Result: result}
	if errors.As(err, &o.Err) {
		o.Result = nil
	} else if err != nil {
		o.Text = err.Error()
	}
	return o
}

// calls are back ends' calls. Each is made over HTTP and by RPC, of things with names of their own: name is the first part.
var calls = map[string]func(ctx context.Context, c *godwit.Client, name string) (any, error){
	"publish": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		r, err := c.Publish(ctx, godwit.Publication{
			To: "r", ID: name + "1", Title: "é", Body: "b", Category: "C", Data: []byte(`{"a":1}`), SendAt: at, TTL: time.Hour, CollapseKey: name, Priority: "low", Ack: "all", ReplyBy: time.Minute,
		})
		r.ID = strings.TrimPrefix(r.ID, name)
		return r, err
	},
	"publish to a bad name": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return c.Publish(ctx, godwit.Publication{To: "a b", ID: name, Title: "Hi"})
	},
	"publish for phones": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		full := 100
		r, err := c.Publish(ctx, godwit.Publication{
			To: "r", ID: name + "1", Title: "Hi", SendAt: at, FCM: &godwit.FCM{Ongoing: true, Progress: &full}, APNs: &godwit.APNs{Sound: "default", Critical: true},
			LiveActivity: &godwit.LiveActivity{Type: "A", State: json.RawMessage(`{}`)},
		})
		r.ID = strings.TrimPrefix(r.ID, name)
		return r, err
	},
	"publish what Android cannot show": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		more := 101
		return c.Publish(ctx, godwit.Publication{To: "r", ID: name, Title: "Hi", FCM: &godwit.FCM{Ongoing: true, Progress: &more}})
	},
	"publish what an iPhone cannot show": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return c.Publish(ctx, godwit.Publication{To: "r", ID: name, Title: "Hi", APNs: &godwit.APNs{InterruptionLevel: "loud"}})
	},
	"publish no Live Activity": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return c.Publish(ctx, godwit.Publication{To: "r", ID: name, Title: "Hi", LiveActivity: &godwit.LiveActivity{Type: "A B", State: json.RawMessage(`{}`)}})
	},
	"publish nothing": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return c.Publish(ctx, godwit.Publication{To: "r", ID: name})
	},
	"publish with a bad ttl": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return c.Publish(ctx, godwit.Publication{To: "r", ID: name, TTL: 31 * 24 * time.Hour, Title: "Hi"})
	},
	"publish other content": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		if _, err := c.Publish(ctx, godwit.Publication{To: "r", ID: name, Title: "Hi"}); err != nil {
			return nil, err
		}
		return c.Publish(ctx, godwit.Publication{To: "r", ID: name, Title: "other"})
	},
	"publish to a channel that there is not": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return c.Publish(ctx, godwit.Publication{To: "r", ID: name, Escalate: []godwit.Step{{Channel: "live"}, {Channel: "fcm", After: time.Second, Keep: true}}, Title: "Hi"})
	},
	"publish to several": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		rs, err := c.PublishTo(ctx, godwit.Publication{ID: name, Data: []byte("text"), ExpiresAt: at}, "r", "a b", "r2")
		for i := range rs {
			rs[i].ID = strings.TrimPrefix(rs[i].ID, name)
		}
		return rs, err
	},
	"publish many": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		rs, err := c.PublishBatch(ctx, []godwit.Publication{{To: "r", ID: name + "1", Title: "Hi", ExpiresAt: at}, {To: "r", ID: name + "nothing"}, {To: "a b", ID: name + "2"}, {To: "r", ID: "a b"}, {To: "r2", ID: name + "3", ExpiresAt: at, Data: []byte{0xff}}})
		for i := range rs {
			rs[i].ID = strings.TrimPrefix(rs[i].ID, name)
		}
		return rs, err
	},
	"status": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		if _, err := c.Publish(ctx, godwit.Publication{To: "r-" + name, ID: name, Priority: "high", ExpiresAt: at, Title: "Hi"}); err != nil {
			return nil, err
		}
		s, err := c.Status(ctx, name, "r-"+name)
		if time.Since(s.CreatedAt) > time.Hour {
			return s, err
		}
		s.CreatedAt, s.ID, s.To = time.Time{}, "", ""
		return s, err
	},
	"status of none": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return c.Status(ctx, "none", "r")
	},
	"recall": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		if _, err := c.PublishTo(ctx, godwit.Publication{ID: name, Title: "Hi"}, "a", "b", "c"); err != nil {
			return nil, err
		}
		if err := c.Recall(ctx, name, "a", "b"); err != nil {
			return nil, err
		}
		var states []string
		for _, to := range []string{"a", "b", "c"} {
			s, err := c.Status(ctx, name, to)
			if err != nil {
				return nil, err
			}
			states = append(states, s.Status)
		}
		return states, nil
	},
	"put objects": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		var all []any
		for _, p := range []godwit.ObjectPut{{Version: 3, Payload: []byte(`{"a":1}`), Source: "r/d"}, {Version: 3}, {Payload: []byte("text")}, {Payload: []byte{0xff}}} {
			r, err := c.PutObject(ctx, name, "o", p)
			if err != nil {
				return nil, err
			}
			o, err := c.GetObject(ctx, name, "o")
			if err != nil {
				return nil, err
			}
			o.UpdatedAt, o.Group = time.Time{}, ""
			all = append(all, r, o)
		}
		r, err := c.UnknownObject(ctx, name, "o", 9)
		if err != nil {
			return nil, err
		}
		return append(all, r), c.DeleteObject(ctx, name, "o")
	},
	"put too much": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return c.PutObject(ctx, name, "o", godwit.ObjectPut{Payload: make([]byte, godwit.MaxPayload+1)})
	},
	"delete none": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		return nil, c.DeleteObject(ctx, name, "none")
	},
	"a message that is too long": func(ctx context.Context, c *godwit.Client, name string) (any, error) {
		err := c.PublishMessage(ctx, godwit.Message{Topic: "a.b", Data: make([]byte, godwit.MaxMessage+1)})
		var e *godwit.Error // over HTTP the body is refused before it is read, by RPC its field
		if !errors.As(err, &e) || e.Status != http.StatusRequestEntityTooLarge && e.Field != "data" {
			return nil, err
		}
		return "refused", nil
	},
	"ask nobody": func(ctx context.Context, c *godwit.Client, _ string) (any, error) {
		return c.Ask(ctx, "nobody", []byte("1"), godwit.AskOptions{})
	},
	"ask for too long": func(ctx context.Context, c *godwit.Client, _ string) (any, error) {
		return c.Ask(ctx, "nobody", nil, godwit.AskOptions{Timeout: time.Hour})
	},
	"ask who is away": func(ctx context.Context, c *godwit.Client, _ string) (any, error) {
		return c.AskRecipient(ctx, "away", []byte("1"), godwit.AskOptions{Device: "d"})
	},
}

var at = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)

func TestCallsByRPCEndAsOverHTTP(t *testing.T) {
	t.Parallel()
	s := run(t, nil)
	over := client(t, s, godwit.WithAttempts(1))
	by := client(t, s, godwit.WithGRPC(s.addrs().GRPC), godwit.WithRPC(), godwit.WithAttempts(1))
	for i, name := range slices.Sorted(maps.Keys(calls)) {
		call := calls[name]
		for _, key := range []string{"", "guess"} {
			want, got := over, by
			if key != "" {
				want = client(t, s, godwit.WithAttempts(1), godwit.WithAPIKey(key))
				got = client(t, s, godwit.WithGRPC(s.addrs().GRPC), godwit.WithRPC(), godwit.WithAttempts(1), godwit.WithAPIKey(key))
			}
			first := outcomeOf(call(t.Context(), want, fmt.Sprint("over", key, i)))
			second := outcomeOf(call(t.Context(), got, fmt.Sprint("by", key, i)))
			if !reflect.DeepEqual(first, second) {
				t.Errorf("%s with key %q: by RPC it ends with\n%+v, %v, over HTTP with\n%+v, %v", name, key, second, second.Err, first, first.Err)
			}
		}
	}
}

func TestWithRPCNeedsAnAddress(t *testing.T) {
	t.Parallel()
	if _, err := godwit.New("http://localhost", godwit.WithRPC()); err == nil || !strings.Contains(err.Error(), "WithGRPC") {
		t.Errorf("without an address: %v", err)
	}
}

// A server that refuses for now is asked again, with what it says about the wait.
func TestCallByRPCIsRetriedAfterALimit(t *testing.T) {
	t.Parallel()
	s := run(t, func(c *config.Config) {
		var err error
		if c.LimitPublish, err = config.ParseRate("5/s"); err != nil {
			t.Fatal(err)
		}
	})
	var waits []time.Duration
	c := client(t, s, godwit.WithGRPC(s.addrs().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())), godwit.WithRPC(),
		godwit.WithOnRetry(func(err error, after time.Duration) {
			var e *godwit.Error
			if !errors.As(err, &e) || e.Status != http.StatusTooManyRequests || e.RetryAfter <= 0 || after < e.RetryAfter {
				t.Errorf("a try ends with %v, %+v; the next is in %s", err, e, after)
			}
			waits = append(waits, after)
		}))
	for len(waits) == 0 {
		if _, err := c.PutObject(t.Context(), "g", "o", godwit.ObjectPut{}); err != nil {
			t.Fatal(err)
		}
	}
}
