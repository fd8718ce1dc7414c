-- For what goes by time in tables that are not partitioned. An hour's row is written often, and its hour never changes, so that the
-- index is written once a row.
CREATE INDEX usage_hourly_hour ON usage_hourly (hour);
CREATE INDEX tenants_deleted ON tenants (deleted_at) WHERE deleted_at IS NOT NULL;
