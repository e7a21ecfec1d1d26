package godwit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// UnmarshalJSON parses what MarshalJSON writes, as a server does.
func (r *reply) UnmarshalJSON(b []byte) error {
	var w wireReply
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = reply{RequestID: w.RequestID, ID: w.ID, Status: w.Status, Answer: Answer{ContentType: w.ContentType, Data: w.DataBase64}}
	for name, v := range w.Headers {
		if r.Header == nil {
			r.Header = make(http.Header)
		}
		switch v := v.(type) {
		case string:
			r.Header[name] = []string{v}
		case []any:
			for _, one := range v {
				text, _ := one.(string)
				r.Header[name] = append(r.Header[name], text)
			}
		}
	}
	if w.Data == nil {
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, w.Data); err != nil {
		return err
	}
	var err error
	r.Data, r.ContentType, err = readData(compact.Bytes(), nil, w.ContentType)
	return err
}

// said returns the client's answers to notifications so far.
func (c *scripted) said() (frames []string) {
	for {
		select {
		case f := <-c.seen:
			switch {
			case f.Reply != nil:
				frames = append(frames, fmt.Sprint("reply ", f.Reply.RequestID, f.Reply.ID, " ", f.Reply.Status, " ", string(f.Reply.Data)))
			case f.Serve != nil:
				frames = append(frames, fmt.Sprint("serve ", f.Serve.Subjects, " ", f.Serve.Queue))
			case f.Ack != nil:
				frames = append(frames, fmt.Sprint("ack ", f.Ack.IDs))
			case f.Nack != nil:
				frames = append(frames, fmt.Sprint("nack ", f.Nack.IDs, " ", f.Nack.Reason))
			case f.Ping != nil:
				c.in <- serverFrame{Pong: &ping{}}
			}
		default:
			return frames
		}
	}
}

func (c *scripted) wantSaid(t *testing.T, what ...string) {
	t.Helper()
	synctest.Wait()
	if got := c.said(); !slices.Equal(got, what) {
		t.Errorf("the client said %q, want %q", got, what)
	}
}

func TestTheNewestRepliesAreGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		l := listen(t, welcoming, func(_ context.Context, n *Notification) error {
			handled++
			return fmt.Errorf("answered: %w", Reply(Answer{Status: http.StatusAccepted, Data: []byte(n.ID)}))
		})
		synctest.Wait()
		c := l.conns[0]
		for i := range rememberedReplies + 1 {
			c.notify(fmt.Sprint(i))
			c.wantSaid(t, fmt.Sprintf("reply %d 202 %[1]d", i))
		}
		c.end(io.EOF)
		synctest.Wait()
		c = l.conns[1]
		for _, id := range []string{"1", "64", "0"} { // the answer to 0 is no longer stored
			c.notify(id)
			c.wantSaid(t, "reply "+id+" 202 "+id)
		}
		if want := rememberedReplies + 2; handled != want {
			t.Errorf("the handler was asked %d times, want %d", handled, want)
		}
		l.end()
	})
}

func TestReplyThatTheServerWouldNotTakeIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, welcoming, func(_ context.Context, n *Notification) error {
			if n.ID == "status" {
				return Reply(Answer{Status: 1000})
			}
			return Reply(Answer{Data: make([]byte, maxReplyData+1)})
		})
		synctest.Wait()
		l.conns[0].notify("large")
		l.conns[0].wantSaid(t, "nack [large] reply: the answer has 65537 bytes; at most 65536 are allowed")
		l.conns[0].notify("status")
		l.conns[0].wantSaid(t, "nack [status] reply: the answer's status 1000 is not between 200 and 599")
		l.end()
	})
}

func TestServingIsToldOnEveryConnectionUnlessItIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got told
		serves := func(o *listenOptions) { o.subjects = []string{"orders.>"} }
		l := listen(t, welcoming, nil, serves, OnServing(func() { got.note("serving") }), OnError(func(err error) { got.note("%v", err) }))
		synctest.Wait()
		c := l.conns[0]
		got.want(t) // not called before the server has handled the frame
		c.wantSaid(t, "serve [orders.>] ")
		got.want(t, "serving")
		c.in <- serverFrame{Pong: &ping{}} // of a later ping
		got.want(t)
		time.Sleep(stable)
		c.end(io.EOF)
		synctest.Wait()
		c = l.conns[1]
		c.in <- serverFrame{Err: &frameError{Code: "forbidden", Field: "subjects", Message: "no", Refused: []string{"orders.>"}}}
		c.wantSaid(t, "serve [orders.>] ")
		got.want(t, "server refused a frame: forbidden: no")
		l.end()
	})
}

func TestSubjectsThatCannotBeServedNowAreServedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got told
		serves := func(o *listenOptions) { o.subjects, o.queue = []string{"a", "b"}, "q" }
		l := listen(t, welcoming, nil, serves, OnServing(func() { got.note("serving") }), OnError(func(error) {}))
		synctest.Wait()
		c := l.conns[0]
		c.in <- serverFrame{Err: &frameError{Code: "unavailable", Field: "subjects", Refused: []string{"b"}}}
		c.wantSaid(t, "serve [a b] q")
		got.want(t) // the pong arrived, but b is not served
		time.Sleep(connectBase)
		c.wantSaid(t, "serve [b] q")
		got.want(t, "serving")
		l.end()
	})
}

func FuzzReplyData(f *testing.F) {
	f.Add([]byte(`{"a": "<b>"}`), "application/json")
	f.Add([]byte("\x00\x01"), "text/plain")
	f.Add([]byte("text ☂"), "text/plain")
	f.Add([]byte("\xff"), "")
	f.Fuzz(func(t *testing.T, data []byte, contentType string) {
		b, err := json.Marshal(&reply{RequestID: "q", Answer: Answer{Data: data, ContentType: contentType}})
		if err != nil {
			t.Fatal(err)
		}
		if most := base64.StdEncoding.EncodedLen(len(data)) + 6*len(contentType) + 100; len(b) > most {
			t.Errorf("%d bytes became %d", len(data), len(b))
		}
		var got reply
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Data, data) {
			t.Errorf("%q became %q in %s", data, got.Data, b)
		}
	})
}
