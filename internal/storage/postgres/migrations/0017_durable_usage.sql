-- A step of its own, since it locks a table that every flush writes. durable_amount: locks of records in Postgres, beside those in Redis
-- (amount). They are in record_hours for two days before. A column, so that a version that does not know it lists no other kind of usage.
ALTER TABLE usage_hourly ALTER COLUMN amount SET DEFAULT 0, ADD COLUMN durable_amount bigint NOT NULL DEFAULT 0;
