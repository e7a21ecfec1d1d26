-- Queries look for deeds by their name and by the person who did them.
CREATE INDEX deed_deed ON deed (app, deed, id);
CREATE INDEX deed_by ON deed (app, by, id);
