package deploy

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// secrets are the values that the chart requires.
var secrets = map[string]any{"postgresURL": "postgres://godwit:secret@db/godwit", "clusterSecret": "the secret of the nodes"}

// release is the chart's output, decoded as Kubernetes decodes it: unknown fields are errors.
type release struct {
	nodes     appsv1.StatefulSet
	services  map[string]corev1.Service
	budget    policyv1.PodDisruptionBudget
	secret    *corev1.Secret
	ingresses map[string]networkingv1.Ingress
	http      *gatewayv1.HTTPRoute
	grpc      *gatewayv1.GRPCRoute
	notes     string
}

func render(values map[string]any) (*release, error) {
	chart, err := loader.Load("helm")
	if err != nil {
		return nil, err
	}
	if err := chart.Validate(); err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: "godwit", Namespace: "messages", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	r := &release{services: map[string]corev1.Service{}, ingresses: map[string]networkingv1.Ingress{}}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			r.notes = text
			continue
		}
		for _, object := range bytes.Split([]byte(text), []byte("\n---\n")) {
			if err := r.take(object); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", path.Base(name), err, object)
			}
		}
	}
	return r, nil
}

func (r *release) take(object []byte) error {
	if len(bytes.TrimSpace(object)) == 0 {
		return nil
	}
	var of struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(object, &of); err != nil {
		return err
	}
	switch of.APIVersion + " " + of.Kind {
	case "apps/v1 StatefulSet":
		return yaml.UnmarshalStrict(object, &r.nodes)
	case "v1 Service":
		var s corev1.Service
		if err := yaml.UnmarshalStrict(object, &s); err != nil {
			return err
		}
		r.services[s.Name] = s
		return nil
	case "v1 Secret":
		r.secret = &corev1.Secret{}
		return yaml.UnmarshalStrict(object, r.secret)
	case "policy/v1 PodDisruptionBudget":
		return yaml.UnmarshalStrict(object, &r.budget)
	case "networking.k8s.io/v1 Ingress":
		var i networkingv1.Ingress
		if err := yaml.UnmarshalStrict(object, &i); err != nil {
			return err
		}
		r.ingresses[i.Name] = i
		return nil
	case "gateway.networking.k8s.io/v1 HTTPRoute":
		r.http = &gatewayv1.HTTPRoute{}
		return yaml.UnmarshalStrict(object, r.http)
	case "gateway.networking.k8s.io/v1 GRPCRoute":
		r.grpc = &gatewayv1.GRPCRoute{}
		return yaml.UnmarshalStrict(object, r.grpc)
	}
	return fmt.Errorf("unknown: %s %s", of.APIVersion, of.Kind)
}

func with(more map[string]any) map[string]any {
	values := map[string]any{}
	for _, m := range []map[string]any{secrets, more} {
		for k, v := range m {
			values[k] = v
		}
	}
	return values
}

// variants are the sets of values under which the chart is tested.
var variants = map[string]map[string]any{
	"as it is":                secrets,
	"with a Secret of theirs": {"existingSecret": "mine"},
	"with all there is": with(map[string]any{
		"bootstrapApp": "rides", "apiKey": "a key of sixteen characters", "tlsSecret": "tls", "clusterTLSSecret": "nodes", "replicas": 5,
		"settings": map[string]any{"grace": "20s", "max_pending": 2000}, "nodeSelector": map[string]any{"disk": "fast"},
		"tolerations": []any{map[string]any{"operator": "Exists"}}, "imagePullSecrets": []any{map[string]any{"name": "registry"}},
		"affinity": map[string]any{"nodeAffinity": map[string]any{}}, "podAnnotations": map[string]any{"a": "b"},
		"service": map[string]any{"type": "LoadBalancer", "annotations": map[string]any{"a": "b"}},
	}),
}

func TestTheChartStartsNodesThatKnowEachOther(t *testing.T) {
	for what, values := range variants {
		t.Run(what, func(t *testing.T) {
			r, err := render(values)
			if err != nil {
				t.Fatal(err)
			}
			spec := r.nodes.Spec
			pod := spec.Template.Spec
			c := pod.Containers[0]
			headless, ok := r.services[spec.ServiceName]
			if !ok || headless.Spec.ClusterIP != corev1.ClusterIPNone || !headless.Spec.PublishNotReadyAddresses {
				t.Errorf("%s does not name nodes before they are ready", spec.ServiceName)
			}
			for i := range int(*spec.Replicas) {
				name := fmt.Sprintf("%s-%d", r.nodes.Name, i)
				args := arguments(c, name)
				settings(t, args, environment(c))
				if !slices.Contains(args, "--node="+name) {
					t.Errorf("%s is called %q", name, args)
				}
				if peers := option(args, "--cluster-peers"); !slices.Contains(strings.Split(peers, ","), name+"."+spec.ServiceName+":6222") {
					t.Errorf("others do not look for %s: %s", name, peers)
				}
			}
			for _, labels := range []map[string]string{spec.Selector.MatchLabels, headless.Spec.Selector, r.services["godwit"].Spec.Selector, r.budget.Spec.Selector.MatchLabels} {
				for k, v := range labels {
					if spec.Template.Labels[k] != v {
						t.Errorf("%s=%s is not a label of the nodes", k, v)
					}
				}
			}
			reaches(t, r, c)
			mounts(t, r, pod, c, values["existingSecret"])
			stops(t, pod, c)
		})
	}
}

// reaches: services and probes use ports on which the node listens.
func reaches(t *testing.T, r *release, c corev1.Container) {
	t.Helper()
	listens := map[string]int32{}
	for _, p := range c.Ports {
		listens[p.Name] = p.ContainerPort
	}
	args := arguments(c, "godwit-0")
	for name, flag := range map[string]string{"http": "--http-addr", "grpc": "--grpc-addr", "cluster": "--cluster-addr"} {
		if got, want := option(args, flag), fmt.Sprintf(":%d", listens[name]); got != want {
			t.Errorf("%s is %s, and the port of that name %s", flag, got, want)
		}
	}
	for _, s := range r.services {
		for _, p := range s.Spec.Ports {
			if listens[p.TargetPort.StrVal] != p.Port {
				t.Errorf("port %d of service %s leads to %q", p.Port, s.Name, p.TargetPort.StrVal)
			}
		}
	}
	scheme := corev1.URISchemeHTTP
	if slices.ContainsFunc(environment(c), func(kv string) bool { return strings.HasPrefix(kv, "GODWIT_TLS_CERT=") }) {
		scheme = corev1.URISchemeHTTPS
	}
	for path, probe := range map[string]*corev1.Probe{"/readyz": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
		if get := probe.HTTPGet; get.Path != path || get.Port.StrVal != "http" || get.Scheme != scheme {
			t.Errorf("%s is asked by %+v", path, get)
		}
	}
}

// mounts: each file that a setting names is in an existing volume; from the Secret, only existing keys are used.
func mounts(t *testing.T, r *release, pod corev1.PodSpec, c corev1.Container, existing any) {
	t.Helper()
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	at := map[string]corev1.Volume{}
	for _, m := range c.VolumeMounts {
		v, ok := volumes[m.Name]
		if !ok {
			t.Errorf("there is no volume %s", m.Name)
		}
		at[m.MountPath] = v
	}
	if _, ok := at["/var/lib/godwit"]; !ok || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("nothing but the data folder may be written to")
	}
	for _, arg := range append(arguments(c, "godwit-0"), environment(c)...) {
		_, file, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(file, "/etc/godwit/") {
			continue
		}
		v, ok := at[path.Dir(file)]
		if !ok || v.Secret == nil {
			t.Errorf("%s is not mounted", file)
			continue
		}
		if len(v.Secret.Items) > 0 && !slices.ContainsFunc(v.Secret.Items, func(k corev1.KeyToPath) bool { return k.Path == path.Base(file) }) {
			t.Errorf("%s is not of volume %s", file, v.Name)
		}
	}
	secret := volumes["secret"].Secret
	if existing != nil {
		if r.secret != nil || secret.SecretName != existing {
			t.Errorf("%s is mounted, and made: %v", secret.SecretName, r.secret)
		}
		return
	}
	if r.secret == nil || r.secret.Name != secret.SecretName || r.secret.StringData["postgres-url"] != secrets["postgresURL"] {
		t.Errorf("the Secret is %+v", r.secret)
	}
	for _, item := range secret.Items {
		if r.secret.StringData[item.Key] == "" {
			t.Errorf("the Secret has no %s", item.Key)
		}
	}
}

// stops: a node is drained before it is stopped, and there is time for both.
func stops(t *testing.T, pod corev1.PodSpec, c corev1.Container) {
	t.Helper()
	drain := c.Lifecycle.PreStop.Exec.Command
	if !slices.Equal(drain[:2], []string{"/usr/local/bin/godwit", "drain"}) {
		t.Fatalf("before it stops: %q", drain)
	}
	knows(t, drain[1:]...)
	patience, err := time.ParseDuration(drain[len(drain)-1])
	if err != nil {
		t.Fatal(err)
	}
	const grace = 20 * time.Second // the longest of the variants
	if limit := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; limit < patience+grace {
		t.Errorf("it is killed after %s: draining may take %s and stopping %s", limit, patience, grace)
	}
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser != 65532 || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Error("it may be root")
	}
}

// arguments returns a node's command-line arguments as Kubernetes passes them.
func arguments(c corev1.Container, pod string) []string {
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = strings.ReplaceAll(a, "$(POD_NAME)", pod)
	}
	return args
}

func environment(c corev1.Container) (env []string) {
	for _, e := range c.Env {
		switch {
		case e.Name == "POD_NAME":
			continue
		case e.ValueFrom != nil:
			e.Value = secrets["postgresURL"].(string)
		}
		env = append(env, e.Name+"="+e.Value)
	}
	return env
}

func option(args []string, flag string) string {
	for _, a := range args {
		if value, ok := strings.CutPrefix(a, flag+"="); ok {
			return value
		}
	}
	return ""
}

func TestTheChartNamesWhatIsMissing(t *testing.T) {
	for key, values := range map[string]map[string]any{
		"postgresURL":   {"clusterSecret": "x"},
		"clusterSecret": {"postgresURL": "x"},
		"apiKey":        with(map[string]any{"bootstrapApp": "rides"}),
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), "set "+key) {
			t.Errorf("without %s: %v", key, err)
		}
	}
}

// The program accepts the commands in the notes after an installation.
func TestTheChartsNotesAreTrue(t *testing.T) {
	r, err := render(secrets)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(r.notes) {
		if _, command, ok := strings.Cut(line, "/usr/local/bin/godwit "); ok {
			seen++
			knows(t, strings.Fields(command)...)
		}
	}
	if want := 3; seen != want {
		t.Errorf("%s commands are told, want %s:\n%s", strconv.Itoa(seen), strconv.Itoa(want), r.notes)
	}
}
