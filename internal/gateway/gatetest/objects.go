package gatetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/objects/object"
)

// Group is the group of the suite's objects.
const Group = "region-1"

// digestOf is the digest of objects of Group.
func digestOf(names ...string) string {
	var d object.Digest
	for _, n := range names {
		d += object.Key{Group: Group, Object: n}.Hash()
	}
	return d.String()
}

// Put stores an object of Group and fails the test on an error.
func (s *Server) Put(t testing.TB, name string, p object.Put) {
	t.Helper()
	_, _, err := s.far().Objects.Put(context.WithoutCancel(t.Context()), App, object.Key{Group: Group, Object: name}, &p)
	must(t, err)
}

// object reads the next frame and checks that it has this version of an object of Group.
func (c *conn) object(name, version string) Frame {
	c.t.Helper()
	f := c.want("object")
	if f.Group != Group || f.Object != name || f.Version != version || f.Unknown != (version == "") {
		c.t.Fatalf("got %+v, want %s at %q", f.Obj, name, version)
	}
	return f
}

// registered reads the next frame and checks that it confirms objects, with the digest of the whole set.
func (c *conn) registered(objects []string, set ...string) {
	c.t.Helper()
	if f := c.want("registered"); fmt.Sprint(f.Objects) != fmt.Sprint(objects) || f.Digest != digestOf(set...) && !c.gate.Mute {
		c.t.Fatalf("registered %v with digest %s, want %v with %s", f.Objects, f.Digest, objects, digestOf(set...))
	}
}

func registeredLearns(t *testing.T, g *Gate, s *Server) {
	s.Put(t, "config", object.Put{Version: 7, Payload: []byte(`{"fps":25}`), ContentType: "application/json"})
	c := g.connect(t, s, Options{Recipient: "unit-1", Group: Group, Device: "main"})
	if f := c.want("welcome"); f.Digest != digestOf() && !g.Mute || f.Registrations != 0 {
		t.Errorf("welcome says %+v, want the digest of nothing", f.Obj)
	}
	c.send(`{"register":{"objects":["config"]}}`)
	c.registered([]string{"config"}, "config")
	if f := c.object("config", "7"); string(f.Payload) != `{"fps":25}` {
		t.Errorf("payload is %s", f.Payload)
	}
	c.send(`{"object_ack":{"object":"config","version":"7"}}`)
	c.send(`{"register":{"objects":["never"]}}`)
	c.registered([]string{"never"}, "config", "never")
	c.object("never", "")
	s.Put(t, "config", object.Put{})
	c.object("config", "8")
	c.send(`{"unregister":{"objects":["never"]}}`)
	if f := c.want("registered"); f.Digest != digestOf("config") && !g.Mute {
		t.Errorf("after unregistering the digest is %s", f.Digest)
	}
	s.Put(t, "never", object.Put{})
	s.Put(t, "config", object.Put{Version: 10})
	c.object("config", "10")
	c.send(`{"ping":{"digest":%q}}`, digestOf("config"))
	if f := c.want("pong"); f.Digest != digestOf("config") && !g.NoDigest {
		t.Errorf("pong says %s", f.Digest)
	}
}

func awayLearnsLatest(t *testing.T, g *Gate, s *Server) {
	o := Options{Recipient: "unit-1", Group: Group, Device: "main"}
	c := g.welcomed(t, s, o)
	c.send(`{"register":{"objects":["a","b"]}}`)
	c.registered([]string{"a", "b"}, "a", "b")
	c.want("object")
	c.want("object")
	_, _, _ = c.at.Hub.Disconnect(t.Context(), App, "unit-1", "away")
	c.want("goodbye")
	s.Gone(t)
	for v := range 100 {
		s.Put(t, "b", object.Put{Version: object.Version(v + 1)})
	}
	s.Put(t, "a", object.Put{Version: 1, Origin: object.Origin{Recipient: "unit-1", Device: "main"}})
	s.Put(t, "a", object.Put{Version: 2})
	c = g.connect(t, s, o)
	if f := c.want("welcome"); (f.Digest != digestOf("a", "b") || f.Registrations != 2) && !g.Mute {
		t.Errorf("welcome says %+v, want the digest of a and b", f.Obj)
	}
	got := map[string]string{}
	for range 2 {
		f := c.want("object")
		got[f.Object] = f.Version
		c.send(`{"object_ack":{"object":%q,"version":%q}}`, f.Object, f.Version)
	}
	if got["a"] != "2" || got["b"] != "100" {
		t.Errorf("on return it was told %v", got)
	}
	c.send(`{"ping":{}}`)
	c.want("pong") // and no other object
	g.welcomed(t, s, o)
	c.goodbye("replaced")
}

func resetReplaces(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "unit-1", Group: Group, Device: "main"})
	c.send(`{"register":{"objects":["a","b"]}}`)
	c.registered([]string{"a", "b"}, "a", "b")
	c.want("object")
	c.want("object")
	c.send(`{"register":{"objects":["b"],"reset":true,"more":true}}`)
	s.Put(t, "a", object.Put{})
	c.object("a", "1") // the old set stays in force until the new one is complete
	c.send(`{"register":{"objects":["c"]}}`)
	c.registered([]string{"b"}, "b", "c")
	c.registered([]string{"c"}, "b", "c")
	c.want("object")
	c.want("object")
	s.Put(t, "a", object.Put{})
	s.Put(t, "b", object.Put{})
	c.object("b", "1")
	c.send(`{"register":{"reset":true}}`)
	if f := c.want("registered"); f.Digest != digestOf() {
		t.Errorf("digest of an empty set is %s", f.Digest)
	}
}

func registrationRefused(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "unit-1"})
	c.send(`{"register":{"objects":["a"]}}`)
	if f := c.want("registration_failed"); f.Code != "group_required" || f.Transient || fmt.Sprint(f.Objects) != "[a]" {
		t.Errorf("got %+v, want group_required for good", f)
	}
	c.send(`{"register":{"objects":["a"],"group":%q}}`, Group)
	c.registered([]string{"a"}, "a")
	c.object("a", "")
	c.send(`{"register":{"objects":["no name"],"group":%q}}`, Group)
	if f := c.want("error"); f.Code != "bad_field" || f.Field != "objects" {
		t.Errorf("answered with %+v, want bad_field of objects", f)
	}
}

// RunByQuery runs the cases for gateways whose clients register and subscribe by the query.
func RunByQuery(t *testing.T, g Gate) {
	t.Run("QuerySubscribes", func(t *testing.T) { querySubscribes(t, &g) })
	t.Run("QueryRegisters", func(t *testing.T) {
		s := g.start(t)
		s.Put(t, "b", object.Put{Version: 3})
		c := g.welcomed(t, s, Options{Recipient: "unit-1", Group: Group, Objects: []string{"a", "b"}})
		c.registered([]string{"a", "b"}, "a", "b")
		c.want("object")
		c.want("object")
		s.Put(t, "a", object.Put{})
		c.object("a", "1")
		g.wantRefusal(t, s, Options{Recipient: "unit-1", Group: Group, Objects: []string{"a", "no name"}}, 400, "")
		c = g.welcomed(t, s, Options{Recipient: "unit-2", Objects: []string{"a"}})
		if f := c.want("registration_failed"); f.Code != "group_required" {
			t.Errorf("without a group: %+v", f)
		}
	})
}

// slowObjects changes objects far more often than any queue can hold while the client does not read.
func slowObjects(t *testing.T, g *Gate, s *Server) {
	const count = 100
	rounds := g.unread() / (count * object.MaxPayload)
	slow := g.unreading(t, s, Options{Recipient: "unit-1", Group: Group, Device: "main"})
	var list bytes.Buffer
	for i := range count {
		fmt.Fprintf(&list, `%q,`, fmt.Sprint("o", i))
	}
	slow.send(`{"register":{"objects":[%s]}}`, bytes.TrimSuffix(list.Bytes(), []byte(",")))
	slow.want("registered")
	payload := fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), object.MaxPayload-2))
	for range rounds {
		var wg sync.WaitGroup
		for i := range count {
			wg.Go(func() {
				k := object.Key{Group: Group, Object: fmt.Sprint("o", i)}
				if _, _, err := s.far().Objects.Put(context.Background(), App, k, &object.Put{Payload: payload, ContentType: "application/json"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	newest := map[string]int{}
	frames := 0
	for done := 0; done < count; {
		f := slow.want("object")
		frames++
		version := 0
		if f.Version != "" {
			_, err := fmt.Sscan(f.Version, &version)
			must(t, err)
		}
		if version < newest[f.Object] {
			t.Fatalf("%s went back from %d to %d", f.Object, newest[f.Object], version)
		}
		if newest[f.Object] = version; version == rounds {
			done++
		}
	}
	if frames > count*rounds*9/10 {
		t.Errorf("%d of %d versions were sent to a client that did not read", frames, count*rounds)
	}
}
