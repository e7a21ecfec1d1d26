-- What recipients' inboxes keep after the delivery, as package inboxrow writes it: a head for each recipient with its counts and newest entries,
-- at its key shifted by 12 bits, and parts with older entries behind it. A recipient whose inbox never had anything has no row.
CREATE TABLE inbox(
  key  INTEGER PRIMARY KEY,
  due  INTEGER, -- of a head: minute from which something is kept no more
  data BLOB NOT NULL
);
CREATE INDEX inbox_due ON inbox(due) WHERE due IS NOT NULL;

-- Their contents, once for each publish. They are apart from the mailbox's, which go when the last copy is settled.
CREATE TABLE inbox_content(
  pos  INTEGER PRIMARY KEY, -- of the first copy stored
  refs INTEGER NOT NULL,    -- entries that refer to it
  body BLOB NOT NULL        -- as package content writes it
);
