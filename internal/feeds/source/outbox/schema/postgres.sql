-- Outbox of Godwit in PostgreSQL. A transaction that writes a row here notifies when it commits, and not when it is rolled back:
--   INSERT INTO godwit_outbox (body) VALUES ('{"to":"driver-42","title":"New ride"}');
CREATE TABLE godwit_outbox (
  id         bigserial   PRIMARY KEY,
  body       json        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- Wakes the server when a transaction with new rows commits. Without it, new rows are found within a second.
CREATE FUNCTION godwit_outbox_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify(TG_TABLE_NAME, '');
  RETURN NULL;
END $$;
CREATE TRIGGER godwit_outbox_told AFTER INSERT ON godwit_outbox FOR EACH STATEMENT EXECUTE FUNCTION godwit_outbox_told();

-- What Godwit's own user needs, besides CONNECT and USAGE:
--   GRANT SELECT, UPDATE, DELETE ON godwit_outbox TO godwit;
-- For a source with "mark", which keeps its rows:
--   ALTER TABLE godwit_outbox ADD done_at timestamptz;
--   CREATE INDEX godwit_outbox_waits ON godwit_outbox (id) WHERE done_at IS NULL;
