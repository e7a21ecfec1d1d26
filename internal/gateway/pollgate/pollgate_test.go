package pollgate_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/pollgate"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(t testing.TB, s *gatetest.Server) *pollgate.Gateway {
	g := pollgate.New(pollgate.Config{Hub: s.Hub, Posting: s.Posting, Origins: s.Access, Log: s.Log})
	t.Cleanup(func() { _ = g.Close() })
	s.Mux.Handle("/v1/poll", g)
	return g
}

func start(t *testing.T) *gatetest.Server {
	return gatetest.Start(t, func(s *gatetest.Server) { mount(t, s) })
}

func TestGateway(t *testing.T) { gatetest.Run(t, gate()) }

func TestGatewayOnTwoNodes(t *testing.T) { gatetest.RunPostsOnTwo(t, gate()) }

func gate() gatetest.Gate {
	var gates sync.Map
	return gatetest.Gate{
		LingersOn: true,
		Mount:     func(t testing.TB, s *gatetest.Server) { gates.Store(s, mount(t, s)) },
		Dial: func(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
			return open(t.Context(), s, o)
		},
		Queued: func(s *gatetest.Server) int64 {
			g, _ := gates.Load(s)
			return g.(*pollgate.Gateway).Queued()
		},
	}
}

func TestObjectsInTheQuery(t *testing.T) {
	gatetest.RunByQuery(t, gatetest.Gate{
		Mount: func(t testing.TB, s *gatetest.Server) { mount(t, s) },
		Dial: func(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
			return open(t.Context(), s, o)
		},
	})
}

type client struct{ gatetest.Poster }

func open(ctx context.Context, s *gatetest.Server, o gatetest.Options) (*client, error) {
	resp, err := s.Get(ctx, "/v1/poll", o.Query())
	if err != nil {
		return nil, err
	}
	c := &client{gatetest.Poster{Server: s}}
	return c, c.Keep(resp)
}

func (c *client) poll(ctx context.Context, wait string) error {
	resp, err := c.Server.Get(ctx, "/v1/poll", url.Values{"session": {c.Session}, "answer": {strconv.FormatUint(c.Answer, 10)}, "wait": {wait}})
	if err != nil {
		return err
	}
	return c.Keep(resp)
}

func (c *client) Next(ctx context.Context) (string, error) {
	for {
		if f, ok := c.Kept(); ok {
			return f, nil
		}
		err := c.poll(ctx, "30s")
		var refused *gatetest.Refused
		if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
			return "", io.EOF
		}
		if err != nil {
			return "", err
		}
	}
}

func (c *client) Close() {}

func TestAPollWithoutNewsReturnsAfterItsWait(t *testing.T) {
	s := start(t)
	c, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	c.Answers = nil
	for _, wait := range []string{"0", "1s"} {
		if err := c.poll(t.Context(), wait); err != nil || len(c.Answers) != 0 {
			t.Errorf("wait %s: %v, frames %s; want none", wait, err, c.Answers)
		}
	}
	var refused *gatetest.Refused
	if err := c.poll(t.Context(), "soon"); !errors.As(err, &refused) || refused.Status != 400 || !strings.Contains(refused.Detail, `"field":"wait"`) {
		t.Errorf("wait soon: %v, want 400 of wait", err)
	}
}

func TestANewerPollTakesOver(t *testing.T) {
	s := start(t)
	c, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	older := &client{gatetest.Poster{Server: s, Session: c.Session}}
	first := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), gatetest.Patience)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { first <- older.poll(ctx, "50s") })
	for { // either of the two polls may arrive first; the later one ends it
		if err := c.poll(ctx, "0"); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-first:
			if err != nil || len(older.Answers) != 0 {
				t.Errorf("the older poll got %v, %s; want an empty answer", err, older.Answers)
			}
			wg.Wait()
			return
		default:
		}
	}
}

func TestAWaitThatIsNoneIsRefused(t *testing.T) {
	s := start(t)
	c, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"", c.Session} {
		for _, wait := range []string{"-1s", "-1", "soon", "1e9d"} {
			q := gatetest.Options{Recipient: "driver-1"}.Query()
			q.Set("wait", wait)
			if session != "" {
				q.Set("session", session)
			}
			var refused *gatetest.Refused
			if _, err := s.Get(t.Context(), "/v1/poll", q); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest || !strings.Contains(refused.Detail, `"field":"wait"`) {
				t.Errorf("wait=%s with session %q: %v", wait, session, err)
			}
		}
	}
}

func TestUnknownSessionIsNotFound(t *testing.T) {
	s := start(t)
	c := &client{gatetest.Poster{Server: s, Session: "AAAAAAAAAAAAAAAAAAAAAA"}}
	var refused *gatetest.Refused
	if err := c.poll(t.Context(), "0"); !errors.As(err, &refused) || refused.Status != 404 {
		t.Errorf("poll: %v, want 404", err)
	}
	if err := c.Send(t.Context(), `{"ping":{}}`); !errors.As(err, &refused) || refused.Status != 404 {
		t.Errorf("post: %v, want 404", err)
	}
}

func TestPostedFramesAreAnsweredInOrder(t *testing.T) {
	s := start(t)
	c, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"session":"` + c.Session + `","frames":[{"ping":{}},{"explode":{}},{"ping":{}},{"hello":{}}]}`
	resp, err := s.HTTP.Client().Post(s.URL+"/v1/frames", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Frames []map[string]json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range answer.Frames {
		for name := range f {
			got = append(got, name)
		}
	}
	if strings.Join(got, " ") != "pong error pong" {
		t.Errorf("answers are %v, want pong error pong", got)
	}
}

func TestBadPostsAreRefused(t *testing.T) {
	s := start(t)
	for body, status := range map[string]int{
		``: 400, `[]`: 400, `{"session":7}`: 400, `{"session":"x","frames":[],"more":1}`: 400, `{"session":"x"} {}`: 400,
		`{"session":"x","frames":[` + strings.TrimSuffix(strings.Repeat("1,", 1001), ",") + `]}`: 400,
		`{"session":"` + strings.Repeat("x", 1600<<10) + `"}`:                                    413,
		`{"session":"x","frames":[]}`:                                                            404,
	} {
		resp, err := s.HTTP.Client().Post(s.URL+"/v1/frames", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%.40s: %d, want %d", body, resp.StatusCode, status)
		}
	}
}

func TestOneAppLeavesPlacesForAnothersPolls(t *testing.T) {
	s := gatetest.Start(t, func(s *gatetest.Server) { mount(t, s).Shrink(4) })
	hostile := func() error {
		_, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
		return err
	}
	first, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := hostile(); err != nil {
		t.Fatal(err)
	}
	var refused *gatetest.Refused
	if err := hostile(); !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
		t.Errorf("a third session of four gets %v", err)
	}
	for range 100 { // as many errors as end a session
		if err := first.Send(t.Context(), `{"nonsense":{}}`); err != nil {
			t.Fatal(err)
		}
	}
	for err == nil { // until its goodbye was fetched
		_, err = first.Next(t.Context())
	}
	if err := hostile(); err != nil {
		t.Errorf("the place of a session that ended is not given back: %v", err)
	}
	q := gatetest.Options{Recipient: "driver-1"}.Query()
	q.Set("app", "other")
	q.Set("token", s.OtherApp(t, "other"))
	resp, err := s.Get(t.Context(), "/v1/poll", q)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("another app's session gets %d", resp.StatusCode)
	}
}

// fetch polls once, names an answer unless it is empty, and returns the answer's number and frames.
func fetch(t *testing.T, s *gatetest.Server, session, answer string) (number uint64, frames string) {
	t.Helper()
	return fetchWithin(t, s, session, answer, "0")
}

// fetchWithin is fetch that waits for frames.
func fetchWithin(t *testing.T, s *gatetest.Server, session, answer, wait string) (number uint64, frames string) {
	t.Helper()
	q := url.Values{"session": {session}, "wait": {wait}}
	if answer != "" {
		q.Set("answer", answer)
	}
	resp, err := s.Get(t.Context(), "/v1/poll", q)
	if err != nil {
		t.Fatal(err)
	}
	var p gatetest.Poster
	if err := p.Keep(resp); err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Answers {
		frames += string(f)
	}
	return p.Answer, frames
}

func TestAnAnswerComesAgainUntilAPollNamesIt(t *testing.T) {
	s := start(t)
	c, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Answer != 1 {
		t.Errorf("the first answer has number %d, want 1", c.Answer)
	}
	s.Send(t, notification.Draft{To: []string{"driver-1"}, ID: "ride-1", Content: notification.Content{Title: "x"}})
	number, frames := uint64(0), ""
	for frames == "" {
		number, frames = fetch(t, s, c.Session, "1")
	}
	if number != 2 || !strings.Contains(frames, `"ride-1"`) {
		t.Fatalf("answer %d has %s, want the notification in the second", number, frames)
	}
	for range 2 { // lost twice on its way
		if n, again := fetch(t, s, c.Session, "1"); n != number || again != frames {
			t.Errorf("a poll that has had answer 1 gets %d %s, want answer 2 again", n, again)
		}
	}
	if n, more := fetch(t, s, c.Session, "2"); n != 2 || more != "" {
		t.Errorf("a poll that has had answer 2 gets %d %s, want nothing new", n, more)
	}
	s.Stop(t)
	for range 2 { // the session's last answer can be lost like any other
		if n, bye := fetch(t, s, c.Session, "2"); n != 3 || !strings.Contains(bye, "goodbye") {
			t.Errorf("a poll that has had answer 2 gets %d %s, want the goodbye", n, bye)
		}
	}
	c.Answer = 3
	var refused *gatetest.Refused
	if err := c.poll(t.Context(), "0"); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("a poll that has had the goodbye gets %v, want 404", err)
	}
}

func TestClientsThatNameNoAnswersGetEachOnce(t *testing.T) {
	s := start(t)
	c, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	s.Send(t, notification.Draft{To: []string{"driver-1"}, ID: "ride-1", Content: notification.Content{Title: "x"}})
	frames := ""
	for frames == "" {
		_, frames = fetch(t, s, c.Session, "")
	}
	if _, again := fetch(t, s, c.Session, ""); again != "" {
		t.Errorf("the next poll gets %s, want nothing", again)
	}
}

// The client of these polls closes each connection without reading the answer.
func TestAnAnswerThatNobodyReadComesAgainOnceUnasked(t *testing.T) {
	closed := make(chan struct{}, 100)
	s := gatetest.Start(t, func(s *gatetest.Server) {
		mount(t, s)
		s.HTTP.Config.ConnState = func(_ net.Conn, st http.ConnState) {
			if st == http.StateClosed {
				closed <- struct{}{}
			}
		}
	})
	c, err := open(t.Context(), s, gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	// breakOff polls, closes the connection in the middle of the notification, and returns the part of the body that it has read.
	breakOff := func(during func()) string {
		t.Helper()
		nc, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(nc, "GET /v1/poll?wait=50s&session="+c.Session+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		during()
		got := ""
		for b := make([]byte, 1); !strings.Contains(got, `"ride-1"`); got += string(b) {
			if _, err := nc.Read(b); err != nil {
				t.Fatal(err)
			}
		}
		_ = nc.Close()
		<-closed
		_, body, _ := strings.Cut(got, "\r\n\r\n")
		return body
	}
	send := func(id string) {
		s.Send(t, notification.Draft{To: []string{"driver-1"}, ID: id, Content: notification.Content{Title: "x"}})
	}
	first := breakOff(func() { send("ride-1") })
	// An unacknowledged notification would also be in a later answer, unlike most frames.
	if again := breakOff(func() {}); again != first {
		t.Errorf("the poll after the first that was broken off gets %s, want the same answer: %s", again, first)
	}
	send("ride-2")
	frames := ""
	for frames == "" {
		_, frames = fetch(t, s, c.Session, "")
	}
	if strings.Contains(frames, `"ride-1"`) || !strings.Contains(frames, `"ride-2"`) {
		t.Errorf("the poll after the second that was broken off gets %s, want what is new: the client may have read the rest", frames)
	}
}
