-- Operators sign in to no app. The logins of a deleted app are deleted by the statement that deletes it.
ALTER TABLE stay DROP CONSTRAINT stay_app_fkey;
