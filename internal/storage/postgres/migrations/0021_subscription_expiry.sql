-- A subscription with idle_days is deleted when the tenant creates another one and it has not been used for so many days. used_at: a stream of
-- it began or ended last.
ALTER TABLE subscriptions ADD COLUMN idle_days smallint;
ALTER TABLE subscriptions ADD COLUMN used_at timestamptz NOT NULL DEFAULT now();
