-- Outbox of Godwit in MySQL 8 or MariaDB 10.6 or later. A transaction that writes a row here notifies when it commits, and not when it is
-- rolled back:
--   INSERT INTO godwit_outbox (body) VALUES ('{"to":"driver-42","title":"New ride"}');
CREATE TABLE godwit_outbox (
  id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  body       JSON         NOT NULL,
  created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What Godwit's own user needs:
--   GRANT SELECT, UPDATE, DELETE ON godwit_outbox TO godwit;
-- For a source with "mark", which keeps its rows:
--   ALTER TABLE godwit_outbox ADD done_at TIMESTAMP(6) NULL, ADD INDEX godwit_outbox_waits (done_at, id);
