package access

import (
	"testing"

	"godwit.dev/godwit/internal/messaging/topic"
)

func TestRightsOfRoles(t *testing.T) {
	for _, c := range []struct {
		roles                              Role
		publish, subscribe, request, serve bool
	}{
		{Read, false, true, false, false},
		{Publish, true, true, true, false},
		{Worker, false, false, false, true},
		{Publish | Worker, true, true, true, true},
		{Admin, true, true, true, true},
		{0, false, false, false, false},
	} {
		r := Principal{App: "a", Roles: c.roles}.Rights()
		got := [...]bool{r.CanPublish("x.y"), r.CanSubscribe("x.>"), r.CanRequest("x.y"), r.CanServe(">")}
		if want := [...]bool{c.publish, c.subscribe, c.request, c.serve}; got != want {
			t.Errorf("%s may publish, subscribe, ask, serve: %v, not %v", c.roles, got, want)
		}
	}
}

func TestRightsOfClaims(t *testing.T) {
	id := identity{
		App: "a", Recipient: "driver.42",
		Topics: []string{"rides.*", "drivers.{sub}.>", "a.>.b", "*x", "a..b", ""}, Serve: []string{"cars.{sub}"},
	}
	c, err := id.confirm(Claim{})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Rights()
	for pattern, want := range map[string]bool{
		"rides.oslo": true, "rides.*": true, "rides.>": false, "rides.oslo.new": false, ">": false, "*.oslo": false,
		"drivers.driver%2E42.place": true, "drivers.driver%2E42.>": true, "drivers.driver.42.place": false, "drivers.*.place": false,
		"a.b": false, "a.b.b": false, // an invalid pattern allows nothing
	} {
		if err := topic.CheckPattern("", pattern); err != nil {
			t.Fatal(err)
		}
		if got := r.CanSubscribe(pattern); got != want {
			t.Errorf("may subscribe to %s: %v", pattern, got)
		}
		if r.CanServe(pattern) || r.CanPublish(pattern) || r.CanRequest(pattern) {
			t.Errorf("may do more than subscribe to %s", pattern)
		}
	}
	if !r.CanServe("cars.driver%2E42") || r.CanServe("cars.driver%2E43") || r.CanServe("cars.*") {
		t.Error("serves what {sub} says")
	}
	if (Client{}).Rights().CanSubscribe("x") {
		t.Error("no claim allows something")
	}
}
