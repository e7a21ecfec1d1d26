-- Rows are appended in commit order and found again through the index in memory. Columns that change when a copy is
-- settled hold a value of the same size from the start, so that settling overwrites a row in place.

CREATE TABLE app(
  key  INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);

CREATE TABLE recipient(
  key       INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused: sealed slices may still name it
  app       INTEGER NOT NULL,
  name      TEXT NOT NULL,
  last_seq  INTEGER NOT NULL, -- exact up to position flushed_pos of meta; rows after it tell the rest
  last_seen INTEGER NOT NULL, -- ms; 0: never
  UNIQUE(app, name)
);

CREATE TABLE notification(
  pos          INTEGER PRIMARY KEY,
  recipient    INTEGER NOT NULL,
  open         INTEGER NOT NULL, -- 1 until settled
  status       INTEGER NOT NULL,
  ack          INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  attempts     INTEGER NOT NULL,
  body_offset  INTEGER NOT NULL, -- its content is that of position pos - body_offset; -1: only copy of its publish
  seq          INTEGER NOT NULL, -- 0 while scheduled
  created_at   INTEGER NOT NULL, -- ms
  send_at      INTEGER NOT NULL, -- ms; 0: at once
  expires_at   INTEGER NOT NULL, -- ms
  delivered_at INTEGER NOT NULL, -- ms; negative: not known to be delivered
  settled_at   INTEGER NOT NULL, -- ms; negative while open
  hash         INTEGER NOT NULL, -- of title, body, category and data
  id           TEXT NOT NULL,
  collapse_key TEXT
);

-- From this the pending set is read back at start.
CREATE INDEX notification_open ON notification(pos) WHERE open = 1;

CREATE TABLE content(
  pos  INTEGER PRIMARY KEY, -- of the first copy stored
  body BLOB NOT NULL
);

CREATE TABLE device(
  recipient INTEGER NOT NULL,
  name      TEXT NOT NULL,
  last_seen INTEGER NOT NULL,
  PRIMARY KEY(recipient, name)
) WITHOUT ROWID;

-- The devices that have acknowledged a copy that all devices must acknowledge.
CREATE TABLE device_ack(
  pos    INTEGER NOT NULL,
  device TEXT NOT NULL,
  PRIMARY KEY(pos, device)
) WITHOUT ROWID;

-- A slice is a range of positions with the same high bits, sealed when it is full.
CREATE TABLE slice(
  number INTEGER PRIMARY KEY,
  filter BLOB NOT NULL, -- of the ids in it
  ids    BLOB NOT NULL, -- first key of each block of its id run
  owners BLOB NOT NULL  -- first key of each block of its recipient run
);

CREATE TABLE block(
  key  INTEGER PRIMARY KEY, -- slice number << 20 | run << 16 | block number
  data BLOB NOT NULL        -- sorted records of an 8 byte key and a 2 byte place in the slice
);

-- Recipients being erased: their rows are deleted in slices, also after a crash.
CREATE TABLE erasure(
  recipient INTEGER PRIMARY KEY
);

CREATE TABLE meta(
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta(name, value) VALUES ('flushed_pos', 0), ('last_pos', 0);
