-- Sends that may have arrived are withdrawn like accepted ones.
DROP INDEX push_send_accepted;
CREATE INDEX push_send_shown ON push_send(num) WHERE outcome IN (2, 6);
