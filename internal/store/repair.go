package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/mend"
)

// Finding is a piece of damage.
type Finding struct {
	File   string `json:"file"`
	Damage string `json:"damage"`
}

// Verify reads everything in a data folder, also beside a server that uses it, and says what is damaged. It must not be called
// in the server's process. It reads at most pace bytes a second; 0: as fast as it can. progress, if not nil, is told now and
// then how much of a file was read.
func Verify(ctx context.Context, data string, pace int64, progress func(file string, done, total int64)) (found []Finding, err error) {
	m, err := readManifest(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m = &manifest{}
		if belongs(data) != (checkvfs.ID{}) {
			found = append(found, Finding{ManifestFile, "it is missing"})
		}
	case err != nil:
		m = &manifest{}
		found = append(found, Finding{ManifestFile, err.Error()})
	}
	for _, name := range Files() {
		path := filepath.Join(data, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !slices.Contains(m.Files, name) {
			continue
		}
		if !slices.Contains(m.Files, name) && !exists(path+checkvfs.Suffix) {
			continue // of a former version: it gets its checksums when it is opened
		}
		if id := checkvfs.StoreOf(path); m.id != (checkvfs.ID{}) && id != (checkvfs.ID{}) && id != m.id {
			found = append(found, Finding{name, "it belongs to another store, " + id.String()})
			continue
		}
		d, err := checkvfs.Verify(ctx, path, pace, func(done, total int64) {
			if progress != nil {
				progress(name, done, total)
			}
		})
		if err != nil {
			return found, fmt.Errorf("verify %s: %w", name, err)
		}
		for _, e := range d.Errors {
			found = append(found, Finding{name, e.Error()})
		}
	}
	return found, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// belongs is the store that most of the databases of a folder belong to; zero: none.
func belongs(data string) (most checkvfs.ID) {
	count := map[checkvfs.ID]int{}
	for _, name := range Files() {
		if id := checkvfs.StoreOf(filepath.Join(data, name)); id != (checkvfs.ID{}) {
			if count[id]++; count[id] > count[most] {
				most = id
			}
		}
	}
	return most
}

// Repaired is what Repair has done.
type Repaired struct {
	Copies string        `json:"copies,omitempty"` // folder with what was there before
	Files  []mend.Report `json:"files"`
}

// Lossless reports whether nothing was lost.
func (r *Repaired) Lossless() bool {
	for i := range r.Files {
		if f := &r.Files[i]; f.Commits > 0 || len(f.Lost) > 0 || f.State == mend.Gone {
			return false
		}
	}
	return true
}

// Repair mends a data folder that no server uses. What it touches it copies before.
func Repair(ctx context.Context, data string) (r Repaired, err error) {
	copies := filepath.Join(data, "damaged-"+time.Now().UTC().Format("20060102T150405.000"))
	m, err := readManifest(data)
	if err != nil {
		var broken *BrokenManifestError
		if !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &broken) {
			return r, err
		}
		if err := keepManifest(data, copies); err != nil {
			return r, err
		}
		m = &manifest{Format: manifestFormat, Checksums: true, id: belongs(data)}
		if m.id == (checkvfs.ID{}) {
			if _, err := rand.Read(m.id[:]); err != nil {
				return r, err
			}
		}
		m.ID = m.id.String()
	}
	blank, err := os.MkdirTemp(data, ".blank-*")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(blank)) }()
	empty, err := Open(ctx, Config{Data: blank, MinFree: 1, Ballast: 1})
	if err == nil {
		err = empty.Close()
	}
	if err != nil {
		return r, fmt.Errorf("make empty databases: %w", err)
	}
	for _, name := range Files() {
		path := filepath.Join(data, name)
		if !exists(path) && !exists(path+checkvfs.Suffix) && !slices.Contains(m.Files, name) {
			continue
		}
		j := mend.Job{Path: path, Copy: copies, Store: m.id, Blank: filepath.Join(blank, name), Rules: rules[name]}
		done, err := j.Run(ctx)
		if err != nil {
			return r, fmt.Errorf("repair %s: %w", name, err)
		}
		r.Files = append(r.Files, done)
		if !slices.Contains(m.Files, name) {
			m.Files = append(m.Files, name)
		}
	}
	if exists(copies) {
		r.Copies = copies
	}
	return r, m.write(data, os.Rename)
}

func keepManifest(data, copies string) error {
	b, err := os.ReadFile(filepath.Join(data, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(copies, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(copies, ManifestFile), b, 0o600)
	}
	return err
}

// Seal makes the checksums and the manifest of databases that were just put into a folder.
func Seal(data string) error {
	m, err := openManifest(data)
	if err != nil {
		return err
	}
	var there []string
	for _, name := range Files() {
		if path := filepath.Join(data, name); exists(path) {
			if err := mend.Seal(path, m.id); err != nil {
				return fmt.Errorf("make checksums of %s: %w", name, err)
			}
			there = append(there, name)
		}
	}
	return m.add(data, there...)
}

// notErased is of notifications: those of recipients that are being erased are no loss.
const (
	notErased   = " AND n.recipient NOT IN (SELECT recipient FROM erasure) "
	noContent   = " n.open = 1 AND NOT EXISTS (SELECT 1 FROM content c WHERE c.pos = CASE n.body_offset WHEN -1 THEN n.pos ELSE n.pos - n.body_offset END) "
	noRecipient = " NOT EXISTS (SELECT 1 FROM recipient r WHERE r.key = n.recipient AND r.app IN (SELECT key FROM app)) "
)

// rules are what must fit together in a database that was rebuilt.
var rules = map[string][]mend.Rule{
	MailboxFile: {
		{
			Find:   "SELECT 'notification: its recipient is lost', n.id, 'recipient number ' || n.recipient FROM notification n WHERE" + noRecipient + notErased,
			Remove: "DELETE FROM notification AS n WHERE" + noRecipient + notErased + ";",
		},
		{
			Find: "SELECT 'notification: its content is lost', n.id, r.name FROM notification n JOIN recipient r ON r.key = n.recipient WHERE" + noContent + notErased,
			Remove: "DELETE FROM notification AS n WHERE" + noContent + notErased + ";" +
				"DELETE FROM recipient WHERE app NOT IN (SELECT key FROM app);" +
				"DELETE FROM content WHERE pos NOT IN (SELECT CASE body_offset WHEN -1 THEN pos ELSE pos - body_offset END FROM notification WHERE open = 1);" +
				"DELETE FROM nack WHERE pos NOT IN (SELECT pos FROM notification);" +
				"DELETE FROM block WHERE key >> 20 NOT IN (SELECT number FROM slice);" +
				// Counters are read from the rows anew, and go on at a distance: nothing lost shares its number with something new.
				"UPDATE recipient SET last_seq = 1000 + max(last_seq, coalesce((SELECT m FROM (SELECT recipient AS k, max(seq) AS m FROM notification GROUP BY recipient) WHERE k = key), 0));" +
				"UPDATE meta SET value = 0 WHERE name = 'flushed_pos';",
		},
	},
	ObjectsFile: {{Remove: "DELETE FROM progress WHERE client NOT IN (SELECT id FROM client);"}},
	EventsFile:  {{Remove: "UPDATE log SET last_id = max(last_id, coalesce((SELECT max(id) FROM chunk), 0));"}},
	AppsFile: {{
		Find:   "SELECT 'API key: its app is lost', id, '' FROM api_key WHERE app NOT IN (SELECT name FROM app)",
		Remove: "DELETE FROM api_key WHERE app NOT IN (SELECT name FROM app);",
	}},
	CampaignsFile: {
		{
			Find:   "SELECT 'deliveries of a campaign that is lost', count(*), campaign FROM delivery WHERE campaign NOT IN (SELECT num FROM campaign) GROUP BY campaign",
			Remove: "DELETE FROM delivery WHERE campaign NOT IN (SELECT num FROM campaign);",
		},
		{Remove: "DELETE FROM endpoint_tag WHERE endpoint NOT IN (SELECT number FROM endpoint WHERE active = 1);" +
			"DELETE FROM attribute_text WHERE endpoint NOT IN (SELECT number FROM endpoint WHERE active = 1);" +
			"DELETE FROM attribute_number WHERE endpoint NOT IN (SELECT number FROM endpoint WHERE active = 1);" +
			"DELETE FROM endpoint_count;" +
			"INSERT INTO endpoint_count SELECT app, channel, active, count(*) FROM endpoint GROUP BY app, channel, active;"},
	},
}
