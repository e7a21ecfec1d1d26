package deploy

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// written returns values as Helm reads them from a file.
func written(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return with(values)
}

const nginx = "nginx.ingress.kubernetes.io/"

func TestAnIngressLeadsToBothListeners(t *testing.T) {
	for tls, protocol := range map[string]struct{ http, grpc string }{"": {"HTTP", "GRPC"}, "tls": {"HTTPS", "GRPCS"}} {
		r, err := render(written(t, `
tlsSecret: "`+tls+`"
ingress: {enabled: true, host: godwit.example.org, tlsSecret: web, grpc: {host: grpc.example.org, tlsSecret: grpc}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]struct{ host, port, protocol, secret, largest string }{
			"godwit":      {"godwit.example.org", "http", protocol.http, "web", "33m"},
			"godwit-grpc": {"grpc.example.org", "grpc", protocol.grpc, "grpc", "0"},
		} {
			i, ok := r.ingresses[name]
			if !ok {
				t.Fatalf("there is no ingress %s", name)
			}
			if i.Annotations[nginx+"backend-protocol"] != want.protocol || i.Annotations[nginx+"proxy-body-size"] != want.largest {
				t.Errorf("%s has %v, want protocol %s and bodies of %s", name, i.Annotations, want.protocol, want.largest)
			}
			outlasts(t, i)
			to := i.Spec.Rules[0].HTTP.Paths[0].Backend.Service
			if i.Spec.Rules[0].Host != want.host || to.Port.Name != want.port || !serves(r, to.Name, to.Port.Name) {
				t.Errorf("%s leads from %s to %+v", name, i.Spec.Rules[0].Host, to)
			}
			if c := i.Spec.TLS[0]; c.SecretName != want.secret || !slices.Equal(c.Hosts, []string{want.host}) {
				t.Errorf("%s has the certificate %+v", name, c)
			}
		}
	}
}

// outlasts fails the test if an ingress ends a stream that is silent for a heartbeat.
func outlasts(t *testing.T, i networkingv1.Ingress) {
	t.Helper()
	const heartbeat = 30 * time.Second
	for _, of := range []string{"proxy-read-timeout", "proxy-send-timeout"} {
		seconds, err := time.ParseDuration(i.Annotations[nginx+of] + "s")
		if err != nil || seconds < 2*heartbeat {
			t.Errorf("%s of %s is %q: a stream may be silent for %s", of, i.Name, i.Annotations[nginx+of], heartbeat)
		}
	}
}

// serves reports whether a service has a port of this name.
func serves(r *release, service, port string) bool {
	for _, p := range r.services[service].Spec.Ports {
		if p.Name == port {
			return true
		}
	}
	return false
}

func TestRoutesLeadToBothListeners(t *testing.T) {
	r, err := render(written(t, `
gateway: {enabled: true, parentRefs: [{name: web, namespace: gateways, sectionName: https}], hostnames: [godwit.example.org], grpcHostnames: [grpc.example.org]}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.http == nil || r.grpc == nil {
		t.Fatalf("the routes are %v and %v", r.http, r.grpc)
	}
	if p := r.http.Spec.ParentRefs[0]; p.Name != "web" || *p.SectionName != "https" || *p.Namespace != "gateways" {
		t.Errorf("the route is for %+v", p)
	}
	rule := r.http.Spec.Rules[0]
	if rule.Timeouts == nil || rule.Timeouts.Request == nil || *rule.Timeouts.Request != "0s" {
		t.Errorf("a WebSocket ends after %v", rule.Timeouts)
	}
	to := map[string]struct {
		port int32
		host string
	}{
		"http": {int32(*rule.BackendRefs[0].Port), string(r.http.Spec.Hostnames[0])},
		"grpc": {int32(*r.grpc.Spec.Rules[0].BackendRefs[0].Port), string(r.grpc.Spec.Hostnames[0])},
	}
	for _, p := range r.services["godwit"].Spec.Ports {
		if to[p.Name].port != p.Port {
			t.Errorf("the route of %s leads to port %d, want %d", p.Name, to[p.Name].port, p.Port)
		}
		if p.Name == "grpc" && (p.AppProtocol == nil || *p.AppProtocol != "kubernetes.io/h2c") {
			t.Error("nothing says to a gateway that gRPC is HTTP/2 without TLS")
		}
	}
	if to["http"].host != "godwit.example.org" || to["grpc"].host != "grpc.example.org" {
		t.Errorf("they are for %v", to)
	}
}

func TestWithoutAWayInThereIsNone(t *testing.T) {
	r, err := render(secrets)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.ingresses) > 0 || r.http != nil || r.grpc != nil {
		t.Errorf("there are %v, %v and %v", slices.Collect(maps.Keys(r.ingresses)), r.http, r.grpc)
	}
}

func TestTheChartNamesWhatAWayInLacks(t *testing.T) {
	for want, values := range map[string]string{
		"set ingress.host,":               `ingress: {enabled: true, host: ""}`,
		"set ingress.grpc.host to":        `ingress: {enabled: true, host: a.example.org, grpc: {host: a.example.org, tlsSecret: x}}`,
		"set ingress.grpc.tlsSecret":      `ingress: {enabled: true, host: a.example.org, grpc: {host: b.example.org}}`,
		"set gateway.parentRefs":          `gateway: {enabled: true}`,
		"leave tlsSecret empty with gate": `{tlsSecret: tls, gateway: {enabled: true, parentRefs: [{name: web}]}}`,
	} {
		if _, err := render(written(t, values)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// Kubernetes takes nothing but text for annotations and variables, and Helm reads numbers as floating-point ones.
func TestNumbersAreWrittenAsTheyWere(t *testing.T) {
	r, err := render(written(t, `
settings: {max_connections: 2000000, min_free: 256MB, otlp_sample: 0.25, push_service: true}
image: {tag: 20261216}
bootstrapApp: 2026111
apiKey: 1234567890123456
podAnnotations: {example.org/port: 8080, example.org/on: true}
service: {annotations: {example.org/idle: 3600000}}
ingress: {enabled: true, host: a.example.org, annotations: {nginx.ingress.kubernetes.io/proxy-read-timeout: 7200}}`))
	if err != nil {
		t.Fatal(err)
	}
	node := r.nodes.Spec.Template.Spec.Containers[0]
	if node.Image != "godwit:20261216" || option(arguments(node, ""), "--bootstrap-app") != "2026111" || r.secret.StringData["api-key"] != "1234567890123456" {
		t.Errorf("image %s, %q and %q", node.Image, arguments(node, ""), r.secret.StringData)
	}
	env := strings.Join(environment(node), "\n")
	for _, want := range []string{"GODWIT_MAX_CONNECTIONS=2000000\n", "GODWIT_OTLP_SAMPLE=0.25", "GODWIT_PUSH_SERVICE=true"} {
		if !strings.Contains(env+"\n", want) {
			t.Errorf("there is no %q in\n%s", want, env)
		}
	}
	got := map[string]string{
		"port": r.nodes.Spec.Template.Annotations["example.org/port"], "on": r.nodes.Spec.Template.Annotations["example.org/on"],
		"idle": r.services["godwit"].Annotations["example.org/idle"], "read": r.ingresses["godwit"].Annotations[nginx+"proxy-read-timeout"],
	}
	if want := map[string]string{"port": "8080", "on": "true", "idle": "3600000", "read": "7200"}; !maps.Equal(got, want) {
		t.Errorf("annotations are %v, want %v", got, want)
	}
}

// The example's values are those of a file that README.md shows.
func TestTheExamplesOfREADMERender(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, block := range strings.Split(string(readme), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		seen++
		r, err := render(written(t, text))
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		} else if len(r.ingresses) != 2 && (r.http == nil || r.grpc == nil) {
			t.Errorf("nothing leads to both listeners:\n%s", text)
		}
	}
	if seen != 2 {
		t.Errorf("README.md shows %d files of values, want 2", seen)
	}
}
