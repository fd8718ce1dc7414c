-- Whether the tenant gets notifications. Generated, so that it agrees with the spec, whichever version writes the row.
ALTER TABLE tenants ADD COLUMN has_notifications boolean NOT NULL GENERATED ALWAYS AS (spec ? 'notifications') STORED;

-- Notifications have a tenant queue of their own: in deliveries_due and tenant_queues its tenant_id is the tenant's id followed by
-- /notifications. An earlier version finds no tenant of that name and claims nothing from such a queue.

-- Callbacks in trouble, with what their owners were notified of. since: start of the trouble. failures: failed attempts since then.
-- cause: answer or failure of the last failed attempt, or cause of the suspension. open: type of the last notification that a recovery would
-- answer, null if there is none. suspended_notified_at, failing_notified_at: time of the last notification, for debouncing.
-- check_at: next time at which to decide about notifications.
CREATE TABLE callback_alerts (
  tenant_id text COLLATE "C" PRIMARY KEY,
  is_suspended boolean NOT NULL DEFAULT false,
  since timestamptz NOT NULL,
  failures bigint NOT NULL DEFAULT 0,
  cause text NOT NULL,
  last_failure_at timestamptz NOT NULL,
  last_success_at timestamptz NOT NULL DEFAULT '-infinity',
  open text,
  suspended_notified_at timestamptz NOT NULL DEFAULT '-infinity',
  failing_notified_at timestamptz NOT NULL DEFAULT '-infinity',
  check_at timestamptz NOT NULL
);
CREATE INDEX callback_alerts_check ON callback_alerts (check_at);

-- Time from which the tenant's owner can be notified that the replay has ended; null if there is no notification, or no further one.
ALTER TABLE replays ADD COLUMN notify_at timestamptz;
CREATE INDEX replays_to_notify ON replays (notify_at) WHERE notify_at IS NOT NULL;
