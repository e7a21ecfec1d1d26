package redisserver_test

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func TestAnsweredWritesSurviveKill(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if _, err := s.Do("SET bird godwit"); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if _, err := s.Do("PING"); err == nil {
		t.Error("a killed server answers")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Do("GET bird"); got != "godwit" || err != nil {
		t.Errorf("after a restart it has %q, %v", got, err)
	}
	if _, err := s.Do("NONSENSE"); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("a command that Redis refuses gives %v", err)
	}
}

func TestAReplicaTakesOver(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, true)
	slot, err := c.Masters[0].Do("CLUSTER KEYSLOT bird")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range c.Masters {
		if _, err := m.Do("SET bird godwit"); err != nil {
			if !strings.Contains(err.Error(), "MOVED "+slot) {
				t.Fatalf("master %d: %v", i, err)
			}
			continue
		}
		if got, err := m.Do("WAIT 1 10000"); got != "1" && got != "0" || err != nil {
			t.Fatal(got, err)
		}
		m.Kill()
		if err := c.Replicas[i].Await("GET bird", "godwit"); err != nil {
			t.Errorf("the replica of the master that was killed: %v", err)
		}
	}
}
