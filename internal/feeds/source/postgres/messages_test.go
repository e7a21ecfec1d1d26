package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMessagesOfCommittedTransactionsArePublishedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set()
	w.Becomes(source.Running, "")
	w.sql(
		"BEGIN; "+emits(`{"to":"ann","title":"one"}`)+emits(`[{"to":"bob","title":"two","data":{"n":1}},{"topic":"rides.x","data":7}]`)+" COMMIT",
		"BEGIN; "+emits(`{"to":"ann","title":"never"}`)+" ROLLBACK",
		"SELECT pg_logical_emit_message(true, 'godwit.bank', '{\"to\":\"ann\",\"title\":\"of another app\"}')",
		emits(`{"to":"ann","title":"three","sendto":"x"}`),
		"BEGIN; "+emits(`{"put":{"group":"gates","object":"g1","payload":1}}`)+emits(`{"put":{"group":"gates","object":"g1","payload":2}}`)+" COMMIT",
		"SELECT pg_logical_emit_message(false, 'godwit.shop', '{\"to\":\"ann\",\"title\":\"at once\"}')",
		emits(`{"to":"ann","title":"four"}`),
	)
	w.gets("ann one ", `bob two {"n":1}`, "topic rides.x 7", "ann at once ", "ann four ")
	w.object("g1", "2")
	if q := w.quarantined(); len(q) != 1 || !strings.Contains(q[0], "sendto") || !strings.Contains(q[0], `"three"`) {
		t.Errorf("in quarantine are %q", q)
	}
	w.sql(emits(`{"delete":{"group":"gates","object":"g1"}}`))
	w.object("g1", "")
	i := w.Info()
	if i.Counts.Quarantined != 1 || i.Lag == nil || i.Finding != "log" {
		t.Errorf("%+v", i)
	}

	w.Stop() // what is committed meanwhile comes afterwards
	w.sql(emits(`{"to":"ann","title":"five"}`))
	w.Run()
	w.gets("ann five ")
}

func TestWhatCannotBeStoredStaysInTheLogAndComesAgainUnderItsId(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set()
	w.Becomes(source.Running, "")
	w.Down(errors.New("the disk is away"))
	w.sql(emits(`{"to":"ann","title":"one"}`))
	w.Becomes(source.Failing, "the disk is away")
	w.Stop() // as if it had been killed
	w.Down(nil)
	w.Run()
	w.gets("ann one ")

	// A server that forgot what it confirmed gets it again.
	w.Stop()
	w.sql(emits(`{"to":"ann","title":"two"}`))
	w.sql("SELECT pg_copy_logical_replication_slot('godwit_shop', 'copy')")
	w.Run()
	w.gets("ann two ")
	w.Stop()
	w.drops("godwit_shop")
	w.sql("SELECT pg_copy_logical_replication_slot('copy', 'godwit_shop')", "SELECT pg_drop_replication_slot('copy')")
	w.Run()
	w.sql(emits(`{"to":"ann","title":"three"}`))
	w.gets("ann three ")
	if n := w.IDs(); len(n) != 3 || !repeated(n) {
		t.Errorf("by id came %v, of which one should have come twice", n)
	}
}

func repeated(ids map[string]int) bool {
	for _, n := range ids {
		if n > 1 {
			return true
		}
	}
	return false
}

func TestALargeTransactionIsReadInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set()
	w.Becomes(source.Running, "")
	const n = 20_000
	w.sql(fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM pg_logical_emit_message(true, 'godwit.shop', '{"put":{"group":"gates","object":"g' || i %% 7 || '","payload":' || i || '}}'); END LOOP; END $$`, n))
	for i := n - 6; i <= n; i++ {
		w.object(fmt.Sprintf("g%d", i%7), fmt.Sprint(i))
	}
	if !eventually.Holds(func() bool { return w.Info().Counts.Stored == n }) {
		t.Errorf("%+v", w.Info().Counts)
	}
}

// A slot that somebody drops and makes anew begins with the present: what was committed before is not in it.
func TestASlotThatSomebodyHasMadeAnewIsNotReadInSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set()
	w.Becomes(source.Running, "")
	w.sql(emits(`{"to":"ann","title":"one"}`))
	w.gets("ann one ")
	w.Stop()
	w.drops("godwit_shop")
	w.sql(emits(`{"to":"ann","title":"lost"}`), "SELECT pg_create_logical_replication_slot('godwit_shop', 'pgoutput')")
	w.Run()
	w.Becomes(source.Failing, "somebody has made it anew or moved it on: what was committed after")
	w.Set(source.Change{Resync: true})
	w.Becomes(source.Running, "")
	w.sql(emits(`{"to":"ann","title":"two"}`))
	w.gets("ann two ")
	w.Stop()
	w.Run()
	w.sql(emits(`{"to":"ann","title":"three"}`))
	w.gets("ann three ")
}
