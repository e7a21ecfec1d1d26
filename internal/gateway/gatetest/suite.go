package gatetest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// Variant skips a test that repeats another one with a gateway's second engine, unless GODWIT_TEST_STRICT forbids skipping.
func Variant(t *testing.T) {
	t.Helper()
	if os.Getenv("GODWIT_TEST_STRICT") == "" {
		t.Skip("a variant: set GODWIT_TEST_STRICT to run it")
	}
}

// Run runs the suite on a gateway.
func Run(t *testing.T, g Gate) { g.run(t, whole) }

// RunEncoded runs the suite on a gateway that Run has passed, over another encoding or engine: the cases that these can break, and all
// of them in make check-all.
func RunEncoded(t *testing.T, g Gate) { g.again(t, encoded) }

// RunCarried runs the suite on a gateway that Run has passed, over another driver or listener: the cases that these can break, and all of
// them in make check-all.
func RunCarried(t *testing.T, g Gate) { g.again(t, carried) }

// RunOnTwo runs the suite on a gateway of two nodes, see StartTwo: the cases in which nodes need each other, and all of them in make
// check-all.
func RunOnTwo(t *testing.T, g Gate) {
	g.two = true
	g.again(t, crossing)
}

// RunPostsOnTwo is RunOnTwo for a gateway whose clients post their frames to the node that does not have their session: the cases in
// which a node passes posts on, and all of them in make check-all.
func RunPostsOnTwo(t *testing.T, g Gate) {
	g.two = true
	g.again(t, posted)
}

// RunAgainOnTwo is RunOnTwo for a further gateway.
func RunAgainOnTwo(t *testing.T, g Gate) {
	thorough.Only(t, "wsgate's TestGatewayOnTwoNodes, with pollgate's for posts,")
	RunOnTwo(t, g)
}

// again runs a part of the cases, or all of them in make check-all.
func (g Gate) again(t *testing.T, p part) {
	Variant(t)
	if thorough.Run() {
		p = whole
	}
	g.run(t, p)
}

// run runs a part of the cases.
func (g Gate) run(t *testing.T, p part) {
	t.Parallel()
	for _, c := range cases {
		if why, lacks := g.Lacks[c.name]; lacks {
			t.Run(c.name, func(t *testing.T) { t.Skip(why) })
			continue
		}
		if g.two && c.alone != "" || p != whole && parts[c.name]&p == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, &g, g.start(t))
		})
	}
}

// start starts the servers under test.
func (g *Gate) start(t *testing.T) *Server {
	t.Helper()
	mount := func(s *Server) { g.Mount(t, s) }
	if g.two {
		return StartTwo(t, g.Driver, mount)
	}
	return StartOn(t, g.Driver, mount)
}

const alwaysOverNATS = "requests of several nodes always go over the bus, whether a NATS client is there or not"

var cases = []struct {
	name  string
	run   func(t *testing.T, g *Gate, s *Server)
	alone string // why the case does not run on two nodes
}{
	{"WelcomeComesFirst", welcomeComesFirst, ""},
	{"NotificationIsDeliveredAndAcknowledged", deliveredAndAcked, ""},
	{"PendingComesAfterConnecting", pendingComes, ""},
	{"UnackedComesAgainAfterReconnect", unackedComesAgain, ""},
	{"NackBringsItBack", nackBringsItBack, ""},
	{"OtherDeviceGetsRecall", otherDeviceGetsRecall, ""},
	{"EverySessionGetsEveryNotification", everySession, ""},
	{"BadFrameHurtsNobody", badFrame, ""},
	{"AReplySettlesANotification", replySettles, ""},
	{"GoodbyeOnShutdown", goodbyeOnShutdown, ""},
	{"WrongTokenIsRefused", wrongToken, ""},
	{"MissingRecipientIsNamed", missingRecipient, ""},
	{"ExpiredTokenEndsTheSession", tokenExpires, ""},
	{"RenewedTokenKeepsTheSession", tokenRenewed, ""},
	{"HeldButSettledIsRecalled", heldIsRecalled, ""},
	{"NewSessionOfADeviceReplacesTheOld", deviceReplaced, ""},
	{"SlowReaderIsBoundedAndCatchesUp", slowReader, ""},
	{"OrderHoldsUnderLoad", orderUnderLoad, ""},
	{"RegisteredClientLearnsEveryVersion", registeredLearns, ""},
	{"DeviceAwayLearnsTheLatestVersionAlone", awayLearnsLatest, ""},
	{"ResetReplacesTheSet", resetReplaces, ""},
	{"RefusedRegistrationSaysWhy", registrationRefused, ""},
	{"SlowReaderOfObjectsGetsTheNewest", slowObjects, ""},
	{"WorkerAnswersRequests", workerAnswers, ""},
	{"WorkersOfAQueueShareRequests", workersShare, ""},
	{"FullWorkerIsPassedOver", fullWorker, ""},
	{"LostWorkerIsTold", lostWorker, ""},
	{"BadAnswersHurtNobody", badAnswers, ""},
	{"BadAnswersAreToldToTheAskerAtOnce", badAnswersAnswered, ""},
	{"RefusedServingSaysWhy", servingRefused, ""},
	{"WorkerAnswersRequestsBesideNATSClients", besideNATS(workerAnswers), alwaysOverNATS},
	{"WorkersOfAQueueShareRequestsBesideNATSClients", besideNATS(workersShare), alwaysOverNATS},
	{"FullWorkerIsPassedOverBesideNATSClients", besideNATS(fullWorker), alwaysOverNATS},
	{"LostWorkerIsToldBesideNATSClients", besideNATS(lostWorker), alwaysOverNATS},
	{"BadAnswersHurtNobodyBesideNATSClients", besideNATS(badAnswers), alwaysOverNATS},
	{"RefusedServingSaysWhyBesideNATSClients", besideNATS(servingRefused), alwaysOverNATS},
	{"RecipientIsAsked", recipientIsAsked, ""},
	{"SubscriberGetsMessagesOnce", subscriberGets, ""},
	{"MembersOfAQueueShare", membersShare, ""},
	{"RefusedSubscriptionSaysWhy", subscriptionRefused, ""},
	{"NewTokenEndsSubscriptions", tokenEndsSubscriptions, ""},
	{"SlowSubscriberIsToldItsGaps", slowSubscriber, ""},
}

// A part is a selection of the cases.
type part uint8

const (
	encoded  part = 1 << iota // each kind of frame in both directions
	carried                   // the bytes below: few, many, large, unread, and the end of a connection
	crossing                  // sessions, notifications, objects, requests and topics of two nodes
	posted                    // frames that clients post
	whole    part = 0
)

// parts are the cases that run again on each change.
var parts = map[string]part{
	"WelcomeComesFirst":                      encoded | carried,
	"NotificationIsDeliveredAndAcknowledged": encoded | crossing | posted,
	"OtherDeviceGetsRecall":                  encoded | crossing,
	"BadFrameHurtsNobody":                    encoded,
	"AReplySettlesANotification":             encoded | posted,
	"GoodbyeOnShutdown":                      encoded | carried,
	"WrongTokenIsRefused":                    encoded,
	"NewSessionOfADeviceReplacesTheOld":      crossing,
	"SlowReaderIsBoundedAndCatchesUp":        carried,
	"OrderHoldsUnderLoad":                    carried | crossing,
	"RegisteredClientLearnsEveryVersion":     encoded | crossing,
	"WorkerAnswersRequests":                  encoded | carried | crossing,
	"WorkersOfAQueueShareRequests":           crossing,
	"LostWorkerIsTold":                       crossing,
	"BadAnswersHurtNobody":                   encoded,
	"RecipientIsAsked":                       crossing,
	"SubscriberGetsMessagesOnce":             encoded | crossing,
	"MembersOfAQueueShare":                   crossing,
}

func draft(to, id string) notification.Draft {
	return notification.Draft{To: []string{to}, ID: id, Content: notification.Content{Title: "Ride", Data: []byte(`{"fare":120}`)}}
}

func welcomeComesFirst(t *testing.T, g *Gate, s *Server) {
	a := g.connect(t, s, Options{Recipient: "driver-1"})
	f := a.want("welcome")
	secret, node, _ := strings.Cut(f.Session, ".")
	if !g.Mute && (f.App != App || f.Recipient != "driver-1" || f.Heartbeat != "30s" || len(secret) != 22 || (node != "") != g.two) {
		t.Errorf("welcome is %+v", f)
	}
	b := g.connect(t, s, Options{Recipient: "driver-1"}).want("welcome")
	if !g.Mute && b.Session == f.Session {
		t.Errorf("two sessions have one id")
	}
	s.live(t, 2)
}

func deliveredAndAcked(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "driver-1"})
	d := draft("driver-1", "ride-1")
	d.Content.Body, d.Content.Category, d.Priority = "2.1 km \"away\" €\n", "NEW_RIDE", notification.High
	s.Send(t, d)
	f := c.note("ride-1")
	want := Note{
		ID: "ride-1", Seq: 1, Attempt: 1, Title: "Ride", Body: d.Content.Body, Category: "NEW_RIDE", Priority: "high",
		Data: []byte(`{"fare":120}`),
	}
	if fmt.Sprintf("%+v", f.Note) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v, want %+v", f.Note, want)
	}
	c.ack("ride-1")
	s.Await(t, event.Acked, "ride-1")
	if st := s.Status(t, "ride-1", "driver-1"); st != notification.Acked {
		t.Errorf("status is %s, want acked", st)
	}
	s.Send(t, draft("driver-1", "ride-2"))
	if f := c.note("ride-2"); f.Seq != 2 {
		t.Errorf("the second has seq %d, want 2", f.Seq)
	}
}

func replySettles(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "driver-1"})
	d := draft("driver-1", "ride-1")
	d.ReplyBy = time.Hour
	s.Send(t, d)
	if f := c.note("ride-1"); len(f.ReplyBy) == 0 {
		t.Errorf("got %+v, want reply_by", f.Note)
	}
	c.send(`{"reply":{"id":"ride-1","data":%q}}`, strings.Repeat("x", notification.MaxReplyBytes))
	if f := c.want("error"); f.Code != "bad_field" || f.Field != "data" {
		t.Errorf("more than 64 KB are answered with %+v, want bad_field of data", f)
	}
	c.send(`{"reply":{"id":"ride-1","status":202,"data":{"accept":true}}}`)
	s.Await(t, event.Replied, "ride-1")
	rs, err := s.Mailbox.Lookup(t.Context(), App, "ride-1", "driver-1")
	must(t, err)
	if r := rs[0].Reply; rs[0].Status != notification.Replied || r == nil || r.Status != 202 || r.ContentType != "application/json" || string(r.Data) != `{"accept":true}` {
		t.Errorf("it is %s with the answer %+v", rs[0].Status, r)
	}
	c.send(`{"reply":{"id":"ride-1","data":{"accept":false}}}`) // a late answer, which has no effect
	d = draft("driver-1", "ride-2")
	d.ReplyBy = time.Hour
	s.Send(t, d)
	c.note("ride-2")
	c.ack("ride-2")
	s.Await(t, event.Acked, "ride-2")
}

func pendingComes(t *testing.T, g *Gate, s *Server) {
	for i := range 10 {
		s.Send(t, draft("driver-1", fmt.Sprint("ride-", i)))
	}
	s.Send(t, draft("driver-2", "other"))
	c := g.welcomed(t, s, Options{Recipient: "driver-1", Window: 3})
	for i := range 10 {
		id := fmt.Sprint("ride-", i)
		if f := c.note(id); f.Seq != uint64(i+1) {
			t.Errorf("%s has seq %d", id, f.Seq)
		}
		c.ack(id)
	}
	s.Await(t, event.Acked, "ride-9")
	if st := s.Status(t, "other", "driver-2"); st != notification.Stored {
		t.Errorf("another's notification is %s, want stored", st)
	}
}

func unackedComesAgain(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "driver-1"})
	s.Send(t, draft("driver-1", "ride-1"))
	c.note("ride-1")
	c.Close()
	c = g.welcomed(t, s, Options{Recipient: "driver-1"})
	if f := c.note("ride-1"); f.Seq != 1 {
		t.Errorf("it came again as seq %d, want 1", f.Seq)
	}
	c.ack("ride-1")
	s.Await(t, event.Acked, "ride-1")
}

func nackBringsItBack(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "driver-1"})
	s.Send(t, draft("driver-1", "ride-1"))
	c.note("ride-1")
	c.send(`{"nack":{"ids":["ride-1"],"after":"1s","reason":"busy"}}`)
	if f := c.note("ride-1"); f.Attempt != 2 {
		t.Errorf("it came again as attempt %d, want 2", f.Attempt)
	}
}

func otherDeviceGetsRecall(t *testing.T, g *Gate, s *Server) {
	phone := g.welcomed(t, s, Options{Recipient: "driver-1", Device: "phone"})
	tablet := g.welcomed(t, s, Options{Recipient: "driver-1", Device: "tablet"})
	s.Send(t, draft("driver-1", "ride-1"))
	phone.note("ride-1")
	tablet.note("ride-1")
	phone.ack("ride-1")
	if f := tablet.want("recall"); fmt.Sprint(f.IDs) != "[ride-1]" {
		t.Errorf("recall of %v, want ride-1", f.IDs)
	}
	phone.send(`{"ping":{}}`)
	phone.want("pong") // and no recall: it knows
	s.Send(t, draft("driver-1", "ride-2"))
	phone.note("ride-2")
	if _, err := s.far().Mailbox.Recall(t.Context(), App, "ride-2", "driver-1"); err != nil {
		t.Fatal(err)
	}
	if f := phone.want("recall"); fmt.Sprint(f.IDs) != "[ride-2]" {
		t.Errorf("recall of %v, want ride-2", f.IDs)
	}
}

func everySession(t *testing.T, g *Gate, s *Server) {
	a := g.welcomed(t, s, Options{Recipient: "driver-1"})
	b := g.welcomed(t, s, Options{Recipient: "driver-1"})
	other := g.welcomed(t, s, Options{Recipient: "driver-2"})
	d := draft("driver-1", "ride-1")
	d.To = []string{"driver-1", "driver-2"}
	s.Send(t, d)
	for _, c := range []*conn{a, b, other} {
		if f := c.note("ride-1"); f.Seq != 1 {
			t.Errorf("seq is %d, want 1", f.Seq)
		}
	}
}

func badFrame(t *testing.T, g *Gate, s *Server) {
	bad := g.welcomed(t, s, Options{Recipient: "driver-1"})
	good := g.welcomed(t, s, Options{Recipient: "driver-2"})
	ctx, cancel := patient(t)
	defer cancel()
	must(t, bad.SendBad(ctx))
	if f := bad.want("error"); f.Code != "bad_frame" || f.Message == "" {
		t.Errorf("answered with %+v, want bad_frame and a message", f)
	}
	bad.send(`{"ack":{"ids":["not a name"]}}`)
	if f := bad.want("error"); f.Code != "bad_field" || f.Field != "ids" {
		t.Errorf("answered with %+v, want bad_field of ids", f)
	}
	d := draft("driver-1", "ride-1")
	d.To = []string{"driver-1", "driver-2"}
	s.Send(t, d)
	bad.note("ride-1")
	good.note("ride-1")
}

func goodbyeOnShutdown(t *testing.T, g *Gate, s *Server) {
	a := g.welcomed(t, s, Options{Recipient: "driver-1"})
	b := g.welcomed(t, s, Options{Recipient: "driver-2"})
	for _, s := range s.each() {
		s.Stop(t)
	}
	for _, c := range []*conn{a, b} {
		if f := c.goodbye("shutdown"); f.RetryAfter == "" && !g.Mute {
			t.Errorf("goodbye is %+v, want one with retry_after", f)
		}
		c.ended()
	}
}

func wrongToken(t *testing.T, g *Gate, s *Server) {
	g.wantRefusal(t, s, Options{Recipient: "driver-1", Token: "not.a.token"}, 401, "unauthenticated")
	token := s.Token(t, "driver-1", time.Minute)
	g.wantRefusal(t, s, Options{Recipient: "driver-2", Token: token}, 403, "forbidden")
	g.welcomed(t, s, Options{Recipient: "driver-1", Token: token})
	s.live(t, 1) // only the client with the right token
}

func missingRecipient(t *testing.T, g *Gate, s *Server) {
	c, err := g.Dial(t, s, Options{})
	var refused *Refused
	if errors.As(err, &refused) {
		if refused.Status != 400 || !strings.Contains(refused.Detail, `"field":"recipient"`) {
			t.Errorf("%v, want 400 of recipient", refused)
		}
		return
	}
	must(t, err)
	defer c.Close()
	cn := &conn{Client: c, t: t, gate: g}
	if f := cn.want("error"); f.Code != "bad_field" || f.Field != "recipient" {
		t.Errorf("answered with %+v, want bad_field of recipient", f)
	}
	cn.want("goodbye")
	cn.ended()
}

func tokenExpires(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "driver-1", Token: s.Token(t, "driver-1", 2*time.Second)})
	c.goodbye("token_expired")
	c.ended()
}

func tokenRenewed(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "driver-1", Token: s.Token(t, "driver-1", 2*time.Second)})
	c.send(`{"hello":{"token":%q}}`, s.Token(t, "driver-1", time.Minute))
	c.want("welcome")
	s.Send(t, draft("driver-1", "ride-1"))
	c.note("ride-1")
	c.send(`{"nack":{"ids":["ride-1"],"after":"3s"}}`)
	c.note("ride-1") // after the first token's end
}

func heldIsRecalled(t *testing.T, g *Gate, s *Server) {
	s.Send(t, draft("driver-1", "ride-1"))
	s.Send(t, draft("driver-1", "ride-2"))
	if _, err := s.far().Mailbox.Recall(t.Context(), App, "ride-1", "driver-1"); err != nil {
		t.Fatal(err)
	}
	c := g.welcomed(t, s, Options{Recipient: "driver-1", Held: []string{"ride-1", "ride-2"}})
	recalled, delivered := false, false
	for !recalled || !delivered {
		f, err := c.next()
		must(t, err)
		switch {
		case f.Name == "recall" && fmt.Sprint(f.IDs) == "[ride-1]":
			recalled = true
		case f.Name == "notification" && f.ID == "ride-2":
			delivered = true
		default:
			t.Fatalf("got %+v, want the recall of ride-1 and ride-2", f)
		}
	}
}

func deviceReplaced(t *testing.T, g *Gate, s *Server) {
	old := g.welcomed(t, s, Options{Recipient: "driver-1", Device: "phone"})
	g.welcomed(t, s, Options{Recipient: "driver-1", Device: "phone"})
	old.goodbye("replaced")
	old.ended()
	s.live(t, 1) // the new one
}
