-- step_at: time of the next step of a replay that the version before must not run, because it does not know the filter and would end the
-- replay without an event. Its next_step_at is then in the year 9999, so that a forwarder of that version never picks it. Null for others.
-- filter_more: members of the filter that the version before does not know; its answers allow no others.
-- outcome: what became of the first thousand queued events, as last counted. count_at: when it is counted next; null for never.
ALTER TABLE replays
  ADD COLUMN step_at timestamptz,
  ADD COLUMN filter_more jsonb,
  ADD COLUMN outcome jsonb,
  ADD COLUMN count_at timestamptz DEFAULT now();
CREATE INDEX replays_due ON replays (coalesce(step_at, next_step_at)) WHERE state IN ('queued', 'running');
CREATE INDEX replays_to_count ON replays (count_at) WHERE ended_at IS NOT NULL AND count_at IS NOT NULL;
