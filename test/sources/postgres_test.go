package sources

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/cluster"
)

var logical = pgtest.Options{Settings: map[string]string{"wal_level": "logical"}}

// serve has servers connect to private addresses and keep all that waits.
var serve = []blackbox.Option{blackbox.Plain(), blackbox.Args("--allow-private-urls", "--max-pending", "100000")}

// logged is a PostgreSQL whose log is read: half of the changes are messages, the others rows.
type logged struct{ postgres }

func (logged) change(r *rand.Rand, to, title string) string {
	if r == nil || r.Float64() < 0.5 {
		return fmt.Sprintf(`SELECT pg_logical_emit_message(true, 'godwit.demo', '{"to":"%s","title":"%s"}');`, to, title)
	}
	return fmt.Sprintf("INSERT INTO news (who, title) VALUES ('%s', '%s');", to, title)
}

// trial is a database whose transactions notify, and servers that read it.
type trial struct {
	*testing.T
	source  string
	restart func() // kills the database, and starts it again
	nodes   []*blackbox.Server
	office  *office
	readers *readers
}

func newTrial(t *testing.T, nodes ...*blackbox.Server) *trial {
	t.Helper()
	db := pgtest.Start(t, logical)
	r := startReaders(t, nodes...)
	o := newOffice(logged{postgres{db.URL()}}, thorough.Rounds(3_000, 200_000), 1_000, 400, r.received)
	tr := &trial{T: t, source: "postgres", restart: func() { db.Restart(t) }, nodes: nodes, readers: r, office: o}
	tr.prepare("CREATE TABLE news (id bigserial PRIMARY KEY, who text, title text);", map[string]any{
		"url": db.URL(), "tables": []map[string]any{{"table": "news", "recipient": "who", "title": "title", "data": []string{"id"}}},
	})
	return tr
}

// prepare makes tables, and a source that is read.
func (tr *trial) prepare(tables string, settings map[string]any) {
	tr.Helper()
	w := &writer{office: tr.office}
	defer w.close()
	if err := w.exec(tr.Context(), tables+"CREATE TABLE done (writer int, number int, PRIMARY KEY (writer, number));"); err != nil {
		tr.Fatal(err)
	}
	tr.nodes[0].API().Call(tr, http.MethodPut, "/v1/sources/"+tr.source, settings, nil)
	tr.owner()
}

// owner waits until a node reads the source, and returns it.
func (tr *trial) owner() (owner *blackbox.Server) {
	tr.Helper()
	blackbox.Eventually(tr, "a node reads the source", func() error {
		for _, n := range tr.nodes {
			api := n.API()
			running, err := api.Metric(tr.Context(), fmt.Sprintf(`godwit_sources{source=%q,state="running"`, tr.source))
			api.HTTP.CloseIdleConnections()
			if err == nil && running == 1 {
				owner = n
				return nil
			}
		}
		return fmt.Errorf("none of %d does", len(tr.nodes))
	})
	return owner
}

// run kills servers and the database under load. Afterwards recipients must have exactly the committed changes, in order.
func (tr *trial) run(servers, databases int) {
	tr.Helper()
	begun := time.Now()
	written := make(chan error, 1)
	go func() { written <- tr.office.run(tr.Context()) }()
	kills := make([]func(), 0, servers+databases)
	for range servers {
		kills = append(kills, tr.killServer)
	}
	for range databases {
		kills = append(kills, tr.killDatabase)
	}
	rand.New(rand.NewPCG(34, 34)).Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	for i, kill := range kills {
		at := tr.office.goal * (i + 1) / (len(kills) + 1)
		tr.readers.until(tr.T, "changes arrive", func() error {
			if n := tr.readers.received(); n < at {
				return fmt.Errorf("%d of %d did", n, at)
			}
			return nil
		})
		kill()
	}
	if err := <-written; err != nil {
		tr.Fatal(err)
	}
	tr.readers.ended(tr.T)
	tr.office.compare(tr.T, tr.readers.has)
	var one struct {
		State, Detail string
		Quarantined   int
	}
	api := tr.owner().API()
	defer api.HTTP.CloseIdleConnections()
	if api.Call(tr, http.MethodGet, "/v1/sources/"+tr.source, nil, &one); one.State != "running" || one.Quarantined != 0 {
		tr.Errorf("at last the source is %+v", one)
	}
	o := tr.office
	tr.Logf("%d changes in %d commits, %d rolled back; servers killed %d times, the database %d times, %d commits unanswered, %d of them lost and run again; %d arrivals repeated; %s",
		o.changes, o.commits, o.rolled, servers, databases, o.unsure, o.repeated, tr.readers.again, time.Since(begun).Round(time.Millisecond))
}

// killServer kills the node that reads the source. It comes back when another one reads, if there is another.
func (tr *trial) killServer() {
	tr.Helper()
	owner := tr.owner()
	tr.meets(tr.readers.parts)
	owner.Kill()
	if len(tr.nodes) > 1 {
		tr.owner()
	}
	if err := owner.Launch(); err != nil {
		tr.Fatal(err)
	}
}

func (tr *trial) killDatabase() {
	tr.Helper()
	tr.meets(tr.office.running)
	tr.restart()
}

// meets waits for a large transaction, which tells on a channel.
func (tr *trial) meets(told <-chan struct{}) {
	select {
	case <-told:
	case <-tr.office.over:
	case <-tr.Context().Done():
	}
}

func TestWhatTransactionsCommitArrivesOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	s := blackbox.Start(t, append([]blackbox.Option{blackbox.Dev()}, serve...)...)
	newTrial(t, s).run(thorough.Rounds(2, 20), thorough.Rounds(1, 5))
}

func TestWhatTransactionsCommitArrivesOnceWhenTheNodesThatReadAreKilled(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	thorough.Only(t, "TestWhatTransactionsCommitArrivesOnceWhateverIsKilled")
	c := cluster.Start(t, cluster.Options{Serve: serve})
	newTrial(t, c.Nodes...).run(20, 5)
}
