package foreign

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

func TestStreamsStayWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	redis := redistest.Start(t)
	w := begin(t, startAround(t, redis.Addr()))
	client := uuid()
	a := w.online(client)
	w.publish(client, entry("before"))
	a.until("before")
	redis.Kill()
	readyz := func(want int) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
			defer cancel()
			answer, err := w.server.API().Do(ctx, http.MethodGet, "/readyz", nil)
			if err == nil && answer.Status != want {
				err = fmt.Errorf("/readyz answers %d: %s", answer.Status, answer.Body)
			}
			return err
		}
	}
	blackbox.Eventually(t, "/readyz without Redis", readyz(http.StatusServiceUnavailable))
	a.ack("before") // Redis cannot get this acknowledgement yet
	w.atLeast(1, "cleanup_push_skipped", "origin", "ack")
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "/readyz with Redis", readyz(http.StatusOK))
	w.pub.Close() // its connections ended with Redis
	w.publish(client, entry("after"))
	a.until("after")
	a.ack("after", "before")
	w.left(client, 0)
}

func TestStreamsEndWithOKAtSIGTERMAndNothingReadIsLost(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	w := begin(t, startAround(t, redistest.Start(t).Addr()))
	client := uuid()
	a := w.online(client)
	w.publish(client, entry("acknowledged"), entry("kept"))
	a.all("acknowledged", "kept")
	a.ack("acknowledged")
	w.left(client, 1)
	if code := w.server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d", code)
	}
	if code := a.end(); code != codes.OK {
		t.Errorf("the stream ended with %s", code)
	}
	w.left(client, 1)
	if err := w.server.Launch(); err != nil {
		t.Fatal(err)
	}
	again := w.online(client)
	if p := again.next(); p.id != "kept" {
		t.Errorf("%s came", p.id)
	}
	again.ack("kept")
	w.left(client, 0)
}

func TestANumberOfShardsThatIsNoPowerOfTwoIsRefused(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	r := startAround(t, redistest.Start(t).Addr())
	s := blackbox.New(t, blackbox.Args(serveArgs(r, blackbox.Free(t))...), blackbox.Args("--max-shards", "100"))
	if err := s.Spawn(); err != nil {
		t.Fatal(err)
	}
	if code := s.Wait(); code == 0 || !strings.Contains(s.Log(), "100") {
		t.Errorf("the server ended with code %d: %s", code, s.Log())
	}
}
