package redisserver_test

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/testkit/eventually"
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
	moved := "MOVED " + slot + " "
	owners := 0
	for i, m := range c.Masters {
		if _, err := m.Do("SET bird godwit"); err != nil {
			if !strings.Contains(err.Error(), moved) {
				t.Fatalf("master %d: %v", i, err)
			}
			continue
		}
		owners++
		if err := c.Replicas[i].Await("DBSIZE", "1"); err != nil { // an answer does not wait for replicas
			t.Fatal(err)
		}
		m.Kill()
		if err := c.Promote(i); err != nil {
			t.Fatal(err)
		}
		if err := c.Replicas[i].Await("GET bird", "godwit"); err != nil {
			t.Errorf("the replica of the master that was killed: %v", err)
		}
		other := c.Masters[(i+1)%len(c.Masters)]
		eventually.True(t, "another master naming the replica", func() bool {
			_, err := other.Do("GET bird")
			return err != nil && strings.HasSuffix(err.Error(), moved+c.Replicas[i].Addr())
		})
	}
	if owners != 1 {
		t.Errorf("%d masters have the slot", owners)
	}
}
