-- Events of the mailbox that happened before are not stored any more, unless they are reconciled: milliseconds.
ALTER TABLE head ADD COLUMN cutoff bigint NOT NULL DEFAULT 0;
