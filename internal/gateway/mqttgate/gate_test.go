package mqttgate_test

import (
	"context"
	"crypto/tls"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/server/httpapi/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// addrs are the addresses of the servers' MQTT listeners.
var addrs sync.Map

func addrOf(s *gatetest.Server) string {
	at, _ := addrs.Load(s)
	addr, _ := at.(string)
	return addr
}

func mount(t testing.TB, s *gatetest.Server) { mountWith(t, s, func(*mqttgate.Config) {}) }

func mountWith(t testing.TB, s *gatetest.Server, set func(*mqttgate.Config)) *mqttgate.Gateway {
	return mountOn(t, s, nil, set)
}

func mountOn(t testing.TB, s *gatetest.Server, conf *tls.Config, set func(*mqttgate.Config)) *mqttgate.Gateway {
	t.Helper()
	cfg := mqttgate.Config{
		Hub: s.Hub, Reactor: s.Reactor, Access: s.Access, Publisher: s.Publish, Objects: s.Objects, Topics: s.Topics, Requests: s.Asks, ReadDraft: backend.ReadDraft,
		Log: s.Log,
	}
	set(&cfg)
	g := mqttgate.New(cfg)
	s.Mux.Handle("/mqtt", g)
	ln := s.Listen(t)
	addrs.Store(s, ln.Addr().String())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(ctx, ln, conf, reactor.Limits{}) })
	t.Cleanup(func() {
		stop()
		serving.Wait()
		addrs.Delete(s)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

const (
	noBadFrame = "a malformed packet ends an MQTT connection: TestBrokenPacketsEndTheConnectionWithTheirReason"
	noReset    = "a subscription is added or ended; what a session had is discarded with clean start: TestCleanStartDiscardsRegistrations"
	noRenewal  = "MQTT sends a credential once; a new one needs a new connection"
	noGroup    = "an object's topic names its group: TestForbiddenSubscriptionsAreRefused"
	noSuchText = "some of its replies cannot be written in MQTT: TestBadReplyIsToldToBothSides"
)

// lacks are the cases without words in both versions.
var lacks = map[string]string{
	"BadFrameHurtsNobody":               noBadFrame,
	"ResetReplacesTheSet":               noReset,
	"RefusedRegistrationSaysWhy":        noGroup,
	"RenewedTokenKeepsTheSession":       noRenewal,
	"NewTokenEndsSubscriptions":         noRenewal,
	"BadAnswersAreToldToTheAskerAtOnce": noSuchText,
}

// lacks311 are those that 3.1.1 lacks besides.
func lacks311() map[string]string {
	const (
		noResponse = "a request needs a response topic, which 3.1.1 does not have"
		noNack     = "PUBACK of 3.1.1 has no reason code"
		noVersion  = "a version is a user property, which 3.1.1 does not have"
	)
	all := map[string]string{
		"NackBringsItBack": noNack, "HeldButSettledIsRecalled": "CONNECT of 3.1.1 has no properties", "AReplySettlesANotification": noResponse,
		"RegisteredClientLearnsEveryVersion": noVersion, "DeviceAwayLearnsTheLatestVersionAlone": noVersion, "SlowReaderOfObjectsGetsTheNewest": noVersion,
	}
	for name, why := range lacks {
		all[name] = why
	}
	for _, name := range []string{
		"WorkerAnswersRequests", "WorkersOfAQueueShareRequests", "FullWorkerIsPassedOver", "LostWorkerIsTold", "BadAnswersHurtNobody", "RefusedServingSaysWhy",
	} {
		all[name], all[name+"BesideNATSClients"] = noResponse, noResponse
	}
	all["RecipientIsAsked"] = noResponse
	return all
}

func gate5() gatetest.Gate {
	return gatetest.Gate{Mount: mount, Dial: dial(wire.V5), Lacks: lacks, NoDigest: true, AnyName: true}
}

func TestGateway5(t *testing.T) { gatetest.Run(t, gate5()) }

func TestGateway311(t *testing.T) {
	g := gate5()
	g.Dial, g.Lacks, g.Mute = dial(wire.V311), lacks311(), true
	gatetest.Run(t, g)
}

func TestGatewayOverWebSocket(t *testing.T) {
	g := gate5()
	g.Dial = dialBy(wire.V5, func(t testing.TB, s *gatetest.Server) *raw { return dialSocket(t, s, wire.V5) })
	gatetest.RunCarried(t, g)
}

func TestGatewayOnPortableDriver(t *testing.T) {
	g := gate5()
	g.Driver = reactor.DriverGoroutine
	gatetest.RunCarried(t, g)
}

func TestGatewayOnTwoNodes(t *testing.T) { gatetest.RunAgainOnTwo(t, gate5()) }
