package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/server/config"
)

// doors are the ways into the server.
var doors = []string{"HTTP API", "gRPC API", "web page", "WebSocket", "gRPC session", "SSE", "poll", "NATS", "gateway"}

// The doors of each kind.
var (
	listeners = []string{"HTTP API", "gRPC API", "web page", "WebSocket", "gRPC session", "SSE", "poll", "NATS", "gateway"}
	sessions  = []string{"WebSocket", "gRPC session", "SSE", "poll"}
)

// held names the tests that check a limit at each door, or the reason why it does not apply there.
type held struct {
	by        map[string][]string // test → doors
	elsewhere string
}

// limits has a row for each limit of the configuration and of the public contract.
var limits = map[string]held{
	"max_pending": {map[string][]string{
		"TestPendingNotificationsAreLimitedAtEveryDoor": {"HTTP API", "gRPC API"}, "TestPageShowsMailboxRefusal": {"web page"},
	}, "nothing is published to mailboxes there"},
	"queue_bytes": {map[string][]string{"TestGateway": sessions}, "answers and messages of these have no queue of a session; the NATS server closes clients that take nothing"},
	"queue_total": {map[string][]string{"TestBudgetClosesTheLargestQueuesFirst": sessions}, "likewise"},
	"max_connections": {map[string][]string{
		"TestStrangersTakeNoDescriptorsOfTheStores": listeners, "TestConnectionsAreCounted": {"NATS"},
	}, ""},
	"max_connections_per_address": {map[string][]string{
		"TestOneAddressLeavesPlacesForOthers": listeners, "TestConnectionsAreCounted": {"NATS"},
	}, ""},
	"limit_connects": {map[string][]string{
		"TestRefusedClientsAreTold": listeners, "TestConnectionsAreCounted": {"NATS"},
	}, ""},
	"limit_hellos":   {map[string][]string{"TestHellosAreLimitedAtEveryDoor": append([]string{"NATS"}, sessions...)}, "a key is shown with each request, and limit_connects counts"},
	"limit_signups":  {map[string][]string{"TestRegistrationsFromOneAddressAreLimited": {"HTTP API"}}, "nobody registers without a token there"},
	"limit_publish":  {map[string][]string{"TestPublishesOfAKeyAreLimitedAtEveryDoor": {"HTTP API", "gRPC API", "NATS"}, "TestAKeysBudgetHoldsOnThePageToo": {"web page"}}, "clients publish nothing, and requests are limited by their workers"},
	"limit_loopback": {map[string][]string{"TestHellosAreLimitedAtEveryDoor": append([]string{"NATS"}, sessions...), "TestOneAddressLeavesPlacesForOthers": listeners}, ""},

	"patterns of a connection": {map[string][]string{
		"TestSubscriptionsAreLimitedAtEveryDoor": append([]string{"NATS"}, sessions...),
	}, "nothing is subscribed to there"},
	"size of a topic's message": {map[string][]string{"TestMessagesOfTopicsAreLimitedAtEveryDoor": {"HTTP API", "NATS"}}, "topics are published to over HTTP and NATS alone"},
}

// TestEveryLimitHasARowForEveryDoor fails if a limit has neither a test nor a reason for some door.
func TestEveryLimitHasARowForEveryDoor(t *testing.T) {
	for _, f := range config.Fields(config.Default()) {
		if _, ok := limits[f.Key]; f.Group == "Limits" && !ok {
			t.Errorf("%s has no row: say which test holds it at which door", f.Key)
		}
	}
	known := testNames(t)
	for limit, row := range limits {
		at := map[string]bool{}
		for test, list := range row.by {
			if !known[test] {
				t.Errorf("%s: there is no %s", limit, test)
			}
			for _, door := range list {
				at[door] = true
				if !slices.Contains(doors, door) {
					t.Errorf("%s: there is no door %s", limit, door)
				}
			}
		}
		for _, door := range doors {
			if !at[door] && row.elsewhere == "" {
				t.Errorf("%s is not held at %s", limit, door)
			}
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)

// testNames returns the names of all tests in the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(b, -1) {
			known[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// limitedToOne returns a rate of one per hour.
func limitedToOne(t *testing.T) config.Rate {
	t.Helper()
	r, err := config.ParseRate("1/h")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hellos are the ways to open a session; each reports whether the server accepted it.
var hellos = map[string]func(w *rightsWorld) bool{
	"WebSocket": func(w *rightsWorld) bool {
		ws, _, err := websocket.Dial(w.Context(), "ws://"+w.http+"/v1/connect", nil) // none on success
		if err != nil {
			return false
		}
		defer ws.CloseNow()
		if err := ws.Write(w.Context(), websocket.MessageText, []byte(`{"hello":{"app":"demo","recipient":"r"}}`)); err != nil {
			return false
		}
		_, b, err := ws.Read(w.Context())
		return err == nil && bytes.Contains(b, []byte(`"welcome"`))
	},
	"gRPC session": func(w *rightsWorld) bool {
		cc, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			w.Fatal(err)
		}
		defer cc.Close()
		st, err := godwitpb.NewClientClient(cc).Connect(w.Context())
		if err != nil {
			return false
		}
		if err := st.Send(&godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Hello{Hello: &godwitpb.Hello{App: "demo", Recipient: "r"}}}); err != nil {
			return false
		}
		f, err := st.Recv()
		return err == nil && f.GetWelcome() != nil
	},
	"SSE":  func(w *rightsWorld) bool { return w.opens("/v1/stream") },
	"poll": func(w *rightsWorld) bool { return w.opens("/v1/poll") },
	"NATS": func(w *rightsWorld) bool {
		nc, err := nats.Connect("nats://"+w.nats, nats.Token("dev"), nats.NoReconnect())
		if err == nil {
			nc.Close()
		}
		return err == nil
	},
}

// opens reports whether a stream or poll begins with a welcome.
func (w *rightsWorld) opens(path string) bool {
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.http+path+"?"+url.Values{"app": {"demo"}, "recipient": {"r"}}.Encode(), nil)
	if err != nil {
		w.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var said []byte
	for b := make([]byte, 4096); ; {
		n, err := resp.Body.Read(b)
		if said = append(said, b[:n]...); bytes.Contains(said, []byte(`"welcome"`)) || bytes.Contains(said, []byte("event: welcome")) {
			return true
		}
		if err != nil || bytes.Contains(said, []byte("goodbye")) {
			return false
		}
	}
}

func TestHellosAreLimitedAtEveryDoor(t *testing.T) {
	for door, hello := range hellos {
		t.Run(door, func(t *testing.T) {
			w := startRightsWith(t, func(c *config.Config) { c.LimitHellos = limitedToOne(t) })
			if !hello(w) {
				t.Error("the first is refused")
			}
			if hello(w) {
				t.Error("the second is let in")
			}
		})
	}
	t.Run("one budget for all", func(t *testing.T) {
		w := startRightsWith(t, func(c *config.Config) { c.LimitHellos = limitedToOne(t) })
		if !hellos["NATS"](w) || hellos["WebSocket"](w) || hellos["NATS"](w) {
			t.Error("each door has a budget of its own")
		}
	})
}

// publishWays are the ways to publish with a key; each reports whether the publish was accepted.
var publishWays = map[string]func(w *rightsWorld) bool{
	"a notification":    func(w *rightsWorld) bool { return w.taken("POST", "/v1/notifications", `{"to":"r","title":"x"}`) },
	"a topic":           func(w *rightsWorld) bool { return w.taken("POST", "/v1/topics/rides", "x") },
	"an object":         func(w *rightsWorld) bool { return w.taken("PUT", "/v1/objects/g/o", `{"version":1}`) },
	"gRPC":              func(w *rightsWorld) bool { return w.grpcPublishes("r") == codes.OK },
	"a topic over gRPC": func(w *rightsWorld) bool { return rpcPublish(w, "dev", "rides") },
	"an object over gRPC": func(w *rightsWorld) bool {
		cc := w.dialRPC()
		defer cc.Close()
		_, err := godwitpb.NewPublisherClient(cc).PutObject(withKey(w.Context(), "dev"), &godwitpb.PutObjectRequest{Group: "g", Object: "o"})
		return err == nil
	},
	"a topic over NATS": func(w *rightsWorld) bool { return natsPublish(w, "dev", "rides") },
}

func (w *rightsWorld) taken(method, path, body string) bool {
	status, _ := w.do(w.Context(), method, path, "dev", []byte(body))
	return status < 300
}

func (w *rightsWorld) grpcPublishes(to ...string) codes.Code {
	cc := w.dialRPC()
	defer cc.Close()
	got, err := godwitpb.NewPublisherClient(cc).Publish(withKey(w.Context(), "dev"), &godwitpb.PublishRequest{To: to, Title: "x"})
	if err == nil && got.GetResults()[0].GetError() != nil {
		return codes.ResourceExhausted
	}
	return status.Code(err)
}

func TestPublishesOfAKeyAreLimitedAtEveryDoor(t *testing.T) {
	for door, publish := range publishWays {
		t.Run(door, func(t *testing.T) {
			w := startRightsWith(t, func(c *config.Config) { c.LimitPublish = limitedToOne(t) })
			if !publish(w) {
				t.Error("the first is refused")
			}
			for other, again := range publishWays { // one budget for all
				if again(w) {
					t.Errorf("%s is taken after it", other)
				}
			}
		})
	}
}

// TestAPublishToSeveralIsOneOfTheBudget publishes twice to three recipients with a budget of four publishes.
func TestAPublishToSeveralIsOneOfTheBudget(t *testing.T) {
	to := []string{"a", "b", "c"}
	for door, publish := range map[string]func(w *rightsWorld) bool{
		"HTTP": func(w *rightsWorld) bool {
			return w.taken("POST", "/v1/notifications", `{"to":["a","b","c"],"title":"x"}`)
		},
		"gRPC": func(w *rightsWorld) bool { return w.grpcPublishes(to...) == codes.OK },
	} {
		t.Run(door, func(t *testing.T) {
			w := startRightsWith(t, func(c *config.Config) {
				var err error
				if c.LimitPublish, err = config.ParseRate("1/s"); err != nil {
					t.Fatal(err)
				}
			})
			for i := range 2 {
				if !publish(w) {
					t.Errorf("publish %d is refused", i+1)
				}
			}
		})
	}
}

func TestPendingNotificationsAreLimitedAtEveryDoor(t *testing.T) {
	w := startRightsWith(t, func(c *config.Config) { c.MaxPending = 1 })
	if !w.taken("POST", "/v1/notifications", `{"to":"r","title":"x"}`) {
		t.Error("the first is refused")
	}
	if w.taken("POST", "/v1/notifications", `{"to":"r","title":"x"}`) {
		t.Error("HTTP: the second is taken")
	}
	if code := w.grpcPublishes("r"); code == codes.OK {
		t.Error("gRPC: the second is taken")
	}
}

// TestSubscriptionsAreLimitedAtEveryDoor subscribes to the most topics that a connection may have, and to one more.
func TestSubscriptionsAreLimitedAtEveryDoor(t *testing.T) {
	w := startRights(t)
	var patterns []string
	for i := range frame.MaxPatterns + 1 {
		patterns = append(patterns, fmt.Sprint("t", i))
	}
	all, tooMany := patterns[:frame.MaxPatterns], patterns[frame.MaxPatterns:]
	t.Run("WebSocket", func(t *testing.T) {
		ws, _, err := websocket.Dial(t.Context(), "ws://"+w.http+"/v1/connect", nil) // none on success
		if err != nil {
			t.Fatal(err)
		}
		defer ws.CloseNow()
		for _, f := range []any{map[string]any{"hello": map[string]any{"app": "demo", "recipient": "r"}}, subscribe(all), subscribe(tooMany), map[string]any{"ping": struct{}{}}} {
			b, _ := json.Marshal(f)
			if err := ws.Write(t.Context(), websocket.MessageText, b); err != nil {
				t.Fatal(err)
			}
		}
		for {
			_, b, err := ws.Read(t.Context())
			if err != nil || bytes.Contains(b, []byte(`"pong"`)) {
				t.Fatalf("one more than %d is subscribed to: %v", frame.MaxPatterns, err)
			}
			if bytes.Contains(b, []byte(tooMany[0])) {
				return
			}
		}
	})
	for door, path := range map[string]string{"SSE": "/v1/stream", "poll": "/v1/poll"} {
		t.Run(door, func(t *testing.T) {
			q := url.Values{"app": {"demo"}, "recipient": {"r"}, "topics": {strings.Join(patterns, ",")}}
			if code, _ := w.do(t.Context(), "GET", path+"?"+q.Encode(), "", nil); code != http.StatusBadRequest {
				t.Errorf("%d", code)
			}
		})
	}
	t.Run("gRPC session", func(t *testing.T) {
		cc, st := grpcSession(t.Context(), w, w.token("r", []string{">"}, nil), &godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Subscribe{Subscribe: &godwitpb.Subscribe{Topics: patterns}}})
		defer cc.Close()
		for {
			f, err := st.Recv()
			if err != nil || f.GetError() != nil || f.GetGoodbye() != nil {
				return
			}
		}
	})
	t.Run("NATS", func(t *testing.T) {
		nc, err := nats.Connect("nats://"+w.nats, nats.Token("dev"), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		for i, p := range patterns {
			if _, err := nc.SubscribeSync("godwit.demo.t." + p); err != nil || nc.Flush() != nil {
				t.Fatal(err)
			}
			if refused := nc.LastError() != nil; refused != (i == frame.MaxPatterns) {
				t.Fatalf("subscription %d: refused %v", i+1, refused)
			}
		}
	})
}

func subscribe(patterns []string) map[string]any {
	return map[string]any{"subscribe": map[string]any{"topics": patterns}}
}

// TestMessagesOfTopicsAreLimitedAtEveryDoor publishes a message of the largest size, which reaches every subscriber, and one that is one
// byte larger, which is refused and reaches nobody.
func TestMessagesOfTopicsAreLimitedAtEveryDoor(t *testing.T) {
	w := startRights(t)
	for door, publish := range map[string]func(w *rightsWorld, data []byte) bool{
		"HTTP API": func(w *rightsWorld, data []byte) bool {
			code, _ := w.do(w.Context(), "POST", "/v1/topics/rides", "dev", data)
			return code < 300
		},
		"NATS": func(w *rightsWorld, data []byte) bool {
			nc, err := nats.Connect("nats://"+w.nats, nats.Token("dev"), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			if err != nil {
				w.Fatal(err)
			}
			defer nc.Close()
			if err := nc.Publish("godwit.demo.t.rides", data); err != nil || nc.Flush() != nil {
				w.Fatal(err)
			}
			return nc.LastError() == nil
		},
	} {
		for _, way := range subscribers {
			for _, c := range []struct {
				size int
				may  bool
			}{{topic.MaxData, true}, {topic.MaxData + 1, false}} {
				t.Run(fmt.Sprintf("%s to %s, %d bytes", door, way.name, c.size), func(t *testing.T) {
					w := w.in(t)
					s := way.subscribe(w, w.token("r", []string{">"}, nil), []string{"rides", w.fence(">")}, "")
					w.wait(s)
					if got := publish(w, make([]byte, c.size)); got != c.may {
						t.Errorf("taken: %v", got)
					}
					if got := w.until(s)["rides"]; got != c.may {
						t.Errorf("it arrived: %v", got)
					}
				})
			}
		}
	}
}
