-- Outbox of Godwit in SQLite. A transaction that writes a row here notifies when it commits, and not when it is rolled back:
--   INSERT INTO godwit_outbox (body) VALUES ('{"to":"driver-42","title":"New ride"}');
CREATE TABLE godwit_outbox (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  body       TEXT NOT NULL,
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

-- For a source with "mark", which keeps its rows:
--   ALTER TABLE godwit_outbox ADD done_at TEXT;
--   CREATE INDEX godwit_outbox_waits ON godwit_outbox (id) WHERE done_at IS NULL;
