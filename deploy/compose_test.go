package deploy

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// dotenv is the content of .env that README.md recommends.
var dotenv = []string{"POSTGRES_PASSWORD=secret", "CLUSTER_SECRET=the secret of the nodes", "API_KEY=a key of sixteen characters"}

func compose(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	return composed(t, "compose.yaml", env...)
}

func composed(t *testing.T, file string, env ...string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{file}, cli.WithEnv(env), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(t.Context())
}

func variables(env types.MappingWithEquals) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if v := env[name]; v != nil {
			list = append(list, name+"="+*v)
		}
	}
	return list
}

func TestComposeStartsThreeNodesThatKnowEachOther(t *testing.T) {
	p, err := compose(t, dotenv...)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{"n1", "n2", "n3"}
	for _, name := range nodes {
		s, err := p.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		settings(t, s.Command, variables(s.Environment))
		for flag, want := range map[string]string{"--node": name, "--cluster-addr": ":6222"} {
			if i := slices.Index(s.Command, flag); i < 0 || s.Command[i+1] != want {
				t.Errorf("%s is not %s of %s: %q", want, flag, name, s.Command)
			}
		}
		if peers := *s.Environment["GODWIT_CLUSTER_PEERS"]; !strings.Contains(peers, name+":6222") {
			t.Errorf("others do not look for %s: %s", name, peers)
		}
		if s.Build == nil || s.Build.Context != parent(t) || filepath.Join(s.Build.Context, s.Build.Dockerfile) != filepath.Join(parent(t), "deploy", "Dockerfile") {
			t.Errorf("%s is built by %+v", name, s.Build)
		}
		mounted := map[string]bool{}
		for _, secret := range s.Secrets {
			mounted["/run/secrets/"+secret.Source] = true
			if secret.UID != "65532" {
				t.Errorf("secret %s of %s is for user %q, not for the image's", secret.Source, name, secret.UID)
			}
		}
		for key, value := range s.Environment {
			if strings.HasSuffix(key, "_FILE") && !mounted[*value] {
				t.Errorf("%s of %s is %s, which is not mounted", key, name, *value)
			}
		}
		if len(s.Volumes) != 1 || s.Volumes[0].Target != "/var/lib/godwit" {
			t.Errorf("the data folder of %s is not kept: %+v", name, s.Volumes)
		}
	}
}

func TestComposeStartsOneNodeThatKeepsItsData(t *testing.T) {
	p, err := composed(t, "compose.one.yaml", "API_KEY=a key of sixteen characters", "HTTP=9080")
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.GetService("godwit")
	if err != nil {
		t.Fatal(err)
	}
	settings(t, s.Command, variables(s.Environment))
	if len(s.Volumes) != 1 || s.Volumes[0].Target != "/var/lib/godwit" || !s.ReadOnly {
		t.Errorf("its data folder is not the only place that it writes to: %+v", s.Volumes)
	}
	if len(s.Secrets) != 1 || *s.Environment["GODWIT_BOOTSTRAP_KEY_FILE"] != "/run/secrets/"+s.Secrets[0].Source || s.Secrets[0].UID != "65532" {
		t.Errorf("its secrets are %+v", s.Secrets)
	}
	if len(s.Ports) != 2 || s.Ports[0].Published != "9080" || s.Ports[1].Target != 50051 {
		t.Errorf("it listens at %+v", s.Ports)
	}
}

func TestComposeNamesWhatIsMissing(t *testing.T) {
	if _, err := compose(t); err == nil || !strings.Contains(err.Error(), "POSTGRES_PASSWORD") || !strings.Contains(err.Error(), ".env") {
		t.Errorf("without a password: %v", err)
	}
}

// HAProxy accepts the example's configuration with the variables that Compose sets, and finds each node.
func TestComposesHAProxyTakesItsConfiguration(t *testing.T) {
	haproxy := tool(t, "haproxy")
	p, err := compose(t, dotenv...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.GetService("haproxy")
	if err != nil {
		t.Fatal(err)
	}
	source := s.Volumes[0].Source
	if want := filepath.Join(parent(t), "examples", "cluster", "haproxy.cfg"); source != want {
		t.Errorf("its configuration is %s, want %s", source, want)
	}
	cmd := exec.Command(haproxy, "-c", "-f", source)
	cmd.Env = append(variables(s.Environment), "PATH="+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for i := range 3 {
		for name, want := range map[string]string{"HTTP%d": "n%d:8080", "GRPC%d": "n%d:50051"} {
			if got := *s.Environment[fmt.Sprintf(name, i+1)]; got != fmt.Sprintf(want, i+1) {
				t.Errorf("%s is %s", fmt.Sprintf(name, i+1), got)
			}
		}
	}
}

func parent(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Compose mounts the dashboard's files where Grafana and Prometheus expect them; no other machine can reach these two.
func TestComposeShowsTheBoard(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{"board.yaml"}, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string][]string{"prometheus": {"prometheus.yml", "rules.yml"}, "grafana": {"datasources/prometheus.yaml", "dashboards/godwit.yaml"}} {
		s, err := p.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(s.Volumes[0].Source, f)); err != nil {
				t.Errorf("%s does not find what it is to read: %v", name, err)
			}
		}
		heard := strings.Join(append(slices.Clone([]string(s.Command)), variables(s.Environment)...), " ")
		if s.NetworkMode != "host" || !strings.Contains(heard, "127.0.0.1") {
			t.Errorf("%s does not listen on loopback alone: %s, %s", name, s.NetworkMode, heard)
		}
	}
}
