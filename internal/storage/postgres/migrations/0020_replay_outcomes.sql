-- The first thousand events that a replay queued, each as its id, a colon and the number of the delivery cycle, so that the replay's page can
-- say what became of them.
ALTER TABLE replays ADD COLUMN queued text[] NOT NULL DEFAULT '{}';
