-- What clients answered to notifications that asked for a reply. It goes with the copy's row; most copies have none.
-- That a copy asks is said by 16 added to its row's ack.
CREATE TABLE reply(
  pos          INTEGER PRIMARY KEY,
  status       INTEGER NOT NULL,
  content_type TEXT NOT NULL,
  data         BLOB NOT NULL
);
