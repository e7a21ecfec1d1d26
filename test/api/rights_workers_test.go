package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/test/blackbox"
)

// serving returns the frame that starts or stops serving patterns.
func serving(kind string, patterns []string) string {
	b, _ := json.Marshal(map[string]any{kind: map[string]any{"subjects": patterns, "queue": "q"}})
	return string(b)
}

// answerOf returns the reply to a JSON frame, if it is a request.
func answerOf(frame []byte) (reply string, asked bool) {
	var f struct {
		Request struct {
			ID string `json:"request_id"`
		}
	}
	if json.Unmarshal(frame, &f) != nil || f.Request.ID == "" {
		return "", false
	}
	return fmt.Sprintf(`{"reply":{"request_id":%q,"status":200}}`, f.Request.ID), true
}

func webSocketWorker(w *rightsWorld, token string, patterns []string) {
	ctx, cancel := context.WithCancel(w.Context())
	ws := webSocketSession(ctx, w, token, serving("serve", patterns))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, b, err := ws.Read(ctx)
			if err != nil {
				return
			}
			if reply, asked := answerOf(b); asked {
				_ = ws.Write(ctx, websocket.MessageText, []byte(reply))
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-done; _ = ws.CloseNow() })
}

func grpcWorker(w *rightsWorld, token string, patterns []string) {
	ctx, cancel := context.WithCancel(w.Context())
	cc, st := grpcSession(ctx, w, token, &godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Serve{Serve: &godwitpb.Serve{Subjects: patterns, Queue: "q"}}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			f, err := st.Recv()
			if err != nil {
				return
			}
			if id := f.GetRequest().GetRequestId(); id != "" {
				_ = st.Send(&godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Reply{Reply: &godwitpb.Reply{RequestId: id, Status: http.StatusOK}}})
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-done; _ = cc.Close() })
}

// streamWorker gets requests over a stream and answers by posting frames.
func streamWorker(w *rightsWorld, token string, patterns []string) {
	ctx, cancel := context.WithCancel(w.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.http+"/v1/stream?"+topicQuery(token, nil, ""), nil)
	if err != nil {
		w.Fatal(err)
	}
	resp, err := (&http.Client{Transport: w.client.Transport}).Do(req)
	if err != nil {
		w.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines, name, session := bufio.NewScanner(resp.Body), "", ""; lines.Scan(); {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = event
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			if name == "welcome" {
				var welcome struct{ Session string }
				_ = json.Unmarshal([]byte(data), &welcome)
				session = welcome.Session
				w.post(ctx, session, serving("serve", patterns))
			}
			if reply, asked := answerOf(fmt.Appendf(nil, "{%q:%s}", name, data)); asked {
				w.post(ctx, session, reply)
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-done; resp.Body.Close() })
}

// pollWorker gets requests by polling and answers by posting frames. Its session outlives it.
func pollWorker(w *rightsWorld, token string, patterns []string) {
	ctx, cancel := context.WithCancel(w.Context())
	path := "/v1/poll?wait=5s&" + topicQuery(token, nil, "") + "&session="
	var polled struct {
		Session string
		Frames  []json.RawMessage
	}
	poll := func() bool {
		_, body, err := w.ask(ctx, path+polled.Session)
		return err == nil && json.Unmarshal(body, &polled) == nil
	}
	if !poll() || polled.Session == "" {
		w.Fatal("no session by poll")
	}
	w.post(ctx, polled.Session, serving("serve", patterns))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for poll() {
			for _, f := range polled.Frames {
				if reply, asked := answerOf(f); asked {
					w.post(ctx, polled.Session, reply)
				}
			}
		}
	}()
	w.Cleanup(func() {
		cancel()
		<-done
		w.post(context.WithoutCancel(ctx), polled.Session, serving("unserve", patterns))
	})
}

// post posts a frame to a session, unless the worker has ended.
func (w *rightsWorld) post(ctx context.Context, session, frame string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.http+"/v1/frames",
		strings.NewReader(fmt.Sprintf(`{"session":%q,"frames":[%s]}`, session, frame)))
	if err != nil {
		w.Error(err)
		return
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			w.Error(err)
		}
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.Errorf("post %s: %d", frame, resp.StatusCode)
	}
}

func natsWorker(w *rightsWorld, token string, patterns []string) {
	nc, err := nats.Connect("nats://"+w.nats, nats.Token(token), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(nc.Close)
	for _, p := range patterns {
		if _, err := nc.QueueSubscribe("godwit.demo.r."+p, "q", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
			w.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(blackbox.Patience); err != nil {
		w.Fatal(err)
	}
}
