-- A step of an escalation may go to one of the app's targets in the place of the recipient's endpoints.
ALTER TABLE push_send ADD COLUMN target TEXT NOT NULL DEFAULT '';
