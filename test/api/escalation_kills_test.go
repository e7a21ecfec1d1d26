package api

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

var (
	publishes = flag.Int("publishes", 200, "notifications, of three steps each, that are published while the server is killed")
	kills     = flag.Int("kills", 2, "how often it is killed; ClickHouse is stopped twice meanwhile")
	killEvery = flag.Duration("kill-every", 1200*time.Millisecond, "time between two kills")
)

// ride is one notification of the storm, with what the test knows about it.
type ride struct {
	id       string
	to       int
	channels []string
	after    []time.Duration
	ackAfter time.Duration // 0: nobody acknowledges it

	online   bool      // its recipient was online from before the publish until the server was killed
	answered time.Time // time of the ack's answer; zero: not acknowledged
}

// storm publishes rides, acknowledges some of them and kills the server again and again.
type storm struct {
	*phones
	kills int
	rides []*ride

	mu   sync.Mutex
	life int         // of the server
	live map[int]int // recipient → life of the server in which the recipient is connected
	wg   sync.WaitGroup
}

// makeRides makes random rides: channels in any order, the first step after half a second or more, and steps up to two seconds apart, or at
// the same moment.
func makeRides(n, recipients int) []*ride {
	draw := rand.New(rand.NewPCG(11, 3))
	rides := make([]*ride, n)
	for i := range rides {
		r := &ride{id: fmt.Sprint("ride-", i), to: draw.IntN(recipients), channels: []string{"fcm", "apns", "webhook"}}
		draw.Shuffle(len(r.channels), func(a, b int) { r.channels[a], r.channels[b] = r.channels[b], r.channels[a] })
		at := 500 * time.Millisecond
		for range r.channels {
			at += time.Duration(max(draw.IntN(1250)-250, 0)) * time.Millisecond
			r.after = append(r.after, at)
		}
		if draw.IntN(5) < 3 {
			r.ackAfter = time.Millisecond + time.Duration(draw.Int64N(int64(at+time.Second)))
		}
		rides[i] = r
	}
	return rides
}

// TestNoStepIsMissedNorComesAfterAnAckThroughKills checks all promises about escalations on a server that dies at any moment.
func TestNoStepIsMissedNorComesAfterAnAckThroughKills(t *testing.T) {
	t.Parallel()
	throughKills(t, inFiles(t), *publishes, *kills)
}

// TestStepsInPostgreSQLOutliveAKill is the same on a smaller scale, for a server that stores everything in PostgreSQL.
func TestStepsInPostgreSQLOutliveAKill(t *testing.T) {
	t.Parallel()
	throughKills(t, inPostgres(t), 60, 1)
}

func throughKills(t *testing.T, k kept, publishes, kills int) {
	t.Helper()
	recipients := max(12, publishes/50)
	s := &storm{phones: beginPhones(t, k, recipients, 250*time.Millisecond), kills: kills, rides: makeRides(publishes, recipients), live: make(map[int]int)}
	ctx, cancel := context.WithCancel(t.Context())
	defer s.wg.Wait()
	defer cancel()
	s.goOnline(ctx)
	length := time.Duration(kills+1) * *killEvery
	s.wg.Go(func() { s.publish(ctx, length/time.Duration(len(s.rides))) })
	for range kills {
		select { // the load continues meanwhile: this is its pace, and nothing waits for it
		case <-time.After(*killEvery):
		case <-ctx.Done():
		}
		s.server.Kill()
		if err := s.server.Launch(); err != nil {
			t.Fatal(err)
		}
		s.goOnline(ctx)
	}
	s.wg.Wait()
	s.judge()
}

// goOnline connects every fourth recipient to the current life of the server.
func (s *storm) goOnline(ctx context.Context) {
	s.mu.Lock()
	s.life++
	life := s.life
	s.mu.Unlock()
	for i := 0; i < len(s.android); i += 4 {
		l, err := s.server.Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: rider(i)})
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(l.Cut)
		if f, err := l.Next(ctx); err != nil || f.Welcome == nil {
			s.Fatalf("hello: %+v, %v", f, err)
		}
		s.mu.Lock()
		s.live[i] = life
		s.mu.Unlock()
		go func() { // ends with its connection
			for {
				if _, err := l.Next(ctx); err != nil {
					s.mu.Lock()
					if s.live[i] == life {
						s.live[i] = 0
					}
					s.mu.Unlock()
					return
				}
			}
		}()
	}
}

// connected returns the life of the server in which a recipient is online; 0: it is offline.
func (s *storm) connected(i int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[i]
}

// publish publishes one ride after the other, and repeats each until it is answered.
func (s *storm) publish(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for _, r := range s.rides {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		steps := []map[string]string{{"channel": "live"}}
		for i, ch := range r.channels {
			steps = append(steps, map[string]string{"channel": ch, "after": r.after[i].String()})
		}
		note := map[string]any{"to": rider(r.to), "id": r.id, "title": "New ride", "escalate": steps}
		life := s.connected(r.to)
		for try := 0; ; try++ {
			if ctx.Err() != nil {
				return
			}
			if err := s.api.Publish(ctx, note); err == nil {
				r.online = life != 0 && try == 0 && s.connected(r.to) == life
				break
			}
			s.wait(ctx)
		}
		if r.ackAfter > 0 {
			s.wg.Go(func() { s.ackLater(ctx, r) })
		}
	}
}

// wait waits until a restarting server is ready.
func (s *storm) wait(ctx context.Context) {
	_ = blackbox.Poll(ctx, blackbox.Patience, func() error {
		a, err := s.api.Do(ctx, http.MethodGet, "/readyz", nil)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d", a.Status)
		}
		return err
	})
}

func (s *storm) ackLater(ctx context.Context, r *ride) {
	select {
	case <-time.After(r.ackAfter):
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		a, err := s.api.Do(ctx, http.MethodPost, "/v1/acks?app=demo&recipient="+rider(r.to), map[string]any{"ids": []string{r.id}})
		if err == nil && a.Status == http.StatusOK {
			r.answered = time.Now()
			return
		}
		s.wait(ctx)
	}
}

// standing is the status API's answer about a copy.
type standing struct {
	Status    string
	CreatedAt time.Time `json:"created_at"`
	AckedAt   time.Time `json:"acked_at"`
	Channels  []channelStanding
}

type channelStanding struct {
	Channel, Status, Detail string
	Step                    int
}

// of returns the state of a channel; zero if nothing has begun on it.
func (s *standing) of(channel string) channelStanding {
	for _, c := range s.Channels {
		if c.Channel == channel {
			return c
		}
	}
	return channelStanding{}
}

// open returns an error while a copy's work is unfinished: messages of an acknowledged copy that may be shown must still be withdrawn.
func (s *standing) open() error {
	for _, c := range s.Channels {
		shown := c.Channel != "live" && (c.Status == "accepted" || c.Status == "unknown")
		if c.Status == "waiting" || c.Status == "sending" || shown && s.Status == "acked" {
			return fmt.Errorf("it is %s and %s is %s %s", s.Status, c.Channel, c.Status, c.Detail)
		}
	}
	return nil
}

// figures are the numbers that a run reports.
type figures struct{ acked, sends, messages, doubled, settled, unknown, suppressed, withdrawals, missing, late int }

// judge waits until everything has ended and compares the result with the promises.
func (s *storm) judge() {
	s.Helper()
	stands := make([]standing, len(s.rides))
	for i, r := range s.rides {
		blackbox.Eventually(s, "the end of "+r.id, func() error {
			a, err := s.api.Do(s.Context(), http.MethodGet, "/v1/notifications/"+r.id+"?to="+rider(r.to), nil)
			if err != nil || a.Status != http.StatusOK {
				return fmt.Errorf("%w %v", err, a)
			}
			stands[i] = standing{}
			if err := a.JSON(&stands[i]); err != nil {
				return err
			}
			return stands[i].open()
		})
	}
	all, f := s.taken(), figures{settled: recovered(s.server.Log())}
	for i, r := range s.rides {
		s.judgeRide(r, &stands[i], all, &f)
	}
	if f.doubled > f.settled+f.unknown {
		s.Errorf("%d messages came twice, and only %d sends were being made when the server ended, %d are unknown", f.doubled, f.settled, f.unknown)
	}
	if f.missing > 0 || f.late > 0 {
		s.Errorf("%d steps are missing, %d began after an acknowledgement", f.missing, f.late)
	}
	for _, problem := range append(s.google.Problems(), s.apple.Violations()...) {
		s.Error(problem)
	}
	s.Logf("%d publishes, %d kills: %d acked, %d sends, %d messages came, %d of them again; %d sends were under way at a kill, %d stayed unknown, %d suppressed, %d withdrawn",
		len(s.rides), s.kills, f.acked, f.sends, f.messages, f.doubled, f.settled, f.unknown, f.suppressed, f.withdrawals)
}

func (s *storm) judgeRide(r *ride, st *standing, all taken, f *figures) {
	acked := st.Status == "acked"
	if acked {
		f.acked++
	}
	if !r.answered.IsZero() != acked {
		s.Errorf("%s is %s, and its ack was answered at %v", r.id, st.Status, r.answered)
	}
	for step, channel := range r.channels {
		c := st.of(channel)
		if c.Status != "" {
			f.sends++
		}
		got := all[[3]string{channel, rider(r.to), r.id}]
		n := got.messages()
		f.messages += n
		f.doubled += max(n-1, 0)
		due := st.CreatedAt.Add(r.after[step])
		switch {
		case acked && (step > 0 || r.online) && r.answered.Before(due) && st.AckedAt.Before(due) && (c.Status != "" || n > 0):
			f.late++
			s.Errorf("%s was acknowledged %s before step %d, which is %q (%s), and %d messages came", r.id, due.Sub(r.answered), step, c.Status, c.Detail, n)
		case !acked && (c.Status != "accepted" && c.Status != "unknown" || c.Status == "accepted" && n == 0):
			f.missing++
			s.Errorf("%s has nobody's ack; its step %d over %s is %q (%s), and %d messages came", r.id, step, channel, c.Status, c.Detail, n)
		}
		s.judgeMessages(r, channel, c.Status, acked, got)
		switch c.Status {
		case "unknown":
			f.unknown++
		case "suppressed":
			f.suppressed++
			if n > 0 {
				s.Errorf("%s over %s is suppressed (%s), and %d messages came", r.id, channel, c.Detail, n)
			}
		case "withdrawn", "withdraw_sent":
			f.withdrawals++
		}
	}
}

// judgeMessages checks a device's messages for one copy: it got the same message each time, and a message of an ended copy is not left
// shown.
func (s *storm) judgeMessages(r *ride, channel, status string, acked bool, got came) {
	first := ""
	for _, name := range got {
		if first == "" {
			first = name
		}
		if name != "" && name != first {
			s.Errorf("%s came over %s as %q and as %q", r.id, channel, first, name)
		}
	}
	switch {
	case !acked && got.withdrawn():
		s.Errorf("%s was withdrawn from %s, and nobody has acknowledged it", r.id, channel)
	case acked && len(got) > 0 && got[len(got)-1] != "":
		s.Errorf("%s was acknowledged; over %s it is %s, and the device still shows it: %q", r.id, channel, status, got)
	}
}

// recovered returns how many sends were under way when the server was killed, according to its log.
func recovered(log string) (sum int) {
	lines := bufio.NewScanner(strings.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Msg   string
			Count int
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "steps of escalations were being sent when the server ended" {
			sum += line.Count
		}
	}
	return sum
}
