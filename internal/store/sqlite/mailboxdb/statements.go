package mailboxdb

import (
	"fmt"

	"zombiezen.com/go/sqlite"
)

// statements are the statements of the writing connection, prepared once.
type statements struct {
	conn *sqlite.Conn

	insertNote, settleNote, readNote, markNote, dueNote, reviveNote, deleteNote *sqlite.Stmt

	insertPack, readPack, savePack, saveCopies, deletePack, copyNote *sqlite.Stmt

	insertContent, readContent, deleteContents *sqlite.Stmt

	insertSettlement, readOutcomes *sqlite.Stmt

	insertApp, readRecipient, insertRecipient, saveSeq, saveSeen, insertSeen *sqlite.Stmt

	saveDevice, knownDevices, insertAck, readAcks, deleteAcks, saveMeta *sqlite.Stmt

	readNack, saveNack, deleteNack, saveReply, deleteReply *sqlite.Stmt

	readTried, saveTried, deleteTried, nextTried *sqlite.Stmt

	readStep, saveStep, deleteStep, readPlan, savePlan, deletePlan *sqlite.Stmt

	readInbox, insertInbox, saveInbox, changeInbox, deleteInbox, insertKept, releaseKept, deleteKept *sqlite.Stmt
}

// noteColumns are the columns of a row, in the order in which scanRow reads them.
const noteColumns = `pos, recipient, open, status, ack, priority, attempts, body_offset, seq, created_at, send_at,
	expires_at, delivered_at, settled_at, hash, id, collapse_key`

// settleSQL stores a copy's outcome in its row.
const settleSQL = `UPDATE notification SET open = 0, status = ?2, settled_at = ?3,
	delivered_at = CASE WHEN delivered_at < 0 AND ?4 > 0 THEN ?4 ELSE delivered_at END, attempts = max(attempts, ?5) WHERE pos = ?1`

const selectNote = "SELECT " + noteColumns + " FROM notification WHERE pos = ?1"

func (s *statements) prepare(c *sqlite.Conn) error {
	s.conn = c
	for _, p := range []struct {
		stmt **sqlite.Stmt
		sql  string
	}{
		{&s.insertNote, "INSERT INTO notification(" + noteColumns + ") VALUES (?1,?2,2,?3,?4,?5,0,?6,?7,?8,?9,?10,-?8,-?8,?11,?12,?13)"},
		{&s.settleNote, settleSQL},
		{&s.readNote, selectNote},
		{&s.markNote, "UPDATE notification SET status = ?4, delivered_at = CASE WHEN delivered_at < 0 AND ?2 > 0 THEN ?2 ELSE delivered_at END, attempts = max(attempts, ?3) WHERE pos = ?1 AND open > 0"},
		{&s.dueNote, "UPDATE notification SET status = 2, seq = ?2 WHERE pos = ?1"},
		{&s.reviveNote, "UPDATE notification SET open = 0, status = ?2, settled_at = ?3, delivered_at = ?4, attempts = max(attempts, ?5) WHERE pos = ?1"},
		{&s.deleteNote, "DELETE FROM notification WHERE pos = ?1"},
		{&s.insertPack, "INSERT INTO pack(" + packColumns + ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"},
		{&s.readPack, selectPack},
		{&s.savePack, "UPDATE pack SET ends = ?2 WHERE first = ?1"},
		{&s.saveCopies, "UPDATE pack SET copies = ?2 WHERE first = ?1"},
		{&s.deletePack, "DELETE FROM pack WHERE first = ?1"},
		{&s.copyNote, copyNoteSQL},
		{&s.insertContent, "INSERT INTO content(pos, body) VALUES (?1, ?2)"},
		{&s.readContent, "SELECT body FROM content WHERE pos = ?1"},
		{&s.deleteContents, "DELETE FROM content WHERE pos >= ?1 AND pos <= ?2"},
		{&s.insertSettlement, "INSERT INTO settlement(key, data) VALUES (?1, ?2)"},
		{&s.readOutcomes, selectOutcomes},
		{&s.insertApp, "INSERT INTO app(name) VALUES (?1)"},
		{&s.readRecipient, selectRecipient},
		{&s.insertRecipient, "INSERT INTO recipient(app, name, last_seq, last_seen) VALUES (?1, ?2, 0, 0)"},
		{&s.saveSeq, "UPDATE recipient SET last_seq = ?2 WHERE key = ?1"},
		{&s.saveSeen, "UPDATE recipient SET last_seen = ?2 WHERE key = ?1 AND last_seen < ?2"},
		{&s.insertSeen, "INSERT INTO recipient(app, name, last_seq, last_seen) VALUES (?1, ?2, 0, ?3)"},
		{&s.saveDevice, "INSERT INTO device(recipient, name, last_seen) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET last_seen = max(last_seen, ?3)"},
		{&s.knownDevices, "SELECT name FROM device WHERE recipient = ?1 AND last_seen >= ?2"},
		{&s.insertAck, "INSERT OR IGNORE INTO device_ack(pos, device) VALUES (?1, ?2)"},
		{&s.readAcks, "SELECT device FROM device_ack WHERE pos = ?1"},
		{&s.deleteAcks, "DELETE FROM device_ack WHERE pos = ?1"},
		{&s.readNack, selectNack},
		{&s.saveNack, "INSERT OR REPLACE INTO nack(pos, count, reason) VALUES (?1, ?2, ?3)"},
		{&s.deleteNack, "DELETE FROM nack WHERE pos = ?1"},
		{&s.saveReply, "INSERT OR REPLACE INTO reply(pos, status, content_type, data) VALUES (?1, ?2, ?3, ?4)"},
		{&s.deleteReply, "DELETE FROM reply WHERE pos = ?1"},
		{&s.readTried, selectAttempts},
		{&s.saveTried, "INSERT OR REPLACE INTO attempt(pos, data) VALUES (?1, ?2)"},
		{&s.deleteTried, "DELETE FROM attempt WHERE pos = ?1"},
		{&s.nextTried, "SELECT 1 FROM attempt WHERE pos >= ?1 AND pos <= ?2 LIMIT 1"},
		{&s.readStep, selectStep},
		{&s.saveStep, "INSERT OR REPLACE INTO escalation(pos, step, due_at) VALUES (?1, ?2, ?3)"},
		{&s.deleteStep, "DELETE FROM escalation WHERE pos = ?1"},
		{&s.readPlan, selectPlan},
		{&s.savePlan, "INSERT INTO plan(pos, steps) VALUES (?1, ?2)"},
		{&s.deletePlan, "DELETE FROM plan WHERE pos = ?1"},
		{&s.readInbox, selectInbox},
		{&s.insertInbox, "INSERT INTO inbox(key, data, due) VALUES (?1, ?2, ?3)"},
		{&s.saveInbox, "UPDATE inbox SET data = ?2, due = ?3 WHERE key = ?1"},
		{&s.changeInbox, "UPDATE inbox SET data = ?2 WHERE key = ?1"},
		{&s.deleteInbox, "DELETE FROM inbox WHERE key = ?1"},
		{&s.insertKept, "INSERT INTO inbox_content(pos, refs, body) VALUES (?1, ?2, ?3)"},
		{&s.releaseKept, "UPDATE inbox_content SET refs = refs - 1 WHERE pos = ?1 AND refs > 1"},
		{&s.deleteKept, "DELETE FROM inbox_content WHERE pos = ?1"},
		{&s.saveMeta, "UPDATE meta SET value = ?2 WHERE name = ?1"},
	} {
		stmt, err := c.Prepare(p.sql)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", p.sql, err)
		}
		*p.stmt = stmt
	}
	return nil
}

const selectRecipient = "SELECT key, last_seq, last_seen FROM recipient WHERE app = ?1 AND name = ?2"

// exec runs a statement that yields no rows.
func exec(stmt *sqlite.Stmt) error {
	_, err := stmt.Step()
	if rerr := stmt.Reset(); err == nil {
		err = rerr
	}
	return err
}

// each runs a statement and calls fn for every row.
func each(stmt *sqlite.Stmt, fn func(*sqlite.Stmt) error) error {
	for {
		row, err := stmt.Step()
		if err == nil && row {
			err = fn(stmt)
		}
		if err != nil || !row {
			if rerr := stmt.Reset(); err == nil {
				err = rerr
			}
			return err
		}
	}
}

func blob(stmt *sqlite.Stmt, col int) []byte {
	b := make([]byte, stmt.ColumnLen(col))
	stmt.ColumnBytes(col, b)
	return b
}
