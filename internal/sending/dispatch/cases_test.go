package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// people gives each row a recipient of its own.
func (s *rows) people() *rows {
	for n, r := range s.all {
		r.Recipient = fmt.Sprint("p", n)
	}
	return s
}

func TestAStaleEndpointFailsAloneAndTheOthersAreServed(t *testing.T) {
	for _, ended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := &service{pace: push.Pace{Scope: "host"}, takes: 10 * time.Millisecond, answer: func(r push.Request, _ int) error {
				if r.ID == "17" {
					return &push.ObjectionError{Scope: "host", Reason: "403 another key", Ended: ended}
				}
				return nil
			}}
			s := newRows(100).people()
			s.send(t, newDispatcher(t, p))
			if n := s.count(Accepted); n != 99 {
				t.Errorf("%d of 99 accepted", n)
			}
			if got := s.result(17); got.Outcome != Refused || got.Attempts != 2 || got.Detail != "403 another key" || (got.Disable != "") != ended || s.job.Refusal() != "" {
				t.Errorf("the stale one: %+v, refusal %q", got, s.job.Refusal())
			}
		})
	}
}

func TestDifferentRecipientsThatAreAllRefusedMeanTheCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := true
		p := &service{pace: push.Pace{Scope: "host"}, takes: 10 * time.Millisecond, answer: func(push.Request, int) error {
			if refuse {
				return &push.ObjectionError{Scope: "host", Reason: "403 another key"}
			}
			return nil
		}}
		d, s := newDispatcher(t, p), newRows(300).people()
		s.send(t, d)
		if why := s.job.Refusal(); why != "403 another key" || s.count(Pending) != 300 || refused(t, d) != 1 {
			t.Errorf("refusal %q, %d pending", why, s.count(Pending))
		}
		if n := p.total(); n > 20 {
			t.Errorf("%d requests until the credential was found to be at fault", n)
		}
		refuse = false
		for _, r := range s.all {
			r.held = false
		}
		d.Unblock("demo")
		s.send(t, d)
		if n := s.count(Accepted); n != 300 {
			t.Errorf("%d accepted once it was set", n)
		}
	})
}

func TestARefusedPartOfACredentialHoldsThoseThatNeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := true
		p := &service{pace: push.Pace{Scope: "project"}, takes: 10 * time.Millisecond, answer: func(r push.Request, _ int) error {
			if n, _ := strconv.Atoi(r.ID); refuse && n%5 != 0 {
				return &push.ObjectionError{Scope: "project/apns", Reason: "401 no key of Apple's"}
			}
			return nil
		}}
		d, s := newDispatcher(t, p), newRows(300).people()
		s.send(t, d)
		if why := s.job.Refusal(); why != "401 no key of Apple's" || s.count(Accepted) != 60 || s.count(Pending) != 240 || refused(t, d) != 1 {
			t.Errorf("refusal %q, %d accepted, %d pending, %d failed", why, s.count(Accepted), s.count(Pending), s.count(Refused))
		}
		if n := p.total(); n > 300+240 {
			t.Errorf("%d requests for 300 phones", n)
		}
		refuse = false
		for _, r := range s.all {
			r.held = false
		}
		d.Unblock("demo")
		s.send(t, d)
		if n := s.count(Accepted); n != 300 {
			t.Errorf("%d accepted once the key was set", n)
		}
	})
}

func TestOneRecipientsEndpointsNeverStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{pace: push.Pace{Scope: "host"}, answer: func(push.Request, int) error {
			return &push.ObjectionError{Scope: "host", Reason: "403 another key"}
		}}
		s := newRows(40)
		for _, r := range s.all {
			r.Recipient = "mallory"
		}
		d := newDispatcher(t, p)
		s.send(t, d)
		if s.count(Refused) != 40 || s.job.Refusal() != "" || refused(t, d) != 0 {
			t.Errorf("%d failed, refusal %q", s.count(Refused), s.job.Refusal())
		}
	})
}

// hosts are services, some of which hang. A row's address names its host.
type hosts struct {
	service
	hang map[string]bool
	from time.Time // when they began to
}

func (h *hosts) Pace(address json.RawMessage) push.Pace { return push.Pace{Scope: string(address)} }

func (h *hosts) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	if h.hang[string(r.Address)] && !time.Now().Before(h.from) {
		h.note(r.ID)
		pause.For(ctx, 20*time.Second)
		return push.Receipt{}, &push.UnknownError{Reason: "no answer"}
	}
	return h.service.Send(ctx, r)
}

func (h *hosts) Sender(context.Context, string, push.Channel) (push.Sender, error) { return h, nil }

func TestHostsThatHangHoldOnlyThemselves(t *testing.T) {
	for _, ch := range []push.Channel{push.Webhook, push.WebPush} {
		for hanging := 1; hanging <= 6; hanging += thorough.Rounds(5, 1) {
			synctest.Test(t, func(t *testing.T) {
				h := &hosts{hang: map[string]bool{}}
				s := newRows(0)
				s.open = true
				for i := range policyOf(ch).InFlight + 88 { // more than may be under way
					host := strconv.Itoa(i % hanging)
					s.addTo(ch, host, fmt.Sprint("p", i), time.Now())
					h.hang[host] = true
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := s.begin(t, ctx, newDispatcher(t, h), Work{Channels: []push.Channel{ch}})
				time.Sleep(5 * time.Second)
				var others []*row
				for i := range 20 {
					others = append(others, s.addTo(ch, `"fine"`, fmt.Sprint("other", i), time.Now()))
					s.job.Kick()
					time.Sleep(time.Second)
				}
				for _, r := range others {
					if got := s.result(r.Row); got.Outcome != Accepted || r.took > time.Second {
						t.Errorf("%s, %d hosts hang: another host's message is %s after %s", ch, hanging, got.Outcome, r.took)
					}
				}
				if n := h.total(); n > 20+hanging*40 {
					t.Errorf("%s, %d hosts hang: %d requests in 25 s", ch, hanging, n)
				}
				stop()
				_ = ended()
			})
		}
	}
}

func TestAHostThatBeginsToHangTakesItsShareAlone(t *testing.T) {
	for _, ch := range []push.Channel{push.Webhook, push.WebPush} {
		synctest.Test(t, func(t *testing.T) {
			h := &hosts{hang: map[string]bool{`"slow"`: true}, from: time.Now().Add(time.Second)}
			s := newRows(0)
			s.open = true
			add := func(host string, due time.Time) *row {
				return s.addTo(ch, host, fmt.Sprint("p", len(s.all)), due)
			}
			for range 20 {
				add(`"slow"`, time.Now())
			}
			for range 1000 {
				add(`"slow"`, h.from)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := s.begin(t, ctx, newDispatcher(t, h), Work{Channels: []push.Channel{ch}})
			time.Sleep(3 * time.Second)
			if n := s.count(Accepted); n != 20 {
				t.Errorf("%s: %d of 20 accepted before the host began to hang", ch, n)
			}
			if n, share := s.count(Sending), policyOf(ch).Share; n > share {
				t.Errorf("%s: %d messages are under way to a host whose share is %d", ch, n, share)
			}
			other := add(`"fine"`, time.Now())
			s.job.Kick()
			time.Sleep(2 * time.Second)
			if got := s.result(other.Row); got.Outcome != Accepted || other.took > time.Second {
				t.Errorf("%s: another host's message is %s after %s", ch, got.Outcome, other.took)
			}
			stop()
			_ = ended()
		})
	}
}

func TestADeliveryFollowsAnEndpointThatMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{answer: func(_ push.Request, attempt int) error {
			if attempt == 1 {
				return &push.MovedError{Address: json.RawMessage(`{"chat_id":-1005}`), Reason: "moved"}
			}
			return nil
		}}
		s := newRows(1)
		var told []string
		s.finished = func(r Result) { told = append(told, string(r.Address)) }
		s.send(t, newDispatcher(t, p))
		if got := s.result(1); got.Outcome != Accepted || len(told) != 2 || told[0] != `{"chat_id":-1005}` || told[1] != "" {
			t.Errorf("%+v, told %q", got, told)
		}
	})
}

func TestAPutOffThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRows(300)
		s.broken = 5
		if err := s.begin(t, t.Context(), newDispatcher(t, &service{takes: time.Second}), Work{})(); err != nil || s.count(Accepted) != 300 {
			t.Errorf("%v, %d accepted", err, s.count(Accepted))
		}
	})
}
