package app_test

import (
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/app"
)

func TestTheGatewaysOriginHasTheGatewayAlone(t *testing.T) {
	byHost, byListener, byBoth, byName := settings(t), settings(t), settings(t), settings(t)
	byName.GatewayURL = "https://bücher.example"
	byHost.GatewayURL = "https://GW.example.org:8443/"
	byListener.GatewayAddr = "127.0.0.1:0"
	byBoth.GatewayAddr, byBoth.GatewayURL = "127.0.0.1:0", "https://gw.example.org:443"
	const gateway, rest, none = "gateway", "rest", "none"
	type visit struct{ host, has string }
	for name, c := range map[string]struct {
		a        *app.App
		main     []visit
		listener []visit
	}{
		"shared": {start(t, settings(t)), []visit{{"", "both"}}, nil},
		"host": {start(t, byHost), []visit{
			{"", rest}, {"localhost", rest}, {"gw.example.org", gateway}, {"gw.example.org:8443", gateway}, {"Gw.Example.ORG.", gateway}, {"gw.example.org:1", gateway},
		}, nil},
		"name":     {start(t, byName), []visit{{"", rest}, {"xn--bcher-kva.example", gateway}, {"XN--BCHER-KVA.example:443", gateway}}, nil},
		"listener": {start(t, byListener), []visit{{"", rest}, {"localhost", rest}}, []visit{{"", gateway}, {"localhost", gateway}}},
		"both":     {start(t, byBoth), []visit{{"", rest}, {"gw.example.org", none}, {"gw.example.org:443", none}}, []visit{{"", gateway}, {"gw.example.org", gateway}}},
	} {
		check := func(addr string, v visit) {
			t.Helper()
			status, body, header := askAs(t, v.host, "GET", "http://"+addr+"/gw/nobody/x", "")
			if served := status == http.StatusServiceUnavailable && strings.Contains(body, "nobody-serves"); served != (v.has == gateway || v.has == "both") {
				t.Errorf("%s: /gw/ as %q: %d %s", name, v.host, status, body)
			}
			if sandboxed := header.Get("Content-Security-Policy") == "sandbox"; sandboxed != (v.has == "both") {
				t.Errorf("%s: /gw/ as %q has the policies %q", name, v.host, header["Content-Security-Policy"])
			}
			for path, sign := range map[string]string{"/": "Sign in", "/ui/": "Sign in", "/v1/keys": `"items"`, "/healthz": "", "/sdk/godwit.js": "", "/gw": ""} {
				status, body, _ := askAs(t, v.host, "GET", "http://"+addr+path, "")
				if served := status == http.StatusOK && strings.Contains(body, sign); served != ((v.has == rest || v.has == "both") && path != "/gw") {
					t.Errorf("%s: %s as %q: %d %.100s", name, path, v.host, status, body)
				}
			}
		}
		for _, v := range c.main {
			check(c.a.Addresses().HTTP, v)
		}
		for _, v := range c.listener {
			check(c.a.Addresses().Gateway, v)
		}
	}
}

func TestAGatewayWorksWithoutTheRest(t *testing.T) {
	cfg := settings(t)
	cfg.HTTPAddr, cfg.GatewayAddr = "off", "127.0.0.1:0"
	a := start(t, cfg)
	if status, body, _ := ask(t, "GET", "http://"+a.Addresses().Gateway+"/gw/nobody/x", ""); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, body)
	}
}
