-- The answers of clients to notifications that asked for a reply. A row is deleted with the copy's row; most copies
-- have none. If a copy asks for a reply, its row's ack is greater by 16.
CREATE TABLE reply(
  pos          INTEGER PRIMARY KEY,
  status       INTEGER NOT NULL,
  content_type TEXT NOT NULL,
  data         BLOB NOT NULL
);
