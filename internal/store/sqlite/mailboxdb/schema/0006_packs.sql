-- Copies of a publish to several that need no row of their own: one row for up to 512 of them, whose positions follow each other and lie
-- in one stretch of outcome. How they ended is said as of rows with 2 in open. A copy that needs a row of its own gets one and is out of
-- its pack: it still waits when its slice is sealed, its delivery is noted, clients said something of it, or it is erased or pruned alone.
CREATE TABLE pack(
  first        INTEGER PRIMARY KEY, -- position of the first copy
  body_offset  INTEGER NOT NULL,    -- of the first copy, as in notification; the others follow
  ack          INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  hash         INTEGER NOT NULL,
  id           TEXT NOT NULL,
  collapse_key TEXT,
  copies       BLOB NOT NULL,       -- of each copy its recipient and its seq, as differences from those of the copy before
  ends         BLOB NOT NULL        -- 6 bytes a copy: 0; 255: it is out; or, on a full disk, how it ended
);
